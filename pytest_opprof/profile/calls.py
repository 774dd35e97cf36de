"""Calls of each op in a window: the fewest and the most of a round, and of several processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .op_profile import OpProfile


@dataclass(frozen=True, slots=True)
class CallRange:
    """Calls in one round: the fewest and the most of all rounds."""

    least: int
    most: int
    varies: bool = False
    """Whether they differed from process to process: then the range is only what was seen of it."""

    @property
    def lowest(self) -> int:
        """The fewest calls in the worst round that are no change."""
        return max(2 * self.least - self.most, 0) if self.varies else self.most

    @property
    def highest(self) -> int:
        """The most calls that are no change: of calls that vary, as far beyond what was seen as that is wide.

        A fourth draw is above three others in 25 of 100 cases, and so far above them in 6 (of a normal distribution).
        """
        return 2 * self.most - self.least if self.varies else self.most

    def __str__(self) -> str:
        return f"{self.most}" if self.least == self.most else f"{self.least}..{self.most}"


def in_all(processes: Sequence[Mapping[str, CallRange]]) -> dict[str, CallRange]:
    """Return the calls of each op in all *processes*; they vary where the most of a round is not the same in each."""
    found = {}
    for op in dict.fromkeys(op for calls in processes for op in calls):
        calls = [each.get(op, CallRange(0, 0)) for each in processes]
        varies = len({each.most for each in calls}) > 1
        found[op] = CallRange(min(each.least for each in calls), max(each.most for each in calls), varies)
    return found


def calls_of(profile: OpProfile) -> dict[str, CallRange]:
    """Return the calls of each op."""
    return {stats.op: CallRange(stats.fewest_calls, stats.most_calls) for stats in profile.ops}
