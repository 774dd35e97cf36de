"""Compare a measured window with its baseline: a verdict for each op and for the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..ops import names
from ..ops.vocabulary import PROGRAM, VIEWS
from ..profile.op_counts import GONE, NONE, Done, OpCounts
from ..profile.range import Range
from ..profile.timings import OUTSIDE
from ..units import format_change, format_interval, format_range, plural
from .diff import FIRST_USE, SMALL, TOTAL, VARIES, Diff, Row, is_op_by_op
from .facts import amount, explained, follows, loops_follow
from .facts import compared as changed_facts
from .quantities import (
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
from .tolerances import Tolerances, is_vague
from .verdicts import SEVERITY, Times, TimingVerdict, Verdict
from .work import NOTHING, Work, compared


def compare(
    base: Done, now: Done, timing: TimingVerdict, tolerances: Tolerances, top: int = 0, then: str = "baseline"
) -> Diff:
    """Compare the calls and facts of a window *now* with its *base*, and add the judged times; *then* names the base.

    Calls are compared exactly, at the worst round if rounds differ. Calls that vary from process to process are more
    only if they are more in each.
    """
    before, after = (times or _UNKNOWN for times in (timing.base, timing.now))
    unjudged = timing.is_unjudged
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
    _put_leaders_first(rows, base[1], now[1])
    return Diff(tuple(rows), total, timing, tolerances, OUTSIDE in after.ops_ns, top, then)


def _put_leaders_first(rows: list[Row], base: Mapping[str, Range], now: Mapping[str, Range]) -> None:
    """Move the rows of some facts before the rows that follow from them; *base* and *now* are all facts."""

    def more(*ops: str) -> Row | None:
        return next((row for row in rows if row.op in ops and row.verdict.does_more), None)

    def put(row: Row, at: int) -> None:
        rows.remove(row)
        rows.insert(at, row)

    first = next((number for number, row in enumerate(rows) if row.verdict.is_of_more_calls), None)
    if first is not None:
        extra = sum(row.more_calls for row in rows if row.verdict.is_of_more_calls)
        programs = next((row for row in rows if row.op == PROGRAM and row.verdict.is_of_more_calls), None)
        if programs and is_op_by_op(rows):
            put(programs, first)
        python = more(PYTHON_CALLS)
        if python and now[PYTHON_CALLS].most - base[PYTHON_CALLS].most >= _FAR_MORE * extra:
            put(python, first)
        peak = more(*PEAKS)
        is_few = extra <= _FEW_CALLS * sum(row.now.calls.most for row in rows if row.now)
        leak = more(LEFT_BEHIND)
        if leak and is_few and not base[LEFT_BEHIND].most:
            put(leak, first)
        if peak and peak.work.growth >= _FAR_MORE_MEMORY and is_few:
            put(peak, first)
    left, follows = more(LEFT_BEHIND, LEFT_OPEN), more(PYTHON_CALLS, "grad_nodes")
    if left and follows:
        # A later run counts the calls, and walks what the earlier ones left behind (blinker's sets of receivers).
        rows.remove(left)
        rows.insert(rows.index(follows), left)


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
# Calls of Python functions that fell by less are no improvement: asyncio's differ by a few percent (anyio), and other
# code may do more in each (opt_einsum: 1.5 % fewer calls, and 1.5 times the time).
_FEWER = 0.9
# A peak of memory that rose so far, and a new leak, come before the ops if these make few calls more: x590 stood below
# one call of Sub (torchmetrics), x1.8 below 2 calls more of 80 (metric learning), a leak below 2 of 8 Identity (pyro).
_FAR_MORE_MEMORY, _FEW_CALLS = 1.5, 0.1
_UNKNOWN = Times(0, {})
_UNTIMED = TimingVerdict(Verdict.INCOMPARABLE)


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
