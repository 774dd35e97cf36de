"""Which garbage cycles keep most memory: of one kind together, and only what no other kind keeps, too."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_opprof.machine.garbage import uncollected
from pytest_opprof.measure.memory.cycles import _garbage
from pytest_opprof.measure.memory.heaviest import Kept, heaviest

SIZE = 1 << 20


class Ring:
    """An object in a cycle with itself."""

    def __init__(self, *data: Any) -> None:
        self.me, self.data = self, data


class Other(Ring):
    """One of another kind."""


@pytest.fixture
def kept_by() -> Iterator[Callable[[Callable[[], object]], Kept]]:
    """Return the cycles that keep most of what a call leaves to the collector."""
    gc.collect()
    with uncollected():
        tracemalloc.start()

        def kept(call: Callable[[], object]) -> Kept:
            call()
            return heaviest(_garbage())

        yield kept
        tracemalloc.stop()


def test_many_of_one_kind_weigh_more_than_a_larger_one(kept_by: Callable[[Callable[[], object]], Kept]) -> None:
    def call() -> None:
        Other(bytes(SIZE))
        for _ in range(3):
            Ring(bytes(SIZE // 2))

    members, nbytes = kept_by(call)
    assert {type(each) for each in members} <= {Ring, dict}
    assert 1.5 * SIZE < nbytes < 1.6 * SIZE


def test_what_cycles_of_two_kinds_keep_counts_for_none(kept_by: Callable[[Callable[[], object]], Kept]) -> None:
    def call() -> None:
        shared = bytes(SIZE)
        Ring(shared)
        Other(shared, bytes(SIZE // 4))

    members, nbytes = kept_by(call)
    assert any(type(each) is Other for each in members)
    assert SIZE // 4 < nbytes < SIZE // 2


def test_a_cycle_below_another_keeps_what_it_holds_by_itself(kept_by: Callable[[Callable[[], object]], Kept]) -> None:
    members, nbytes = kept_by(lambda: Ring(bytes(SIZE // 4), Other([bytes(SIZE)])))
    assert any(type(each) is Other for each in members)
    assert SIZE < nbytes < 1.1 * SIZE


def test_older_data_without_cycles_is_the_programs(kept_by: Callable[[Callable[[], object]], Kept]) -> None:
    tracemalloc.stop()
    older = bytes(SIZE)
    tracemalloc.start()
    _, nbytes = kept_by(lambda: Ring(older))
    assert nbytes < SIZE // 4


def test_data_in_a_dict_that_no_collector_tracks_counts(kept_by: Callable[[Callable[[], object]], Kept]) -> None:
    _, nbytes = kept_by(lambda: Ring((("text", "x" * SIZE),)))
    assert SIZE < nbytes < 1.1 * SIZE


def test_without_garbage_there_is_no_cycle() -> None:
    assert heaviest([]) == Kept()


def test_the_size_of_a_thing_may_be_unknown(kept_by: Callable[[Callable[[], object]], Kept]) -> None:
    class Sized(Ring):
        def __sizeof__(self) -> int:
            raise ValueError("closed")

    _, nbytes = kept_by(lambda: Sized(bytes(SIZE)))
    assert nbytes > SIZE
