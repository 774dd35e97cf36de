"""Calls of each op in a window, and their work: the least and the most of a round, and of several processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op_profile import OpProfile

RANDOM_SIZES = 2
"""How many times the most that is no change an amount may be that varies though calls do not: processes show a part of
what is drawn."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number in one round: the least and the most of all rounds."""

    least: int
    most: int
    varies: bool = False
    """Whether it differed from process to process: then the range is only what was seen of it."""

    @property
    def lowest(self) -> int:
        """The least in the worst round that is no change."""
        return max(2 * self.least - self.most, 0) if self.varies else self.most

    @property
    def highest(self) -> int:
        """The most that is no change: of what varies, as far beyond what was seen as that is wide.

        A fourth draw is above three others in 25 of 100 cases, and so far above them in 6 (of a normal distribution).
        """
        return 2 * self.most - self.least if self.varies else self.most

    def __str__(self) -> str:
        return f"{self.most}" if self.least == self.most else f"{self.least}..{self.most}"

    @classmethod
    def of(cls, by_round: Sequence[int]) -> Range:
        """Return the range of the numbers of all rounds."""
        return cls(min(by_round), max(by_round))


@dataclass(frozen=True, slots=True)
class CallRange(Range):
    """Calls of an op in one round, and what they worked on where that is known."""

    dtypes: Mapping[str, Range] = field(default_factory=dict)
    """Calls by dtypes: ``float32``, ``float32->bfloat16``; empty where not known."""
    bytes: Range | None = None
    """Bytes read and written."""
    flops: Range | None = None

    @property
    def told(self) -> str:
        """Its dtypes in short; empty where they are not known."""
        return ", ".join(self.dtypes) if len(self.dtypes) < 3 else f"{len(self.dtypes)} kinds of dtypes"

    @property
    def some_vary(self) -> bool:
        """Whether any of it differed from process to process."""
        every = (self, self.bytes, self.flops, *self.dtypes.values())
        return any(each is not None and each.varies for each in every)

    def in_range(self, now: CallRange) -> bool:
        """Tell whether *now* is no change of this. What only one of them knows is none.

        Where some of it varies, an amount is a change beyond `RANDOM_SIZES`, and a dtype that was never seen.
        """
        if self.some_vary:
            is_new = bool(self.dtypes) and not now.dtypes.keys() <= self.dtypes.keys()
            amounts = [] if self.varies else [(self.bytes, now.bytes), (self.flops, now.flops)]
            is_more = any(old and new and new.most > RANDOM_SIZES * old.highest for old, new in amounts)
            return self.lowest <= now.most <= self.highest and not (is_new or is_more)
        pairs: list[tuple[Range | None, Range | None]]
        pairs = [(self, now), (self.bytes, now.bytes), (self.flops, now.flops)]
        if self.dtypes and now.dtypes:
            every = {*self.dtypes, *now.dtypes}
            pairs += [(self.dtypes.get(each, _NONE), now.dtypes.get(each, _NONE)) for each in every]
        return all(
            before is None or after is None or before.lowest <= after.most <= before.highest for before, after in pairs
        )

    def completed(self, now: CallRange) -> CallRange:
        """Return it with what *now* knows beyond it."""
        if self.bytes and self.flops and self.dtypes:
            return self
        return replace(
            self, dtypes=self.dtypes or now.dtypes, bytes=self.bytes or now.bytes, flops=self.flops or now.flops
        )


_NONE = Range(0, 0)


def joined(processes: Sequence[Range]) -> Range:
    """Return the range of all *processes*; it varies where the most of a round is not the same in each."""
    varies = len({each.most for each in processes}) > 1
    return Range(min(each.least for each in processes), max(each.most for each in processes), varies)


def facts_in_all(processes: Sequence[Mapping[str, Range]]) -> dict[str, Range]:
    """Return the facts of a window that all *processes* know."""
    names = processes[0].keys() if processes else ()
    return {
        name: joined([each[name] for each in processes]) for name in names if all(name in each for each in processes)
    }


def in_all(processes: Sequence[Mapping[str, CallRange]]) -> dict[str, CallRange]:
    """Return the calls of each op in all *processes*; they vary where the most of a round is not the same in each."""

    def known(ranges: Sequence[Range | None]) -> Range | None:
        return joined([each for each in ranges if each]) if all(ranges) else None

    found = {}
    for op in dict.fromkeys(op for calls in processes for op in calls):
        every = [each.get(op, CallRange(0, 0, bytes=_NONE, flops=_NONE)) for each in processes]
        calls = joined(every)
        ran = [each for each in every if each.most]
        dtypes = {name for each in ran for name in each.dtypes} if all(each.dtypes for each in ran) else set()
        found[op] = CallRange(
            calls.least,
            calls.most,
            calls.varies,
            {name: joined([each.dtypes.get(name, _NONE) for each in every]) for name in sorted(dtypes)},
            known([each.bytes for each in every]),
            known([each.flops for each in every]),
        )
    return found


def calls_of(profile: OpProfile) -> dict[str, CallRange]:
    """Return the calls of each op, and what they worked on."""
    by_dtype = profile.calls_by_dtype
    return {
        stats.op: CallRange(
            stats.fewest_calls,
            stats.most_calls,
            dtypes={dtypes: Range.of(calls) for dtypes, calls in by_dtype.get(stats.op, {}).items()},
            bytes=Range.of(stats.bytes) if stats.bytes else None,
            flops=Range.of(stats.flops) if stats.flops else None,
        )
        for stats in profile.ops
    }
