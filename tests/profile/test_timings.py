from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.timings import ProcessTimes


@pytest.mark.parametrize(("wait_ns", "clean"), [((10, 11, 0), {0, 2}), ((), {0, 1, 2}), ((99, 99, 99), set())])
def test_a_round_is_clean_unless_it_waited_for_more_than_that_share_of_its_time(
    wait_ns: tuple[int, ...], clean: set[int]
) -> None:
    assert ProcessTimes((1_000, 1_000, 1_000), wait_ns=wait_ns).clean(0.01) == clean


def test_a_round_is_clean_unless_the_fixed_piece_of_work_took_longer_before_or_after_it() -> None:
    run = ProcessTimes((1_000,) * 4, wait_ns=(0, 0, 0, 1_000), yardstick_ns=(50, 50, 51, 50))
    assert run.clean(1.0, 50) == {0, 3}
    assert run.clean(1.0, 51.5) == {0, 1, 2, 3}
    assert run.clean(0.01) == {0, 1, 2}


def test_a_round_is_one_of_the_whole() -> None:
    assert ProcessTimes((5, 6, 7)).rounds == 3


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=12), st.floats(0, 1), st.floats(0, 1))
def test_who_allows_more_waiting_has_more_clean_rounds(rounds: list[tuple[int, int]], one: float, other: float) -> None:
    run = ProcessTimes(tuple(total for total, _ in rounds), wait_ns=tuple(wait for _, wait in rounds))
    assert {*run.clean(min(one, other))} <= {*run.clean(max(one, other))}
