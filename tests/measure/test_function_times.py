"""The time in each function of the program, and which function's time grew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.measure.function_times import FunctionTime, function_times, longer
from pytest_opprof.sites.shown import Shown

HERE = Path(__file__)
SHOWN = Shown(HERE.parents[1])


def shift(number: int) -> int:
    return (number << 9) >> 3


def decode(size: int) -> list[int]:
    return [
        shift(1 << size),
        shift(2 << size),
    ]


def took(ns: int, function: str = "decode", line: int = 1, file: str = "codec.py") -> FunctionTime:
    return FunctionTime(file, function, line, line + 9, ns)


def test_functions_of_the_program_have_their_time_without_those_that_they_call() -> None:
    def body() -> None:
        Path.cwd()
        decode(2_000_000)

    found = {each.function.rpartition(".")[2]: each for each in function_times(body, SHOWN)}
    assert found.keys() == {"body", "decode", "shift"}
    assert {each.file for each in found.values()} == {"measure/test_function_times.py"}
    begin = decode.__code__.co_firstlineno
    assert (found["decode"].line, found["decode"].last) == (begin, begin + 3)
    assert found["shift"].ns > 0


def test_a_profiler_of_the_program_is_left_alone() -> None:
    def profiler(*_: object) -> None:
        pass

    before = sys.getprofile()
    sys.setprofile(profiler)
    try:
        assert function_times(lambda: decode(9), SHOWN) == []
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(before)


def test_a_body_that_raises_ends_the_profile() -> None:
    with pytest.raises(ZeroDivisionError):
        function_times(lambda: 1 // 0, SHOWN)
    assert sys.getprofile() is None


def test_the_function_that_explains_most_of_the_growth_is_named_with_its_time_before() -> None:
    before = [took(4_930_000, "next_code", 154), took(20_000_000, "pack", 112)]
    now = [took(20_000_000, "pack", 115), took(19_600_000, "next_code", 157)]
    found = longer(before, now, "HEAD~1", (40_000_000, 69_000_000))
    assert found is not None
    function, said = found
    assert function.function == "next_code"
    assert said.text == "self time of `next_code` at codec.py:157: 19.6 ms (HEAD~1: 4.93 ms)"
    assert said.line == "codec.py:157"
    assert function.has("codec.py:166")
    assert not any(map(function.has, ("codec.py:156", "codec.py:167", "other.py:160", "")))


@pytest.mark.parametrize(
    ("before", "now", "rise_ns"),
    [
        ([], [took(9)], 0),  # the base is unknown
        ([took(9)], [], 0),
        ([took(9)], [took(9)], 0),
        ([took(9), took(90, "pack")], [took(19), took(50, "pack")], 0),  # as a whole it takes less
        ([took(9)], [took(19), took(11, "a"), took(12, "b")], 0),  # none explains half of it
        ([took(9)], [took(19)], 21),  # a package that it calls, or a first run, takes more
    ],
)
def test_where_no_function_explains_it_none_is_named(
    before: list[FunctionTime], now: list[FunctionTime], rise_ns: int
) -> None:
    assert longer(before, now, "main", (500, 500 + rise_ns)) is None


def test_the_time_of_a_function_is_no_more_than_that_of_the_body_without_the_profiler() -> None:
    before, now = [took(1_390_000, "pre_order")], [took(155_000_000, "pre_order"), took(5_000_000, "other")]
    found = longer(before, now, "HEAD~1", (2_400_000, 12_000_000))
    assert found is not None
    assert found[1].text.endswith(": 11.6 ms (HEAD~1: 1.39 ms)")


times = st.lists(st.builds(took, st.integers(0, 99), st.sampled_from("abc"), st.integers(1, 3)), max_size=6)


@given(times, times, st.integers(0, 99))
def test_the_named_function_takes_more_than_before(
    before: list[FunctionTime], now: list[FunctionTime], rise_ns: int
) -> None:
    if found := longer(before, now, "main", (600, 600 + rise_ns)):
        name = found[0].function
        assert sum(each.ns for each in now if each.function == name) > sum(
            each.ns for each in before if each.function == name
        )
