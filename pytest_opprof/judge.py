"""Is it slower? Pure functions: samples of processes in, a verdict out.

Two rules, for two ways to measure. `judge` compares with a stored baseline: the fastest round of several processes then
with the fastest of one now, and only if that looks slower, of some more. `judge_pairs` compares two versions that took
turns, round by round: the median ratio of each pair of processes, averaged over the pairs.

Both take the process as the unit. On 17 workloads, rules that take each round for an independent sample called 15 to
67 % of unchanged tests slower; these call less than 0.5 % (stored) and 0.1 % (pairs). `benchmarks/gate_quality.py`
shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from statistics import median
from typing import Any

from .conditions import YARDSTICK
from .samples import Run
from .units import format_ns, format_share, parse_duration, parse_share


class Verdict(Enum):
    """What became of an op, or of a window, since its baseline."""

    OK = "ok"
    SLOWER = "slower"
    FASTER = "faster"
    NOISY = "no verdict, too noisy"
    MORE = "more calls"
    FEWER = "fewer calls"
    NEW = "new"
    GONE = "gone"
    INCOMPARABLE = "not compared"
    NO_BASELINE = "no baseline"
    UNSEEN = "not seen"

    @property
    def is_regression(self) -> bool:
        """Whether it fails a test."""
        return self in (Verdict.SLOWER, Verdict.MORE, Verdict.NEW)

    @property
    def is_improvement(self) -> bool:
        """Whether the baseline should follow."""
        return self in (Verdict.FASTER, Verdict.FEWER, Verdict.GONE)

    @property
    def is_change(self) -> bool:
        """Whether something became of it, for worse or better."""
        return self.is_regression or self.is_improvement


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a time may change. A change counts if it is beyond the relative and the absolute limit."""

    tolerance: float
    """Of the whole window; relative: 0.13 is 13 %."""
    floor_ns: int
    op_tolerance: float
    """Of a single op."""
    op_floor_ns: int
    op_share: float
    """An op's change below this share of the whole window's time is noise of the window."""
    of_op: Mapping[str, float] = field(default_factory=dict)
    """The tolerance of some ops, where it is not `op_tolerance`."""

    def verdict(self, base_ns: float, now_ns: float) -> Verdict:
        """Judge the time of a whole window."""
        return _beyond(base_ns, now_ns, self.tolerance, self.floor_ns)

    def op_verdict(self, op: str, base_ns: float, now_ns: float, whole_ns: float) -> Verdict:
        """Judge the time of *op* in a window of *whole_ns*."""
        return _beyond(base_ns, now_ns, self.of(op), max(self.op_floor_ns, self.op_share * whole_ns))

    def excuse(self, op: str, base: Times, now: Times, between: tuple[float, float] | None = None) -> str:
        """Return in words what lets a change of *op* pass that is beyond its tolerance; empty where none is.

        One that lies *between* bounds so wide apart that they leave it open whether it is beyond is "unclear".
        """
        if op not in base.ops_ns or op not in now.ops_ns:
            return ""
        before, after = base.ops_ns[op], now.ops_ns[op]
        if _beyond(before, after, self.of(op), 0) is Verdict.OK:
            at_most = before * (1 + between[1]) if between and is_vague(between, self.of(op)) else before
            slower = self.op_verdict(op, before, at_most, base.total_ns) is Verdict.SLOWER
            return "unclear" if slower else ""
        if abs(after - before) <= self.op_floor_ns:
            return f"below {format_ns(self.op_floor_ns)}"
        if abs(after - before) <= self.op_share * base.total_ns:
            return f"below {format_share(self.op_share)} of the whole"
        return "not confirmed"

    def of(self, op: str) -> float:
        """Return the tolerance of *op*."""
        return self.of_op.get(op, self.op_tolerance)

    def with_given(self, given: Mapping[str, Any], what: Callable[[str], str]) -> Limits:
        """Return these with the ``tolerance``, ``op_tolerance`` and ``floor`` that are *given*, as people write them.

        A wider tolerance of the whole is one of each op, too. *what* names a key in the error, a UsageError.
        """
        limits = self
        if given.get("tolerance") is not None:
            tolerance = parse_share(given["tolerance"], what("tolerance"))
            limits = replace(limits, tolerance=tolerance, op_tolerance=max(tolerance, limits.op_tolerance))
        if given.get("floor") is not None:
            limits = replace(limits, floor_ns=parse_duration(given["floor"], what("floor")))
        match given.get("op_tolerance"):
            case None:
                return limits
            case Mapping() as by_op:
                shares = {op: parse_share(share, f"{what('op_tolerance')} of {op!r}") for op, share in by_op.items()}
                return replace(limits, of_op={**limits.of_op, **shares})
            case share:
                return replace(limits, op_tolerance=parse_share(share, what("op_tolerance")), of_op={})


