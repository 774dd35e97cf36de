"""A measured window against its baseline: a verdict for each op and for the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .baselines import Calls, Entry
from .budgets import Finding
from .judge import Rule, Verdict
from .units import format_change, format_ns, format_share


@dataclass(frozen=True, slots=True)
class Row:
    """One op before and now; times in ns of the fastest round, None where not known."""

    op: str
    base_calls: Calls | None
    now_calls: Calls | None
    base_ns: int | None
    now_ns: int | None
    verdict: Verdict

    @property
    def change_ns(self) -> int:
        """How much device time the op costs more (less, if negative)."""
        return (self.now_ns or 0) - (self.base_ns or 0)

    @property
    def from_calls_ns(self) -> int:
        """The part of the change that comes of more (or fewer) calls, at the price each had before."""
        base = self.base_calls.most if self.base_calls else 0
        now = self.now_calls.most if self.now_calls else 0
        if not base or not self.base_ns:
            return self.change_ns
        return round((now - base) * self.base_ns / base)


@dataclass(frozen=True, slots=True)
class Diff:
    """The comparison of one window with its baseline."""

    rows: tuple[Row, ...]
    """The most damaging first."""
    total: Row
    times: str
    """Why times were not judged; empty where they were."""
    rule: Rule
    top_change: str = ""
    processes: int = 1
    """In how many processes the times were taken."""
    unconfirmed: str = ""
    """Why times that look slower were not taken in more processes."""

    @property
    def verdict(self) -> Verdict:
        """The worst of all verdicts: counts first, since they have no noise."""
        present = {row.verdict for row in (*self.rows, self.total)}
        order = (Verdict.NEW, Verdict.MORE, Verdict.SLOWER, Verdict.GONE, Verdict.FEWER, Verdict.FASTER)
        return next((verdict for verdict in order if verdict in present), Verdict.OK)

    @property
    def times_changed(self) -> bool:
        """Whether any time is beyond its tolerance, for better or worse."""
        return any(row.verdict in (Verdict.SLOWER, Verdict.FASTER) for row in (*self.rows, self.total))

    @property
    def calls_vary(self) -> bool:
        """Whether an op has more calls in one round than in another: then no one number goes with the fastest round."""
        calls = [calls for row in self.rows for calls in (row.base_calls, row.now_calls) if calls]
        return any(each.least != each.most for each in calls)

    def unjudged(self, why: str) -> Diff:
        """Return this comparison with its times not judged."""
        rows = [replace(row, verdict=_untimed(row.verdict)) for row in self.rows]
        return replace(self, rows=tuple(rows), total=replace(self.total, verdict=Verdict.INCOMPARABLE), times=why)

    def findings(self) -> Iterator[Finding]:
        """Yield each regression, the most damaging first."""
        for row in self.rows:
            if row.verdict.is_regression:
                yield Finding(row.verdict.value, row.op, self._line(row))
        if self.total.verdict.is_regression:
            yield Finding(self.total.verdict.value, None, self._line(self.total))

    def improvements(self) -> Iterator[str]:
        """Yield a line for each op (or the whole) that became cheaper."""
        yield from (self._line(row) for row in (*self.rows, self.total) if row.verdict.is_improvement)

    def _line(self, row: Row) -> str:
        of = f" of {row.op}" if row is not self.total else ""
        match row.verdict:
            case Verdict.NEW:
                return f"calls{of}: {row.now_calls}, none in the baseline"
            case Verdict.GONE:
                return f"calls{of}: none, {row.base_calls} in the baseline"
            case Verdict.MORE | Verdict.FEWER:
                return f"calls{of}: {row.now_calls}, {row.base_calls} in the baseline"
            case _:
                base, now = row.base_ns or 0, row.now_ns or 0
                change = f"{format_ns(base)} -> {format_ns(now)} ({format_change(base, now)})"
                confirmed = f", in {self.processes} processes" if self.processes > 1 else ""
                confirmed += f" (not measured again: {self.unconfirmed})" if self.unconfirmed else ""
                return f"device time{of}: {change}, tolerance {format_share(self.rule.tolerance)}{confirmed}"


def compare(base: Entry, now: Entry, machine: str, rule: Rule, parallel: bool = False, top: int = 0) -> Diff:
    """Compare what a window did *now* with its *base*, both for one environment.

    Calls are compared exactly, at the worst round where rounds differ. Times are judged only between runs of the same
    *machine*, each of enough rounds, not *parallel* with other tests.
    """
    reason = _why_not_timed(base, now, machine, rule, parallel)
    base_times, now_times = base.device_ns.get(machine, {}), now.device_ns.get(machine, {})
    base_total, now_total = _total(base_times), _total(now_times)
    whole_ns = min(base_total, default=0)
    rows = []
    for op in sorted({*base.calls, *now.calls}):
        before, after = base_times.get(op, ()), now_times.get(op, ())
        verdict = _by_calls(base.calls.get(op), now.calls.get(op))
        if verdict is Verdict.OK and not reason:
            verdict = rule.judge(before, after, whole_ns)
        rows.append(Row(op, base.calls.get(op), now.calls.get(op), _fastest(before), _fastest(after), verdict))
    total = Row(
        "total",
        None,
        None,
        _fastest(base_total),
        _fastest(now_total),
        Verdict.INCOMPARABLE if reason else rule.judge(base_total, now_total),
    )
    change = "" if reason else _top_change(base_times, now_times, top)
    return Diff(tuple(sorted(rows, key=_damage)), total, reason, rule, change)


def _untimed(verdict: Verdict) -> Verdict:
    return Verdict.OK if verdict in (Verdict.SLOWER, Verdict.FASTER) else verdict


def _by_calls(base: Calls | None, now: Calls | None) -> Verdict:
    if base is None:
        return Verdict.NEW
    if now is None:
        return Verdict.GONE
    if now.most == base.most:
        return Verdict.OK
    return Verdict.MORE if now.most > base.most else Verdict.FEWER


def _why_not_timed(base: Entry, now: Entry, machine: str, rule: Rule, parallel: bool) -> str:
    if parallel:
        return "measured in parallel with other tests"
    if now.rounds(machine) < rule.min_rounds:
        return f"{now.rounds(machine)} of {rule.min_rounds} rounds measured"
    if not base.device_ns:
        return "the baseline has no times"
    if machine not in base.device_ns:
        return f"the baseline was timed on {', '.join(sorted(base.device_ns))}, this is {machine}"
    if base.rounds(machine) < rule.min_rounds:
        return f"the baseline has {base.rounds(machine)} of {rule.min_rounds} rounds"
    return ""


def _total(times: Mapping[str, Sequence[int]]) -> list[int]:
    return [sum(step) for step in zip(*times.values())]


def _fastest(samples: Sequence[int]) -> int | None:
    return min(samples, default=None)


def _damage(row: Row) -> tuple[bool, bool, int, str]:
    return (not row.verdict.is_regression, not row.verdict.is_improvement, -row.change_ns, row.op)


def _top_change(base: Mapping[str, Sequence[int]], now: Mapping[str, Sequence[int]], k: int) -> str:
    before, after = _top(base, k), _top(now, k)
    if set(before) == set(after):
        return ""
    return f"top {k} ops by device time: {', '.join(after)}; in the baseline {', '.join(before)}"


def _top(times: Mapping[str, Sequence[int]], k: int) -> list[str]:
    return sorted(times, key=lambda op: (-min(times[op]), op))[:k]
