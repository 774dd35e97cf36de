"""Compare a measured window with its baseline: a verdict for each op and for the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ops import names
from ..ops.vocabulary import KERNEL, PROGRAM, VIEWS
from ..profile.op_counts import GONE, NONE, Done, OpCounts
from ..profile.range import Range
from ..profile.timings import OUTSIDE
from ..units import format_change, format_interval, format_ns, format_range, format_share, plural
from .changed import Changed
from .facts import amount, explained, follows, loops_follow
from .facts import compared as changed_facts
from .findings import Broken, Finding
from .quantities import (
    COARSE,
    COMPILATIONS,
    FACTS,
    LEFT_BEHIND,
    LEFT_OPEN,
    LOOP_ITERATIONS,
    OF_PYTHON,
    PEAKS,
    PYTHON_CALLS,
    RECOMPILATIONS,
    SUMS,
)
from .times.coarse import Slower
from .tolerances import Tolerances, is_vague
from .verdicts import SEVERITY, Times, TimingVerdict, Verdict
from .work import NOTHING, Number, Work, compared

# The reason why a changed op or fact gets no verdict.
VARIES = "varies, not judged"
FIRST_USE, UNSTEADY, SMALL = "first use", "varies from run to run", "small"
# The name of the row of the whole window, and its name in a commit message that accepts it; no op has it.
TOTAL, TIME = "total", "time"


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
        rows = (*worse, found) if self.explains(slower) else (found, *worse)
        return replace(self, rows=(*rows, *others))

    def explains(self, slower: Slower) -> bool:
        """Return True if the extra work may take the time of a *slower* window: more ops, or about as many more calls.

        django-treebeard's index became a scan of the table: 5.8 times the time for 5 % more Python calls.
        """
        more = [row for row in self.worse if row.verdict.does_more and row.op not in PEAKS]
        return any(row.op not in OF_PYTHON or _EXPLAINS * row.work.growth >= slower.factor for row in more)

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
        if self.timing.verdict in _UNJUDGED or base is None or now is None:
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
            if row.op == PROGRAM and _is_op_by_op(self.rows):
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


def compare(
    base: Done, now: Done, timing: TimingVerdict, tolerances: Tolerances, top: int = 0, then: str = "baseline"
) -> Diff:
    """Compare the calls and facts of a window *now* with its *base*, and add the judged times; *then* names the base.

    Calls are compared exactly, at the worst round if rounds differ. Calls that vary from process to process are more
    only if they are more in each.
    """
    before, after = (times or _UNKNOWN for times in (timing.base, timing.now))
    unjudged = timing.verdict in _UNJUDGED
    # An op with a regression in counts is not blamed for its time as well.
    rows = []
    for op in sorted({*base[0], *now[0], *before.ops_ns, *after.ops_ns}):
        old, new = base[0].get(op), now[0].get(op)
        verdict, why, work = _by_calls(old, new), "", NOTHING
        if new and not verdict.is_regression:
            work = compared(op, old or GONE, new, tolerances.work)
            # Fewer calls with less work are reported as fewer calls. Two convolutions joined into one can do 31 times
            # the work.
            of_its_own = verdict is Verdict.OK or work.verdict.is_regression
            verdict = work.verdict if of_its_own and work.verdict is not Verdict.OK else verdict
        if verdict is Verdict.OK:
            one_sided = (before.ns(op) is None) is not (after.ns(op) is None)
            otherwise = timing.verdict if unjudged else Verdict.OK
            verdict = timing.ops.get(op, Verdict.INCOMPARABLE if one_sided else otherwise)
            why = "" if op in timing.ops else tolerances.excuse(op, before, after, timing.intervals.get(op))
        why = VARIES if work.is_unjudged else "not judged" if why and unjudged else why
        change = _change(before.ns(op), after.ns(op), timing.intervals.get(op), tolerances.of(op))
        rows.append(Row(op, old, new, before.ns(op), after.ns(op), verdict, why, change, work))
    rows += [*_of_facts(rows, base[1], now[1], tolerances)]
    base_ns, now_ns = (round(times.total_ns) if times else None for times in (timing.base, timing.now))
    change = _change(base_ns, now_ns, timing.intervals.get(None), tolerances.tolerance)
    verdict = timing.verdict if unjudged else timing.total
    total = Row(TOTAL, None, None, base_ns, now_ns, verdict, change=change)
    canonical = frozenset(names.canonical_ops())
    flops = sum(row.now.flops.most for row in rows if row.now and row.now.flops)
    most_flops = max(flops / 2, _HEAVY_FLOPS)
    most_ns = max((now_ns or 0) / 2, _LONG_NS)
    renamed = _renamed(rows)
    rows.sort(key=lambda row: _damage(row, canonical, renamed, most_flops, most_ns, is_timed=not unjudged))
    first = next((number for number, row in enumerate(rows) if row.verdict.is_of_more_calls), None)
    programs = next((row for row in rows if row.op == PROGRAM and row.verdict.is_of_more_calls), None)
    if first is not None and programs is not None and _is_op_by_op(rows):
        rows.remove(programs)
        rows.insert(first, programs)
    python = next((row for row in rows if row.op == PYTHON_CALLS and row.verdict.does_more), None)
    if first is not None and python is not None:
        extra = sum(row.more_calls for row in rows if row.verdict.is_of_more_calls)
        if now[1][PYTHON_CALLS].most - base[1][PYTHON_CALLS].most >= _FAR_MORE * extra:
            rows.remove(python)
            rows.insert(first, python)
    left = next((row for row in rows if row.op in (LEFT_BEHIND, LEFT_OPEN) and row.verdict.does_more), None)
    if left is not None and python is not None:
        # A later run counts the calls, and walks what the earlier ones left behind (blinker's sets of receivers).
        rows.remove(left)
        rows.insert(rows.index(python), left)
    return Diff(tuple(rows), total, timing, tolerances, OUTSIDE in after.ops_ns, top, then)


def _is_op_by_op(rows: Iterable[Row]) -> bool:
    """Return True if JAX runs ops as programs of their own that ran together in compiled ones before: a `jit` is lost.

    Of evosax' 670 new programs each has one kernel, of the 44 before each had nine; its ops grew by 92 calls or less.
    """
    calls = {row.op: [each.most if each else 0 for each in row.calls] for row in rows if row.op in (PROGRAM, KERNEL)}
    if calls.keys() != {PROGRAM, KERNEL}:
        return False
    programs, kernels = calls[PROGRAM], calls[KERNEL]
    more = programs[1] - programs[0]
    return 0 < kernels[1] - kernels[0] <= _OF_AN_OP * more and kernels[0] >= _OF_A_PROGRAM * programs[0] > 0


def _of_facts(
    ops: Sequence[Row], base: Mapping[str, Range], now: Mapping[str, Range], tolerances: Tolerances
) -> Iterator[Row]:
    """Yield a row for each changed fact of the window; without a verdict if its *ops* report the cause."""
    more = [(row.base, row.now) for row in ops if row.verdict.does_more]
    vary = any(each.some_vary for row in ops for each in (row.base, row.now) if each)
    for name, work in changed_facts(base, now, tolerances.work):
        verdict, why = work.verdict, ""
        if now[name].overlaps(base[name]) or (vary and (base[name].varies or now[name].varies)):
            work = replace(work, verdict=Verdict.OK, is_unjudged=True)
            verdict, why = Verdict.OK, VARIES
        elif name in SUMS:
            verdict, why = (Verdict.OK, "explained by ops") if _is_of_ops(ops, name, work, base, now) else (verdict, "")
        elif more and verdict is Verdict.ABOVE and explained(name, more, base[name], now[name]):
            verdict, why = Verdict.OK, "explained by ops"
        elif name == LOOP_ITERATIONS and verdict is Verdict.ABOVE and loops_follow(base, now):
            verdict, why = Verdict.OK, "explained by calls"
        elif name in (PYTHON_CALLS, LOOP_ITERATIONS):
            fell_little = verdict is Verdict.BELOW and work.growth > _FEWER
            if fell_little or tolerances.is_small(base[name].highest, now[name].most):
                verdict, why = Verdict.OK, SMALL
        yield Row(name, None, None, None, None, verdict, why, work=work)


def _is_of_ops(ops: Sequence[Row], name: str, work: Work, base: Mapping[str, Range], now: Mapping[str, Range]) -> bool:
    """Return True if the change of a sum comes from *ops* that are reported, or whose amount only one side knows."""
    found = []
    for row in ops:
        known = [amount(name, each) is not None for each in (row.base, row.now) if each is not None]
        if row.verdict.is_change or known in ([True, False], [False, True]):
            found.append((row.base, row.now))
    return follows(name, work, found, base[name], now[name])


def _change(base_ns: int | None, now_ns: int | None, between: tuple[float, float] | None, tolerance: float) -> str:
    if base_ns is None or now_ns is None:
        return "-"
    if between is None or not base_ns:
        return format_change(base_ns, now_ns)
    return format_range(*between) if is_vague(between, tolerance) else format_interval(base_ns, now_ns, between)


def compare_counts_first(
    base: Done, now: Done, timing: TimingVerdict, tolerances: Tolerances, top: int = 0, then: str = "baseline"
) -> Diff:
    """Compare like `compare`, but call no window slower that does more, because more work takes more time anyway."""
    diff = compare(base, now, timing, tolerances, top, then)
    if not diff.verdict.does_more or timing.why:
        return diff
    shown = TimingVerdict(Verdict.INCOMPARABLE, "its calls changed", timing.base, timing.now, timing.processes)
    return compare(base, now, shown, tolerances, top, then)


def changes(base: Done, now: Done, tolerances: Tolerances) -> dict[str, Verdict]:
    """Return the changed ops and facts of a window against its *base*, without regard to times."""
    rows = compare(base, now, _UNTIMED, tolerances).rows
    return {row.op: row.verdict for row in rows if row.verdict.is_change}


def only_compiles(base: Done, looks: Sequence[Done], tolerances: Tolerances, repeat: Done) -> bool:
    """Return True if a test's first use in a process only compiles functions again, beyond the work of its *repeat*.

    An update also clears the framework's caches, so no test that ran before hid that from the baseline. It does not
    clear the caches of the code under test; where one is filled, ops run as well.
    """
    again = changes(repeat, looks[-1], tolerances)
    first = changes(base, looks[0], tolerances)
    return {op for op, verdict in first.items() if verdict.is_regression and op not in again} == {RECOMPILATIONS}


def excuse(
    base: Done,
    now: Done,
    looks: Sequence[Done],
    tolerances: Tolerances,
    repeat: Done,
    alone: Done | None = None,
) -> str:
    """Return why a window that does more *now* than its *base* is no regression; empty if it is one.

    *looks* are two measurements in a fresh process: the first use in the process, and a repeat. The work of a first use
    depends on the tests before it. Since a change may have added exactly that work, the second look excuses an op only
    if it matches the *repeat* of the baseline's test exactly. If the baseline holds work of a first use itself, its
    calls *alone* in a process decide, where they are known.
    """
    first = changes(base, looks[0], tolerances)
    if not any(verdict.is_regression for verdict in first.values()):
        return "in a fresh process it stays within the baseline"
    if alone is not None:
        beyond = any(verdict.is_regression for verdict in changes(alone, looks[0], tolerances).values())
        return "" if beyond else "in a fresh process it does as much as when its baseline was recorded"
    worse = [op for op, verdict in changes(base, now, tolerances).items() if verdict.is_regression]
    last = changes(repeat, looks[-1], tolerances)
    if not any(verdict.is_regression for verdict in last.values()) and not any(op in last for op in worse):
        return "its second run in a process matches the baseline"
    return ""


def without_first_uses(diff: Diff, warm: Done, now: Done) -> Diff:
    """Return a diff without the improvements down to a repeat of the baseline's test (*warm*).

    Tests that ran before did the work of the first use, or a part of it.
    """
    better = diff.does_less
    repeat = changes(warm, now, diff.tolerances) if better else {}
    return diff.without([op for op in better if op not in repeat or repeat[op].is_regression], FIRST_USE)


def unseen(base: Mapping[str, OpCounts], now: Mapping[str, OpCounts], places: Sequence[str] = ()) -> str:
    """Return why fewer calls *now* are no improvement: some may have run unseen. Empty if there is no reason.

    *places* are the lines from which on a backend no longer saw calls that it had seen before.
    """
    certain = {op: counts.calls.most for op, counts in base.items() if counts.calls.lowest}
    if certain and not now:
        calls = sum(certain.values())
        return f"nothing was recorded, {plural(calls, 'call')} of {plural(len(certain), 'op')} in the baseline"
    fewer = [op for op, counts in base.items() if _by_calls(counts, now.get(op)).is_improvement]
    if fewer and places:
        return f"fewer calls of {', '.join(fewer)}, but some calls may be unseen: {places[0]}"
    return ""


# This many extra calls of Python functions for each of an op are no consequence of ops, and come first: a loop over 300
# rows of pandas beside one more `numpy.asarray`. A module of PyTorch makes up to 50 for an op.
_FAR_MORE = 100
# An op with fewer FLOPs takes no longer than a few calls of small ones.
_HEAVY_FLOPS = 10**6
# In less time calls of any op may take most of it by chance.
_LONG_NS = 1_000_000
# In the names of kernels by torch.compile: `cpp_fused_add`, `triton_poi_fused_add`.
_OF_COMPILER = "_fused_"
# So many views weigh as much as another op.
_VIEWS = 10
# Calls of Python functions that grew by less follow other facts.
_NOTABLY_MORE = 1.1
# The most kernels of a program that runs an op, and the least of one that `jit` made, on average.
_OF_AN_OP, _OF_A_PROGRAM = 1.25, 2
# Calls of Python functions that fell by less are no improvement: asyncio's differ by a few percent (anyio), and other
# code may do more in each (opt_einsum: 1.5 % fewer calls, and 1.5 times the time).
_FEWER = 0.9
# Work that grew by half as much as the time may take it.
_EXPLAINS = 2
_UNKNOWN = Times(0, {})
_UNTIMED = TimingVerdict(Verdict.INCOMPARABLE)
_UNJUDGED = (Verdict.NOISY, Verdict.INCOMPARABLE)


def _by_calls(base: OpCounts | None, now: OpCounts | None) -> Verdict:
    if now and now.calls.overlaps(base.calls if base else NONE):
        return Verdict.OK
    if base is None:
        return Verdict.NEW if now else Verdict.OK  # `OUTSIDE` is no op
    calls = now.calls.most if now else 0
    if calls > base.calls.highest:
        return Verdict.MORE
    if calls < base.calls.lowest:
        return Verdict.FEWER if now else Verdict.GONE
    return Verdict.OK


def _renamed(rows: Iterable[Row]) -> Collection[str]:
    """Return the new kernels of a compiler that replace as many calls of another: it names them by the ops inside."""
    made = [row for row in rows if _OF_COMPILER in row.op]
    gone = {row.calls[0] for row in made if row.verdict is Verdict.GONE}
    return {row.op for row in made if row.verdict is Verdict.NEW and row.calls[1] in gone}


def _damage(
    row: Row,
    canonical: Collection[str],
    renamed: Collection[str],
    most_flops: float,
    most_ns: float,
    *,
    is_timed: bool,
) -> tuple[bool, bool, bool, bool, bool, bool, bool, int, float, bool, int, str]:
    """Return the sort key of a row: causes first, in an order for counts that follows from times at one place only.

    The order: compilations, which take longer than ops; the op whose extra calls take more than *most_flops*: one
    product of matrices outweighs five calls of Range, Equal and Where (lineax), or than *most_ns*, most of the time:
    two calls of Sort outweigh two of Equal, which take a hundredth; more calls, the largest increase first, then a
    new op before one that ran before; wider dtypes; more work, by its factor; facts; the *renamed*. An op without a
    canonical name comes later, since it is often a part of one that has it. Calls of Python functions come before those
    of ops if far more are new. Times order only slower rows and rows without a regression; rows of a run whose times
    were not judged have the order of their bytes, else calls, which are the same in each run.
    """
    verdict = row.verdict
    # A new op has more calls, too.
    kind = SEVERITY[Verdict.MORE if verdict.is_of_more_calls else verdict] if verdict.does_more else len(SEVERITY)
    more: float = -row.change_ns
    if not is_timed:
        more = -(row.now.bytes or row.now.calls).most if row.now else 0
    if verdict.is_of_more_calls:
        # A view takes a fraction of a copy: litgpt's six calls of Reshape came before one of Copy, 58 us before 22 ms.
        more = -row.more_calls / (_VIEWS if row.op in VIEWS else 1)
    elif verdict.does_more:
        more = -row.work_factor
    is_raw = row.op not in canonical
    # Eleven more calls of 340 come after 2.7 times the memory (requests).
    place = _PLACES.get(row.op, 0) + len(FACTS) * (row.op in OF_PYTHON and row.work.growth < _NOTABLY_MORE)
    return (
        not verdict.is_regression,
        not verdict.is_improvement,
        row.op in renamed,
        row.op not in COMPILATIONS,
        not (verdict.is_of_more_calls and row.flops_of_more_calls > most_flops),
        is_raw,
        not (verdict.is_of_more_calls and row.ns_of_more_calls > most_ns),
        kind,
        more,
        row.base is not None,
        place,
        row.op,
    )


_PLACES = {name: place for place, name in enumerate(FACTS)}


def _top(times: Times, k: int) -> list[str]:
    ops = [op for op in times.ops_ns if op != OUTSIDE]
    return sorted(ops, key=lambda op: (-times.ops_ns[op], op))[:k]