STORED = Limits(tolerance=0.13, floor_ns=2_000, op_tolerance=0.25, op_floor_ns=5_000, op_share=0.05)
"""Against a stored baseline. On 7 workloads in 4 conditions 1 of 11,200 comparisons of unchanged tests was called
slower; +25 % was caught in 100 %, 96 % where the baseline was recorded under load. With an `op_share` of 2 %
1.1 % of unchanged tests were called slower in one condition, with 4 % none; with 8 % an op of +50 % was caught in 90 %,
with 5 % in 99.6 to 100 %. Below 10 % no stored baseline holds: +10 % was seen in 0 to 40 % of the cases."""
PAIRS = Limits(tolerance=0.06, floor_ns=2_000, op_tolerance=0.15, op_floor_ns=5_000, op_share=0.02)
"""In pairs: 1 false alarm in 21,000 comparisons (3 at 5.5 %), +10 % caught in 99.3 to 100 %."""
LEAST_STORED = 0.10
"""The smallest tolerance that a stored baseline can hold."""
BASE_PROCESSES = 5
"""How many processes a baseline is recorded in, if they are steady."""
PROCESSES, MOST_PROCESSES = 6, 12
"""How many processes have to agree that a window is slower than its stored baseline. With 5, 0.42 % of unchanged tests
were called slower under load against a baseline recorded in quiet; with 6 0.20 %, and power fell by 0.1 points. Those
without clean rounds do not count; after 12 in all it is over."""
LEAST_PROCESSES = 3
"""With fewer that have clean rounds there is no verdict."""
LOOKS = (5, 9)
"""After how many pairs to decide; the second look is for what is suspicious at the first."""
LEAST_PAIRS = 5
"""Of fewer there is no interval for 94 %."""
LEAST_ROUNDS = 10
"""With 5 rounds, up to 3.6 % of unchanged tests were called slower; with 10 up to 1.1 %, with 30 up to 0.4 %."""
STEADY = 0.03
"""A baseline is recorded in more processes, as many again at most, until the three fastest differ by no more. Of
baselines recorded under load 97 % saw +25 %, with 5 processes 80 to 95 %; it takes 6 of them in quiet."""
TYPICAL = 0.75
"""A process passes if it is slower than the second one of the baseline by no more than this share of the tolerances,
9.75 % of 13 %: the fastest of five may be so by luck, and 1 % of unchanged tests had no verdict for that. Of the middle
one, which it was before, baselines of a loaded machine saw +25 % in 77 to 92 %; of the second in 87 to 95 %."""
CLEAN_SHARE, CLEAN_ROUNDS = 0.01, 0.5
"""A round is clean unless it waited for a CPU for 1 % of its time, or the core was shared before or after it. A process
counts with half of its rounds clean: with 5 of 30, one unchanged test was called slower in 6 % of its runs while others
used both of two cores, with 15 in none."""
LEAST_CLEAN = 5
"""How many rounds of a pair have to be without a wait."""
SUSPICIOUS = 0.7
"""A change below this share of the tolerance, 4.2 % of 6 %, is settled at the first look at pairs."""
AGREE, AGREE_BY = 7 / 9, 0.02
"""That share of the pairs has to see a change of the window, each of 2 % or more. Of 9 pairs 8 would cost 2.4 points
of the power at +10 %, and save nothing."""
OPS_AGREE, OPS_AGREE_BY = 8 / 9, 0.05
"""The same for an op: 7 of 9 by 2 % called some op of 0.036 % of unchanged tests slower, these 0.007 %."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What `judge` asks of the samples, and how much it lets pass."""

    limits: Limits = STORED
    least_base_processes: int = 3
    least_rounds: int = LEAST_ROUNDS
    processes: int = PROCESSES
    most_processes: int = MOST_PROCESSES


