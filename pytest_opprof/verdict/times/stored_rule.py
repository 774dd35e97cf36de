"""Judge whether code is slower than a stored baseline: the fastest round of its processes against one or more now.

The process is the unit, not the round. On 17 workloads, rules that take each round for an independent sample called 15
to 67 % of unchanged tests slower; this rule calls less than 0.5 %. `benchmarks/gate_quality.py` reproduces this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...profile.timings import ProcessTimes, disturbances, incomparable
from ...units import format_ns
from ..tolerances import LEAST_ROUNDS, STORED, TYPICAL, Tolerances, judged
from ..verdicts import Times, TimingVerdict, Verdict, undecided, worst
from .noise import clean_processes, is_clean, why_noisy, yardstick_limit_ns
from .repeats import LEAST_TIMED_PROCESSES, MOST_TIMED_PROCESSES, TIMED_PROCESSES


@dataclass(frozen=True, slots=True)
class Rule:
    """The samples that `judge` requires, and its tolerances."""

    tolerances: Tolerances = STORED
    least_base_processes: int = 3
    least_rounds: int = LEAST_ROUNDS
    processes: int = TIMED_PROCESSES
    most_processes: int = MOST_TIMED_PROCESSES
    base: str = "the baseline"
    """The user's name for the base."""


STORED_RULE = Rule()
_RECORD = " (pytest --opprof-update records them)"


def judge(base: Sequence[ProcessTimes], now: Sequence[ProcessTimes], rule: Rule = STORED_RULE) -> TimingVerdict:
    """Compare the fastest round of *now* with that of *base*, where each item is a process.

    A window is slower if the best of `Rule.processes` with clean rounds is slower, and each of them is slower than a
    typical process of *base*. Until then the verdict is not settled: measure in one more process. One process within
    the limits is enough to pass, so it makes no difference whether we check after each process or once after the last.
    Noise only adds time, so a process that is fast enough is evidence even if it was disturbed.
    """
    if why := _too_little(base, now, rule) or incomparable([*base, *now]):
        return unjudged(why, now)
    found = replace(_confirmed_by_ops(fastest(base), fastest(now), rule.tolerances), processes=len(now))
    if found.verdict is Verdict.SLOWER and any(_is_typical(run, base, rule.tolerances) for run in now):
        faster = {op: verdict for op, verdict in found.ops.items() if verdict is Verdict.FASTER}
        found = replace(found, verdict=worst(Verdict.OK, faster), total=Verdict.OK, ops=faster)
    if found.verdict is Verdict.OK:
        return found
    yardstick_ns = yardstick_limit_ns([*base, *now])
    clean_base = [run for run in base if is_clean(run, yardstick_ns)]
    if len(clean_base) < rule.least_base_processes:
        was = "disturbed" if (why := disturbances(base)) else "recorded while the machine was busy"
        return undecided(found, f"{rule.base} was {was}{why and f' ({why})'}: record it again")
    if found.verdict is Verdict.FASTER:
        return found
    found = _confirmed_by_base(found, base, rule)
    if found.verdict is not Verdict.SLOWER:
        return found
    clean = clean_processes(now, yardstick_ns)
    if clean < min(LEAST_TIMED_PROCESSES, len(now)):
        found = undecided(found, why_noisy(now, clean, yardstick_ns))
    needed = rule.most_processes if _differs(clean_base, rule.tolerances) else rule.processes
    return replace(found, clean=clean, settled=clean >= needed or len(now) >= rule.most_processes)


def _is_typical(run: ProcessTimes, base: Sequence[ProcessTimes], tolerances: Tolerances) -> bool:
    """Return True if a process is nearly as fast as the second-best one of *base*; the best of five may be luck."""
    nearly = replace(
        tolerances,
        tolerance=TYPICAL * tolerances.tolerance,
        op_tolerance=TYPICAL * tolerances.op_tolerance,
        of_op={op: TYPICAL * tolerance for op, tolerance in tolerances.of_op.items()},
    )
    return judged(fastest(base, 1), fastest([run]), nearly).verdict is not Verdict.SLOWER


