from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType

import pytest

from pytest_opprof.sites.chains import UNKNOWN, Chains
from pytest_opprof.sites.stack import here, running

from . import ops, programs
from .ops import op


@pytest.fixture
def heard() -> Iterator[list[FrameType]]:
    """The frame that called each op."""
    frames: list[FrameType] = []
    ops.listeners.append(frames.append)
    yield frames
    ops.listeners.pop()
    frames.clear()


def functions(frame: FrameType, until: CodeType | None = None) -> list[str]:
    return [each.f_code.co_name for each in running(frame, until)]


def nodes_of_ops(chains: Chains) -> list[int]:
    nodes: list[int] = []
    ops.listeners.append(lambda frame: nodes.append(here(chains, frame)))
    line = [op(), op(), op()]
    assert line
    op(
        op(),
    )
    ops.listeners.pop()
    return nodes


def test_a_chain_has_the_line_of_each_frame() -> None:
    chains = Chains()
    nodes = nodes_of_ops(chains)
    first = nodes_of_ops.__code__.co_firstlineno + 3
    assert [chains.frames(node)[0].line - first for node in nodes] == [0, 0, 0, 3, 2]
    assert len(set(nodes)) == 3
    assert [frame.function for frame in chains.frames(nodes[0])] == [
        "nodes_of_ops",
        "test_a_chain_has_the_line_of_each_frame",
    ]
    assert nodes_of_ops(chains) != nodes  # called from another line


def test_frames_that_are_no_sites_are_left_out(heard: list[FrameType]) -> None:
    sorted([1], key=lambda each: op(each))
    list(map(op, [1]))
    ops.Array((2,)).astype("f8")
    assert functions(heard[0]) == ["<lambda>", "test_frames_that_are_no_sites_are_left_out"]
    assert functions(heard[1]) == functions(heard[2]) == ["test_frames_that_are_no_sites_are_left_out"]


def test_until_tells_which_test_tools_are_inside_of_the_window(heard: list[FrameType]) -> None:
    def model(number: int) -> float:
        return 1 / op(number)

    test = sys._getframe().f_code
    pytest.raises(ZeroDivisionError, model, 0)  # noqa: RUF061  # the tool calls it
    assert functions(heard[0], test) == ["model", "test_until_tells_which_test_tools_are_inside_of_the_window"]
    assert functions(heard[0]) == ["model"]
    assert functions(heard[0], programs.deep.__code__) == ["model"]  # does not run


def test_a_tool_inside_of_the_window_does_not_count_in_a_thread_either(heard: list[FrameType]) -> None:
    def work() -> None:
        pytest.raises(ZeroDivisionError, lambda: 1 / op(0))  # noqa: RUF061  # the tool calls it

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert functions(heard[0], work.__code__) == ["<lambda>", "work"]


def test_in_another_thread_a_chain_begins_with_what_the_thread_runs(heard: list[FrameType]) -> None:
    test = sys._getframe().f_code
    thread = threading.Thread(target=programs.deep, args=[1])
    thread.start()
    thread.join()
    assert functions(heard[1], test) == ["deep", "deep"]


def test_nothing_is_known_where_no_line_can_be_a_site() -> None:
    chains = Chains()
    assert here(chains, None) == UNKNOWN
    assert chains.frozen() == ((0, "", "", 0),)