STORED_RULE = Rule()


@dataclass(frozen=True, slots=True)
class Times:
    """What represents several rounds: of the whole window, and of each op, ns."""

    total_ns: float
    ops_ns: Mapping[str, float]

    def ns(self, op: str) -> int | None:
        """Return the time of *op*, None if it has none."""
        return round(self.ops_ns[op]) if op in self.ops_ns else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the samples say of a window."""

    verdict: Verdict
    why: str = ""
    """Why there is no verdict, or nothing was compared."""
    base: Times | None = None
    now: Times | None = None
    processes: int = 0
    """How many were taken into account: of the new code, or pairs of both."""
    settled: bool = True
    """Whether more processes would change nothing."""
    total: Verdict = Verdict.OK
    ops: Mapping[str, Verdict] = field(default_factory=dict)
    """The ops that changed beyond their limits."""
    in_pairs: bool = False
    clean: int = 0
    """How many of the processes had clean rounds; 0 where nobody looked."""
    intervals: Mapping[str | None, tuple[float, float]] = field(default_factory=dict)
    """Of pairs: between what the change of each op lies, and of the window (None), as `change` has it; for 95 %."""
    agreeing: Mapping[str | None, int] = field(default_factory=dict)
    """How many of the pairs see the change of each op in `ops`, and of the window (None)."""

    @property
    def change(self) -> float | None:
        """How much slower the window is: 0.1 is 10 %."""
        return self.now.total_ns / self.base.total_ns - 1 if self.base and self.now and self.base.total_ns else None


def judge(base: Sequence[Run], now: Sequence[Run], rule: Rule = STORED_RULE) -> Judgement:
    """Compare the fastest round of *now* with that of *base*, where each Run is a process.

    Slower is only what is slower in the best of `Rule.processes` that had clean rounds, each of them slower than a
    typical process of *base*: while the judgement is not settled, measure in one more. Since one within the limits is
    enough for a pass, looking after each process is as good as looking once after the last. Noise only adds time: what
    is fast enough all the same is.
    """
    if why := _too_little(base, now, rule) or _incomparable([*base, *now]):
        return unjudged(why, now)
    found = _confirmed_by_ops(_judged(_fastest(base), _fastest(now), rule.limits, len(now)), rule.limits)
    if found.verdict is Verdict.SLOWER and any(_is_typical(run, base, rule.limits) for run in now):
        faster = {op: verdict for op, verdict in found.ops.items() if verdict is Verdict.FASTER}
        found = replace(found, verdict=_worst(Verdict.OK, faster), total=Verdict.OK, ops=faster)
    if found.verdict is Verdict.OK:
        return found
    yardstick_ns = _yardstick_limit_ns([*base, *now])
    clean_base = [run for run in base if _is_clean(run, yardstick_ns)]
    if len(clean_base) < rule.least_base_processes:
        was = "disturbed" if (why := disturbances(base)) else "recorded while the machine was busy"
        return undecided(found, f"the baseline was {was}{why and f' ({why})'}: record it again")
    if found.verdict is Verdict.FASTER:
        return found
    found = _confirmed_by_base(found, base, rule.limits)
    if found.verdict is not Verdict.SLOWER:
        return found
    clean = clean_processes(now, yardstick_ns)
    if clean < min(LEAST_PROCESSES, len(now)):
        found = undecided(found, _why_noisy(now, clean, yardstick_ns))
    needed = rule.most_processes if _differs(clean_base, rule.limits) else rule.processes
    return replace(found, clean=clean, settled=clean >= needed or len(now) >= rule.most_processes)


def _is_typical(run: Run, base: Sequence[Run], limits: Limits) -> bool:
    """Tell whether a process is nearly as fast as the second one of *base*: the best of five may be so by luck."""
    nearly = replace(
        limits,
        tolerance=TYPICAL * limits.tolerance,
        op_tolerance=TYPICAL * limits.op_tolerance,
        of_op={op: TYPICAL * tolerance for op, tolerance in limits.of_op.items()},
    )
    return _judged(_fastest(base, 1), _fastest([run]), nearly, 1).verdict is not Verdict.SLOWER


def unjudged(why: str, now: Sequence[Run], base: Sequence[Run] = ()) -> Judgement:
    """Return what there is to show of samples that are not judged; *base* only where it is to be shown beside them."""
    before, after = (_fastest(side) if side else None for side in (base, now))
    return Judgement(Verdict.INCOMPARABLE, why, before, after, len(now))


def clean_processes(runs: Sequence[Run], yardstick_ns: float | None = None) -> int:
    """Return how many processes had enough clean rounds, by the best yardstick of their own if none is given."""
    yardstick_ns = _yardstick_limit_ns(runs) if yardstick_ns is None else yardstick_ns
    return sum(_is_clean(run, yardstick_ns) for run in runs)


def is_steady(runs: Sequence[Run]) -> bool:
    """Tell whether the fastest processes took about as long: then one of them is as fast as this code can be."""
    fastest = sorted(min(run.total_ns) for run in runs)[:LEAST_PROCESSES] or [0]
    return fastest[-1] - fastest[0] <= max(STEADY * fastest[0], STORED.floor_ns)


def disturbances(runs: Iterable[Run]) -> str:
    """Return in words what disturbed any of the processes."""
    return "; ".join(dict.fromkeys(what for run in runs for what in run.disturbed))


def _is_clean(run: Run, yardstick_ns: float) -> bool:
    return not run.disturbed and len(run.clean(CLEAN_SHARE, yardstick_ns)) >= CLEAN_ROUNDS * run.rounds


def _yardstick_limit_ns(runs: Iterable[Run]) -> float:
    """Return how long the fixed piece of work may take before a clean round, in ns; no limit where it was not done."""
    return YARDSTICK * min((ns for run in runs for ns in run.yardstick_ns), default=math.inf)


def judge_pairs(pairs: Sequence[tuple[Run, Run]], limits: Limits = PAIRS, looks: tuple[int, int] = LOOKS) -> Judgement:
    """Compare two versions whose processes ran in *pairs*, taking turns round by round: (before, after) each.

    The change of a pair is the median of the ratios of its rounds; of all pairs, their Hodges-Lehmann mean.
    """
    if why := _incomparable([run for pair in pairs for run in pair]) or ("" if pairs else "no times were measured"):
        return Judgement(Verdict.INCOMPARABLE, why)
    ratios = [_Ratios.of(before, after) for before, after in pairs]
    last = len(pairs) >= looks[1]
    base = _typical([before for before, _ in pairs])
    logs = {op: [ratio.ops[op] for ratio in ratios if op in ratio.ops] for op in base.ops_ns}
    wholes = [ratio.total for ratio in ratios]
    total = math.exp(hodges_lehmann(wholes))
    now = Times(base.total_ns * total, {op: ns * _op_ratio(logs[op]) for op, ns in base.ops_ns.items()})
    intervals = {
        op: (math.expm1(low), math.expm1(high))
        for op, each in [(None, wholes), *logs.items()]
        if len(each) >= LEAST_PAIRS
        for low, high in [interval(each)]
    }
    found = replace(_judged(base, now, limits, len(pairs)), in_pairs=True, intervals=intervals)
    if not last:
        suspicious = abs(total - 1) >= SUSPICIOUS * limits.tolerance or found.ops
        return replace(found, settled=len(pairs) >= looks[0] and not suspicious)
    clean = sum(ratio.clean for ratio in ratios)
    if found.verdict is not Verdict.OK and clean < looks[0]:
        return undecided(found, _why_unclean(pairs, clean))
    agreeing: dict[str | None, int] = {
        None: _agreeing(wholes, found.total, AGREE_BY),
        **{op: _agreeing(logs[op], verdict, OPS_AGREE_BY) for op, verdict in found.ops.items()},
    }
    ops = {op: verdict for op, verdict in found.ops.items() if agreeing[op] >= OPS_AGREE * len(pairs)}
    agreed = found.total is Verdict.OK or agreeing[None] >= AGREE * len(pairs)
    if not agreed and Verdict.SLOWER not in ops.values():
        return undecided(found, f"the {len(pairs)} pairs of processes do not agree whether it is {found.total.value}")
    total_verdict = found.total if agreed else Verdict.OK
    return replace(found, verdict=_worst(total_verdict, ops), total=total_verdict, ops=ops, agreeing=agreeing)


def hodges_lehmann(values: Sequence[float]) -> float:
    """Return the median of the means of all pairs: nearly as sharp as the mean, and not moved by a bad value or two.

    >>> hodges_lehmann([1.0, 2.0, 90.0])
    2.0
    """
    return median(_walsh(values))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of `hodges_lehmann`, whatever the distribution is that the values come of.

    It leaves out as many of the lowest and highest means of pairs as the signed-rank distribution lets it: of nine
    values five each (96 %); of five none (94 %).

    >>> interval([1.0, 2.0, 3.0, 4.0, 90.0])
    (1.0, 90.0)
    """
    ways = [1]  # to get each sum of ranks
    for rank in range(1, len(values) + 1):
        ways = [a + b for a, b in zip([*ways, *[0] * rank], [*[0] * rank, *ways])]
    unlikely = sum(below <= 0.025 * sum(ways) for below in accumulate(ways))
    means, left_out = _walsh(values), max(unlikely - 1, 0)
    return means[left_out], means[-1 - left_out]


