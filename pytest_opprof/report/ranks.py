"""How the ranks of a run differ, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..machine.ranks import on_ranks
from ..results.run_result import RunResult
from ..results.test_result import TestResult
from ..results.window_result import RankNumbers, WindowResult
from ..units import plural


@dataclass(frozen=True, slots=True)
class RankSpread:
    """The differences between ranks in a window that several of them measured."""

    test: TestResult
    window: WindowResult
    calls: dict[str, str]
    """By op, its calls on each rank, in words; only ops that ranks call not as often."""
    of_device: bool
    """Whether times are device times; else wall times, where a rank does not know device times."""
    fastest: RankNumbers
    slowest: RankNumbers
    least_communication: RankNumbers | None
    """The rank that waits least for the others, so which the others wait for; None where there is no communication."""
    most_communication: RankNumbers | None

    def time_ns(self, rank: RankNumbers) -> int:
        """Return the time of *rank* that is compared."""
        return (rank.device_ns or 0) if self.of_device else rank.host_ns

    @property
    def share(self) -> float:
        """How much longer the slowest takes than the fastest."""
        return self.time_ns(self.slowest) / max(self.time_ns(self.fastest), 1) - 1


def rank_spreads(run: RunResult) -> list[RankSpread]:
    """Return the windows that several ranks measured: different calls first, then different times."""
    found = [_spread(test, window) for test in run.tests for window in test.windows if window.by_rank]
    return sorted(found, key=lambda each: (not each.calls, -each.share))


def said(spreads: list[RankSpread]) -> Iterator[str]:
    """Yield in words in how many windows ranks differ, and which rank is the slowest in most of them."""
    ranks = max(len(each.window.by_rank) for each in spreads)
    differ, number = sum(bool(each.calls) for each in spreads), len(spreads)
    of_all = plural(number, "window")
    yield (
        f"{ranks} ranks, with other calls in {differ} of {of_all}" if differ else f"{ranks} ranks, with the same calls"
    )
    slowest = [each.slowest.rank for each in spreads]
    often = max(sorted(set(slowest)), key=slowest.count)
    if 2 * slowest.count(often) > number > 1:
        yield f"rank {often} is the slowest in {slowest.count(often)} of {number}"


def _spread(test: TestResult, window: WindowResult) -> RankSpread:
    ranks = window.by_rank
    of_device = all(each.device_ns for each in ranks)
    time = {each.rank: (each.device_ns or 0) if of_device else each.host_ns for each in ranks}
    talking = [each for each in ranks if each.communication_ns is not None]
    told = {
        op: on_ranks({each.rank: str(each.calls[op]) for each in ranks if op in each.calls}) for op in ranks[0].calls
    }
    return RankSpread(
        test,
        window,
        told,
        of_device,
        min(ranks, key=lambda each: time[each.rank]),
        max(ranks, key=lambda each: time[each.rank]),
        min(talking, key=lambda each: each.communication_ns or 0, default=None),
        max(talking, key=lambda each: each.communication_ns or 0, default=None),
    )
