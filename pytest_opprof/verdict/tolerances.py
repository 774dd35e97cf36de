"""Every tuned number of the rules for times: how much slower is slower, and how often it must be seen.

Each says how it was tuned. `benchmarks/gate_quality.py` shows what they let pass and what they catch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..units import format_ns, format_share, parse_duration, parse_share
from .quantities import WORK_TOLERANCE
from .verdicts import Times, TimingVerdict, Verdict, worst


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The allowed change of a time. A change counts if it exceeds both the relative and the absolute limit."""

    tolerance: float
    """Of the whole window; relative: 0.13 is 13 %."""
    floor_ns: int
    op_tolerance: float
    """Of a single op."""
    op_floor_ns: int
    op_share: float
    """A change of an op below this share of the whole window's time is noise of the window."""
    of_op: Mapping[str, float] = field(default_factory=dict)
    """Ops with a tolerance of their own instead of `op_tolerance`."""
    work: float = WORK_TOLERANCE
    """Of the bytes and FLOPs of an op, and of all ops."""
    is_of_many: bool = False
    """Whether the test is one of many without a mark, where a helper that all call makes a few calls more in each."""

    @property
    def in_rounds(self) -> Tolerances:
        """The tolerances for a test that no mark asks to judge by its time."""
        return replace(self, tolerance=max(self.tolerance, IN_ROUNDS))

    def is_small(self, base: int, now: int) -> bool:
        """Return True if a change of calls of Python functions passes in a test of many: 1,000 take 0.1 ms."""
        least, most = sorted((base, now))
        return self.is_of_many and (most - least < _CALLS_OF_MANY or most <= _GROWTH_OF_MANY * least)

    def verdict(self, base_ns: float, now_ns: float) -> Verdict:
        """Judge the time of a whole window."""
        return beyond(base_ns, now_ns, self.tolerance, self.floor_ns)

    def op_verdict(self, op: str, base_ns: float, now_ns: float, whole_ns: float) -> Verdict:
        """Judge the time of *op* in a window of *whole_ns*."""
        return beyond(base_ns, now_ns, self.of(op), max(self.op_floor_ns, self.op_share * whole_ns))

    def excuse(self, op: str, base: Times, now: Times, between: tuple[float, float] | None = None) -> str:
        """Return in words why a change of *op* beyond its tolerance passes; empty if it is within it.

        A change is "unclear" if the interval *between* is so wide that the true change may be within the tolerance.
        """
        if op not in base.ops_ns or op not in now.ops_ns:
            return ""
        before, after = base.ops_ns[op], now.ops_ns[op]
        if beyond(before, after, self.of(op), 0) is Verdict.OK:
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

    def with_given(self, given: Mapping[str, Any], what: Callable[[str], str]) -> Tolerances:
        """Return the tolerances with ``tolerance``, ``op_tolerance``, ``work_tolerance`` and ``floor`` as *given*.

        A wider tolerance of the whole widens each op's, too. *what* names a key in the UsageError.
        """
        tolerances = self
        if given.get("tolerance") is not None:
            tolerance = parse_share(given["tolerance"], what("tolerance"))
            tolerances = replace(tolerances, tolerance=tolerance, op_tolerance=max(tolerance, tolerances.op_tolerance))
        if given.get("floor") is not None:
            tolerances = replace(tolerances, floor_ns=parse_duration(given["floor"], what("floor")))
        if given.get("work_tolerance") is not None:
            tolerances = replace(tolerances, work=parse_share(given["work_tolerance"], what("work_tolerance")))
        match given.get("op_tolerance"):
            case None:
                return tolerances
            case Mapping() as by_op:
                shares = {op: parse_share(share, f"{what('op_tolerance')} of {op!r}") for op, share in by_op.items()}
                return replace(tolerances, of_op={**tolerances.of_op, **shares})
            case share:
                return replace(tolerances, op_tolerance=parse_share(share, what("op_tolerance")), of_op={})