def is_vague(between: tuple[float, float], tolerance: float) -> bool:
    """Tell whether an interval is too wide for one number to stand for it: wider than twice the *tolerance*."""
    return between[1] - between[0] > 2 * tolerance


def _walsh(values: Sequence[float]) -> list[float]:
    """Return the means of all pairs, of each with itself as well, in order."""
    return sorted((x + y) / 2 for i, x in enumerate(values) for y in values[i:])


@dataclass(frozen=True, slots=True)
class _Ratios:
    """Of one pair of processes: the logarithms of how much slower the later one is."""

    total: float
    ops: Mapping[str, float]
    clean: bool

    @classmethod
    def of(cls, before: Run, after: Run) -> _Ratios:
        """Return them from the rounds in which neither waited for a CPU; from all of them if those are too few.

        A slow core is slow for both, as is a slow GPU: their rounds are a few milliseconds apart.
        """
        rounds = sorted(before.clean(CLEAN_SHARE) & after.clean(CLEAN_SHARE))
        clean = len(rounds) >= LEAST_CLEAN and not _differ_in_luck(before, after)
        rounds = rounds if clean else list(range(before.rounds))
        ops = before.ops_ns.keys() & after.ops_ns.keys()
        return cls(
            _log_ratio(before.total_ns, after.total_ns, rounds),
            {op: _log_ratio(before.ops_ns[op], after.ops_ns[op], rounds) for op in ops},
            clean,
        )


