"""Is it slower? Pure functions of samples.

A first, simple rule: the fastest of at least 5 rounds against the fastest of the baseline's, beyond a tolerance and an
absolute floor. Rounds of several processes may be joined: the fastest of all is what counts. On a busy two-core
machine, two processes that ran the same code differed by up to 2.4 times in their fastest of 5 rounds, so the default
tolerance is wide: counts are the gate to trust.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """What became of an op, or of a window, since its baseline."""

    OK = "ok"
    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more calls"
    FEWER = "fewer calls"
    NEW = "new"
    GONE = "gone"
    INCOMPARABLE = "not compared"
    NO_BASELINE = "no baseline"

    @property
    def is_regression(self) -> bool:
        """Whether it fails a test."""
        return self in (Verdict.SLOWER, Verdict.MORE, Verdict.NEW)

    @property
    def is_improvement(self) -> bool:
        """Whether the baseline should follow."""
        return self in (Verdict.FASTER, Verdict.FEWER, Verdict.GONE)


@dataclass(frozen=True, slots=True)
class Rule:
    """When a time counts as changed."""

    tolerance: float = 0.5
    """Relative: 0.5 is 50 %."""
    min_rounds: int = 5
    floor_ns: int = 50_000
    """Absolute: windows of some 50 us were seen to differ by 14 us between two runs of the same code."""
    op_share: float = 0.08
    """An op's change below this share of the whole window's time is noise of the window."""

    def judge(self, base_ns: Sequence[int], now_ns: Sequence[int], whole_ns: int = 0) -> Verdict:
        """Compare the samples of one op (in a window of *whole_ns*) or of a window, one time in ns a round."""
        if len(base_ns) < self.min_rounds or len(now_ns) < self.min_rounds:
            return Verdict.INCOMPARABLE
        base, now = min(base_ns), min(now_ns)
        floor = max(self.floor_ns, self.op_share * whole_ns)
        if now > base * (1 + self.tolerance) and now - base > floor:
            return Verdict.SLOWER
        if base > now * (1 + self.tolerance) and base - now > floor:
            return Verdict.FASTER
        return Verdict.OK
