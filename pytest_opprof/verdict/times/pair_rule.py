"""Judge whether code is slower than another revision: the versions took turns, round by round, in pairs of processes.

The measure is the median ratio of the rounds of each pair, averaged over the pairs. It calls less than 0.1 % of
unchanged tests slower. `benchmarks/gate_quality.py` reproduces this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median

from ...profile.timings import ProcessTimes, disturbances, incomparable
from ..tolerances import (
    AGREE,
    AGREE_BY,
    CLEAN_SHARE,
    LEAST_CLEAN,
    MAY_BE,
    OPS_AGREE,
    OPS_AGREE_BY,
    PAIRS,
    SUSPICIOUS,
    Tolerances,
    judged,
)
from ..verdicts import Times, TimingVerdict, Verdict, undecided, worst
from .repeats import CLEAN_PAIRS, LEAST_TIMED_PAIRS, ROUND_PAIRS, TIMED_PAIRS


def judge_pairs(
    pairs: Sequence[tuple[ProcessTimes, ProcessTimes]],
    tolerances: Tolerances = PAIRS,
    looks: tuple[int, int] = TIMED_PAIRS,
) -> TimingVerdict:
    """Compare two versions whose processes ran in *pairs*, taking turns round by round: (before, after) each.

    The change of a pair is the median of its rounds' ratios; the change over all pairs is their Hodges-Lehmann mean.
    """
    if why := incomparable([run for pair in pairs for run in pair]) or ("" if pairs else "no times were measured"):
        return TimingVerdict(Verdict.INCOMPARABLE, why)
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
        if len(each) >= LEAST_TIMED_PAIRS
        for low, high in [interval(each)]
    }
    found = replace(judged(base, now, tolerances), processes=len(pairs), in_pairs=True, intervals=intervals)
    if not last:
        suspicious = abs(total - 1) >= SUSPICIOUS * tolerances.tolerance or found.ops
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
    return replace(found, verdict=worst(total_verdict, ops), total=total_verdict, ops=ops, agreeing=agreeing)


def judge_in_rounds(pairs: Sequence[tuple[ProcessTimes, ProcessTimes]], tolerances: Tolerances) -> TimingVerdict:
    """Judge like `judge_pairs` whether a test is slower, or too noisy, that no mark asks to judge by its time.

    It is settled after `ROUND_PAIRS`, or before, as soon as the pairs so far find less than `MAY_BE` of the tolerance.
    """
    share, no_slower = MAY_BE[min(len(pairs), len(MAY_BE)) - 1], TimingVerdict(Verdict.OK, processes=len(pairs))
    early = judge_pairs(pairs, replace(tolerances, tolerance=share * tolerances.tolerance))
    if early.total is not Verdict.SLOWER:
        return no_slower
    if len(pairs) < ROUND_PAIRS:
        return replace(early, settled=False)
    found = judge_pairs(pairs, tolerances, (CLEAN_PAIRS, ROUND_PAIRS))
    return found if found.verdict in (Verdict.SLOWER, Verdict.NOISY) else no_slower


def hodges_lehmann(values: Sequence[float]) -> float:
    """Return the median of the means of all pairs: nearly as sharp as the mean, and robust to a bad value or two.

    >>> hodges_lehmann([1.0, 2.0, 90.0])
    2.0
    """
    return median(_walsh(values))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of `hodges_lehmann`; it assumes no distribution.

    It leaves out as many of the lowest and highest means of pairs as the signed-rank distribution allows: of nine
    values five on each side (96 %), of five none (94 %).

    >>> interval([1.0, 2.0, 3.0, 4.0, 90.0])
    (1.0, 90.0)
    """
    ways = [1]  # to get each sum of ranks
    for rank in range(1, len(values) + 1):
        ways = [a + b for a, b in zip([*ways, *[0] * rank], [*[0] * rank, *ways])]
    unlikely = sum(below <= 0.025 * sum(ways) for below in accumulate(ways))
    means, left_out = _walsh(values), max(unlikely - 1, 0)
    return means[left_out], means[-1 - left_out]


def _walsh(values: Sequence[float]) -> list[float]:
    """Return the sorted means of all pairs, each value with itself included."""
    return sorted((x + y) / 2 for i, x in enumerate(values) for y in values[i:])


@dataclass(frozen=True, slots=True)
class _Ratios:
    """The slowdown of the second process of a pair, as logarithms of ratios."""

    total: float
    ops: Mapping[str, float]
    clean: bool

    @classmethod
    def of(cls, before: ProcessTimes, after: ProcessTimes) -> _Ratios:
        """Return the ratios of the rounds in which neither process waited for a CPU; of all rounds if these are too
        few.

        A slow core or GPU slows both, since their rounds are a few milliseconds apart.
        """
        rounds = sorted(before.clean(CLEAN_SHARE) & after.clean(CLEAN_SHARE))
        clean = len(rounds) >= LEAST_CLEAN and not _one_was_disturbed(before, after)
        rounds = rounds if clean else list(range(before.rounds))
        ops = before.ops_ns.keys() & after.ops_ns.keys()
        return cls(
            _log_ratio(before.total_ns, after.total_ns, rounds),
            {op: _log_ratio(before.ops_ns[op], after.ops_ns[op], rounds) for op in ops},
            clean,
        )


def _one_was_disturbed(before: ProcessTimes, after: ProcessTimes) -> bool:
    """Return True if exactly one of two processes was disturbed."""
    return bool(before.disturbed) is not bool(after.disturbed)


def _log_ratio(before: Sequence[int], after: Sequence[int], rounds: Iterable[int]) -> float:
    return median(math.log(max(after[i], 1) / max(before[i], 1)) for i in rounds)


def _op_ratio(logs: Sequence[float]) -> float:
    return math.exp(hodges_lehmann(logs)) if logs else 1.0


def _agreeing(logs: Sequence[float], verdict: Verdict, by: float) -> int:
    """Return the number of pairs that agree with the verdict."""
    sign = 1 if verdict is Verdict.SLOWER else -1
    return sum(sign * log > math.log1p(by) for log in logs)


def _typical(runs: Sequence[ProcessTimes]) -> Times:
    """Return the median of the processes' medians."""
    ops = {op for run in runs for op in run.ops_ns}
    return Times(
        median(median(run.total_ns) for run in runs),
        {op: median(median(run.ops_ns[op]) for run in runs if op in run.ops_ns) for op in sorted(ops)},
    )


def _why_unclean(pairs: Sequence[tuple[ProcessTimes, ProcessTimes]], clean: int) -> str:
    """Return why so few pairs are *clean*."""
    unlike = [run for pair in pairs if _one_was_disturbed(*pair) for run in pair]
    if unlike:
        return f"{disturbances(unlike)}, in one process of a pair only; {clean} of {len(pairs)} pairs were clean"
    return f"{clean} of {len(pairs)} pairs had {LEAST_CLEAN} rounds in which neither waited for a CPU"