def _differ_in_luck(before: Run, after: Run) -> bool:
    return bool(before.disturbed) is not bool(after.disturbed)


def _log_ratio(before: Sequence[int], after: Sequence[int], rounds: Iterable[int]) -> float:
    return median(math.log(max(after[i], 1) / max(before[i], 1)) for i in rounds)


def _op_ratio(logs: Sequence[float]) -> float:
    return math.exp(hodges_lehmann(logs)) if logs else 1.0


def _agreeing(logs: Sequence[float], verdict: Verdict, by: float) -> int:
    """Return how many of the pairs see the change that the verdict claims."""
    sign = 1 if verdict is Verdict.SLOWER else -1
    return sum(sign * log > math.log1p(by) for log in logs)


def _typical(runs: Sequence[Run]) -> Times:
    """Return the median of the medians."""
    ops = {op for run in runs for op in run.ops_ns}
    return Times(
        median(median(run.total_ns) for run in runs),
        {op: median(median(run.ops_ns[op]) for run in runs if op in run.ops_ns) for op in sorted(ops)},
    )


def _fastest(runs: Sequence[Run], rank: int = 0) -> Times:
    """Return the fastest round of the fastest process, for the window and each op; with *rank* 1, of the second."""
    ops = sorted({op for run in runs for op in run.ops_ns})
    return Times(
        _ranked([min(run.total_ns) for run in runs], rank),
        {op: _ranked([min(run.ops_ns[op]) for run in runs if op in run.ops_ns], rank) for op in ops},
    )


