from __future__ import annotations

import bdb
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.sites.chains import Chains
from pytest_opprof.sites.tracer import Tracer, unavailable

from . import programs

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 12), reason="from Python 3.12 on there is sys.monitoring")


@pytest.fixture(autouse=True)
def _what_traced_before_does_so_again() -> Iterator[None]:
    before = sys.gettrace()
    yield
    sys.settrace(before)


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    tracer = Tracer(Chains(), lambda node: None)
    yield tracer
    tracer.stop()


def test_a_debugger_is_left_alone(tracer: Tracer) -> None:
    debugger = bdb.Bdb()
    debugger.reset()
    sys.settrace(debugger.trace_dispatch)
    reason, still = unavailable(), sys.gettrace()
    with pytest.raises(BackendError) as refused:
        tracer.start(sys._getframe())
    sys.settrace(None)
    assert still == debugger.trace_dispatch
    assert reason == str(refused.value)
    assert reason == (
        "bdb.Bdb.trace_dispatch traces this thread, as a debugger does; call sites beside it need Python 3.12 or newer"
    )


def test_frames_get_back_what_traced_them(tracer: Tracer) -> None:
    sys.settrace(None)
    frame = sys._getframe()

    def of_before(*event: object) -> Any:
        return of_before

    frame.f_trace = of_before
    tracer.start(frame)
    during = frame.f_trace
    tracer.stop()
    assert during is not of_before
    assert frame.f_trace is of_before
    frame.f_trace = None


def test_a_function_that_goes_on_after_the_window_is_not_traced(tracer: Tracer) -> None:
    def begins_and_ends() -> Any:
        tracer.stop()
        return sys._getframe().f_trace

    sys.settrace(None)
    tracer.start(sys._getframe())
    assert begins_and_ends() is None


def test_it_says_that_the_program_put_another_tracer_in_its_place(tracer: Tracer) -> None:
    def others(*event: object) -> None:
        pass

    sys.settrace(None)
    tracer.start(sys._getframe())
    sys.settrace(others)
    programs.deep(1)
    tracer.stop()
    assert tracer.replaced
    assert sys.gettrace() is others


def test_it_says_that_the_program_ended_the_tracing(tracer: Tracer) -> None:
    sys.settrace(None)
    tracer.start(sys._getframe())
    sys.settrace(None)
    tracer.stop()
    assert tracer.replaced
    assert sys.gettrace() is None
