"""The comparison of a window with its base: a row for each op and fact, in the words of findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from ..ops.vocabulary import KERNEL, PROGRAM
from ..profile.op_counts import NONE, OpCounts
from ..profile.range import Range
from ..profile.timings import OUTSIDE
from ..units import format_change, format_ns, format_share
from .changed import Changed
from .findings import Broken, Finding
from .quantities import COARSE, FACTS, OF_PYTHON, SUMS
from .times.coarse import Slower
from .tolerances import Tolerances
from .verdicts import SEVERITY, Status, Times, TimingVerdict, Verdict
from .work import NOTHING, Number, Work

# The reason why a changed op or fact gets no verdict.
VARIES = "varies, not judged"
FIRST_USE, UNSTEADY, SMALL = "first use", "varies from run to run", "small"
# The name of the row of the whole window, and its name in a commit message that accepts it; no op has it.
TOTAL, TIME = "total", "time"
# The most kernels of a program that runs an op, and the least of one that `jit` made, on average.
_OF_AN_OP, _OF_A_PROGRAM = 1.25, 2
# Work that grew by half as much as the time may take it; 2 % more calls take at most 4 % more.
_EXPLAINS = 2
# More memory takes no time.
_OF_MEMORY = {
    name for name, each in FACTS.items() if each.gate and each.gate.status in (Status.MORE_MEMORY, Status.LEAVES_MORE)
}


@dataclass(frozen=True, slots=True)
class Row(Changed):
    """One op before and now. Times are of the representative round (`Times`); None if unknown."""

    op: str
    base: OpCounts | None
    now: OpCounts | None
    base_ns: int | None
    now_ns: int | None
    verdict: Verdict
    why: str = ""
    """A short reason why a time beyond its tolerance, or possibly beyond it, gets no verdict."""
    change: str = "-"
    """The change of its time, for people; in pairs with the interval."""
    work: Work = NOTHING
    """The change of its dtypes, bytes and FLOPs; of a fact of the window, the only content."""

    @property
    def calls(self) -> tuple[Range | None, Range | None]:
        """Its calls before and now."""
        return self.base.calls if self.base else None, self.now.calls if self.now else None

    @property
    def changed_work(self) -> str:
        """The change of its dtypes, bytes and FLOPs; with more calls, the changes of their dtypes."""
        if self.verdict.is_of_more_calls and self.base and self.now:
            return self.now.changes(self.base)
        return self.work.text

    @property
    def is_total(self) -> bool:
        """Whether it is about the time of the window as a whole."""
        return self.op == TOTAL and self.base is None and self.now is None

    @property
    def accepted_as(self) -> str:
        """Its name in a commit message that accepts its change."""
        return TIME if self.is_total else self.op

    @property
    def number(self) -> Number | None:
        """The number that its verdict is about; None if it is about a time."""
        if self.verdict.is_of_calls:
            return Number.of_calls(self.op, *(calls or NONE for calls in self.calls))
        return self.work.number if self.is_fact or self.verdict is self.work.verdict else None

    def breaks(self, limit: Broken) -> bool:
        """Return True if its verdict is about the number that breaks *limit*."""
        found = self.number
        return found is not None and (None if self.is_fact else self.op, found.quantity) == (limit.op, limit.quantity)

    @property
    def times(self) -> str:
        """The change of its time: ``1 ms -> 1.1 ms (+10%)``."""
        has_interval = " " in self.change  # brings its own parentheses
        change = f", {self.change}" if has_interval else f" ({self.change})"
        return f"{format_ns(self.base_ns or 0)} -> {format_ns(self.now_ns or 0)}{change}"

    @property
    def flops_of_more_calls(self) -> float:
        """The FLOPs of the calls more than in the base if all calls do as much, or of all its growth; 0 if unknown."""
        base, now = (each.flops if each else NONE for each in (self.base, self.now))
        calls = self.calls[1]
        return (
            min(now.most * self.more_calls / max(calls.most, 1), now.most - base.most) if base and now and calls else 0
        )

    @property
    def ns_of_more_calls(self) -> float:
        """The time of the calls more than in the base if all calls take as long; 0 if unknown."""
        calls = self.calls[1]
        return (self.now_ns or 0) * self.more_calls / max(calls.most, 1) if calls and self.more_calls > 0 else 0

    @property
    def work_factor(self) -> float:
        """The growth of FLOPs or bytes, whichever grew more, as a factor; 1 if neither is known."""
        base, now = self.base, self.now
        pairs = [(base.flops, now.flops), (base.bytes, now.bytes)] if base and now else []
        return max((after.most / max(before.most, 1) for before, after in pairs if before and after), default=1.0)


@dataclass(frozen=True, slots=True)
class Diff:
    """The comparison of one window with its baseline."""

    rows: tuple[Row, ...]
    """The most damaging first."""
    total: Row
    timing: TimingVerdict
    tolerances: Tolerances
    wall: bool = False
    """Whether the total is wall time instead of the sum of the ops."""
    top: int = 0
    """The number of most expensive ops that have to stay the same."""
    then: str = "baseline"
    """The name of the base in findings: ``baseline``, ``HEAD~1``, ``before``."""

    @property
    def wall_is_judged(self) -> bool:
        """Whether its wall time was judged round by round, more sharply than a coarse time can be."""
        return self.wall and not self.times

    @property
    def times(self) -> str:
        """The reason why times were not judged; empty if they were."""
        return self.timing.why

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all rows; counts come first, since they have no noise."""
        return min((row.verdict for row in (*self.rows, self.total)), key=SEVERITY.__getitem__)

    @property
    def worst(self) -> Row:
        """The first row with this verdict; the whole if no row has it."""
        return next((row for row in self.rows if row.verdict is self.verdict), self.total)

    @property
    def times_changed(self) -> bool:
        """Whether any time is beyond its tolerance, for better or worse."""
        return any(row.verdict in (Verdict.SLOWER, Verdict.FASTER) for row in (*self.rows, self.total))

    @property
    def culprits(self) -> list[Row]:
        """The ops behind half of a slower total, if no op exceeds its own tolerance."""
        if self.total.verdict is not Verdict.SLOWER or any(row.verdict.is_regression for row in self.rows):
            return []
        worse = sorted((row for row in self.rows if row.change_ns > 0), key=lambda row: -row.change_ns)
        needed = self.total.change_ns / 2
        before = [sum(row.change_ns for row in worse[:index]) for index in range(len(worse))]
        return [row for row, so_far in zip(worse, before) if so_far < needed][:3]

    def with_slower(self, slower: Slower, work: Work) -> Diff:
        """Return the diff with a coarse time that is *slower*: first, unless the extra work explains it."""
        worse = [row for row in self.rows if row.verdict.is_regression]
        others = [row for row in self.rows if not row.verdict.is_regression]
        found = Row(slower.name, None, None, None, None, work.verdict, work=work)
        rows = (*worse, found) if self.explains(slower.factor) else (found, *worse)
        return replace(self, rows=(*rows, *others))

    def explains(self, factor: float) -> bool:
        """Return True if the extra work may take *factor* times as long: more ops, or about as many more calls.

        django-treebeard's index became a scan of the table: 5.8 times the time for 5 % more Python calls.
        """
        more = [row for row in self.worse if row.verdict.does_more and row.op not in _OF_MEMORY]
        return any(
            row.op not in OF_PYTHON or min(row.work.growth, _EXPLAINS) * row.work.growth >= factor for row in more
        )

    def with_rest(self, fact: str, rest: str) -> Diff:
        """Return the diff with the *rest* of what its finding on a fact says."""

        def told(row: Row) -> Row:
            number = row.work.number if row.is_fact and row.op == fact else None
            return replace(row, work=replace(row.work, number=number._replace(rest=rest))) if number else row

        return replace(self, rows=tuple(map(told, self.rows)))

    @property
    def top_change(self) -> str:
        """The change of the most expensive ops; empty if they are the same or times were not judged."""
        base, now = self.timing.base, self.timing.now
        if self.timing.is_unjudged or base is None or now is None:
            return ""
        before, after = _top(base, self.top), _top(now, self.top)
        if set(before) == set(after):
            return ""
        return f"top {self.top} ops by device time: {', '.join(after)} ({self.then}: {', '.join(before)})"

    @property
    def seen(self) -> str:
        """The change of the total time, if it got no verdict."""
        return self._change(self.total) if self.timing.verdict is Verdict.NOISY and self.total.base_ns else ""

    @property
    def more_calls(self) -> list[str]:
        """The ops with more calls than in the baseline."""
        return [row.op for row in self.rows if row.verdict.is_of_more_calls]

    @property
    def worse(self) -> list[Row]:
        """The rows that got worse, the most damaging first, and last the whole if it is slower.

        Without an op the time outside ops is the whole.
        """
        worse = [row for row in (*self.rows, self.total) if row.verdict.is_regression]
        is_whole = self.total in worse and not any(row.is_op for row in self.rows)
        return [row for row in worse if not (is_whole and row.op == OUTSIDE)]

    def finding(self, row: Row, limit: Broken | None = None) -> Finding:
        """Return the regression of *row*; *limit* is one that the same number breaks."""
        op, short = None if row.is_total else row.op, self._cause(row)
        short = f"{short} (budget {limit.limit})" if limit else short
        return Finding(row.word, op, self._line(row, limit), short, over_budget=limit is not None)

    @property
    def does_less(self) -> list[str]:
        """The ops and facts that it does less of."""
        return [row.op for row in self.rows if row.verdict.is_improvement and row.verdict is not Verdict.FASTER]

    def without(self, ops: Collection[str], why: str) -> Diff:
        """Return the comparison without the changes of some *ops*, and *why* they are none."""
        rows = (replace(each, verdict=Verdict.OK, why=why) if each.op in ops else each for each in self.rows)
        return replace(self, rows=tuple(rows)) if ops else self

    @property
    def only_calls_less(self) -> bool:
        """Whether only calls of Python functions fell, even by little: no less work if each takes longer."""
        counts_small = not self.tolerances.is_of_many
        changed = [row for row in self.rows if row.verdict.is_change or (counts_small and row.why == SMALL)]
        return bool(changed) and all(row.op in OF_PYTHON and row.work.verdict is Verdict.BELOW for row in changed)

    def findings(self, rows: Iterable[Row] | None = None) -> Iterator[Finding]:
        """Yield each regression, or the regressions of *rows*; the whole is followed by the ops behind it."""
        for row in self.worse if rows is None else rows:
            yield self.finding(row)
            for each in self.culprits if row.is_total else ():
                text = f"  of that {format_ns(each.change_ns)} in {self._change(each)}"
                yield Finding(Verdict.SLOWER.value, each.op, text)

    def improvements(self) -> Iterator[str]:
        """Yield a line for each op (or the whole) that became cheaper."""
        yield from (self._line(row) for row in (*self.rows, self.total) if row.verdict.is_improvement)

    @property
    def not_judged(self) -> Iterator[str]:
        """A line for each amount that changed and is not judged because it varies from process to process."""
        for row in self.rows:
            # A sum varies because ops do, which have a line of their own.
            if row.work.is_unjudged and row.work.number and not (row.is_fact and row.op in SUMS):
                yield f"{row.work.number.told(self.then)}; not judged, since it varies from process to process"

    def _line(self, row: Row, limit: Broken | None = None) -> str:
        if number := row.number:
            if row.op == PROGRAM and is_op_by_op(self.rows):
                number = number._replace(now=f"{number.now}, op by op")
            return number.told(self.then, limit)
        tolerance = self.tolerances.tolerance if row.is_total else self.tolerances.of(row.op)
        return f"{self._change(row)}, limit {format_share(tolerance)}{self._confirmed(row)}"

    def _confirmed(self, row: Row) -> str:
        """Return the number of processes, or of pairs, that confirm the verdict of *row*."""
        processes, clean = self.timing.processes, self.timing.clean
        if self.timing.in_pairs:
            agreeing = self.timing.agreeing.get(None if row.is_total else row.op, processes)
            return f", in {f'{agreeing} of ' if agreeing < processes else ''}{processes} pairs of processes"
        confirmed = f", in {processes} processes" if processes > 1 else ""
        return confirmed + (f", {clean} of them undisturbed" if 0 < clean < processes else "")

    def _cause(self, row: Row) -> str:
        if row.verdict is Verdict.SLOWER and not row.is_fact:
            what = row.op if not row.is_total else "time"
            return f"{what} {format_change(row.base_ns or 0, row.now_ns or 0)}"
        if row.is_fact and row.op in COARSE:
            return f"{COARSE[row.op]} {row.work.text}"
        if row.verdict is row.work.verdict:
            # Of more work in other dtypes the amounts say enough: these are in the table.
            amounts = row.work.amounts if row.verdict is Verdict.MORE_WORK and not row.is_fact else ""
            return f"{row.op.replace('_', ' ')} {amounts or row.work.text}"
        return f"{row.op} {row.calls[0] or 0} -> {row.calls[1]}"

    def _change(self, row: Row) -> str:
        what = ("time" if self.wall else "device time") if row.is_total else f"device time of {row.op}"
        what = "time outside ops" if row.op == OUTSIDE else what
        return f"{what}: {row.times}"


def is_op_by_op(rows: Iterable[Row]) -> bool:
    """Return True if JAX runs ops as programs of their own that ran together in compiled ones before: a `jit` is lost.

    Of evosax' 670 new programs each has one kernel, of the 44 before each had nine; its ops grew by 92 calls or less.
    """
    calls = {row.op: [each.most if each else 0 for each in row.calls] for row in rows if row.op in (PROGRAM, KERNEL)}
    if calls.keys() != {PROGRAM, KERNEL}:
        return False
    programs, kernels = calls[PROGRAM], calls[KERNEL]
    more = programs[1] - programs[0]
    return 0 < kernels[1] - kernels[0] <= _OF_AN_OP * more and kernels[0] >= _OF_A_PROGRAM * programs[0] > 0


def _top(times: Times, k: int) -> list[str]:
    ops = [op for op in times.ops_ns if op != OUTSIDE]
    return sorted(ops, key=lambda op: (-times.ops_ns[op], op))[:k]