def _ranked(values: Sequence[int], rank: int) -> int:
    return sorted(values)[min(rank, len(values) - 1)]


def _judged(base: Times, now: Times, limits: Limits, processes: int) -> Judgement:
    total = limits.verdict(base.total_ns, now.total_ns)
    ops = {
        op: verdict
        for op, ns in now.ops_ns.items()
        if op in base.ops_ns
        and (verdict := limits.op_verdict(op, base.ops_ns[op], ns, base.total_ns)) is not Verdict.OK
    }
    return Judgement(_worst(total, ops), "", base, now, processes, True, total, ops)


def _worst(total: Verdict, ops: Mapping[str, Verdict]) -> Verdict:
    found = {total, *ops.values()}
    return next((verdict for verdict in (Verdict.SLOWER, Verdict.FASTER) if verdict in found), Verdict.OK)


def _beyond(base_ns: float, now_ns: float, tolerance: float, floor_ns: float) -> Verdict:
    if now_ns > base_ns * (1 + tolerance) and now_ns - base_ns > floor_ns:
        return Verdict.SLOWER
    if base_ns > now_ns * (1 + tolerance) and base_ns - now_ns > floor_ns:
        return Verdict.FASTER
    return Verdict.OK


def _too_little(base: Sequence[Run], now: Sequence[Run], rule: Rule) -> str:
    """Return what was not measured often enough."""
    if not now:
        return "no times were measured"
    rounds = min(run.rounds for run in now)
    if rounds < rule.least_rounds:
        return f"{rounds} of {rule.least_rounds} rounds measured"
    if not base:
        return "the baseline has no times"
    if len(base) < rule.least_base_processes:
        return f"the baseline has the times of {len(base)} of {rule.least_base_processes} processes"
    return ""


def _incomparable(runs: Sequence[Run]) -> str:
    """Return why the runs cannot be compared with each other: the first is what the others should be like."""
    for what in ("rounds", "threads"):
        values = list(dict.fromkeys(getattr(run, what) for run in runs))
        if len(values) > 1:
            return f"{what} differ: {values[0] or 'all'} before, {values[1] or 'all'} now"
    return ""


