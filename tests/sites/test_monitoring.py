from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import CodeType

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.sites.chains import Chains
from pytest_opprof.sites.tracer import Tracer, unavailable

from . import programs

if sys.version_info < (3, 12):
    pytest.skip("before Python 3.12 there is no sys.monitoring", allow_module_level=True)
monitoring, events = sys.monitoring, sys.monitoring.events


@pytest.fixture
def tracer() -> Tracer:
    return Tracer(Chains(), lambda node: None)


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """The ids that the test takes as other tools would."""
    ids: list[int] = []
    yield ids
    for each in ids:
        monitoring.set_events(each, 0)
        monitoring.free_tool_id(each)


def test_another_tool_may_have_one_of_the_two_ids(tracer: Tracer, taken: list[int]) -> None:
    monitoring.use_tool_id(4, "another")
    taken.append(4)
    tracer.start(sys._getframe())
    assert monitoring.get_tool(3) == "pytest-opprof"
    programs.deep(0)
    assert tracer.chains.frames(tracer.now)
    tracer.stop()
    assert monitoring.get_tool(3) is None
    assert monitoring.get_tool(4) == "another"


def test_it_names_the_tools_that_have_both_ids(tracer: Tracer, taken: list[int]) -> None:
    for each in (3, 4):
        monitoring.use_tool_id(each, f"tool {each}")
        taken.append(each)
    reason = "ids 3 and 4 of sys.monitoring are in use, by tool 3 and tool 4; call sites need one of them"
    assert unavailable() == reason
    with pytest.raises(BackendError, match=reason):
        tracer.start(sys._getframe())


def test_who_takes_the_id_next_finds_nothing_of_ours(tracer: Tracer, taken: list[int]) -> None:
    tracer.start(sys._getframe())
    programs.deep(0)
    json.dumps(1)  # whose calls are disabled
    tracer.stop()
    monitoring.use_tool_id(4, "next")
    taken.append(4)
    started: list[CodeType] = []
    assert monitoring.get_events(4) == 0
    assert monitoring.get_local_events(4, programs.deep.__code__) == 0
    kinds = (events.LINE, events.PY_RETURN, events.PY_YIELD, events.PY_RESUME, events.PY_THROW, events.PY_UNWIND)
    assert [monitoring.register_callback(4, each, None) for each in kinds] == [None] * 6
    assert monitoring.register_callback(4, events.PY_START, lambda code, offset: started.append(code)) is None
    monitoring.set_events(4, events.PY_START)
    json.dumps(1)
    assert json.dumps.__code__ in started


def test_a_function_that_began_unseen_is_found_by_its_frame(tracer: Tracer) -> None:
    nodes = []

    def twice(is_inner: bool = False) -> None:
        if is_inner:
            tracer.start(sys._getframe())
            raise ValueError
        pytest.raises(ValueError, twice, is_inner=True)  # noqa: RUF061  # the tool calls it
        nodes.append(tracer.now)

    twice()
    nodes.append(tracer.now)
    tracer.stop()
    test = "test_a_function_that_began_unseen_is_found_by_its_frame"
    functions = [[frame.function.split(".")[-1] for frame in tracer.chains.frames(node)] for node in nodes]
    assert functions == [["twice", test], [test]]


def test_what_was_disabled_in_one_window_is_seen_in_the_next(taken: list[int]) -> None:
    monitoring.use_tool_id(4, "before")
    monitoring.register_callback(4, events.PY_START, lambda code, offset: monitoring.DISABLE)
    monitoring.set_events(4, events.PY_START)
    programs.deep(1)
    monitoring.set_events(4, 0)
    monitoring.register_callback(4, events.PY_START, None)
    monitoring.free_tool_id(4)
    marks: list[int] = []
    tracer = Tracer(Chains(), marks.append)
    tracer.start(sys._getframe())
    programs.deep(1)
    tracer.stop()
    assert any(tracer.chains.frames(node)[0].function == "deep" for node in marks)
