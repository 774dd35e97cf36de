"""How much slower is slower, and how often it has to be seen: every tuned number of the rules of time.

Each says what it was tuned on. `benchmarks/gate_quality.py` shows what they let pass and what they catch.
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
    work: float = WORK_TOLERANCE
    """Of the bytes and FLOPs of an op, and of all."""

    def verdict(self, base_ns: float, now_ns: float) -> Verdict:
        """Judge the time of a whole window."""
        return beyond(base_ns, now_ns, self.tolerance, self.floor_ns)

    def op_verdict(self, op: str, base_ns: float, now_ns: float, whole_ns: float) -> Verdict:
        """Judge the time of *op* in a window of *whole_ns*."""
        return beyond(base_ns, now_ns, self.of(op), max(self.op_floor_ns, self.op_share * whole_ns))

    def excuse(self, op: str, base: Times, now: Times, between: tuple[float, float] | None = None) -> str:
        """Return in words why a change of *op* passes though it is beyond its tolerance; empty where it is not.

        One that lies *between* bounds so wide apart that they leave it open whether it is beyond is "unclear".
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
        """Return these with the ``tolerance``, ``op_tolerance``, ``work_tolerance`` and ``floor`` that are *given*.

        A wider tolerance of the whole is one of each op, too. *what* names a key in the error, a UsageError.
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


STORED = Tolerances(tolerance=0.13, floor_ns=2_000, op_tolerance=0.25, op_floor_ns=5_000, op_share=0.05)
"""Against a stored baseline. On 7 workloads in 4 conditions 1 of 11,200 comparisons of unchanged tests was called
slower; +25 % was caught in 100 %, 96 % where the baseline was recorded under load. With an `op_share` of 2 %
1.1 % of unchanged tests were called slower in one condition, with 4 % none; with 8 % an op of +50 % was caught in 90 %,
with 5 % in 99.6 to 100 %. Below 10 % no stored baseline holds: +10 % was seen in 0 to 40 % of the cases."""
PAIRS = Tolerances(tolerance=0.06, floor_ns=2_000, op_tolerance=0.15, op_floor_ns=5_000, op_share=0.02)
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


def is_vague(between: tuple[float, float], tolerance: float) -> bool:
    """Tell whether an interval is too wide for one number to stand for it: wider than twice the *tolerance*."""
    return between[1] - between[0] > 2 * tolerance


def judged(base: Times, now: Times, tolerances: Tolerances, processes: int) -> TimingVerdict:
    """Judge the time of the whole and of each op by *tolerances*."""
    total = tolerances.verdict(base.total_ns, now.total_ns)
    ops = {
        op: verdict
        for op, ns in now.ops_ns.items()
        if op in base.ops_ns
        and (verdict := tolerances.op_verdict(op, base.ops_ns[op], ns, base.total_ns)) is not Verdict.OK
    }
    return TimingVerdict(worst(total, ops), "", base, now, processes, True, total, ops)


def beyond(base_ns: float, now_ns: float, tolerance: float, floor_ns: float) -> Verdict:
    """Return whether a time changed by more than both limits."""
    if now_ns > base_ns * (1 + tolerance) and now_ns - base_ns > floor_ns:
        return Verdict.SLOWER
    if base_ns > now_ns * (1 + tolerance) and base_ns - now_ns > floor_ns:
        return Verdict.FASTER
    return Verdict.OK