def _confirmed_by_ops(found: Judgement, limits: Limits) -> Judgement:
    """Return *found* without a slower whole that no op shows: each was as fast as ever, though in different rounds.

    Of a test whose processes differ by half, 18 % of unchanged runs were called slower without this, 6 % with it.
    """
    base, now = found.base, found.now
    both = base.ops_ns.keys() & now.ops_ns.keys() if base and now else ()
    if found.total is not Verdict.SLOWER or not base or not now or not both:
        return found
    total = limits.verdict(*(sum(times.ops_ns[op] for op in both) for times in (base, now)))
    return found if total is Verdict.SLOWER else replace(found, total=Verdict.OK, verdict=_worst(Verdict.OK, found.ops))


def _confirmed_by_base(found: Judgement, base: Sequence[Run], limits: Limits) -> Judgement:
    """Return *found* without what the baseline's own second-best process would be called slower for.

    Of tests that are fast in one process of ten, 21 % of unchanged runs were called slower without this and `_differs`,
    2 % with both; of the recorded samples no more than 0.07 % have no verdict for it.
    """
    own = _second_best(base, limits)
    total = Verdict.OK if own.total is Verdict.SLOWER else found.total
    ops = {op: verdict for op, verdict in found.ops.items() if own.ops.get(op) is not Verdict.SLOWER}
    if (verdict := _worst(total, ops)) is Verdict.SLOWER:
        return replace(found, verdict=verdict, total=total, ops=ops)
    best, second = (format_ns(_fastest(base, rank).total_ns) for rank in (0, 1))
    took = f"took {best}, the others {second} or more"
    what = took if own.total is Verdict.SLOWER else f"was as fast in {', '.join(sorted(own.ops))}"
    return undecided(found, f"only one of the baseline's {len(base)} processes {what}: record it again")


def has_lone_best(base: Sequence[Run], limits: Limits) -> bool:
    """Tell whether a baseline can call nothing slower: its own second-best process would be."""
    return len(base) > 1 and _second_best(base, limits).verdict is Verdict.SLOWER


def _second_best(base: Sequence[Run], limits: Limits) -> Judgement:
    return _judged(_fastest(base), _fastest(base, 1), limits, len(base))


def _differs(base: Sequence[Run], limits: Limits) -> bool:
    """Tell whether one process of the baseline would be called slower than another: then it takes more of them now."""
    return any(_judged(_fastest(base), _fastest([run]), limits, 1).verdict is Verdict.SLOWER for run in base)


def undecided(found: Judgement, why: str) -> Judgement:
    """Return *found* without a verdict."""
    return replace(found, verdict=Verdict.NOISY, why=why, settled=True, total=Verdict.OK, ops={})


def _why_noisy(runs: Sequence[Run], clean: int, yardstick_ns: float) -> str:
    """Return why so few processes are *clean*: what there was of rounds that waited, and of a slow core."""
    rounds = sum(run.rounds for run in runs)
    seen = {
        "waited for a CPU": rounds - sum(len(run.clean(CLEAN_SHARE)) for run in runs),
        f"had a core {YARDSTICK - 1:.0%} slower than at its best, by a fixed piece of work": sum(
            ns > yardstick_ns for run in runs for ns in run.yardstick_ns
        ),
    }
    said = ", ".join(f"{count} {what}" for what, count in seen.items() if count)
    processes = f"{clean or 'no'} process{'es' * (clean > 1)}"
    needed = math.ceil(CLEAN_ROUNDS * min(run.rounds for run in runs))
    few = f"{processes} of {len(runs)} had {needed} clean rounds"
    return "; ".join(filter(None, [disturbances(runs), f"{few}: of {rounds} rounds {said}" if said else few]))


def _why_unclean(pairs: Sequence[tuple[Run, Run]], clean: int) -> str:
    """Return why so few pairs are *clean*."""
    unlike = [run for pair in pairs if _differ_in_luck(*pair) for run in pair]
    if unlike:
        return f"{disturbances(unlike)}, in one process of a pair only; {clean} of {len(pairs)} pairs were clean"
    return f"{clean} of {len(pairs)} pairs had {LEAST_CLEAN} rounds in which neither waited for a CPU"
