"""The line at which a container grows."""

from __future__ import annotations

from threading import Thread, gettrace
from types import FunctionType

import pytest

from pytest_opprof.measure.memory.holders import line_that_fills
from pytest_opprof.sites.code import relative

KEPT: list[object] = []


class Handler:
    def __init__(self, thing: object) -> None:
        self.thing = thing


def makes_what_it_adds() -> None:
    KEPT.append(Handler(1))
    KEPT.append(2)


def removes_what_it_added_first() -> None:
    KEPT.append(1)
    KEPT.pop()
    KEPT.append(2)
    KEPT.append(3)


def adds_at_its_end() -> None:
    len(KEPT)
    return KEPT.append(1)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (makes_what_it_adds, 1),
        (removes_what_it_added_first, 3),
        (adds_at_its_end, 2),
    ],
)
def test_the_first_line_is_named_whose_addition_stays(call: FunctionType, line: int) -> None:
    assert line_that_fills(KEPT, call) == f"{relative(__file__)}:{call.__code__.co_firstlineno + line}"


def test_the_line_may_run_in_a_thread_that_starts_meanwhile() -> None:
    def starts() -> None:
        thread = Thread(target=makes_what_it_adds)
        thread.start()
        thread.join()

    before = gettrace()
    assert line_that_fills(KEPT, starts) == f"{relative(__file__)}:{makes_what_it_adds.__code__.co_firstlineno + 1}"
    assert gettrace() is before


def test_a_container_that_is_as_long_as_before_has_no_line() -> None:
    def replaces() -> None:
        KEPT.append(1)
        KEPT.pop()

    assert line_that_fills(KEPT, replaces) == ""