def unjudged(why: str, now: Sequence[ProcessTimes], base: Sequence[ProcessTimes] = ()) -> TimingVerdict:
    """Return times that are not judged, for display; *base* is shown beside them if given."""
    before, after = (fastest(side) if side else None for side in (base, now))
    return TimingVerdict(Verdict.INCOMPARABLE, why, before, after, len(now))


def fastest(runs: Sequence[ProcessTimes], rank: int = 0) -> Times:
    """Return the fastest round of the fastest process, for the window and each op; with *rank* 1, of the second."""
    ops = sorted({op for run in runs for op in run.ops_ns})
    return Times(
        _ranked([min(run.total_ns) for run in runs], rank),
        {op: _ranked([min(run.ops_ns[op]) for run in runs if op in run.ops_ns], rank) for op in ops},
    )


def _ranked(values: Sequence[int], rank: int) -> int:
    return sorted(values)[min(rank, len(values) - 1)]


def _too_little(base: Sequence[ProcessTimes], now: Sequence[ProcessTimes], rule: Rule) -> str:
    """Return what was measured too rarely; empty if nothing was."""
    if not now:
        return "no times were measured"
    rounds = min(run.rounds for run in now)
    if rounds < rule.least_rounds:
        return f"{rounds} of {rule.least_rounds} rounds measured"
    if not base:
        return f"{rule.base} has no times{_RECORD if rule.base == STORED_RULE.base else ''}"
    if len(base) < rule.least_base_processes:
        return f"{rule.base} has the times of {len(base)} of {rule.least_base_processes} processes"
    return ""


def _confirmed_by_ops(base: Times, now: Times, tolerances: Tolerances) -> TimingVerdict:
    """Judge without a slower total if the ops together are not slower: each was as fast as before, in some round.

    For a test whose processes differ by half, 18 % of unchanged runs were called slower without this, 6 % with it.
    """
    found = judged(base, now, tolerances)
    both = base.ops_ns.keys() & now.ops_ns.keys()
    if found.total is not Verdict.SLOWER or not both:
        return found
    total = tolerances.verdict(*(sum(times.ops_ns[op] for op in both) for times in (base, now)))
    return found if total is Verdict.SLOWER else replace(found, total=Verdict.OK, verdict=worst(Verdict.OK, found.ops))


def _confirmed_by_base(found: TimingVerdict, base: Sequence[ProcessTimes], rule: Rule) -> TimingVerdict:
    """Return *found* without changes that would also call the second-best process of the baseline slower.

    For tests that are fast in one process of ten, 21 % of unchanged runs were called slower without this and
    `_differs`, 2 % with both. It takes the verdict from no more than 0.07 % of the recorded samples.
    """
    own = _second_best(base, rule.tolerances)
    total = Verdict.OK if own.total is Verdict.SLOWER else found.total
    ops = {op: verdict for op, verdict in found.ops.items() if own.ops.get(op) is not Verdict.SLOWER}
    if (verdict := worst(total, ops)) is Verdict.SLOWER:
        return replace(found, verdict=verdict, total=total, ops=ops)
    best, second = (format_ns(fastest(base, rank).total_ns) for rank in (0, 1))
    took = f"took {best}, the others {second} or more"
    what = took if own.total is Verdict.SLOWER else f"was as fast in {', '.join(sorted(own.ops))}"
    return undecided(found, f"only one of {rule.base}'s {len(base)} processes {what}: record it again")


def has_lone_best(base: Sequence[ProcessTimes], tolerances: Tolerances) -> bool:
    """Return True if a baseline cannot show a slowdown, since its own second-best process would be slower."""
    return len(base) > 1 and _second_best(base, tolerances).verdict is Verdict.SLOWER


def _second_best(base: Sequence[ProcessTimes], tolerances: Tolerances) -> TimingVerdict:
    return judged(fastest(base), fastest(base, 1), tolerances)


def _differs(base: Sequence[ProcessTimes], tolerances: Tolerances) -> bool:
    """Return True if a process of the baseline would be called slower than its best; more are then needed now."""
    return any(judged(fastest(base), fastest([run]), tolerances).verdict is Verdict.SLOWER for run in base)
