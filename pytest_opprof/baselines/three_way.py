"""Merge two sides' changes of the same baselines, entry by entry and op by op, as git merges lines.

An unchanged side does not decide. If both changed the same op to different numbers, the number of the merged code is
unknown: that is a conflict, and the merge keeps the first side's number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ..profile.op_counts import OpCounts
from ..profile.range import Range
from ..sites.places import WindowSites
from ..verdict.times.coarse import Coarse
from .entry import NOTHING, WindowBaseline

if TYPE_CHECKING:
    from .files.file_types import KeptTimes

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_Number = TypeVar("_Number", Range, OpCounts)
# A test and a window of it.
Window = tuple[str, str]


def by_key(
    base: Mapping[_Key, _Value],
    ours: Mapping[_Key, _Value],
    theirs: Mapping[_Key, _Value],
    both: Callable[[_Key, _Value | None, _Value | None, _Value | None], _Value | None],
) -> dict[_Key, _Value]:
    """Merge mappings key by key; *both* decides if both sides changed a key, given its base, ours and theirs."""
    found = {}
    for key in dict.fromkeys([*ours, *theirs]):
        value = of_one(key, base.get(key), ours.get(key), theirs.get(key), both)
        if value is not None:
            found[key] = value
    return found


def of_one(
    key: _Key,
    base: _Value | None,
    ours: _Value | None,
    theirs: _Value | None,
    both: Callable[[_Key, _Value | None, _Value | None, _Value | None], _Value | None],
) -> _Value | None:
    """Merge the values of one key; None is nothing."""
    if ours == theirs or theirs == base:
        return ours
    return theirs if ours == base else both(key, base, ours, theirs)


class Merge:
    """A merge of windows, and the conflicts found in it; *sides* names the two in messages."""

    def __init__(self, ours: str = "here", theirs: str = "there") -> None:
        self._sides = ours, theirs
        self.conflicts: dict[Window, list[str]] = {}
        """By test and window: the conflicts, in words."""

    def window(
        self,
        where: Window,
        base: WindowBaseline | None,
        ours: WindowBaseline | None,
        theirs: WindowBaseline | None,
    ) -> WindowBaseline | None:
        """Merge the entries of a window that both sides changed."""
        if ours is None or theirs is None:
            gone, changed = self._sides if ours is None else self._sides[::-1]
            self._conflict(where, f"its baseline was removed {gone} and changed {changed}; kept")
            return ours or theirs
        before = base or NOTHING
        if before.ranks or ours.ranks or theirs.ranks:
            if ours.ranks != theirs.ranks or ours.ops != theirs.ops:
                self._conflict(
                    where, "its ranks do not make the same calls, so it is one entry; kept as it is " + self._sides[0]
                )
            return ours
        ops: dict[str, OpCounts]
        facts: dict[str, Range]
        ops = by_key(before.ops, ours.ops, theirs.ops, self._number_of(where, "calls of "))
        facts = by_key(before.facts, ours.facts, theirs.facts, self._number_of(where, ""))
        if (python := ours.python) != theirs.python and theirs.python != before.python:
            if ours.python != before.python:
                self._conflict(
                    where,
                    f"its calls of Python functions are for other versions {self._sides[0]} than {self._sides[1]};"
                    f" kept the ones {self._sides[0]}",
                )
            else:
                python = theirs.python
        # Times and the calls in another order belong to calls: beside other ops they would be misjudged.
        old, one, other = (side if side.ops == ops else NOTHING for side in (before, ours, theirs))
        orders = (other if one.in_other_orders == old.in_other_orders else one).in_other_orders
        return replace(
            ours,
            ops=ops,
            times=by_key(old.times, one.times, other.times, lambda _, before, one, other: one or other),
            mismatched=by_key(before.mismatched, ours.mismatched, theirs.mismatched, _of_new_calls),
            facts=facts,
            python=python,
            coarse=by_key(before.coarse, ours.coarse, theirs.coarse, _faster),
            **orders,
        )

    def _number_of(
        self, where: Window, of: str
    ) -> Callable[[str, _Number | None, _Number | None, _Number | None], _Number | None]:
        def both(name: str, before: _Number | None, one: _Number | None, other: _Number | None) -> _Number | None:
            old, first, second = (
                str(each.calls if isinstance(each, OpCounts) else each or 0) for each in (before, one, other)
            )
            said = [f"{first} {self._sides[0]}", f"{second} {self._sides[1]}"]
            if first == second:
                said = [f"{first} with other dtypes, bytes or FLOPs {self._sides[0]} than {self._sides[1]}"]
            self._conflict(
                where, f"{of}{name}: {', '.join(said)} (before: {old}); kept {second if one is None else first}"
            )
            return one or other

        return both

    def _conflict(self, where: Window, what: str) -> None:
        self.conflicts.setdefault(where, []).append(what)


def merged_sites(base: WindowSites, ours: WindowSites, theirs: WindowSites) -> WindowSites:
    """Merge the source lines of the ops of a window: they judge nothing, so ours wins if both changed them."""
    return by_key(base, ours, theirs, lambda _, before, one, other: one or other)


def _faster(_: str, before: Coarse | None, one: Coarse | None, other: Coarse | None) -> Coarse | None:
    """Return the faster time: if it is too strict, a run reports it and asks for an update; the slower would pass
    unnoticed.
    """
    return min((each for each in (one, other) if each), key=lambda each: each.cpu_ns[1], default=None)


def _of_new_calls(_: str, before: KeptTimes | None, one: KeptTimes | None, other: KeptTimes | None) -> KeptTimes | None:
    """Return the times of changed calls: a run does not judge by times of other calls than its baseline's."""
    is_of_old = one is not None and before is not None and one.calls_digest == before.calls_digest
    return (other or one) if is_of_old else (one or other)
