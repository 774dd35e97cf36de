"""The tests that a side has collected, as it describes them to the run that compares, which collects none itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from ..measure.plan import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTest(Comparison):
    """One test."""

    nodeid: str
    file: str
    """The path of its file."""
    location: tuple[str, int | None, str]
    """As pytest has it."""
    may_judge_times: bool
    shows_failure: bool
    """Whether pytest prints its failure message."""
    is_function: bool
    """Whether it is a function of its file, and no doctest."""


@dataclass(frozen=True, slots=True)
class Collection:
    """The tests to measure, in their order, and all else that pytest would report of a collection."""

    tests: list[SideTest]
    deselected: list[str]
    """The tests left out: by an option, or because they measure nothing."""
    everything: bool
    """Whether all tests are measured because none has a mark."""
    wrong_marks: list[str]
    reports: list[dict[str, Any]]
    """The reports of modules that failed or were skipped, as pytest serialises them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The tests that a pair of processes runs."""

    tests: Sequence[str]
    everything: bool = False
    """Whether tests without a mark are measured, too."""
    closely: Sequence[str] = ()
    """The tests that are measured as closely as those with a mark."""
    later: Sequence[str] = ()
    """The tests of which a later run is measured instead of the first."""
    rounds: Mapping[str, int] = field(default_factory=dict)
    """The rounds of tests that no mark asks for."""
    in_turns: bool = True
    """Whether the sides take turns, because times are judged."""


class Choice:
    """The tests for each of several pairs that start before their tests are known.

    The first process that has collected them decides for all.
    """

    def __init__(self, choose: Callable[[Collection], Sequence[Wanted]]) -> None:
        self._choose = choose
        self._lock = Lock()
        self._chosen: Sequence[Wanted] | None = None

    def of(self, number: int, collection: Collection) -> Wanted:
        """Return the tests of the pair with this *number*; none if the others run them all."""
        with self._lock:
            if self._chosen is None:
                self._chosen = ()  # the others run nothing if this raises
                self._chosen = self._choose(collection)
        return self._chosen[number] if number < len(self._chosen) else Wanted(())