_CALLS_OF_MANY, _GROWTH_OF_MANY = 1_000, 1.5
# Against a stored baseline. On 7 workloads in 4 conditions 1 of 11,200 comparisons of unchanged tests was called
# slower; +25 % was detected in 100 %, in 96 % if the baseline was recorded under load. With an `op_share` of 2 % 1.1 %
# of unchanged tests were called slower in one condition, with 4 % none; with 8 % an op of +50 % was detected in 90 %,
# with 5 % in 99.6 to 100 %. A stored baseline cannot detect less than 10 %: +10 % was detected in 0 to 40 % of the
# cases.
STORED = Tolerances(tolerance=0.13, floor_ns=2_000, op_tolerance=0.25, op_floor_ns=5_000, op_share=0.05)
# In pairs: 1 false alarm in 21,000 comparisons (3 at 5.5 %), +10 % detected in 99.3 to 100 %.
PAIRS = Tolerances(tolerance=0.06, floor_ns=2_000, op_tolerance=0.15, op_floor_ns=5_000, op_share=0.02)
# In five pairs, of a test that no mark asks to judge by its time. With 30 rounds none of 2,100 unchanged tests was
# called slower, +10 % detected in 86 to 90 % and +25 % in 99 to 100 % (`benchmarks/gate_quality.py`). With the first 10
# rounds of the same short bodies, which still warm up, up to 2 % were called slower.
IN_ROUNDS = 0.08
# After a pair the test passes unless all pairs so far find this share of it: most unchanged tests pass after the first.
MAY_BE = (0.4, 0.6, 0.6, 0.75)
# The smallest tolerance that a stored baseline supports.
LEAST_STORED = 0.10
# With 5 rounds, up to 3.6 % of unchanged tests were called slower; with 10 up to 1.1 %, with 30 up to 0.4 %.
LEAST_ROUNDS = 10
# A baseline is recorded in more processes, up to as many again, until the three fastest differ by no more. Baselines
# recorded under load detected +25 % in 97 %, with 5 processes in 80 to 95 %; in quiet 6 are enough.
STEADY = 0.03
# A process passes if it is slower than the baseline's second-best by no more than this share of the tolerances, 9.75 %
# of 13 %. The fastest of five may be so by luck; comparing with it left 1 % of unchanged tests without a verdict.
# Compared with the middle one, as before, loaded baselines detected +25 % in 77 to 92 %; with the second in 87 to 95 %.
TYPICAL = 0.75
# A round is clean unless it waited for a CPU for 1 % of its time, or the core was shared before or after it. A process
# counts if half of its rounds are clean: with 5 of 30, one unchanged test was called slower in 6 % of its runs while
# other processes used both of two cores, with 15 in none.
CLEAN_SHARE, CLEAN_ROUNDS = 0.01, 0.5
# The number of rounds of a pair that must be without a wait.
LEAST_CLEAN = 5
# A change below this share of the tolerance, 4.2 % of 6 %, is settled at the first look at pairs.
SUSPICIOUS = 0.7
# This share of the pairs must see a change of the window, each of 2 % or more. 8 of 9 pairs would cost 2.4 points of
# the power at +10 %, and save nothing.
AGREE, AGREE_BY = 7 / 9, 0.02
# The same for an op: 7 of 9 by 2 % called some op of 0.036 % of unchanged tests slower, 8 of 9 by 5 % of 0.007 %.
OPS_AGREE, OPS_AGREE_BY = 8 / 9, 0.05


def is_vague(between: tuple[float, float], tolerance: float) -> bool:
    """Return True if an interval is too wide for one number to represent it: wider than twice the *tolerance*."""
    return between[1] - between[0] > 2 * tolerance


def judged(base: Times, now: Times, tolerances: Tolerances) -> TimingVerdict:
    """Judge the time of the whole and of each op by *tolerances*."""
    total = tolerances.verdict(base.total_ns, now.total_ns)
    ops = {
        op: verdict
        for op, ns in now.ops_ns.items()
        if op in base.ops_ns
        and (verdict := tolerances.op_verdict(op, base.ops_ns[op], ns, base.total_ns)) is not Verdict.OK
    }
    return TimingVerdict(worst(total, ops), base=base, now=now, total=total, ops=ops)


def beyond(base_ns: float, now_ns: float, tolerance: float, floor_ns: float) -> Verdict:
    """Return SLOWER or FASTER if a time changed by more than both limits."""
    if now_ns > base_ns * (1 + tolerance) and now_ns - base_ns > floor_ns:
        return Verdict.SLOWER
    if base_ns > now_ns * (1 + tolerance) and base_ns - now_ns > floor_ns:
        return Verdict.FASTER
    return Verdict.OK
