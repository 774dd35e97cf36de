"""What the samples say: `Verdict`, the `Times` that it is of, and both as a `TimingVerdict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum


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
    WIDER = "wider dtypes"
    NARROWER = "narrower dtypes"
    OTHER_LAYOUT = "other layout"
    OTHER_DTYPES = "other dtypes"
    MORE_WORK = "more work"
    LESS_WORK = "less work"
    ABOVE = "more"
    """Of a quantity of the window, which has a word of its own for it (`quantities.word`)."""
    BELOW = "less"
    INCOMPARABLE = "not compared"
    NO_BASELINE = "no baseline"
    UNSEEN = "not seen"

    @property
    def is_regression(self) -> bool:
        """Whether it fails a test."""
        return self is Verdict.SLOWER or self in DOES_MORE

    @property
    def is_improvement(self) -> bool:
        """Whether the baseline should follow: it is better, or other without being worse."""
        return self in (
            Verdict.FASTER,
            Verdict.FEWER,
            Verdict.GONE,
            Verdict.NARROWER,
            Verdict.OTHER_DTYPES,
            Verdict.LESS_WORK,
            Verdict.BELOW,
        )

    @property
    def is_change(self) -> bool:
        """Whether something became of it, for worse or better."""
        return self.is_regression or self.is_improvement


DOES_MORE = (
    Verdict.NEW,
    Verdict.MORE,
    Verdict.WIDER,
    Verdict.OTHER_LAYOUT,
    Verdict.MORE_WORK,
    Verdict.ABOVE,
)
"""What is known without measuring times, and fails a test; the worst first."""


@dataclass(frozen=True, slots=True)
class Times:
    """What represents several rounds: of the whole window, and of each op, ns."""

    total_ns: float
    ops_ns: Mapping[str, float]

    def ns(self, op: str) -> int | None:
        """Return the time of *op*, None if it has none."""
        return round(self.ops_ns[op]) if op in self.ops_ns else None


@dataclass(frozen=True, slots=True)
class TimingVerdict:
    """What the samples say of a window."""

    verdict: Verdict
    why: str = ""
    """Why there is no verdict, or nothing was compared."""
    base: Times | None = None
    now: Times | None = None
    processes: int = 0
    """How many processes of the new code were compared, or pairs of both."""
    settled: bool = True
    """Whether more processes would change nothing."""
    total: Verdict = Verdict.OK
    ops: Mapping[str, Verdict] = field(default_factory=dict)
    """The ops that changed beyond their limits."""
    in_pairs: bool = False
    clean: int = 0
    """How many of the processes had clean rounds; 0 where nobody looked."""
    intervals: Mapping[str | None, tuple[float, float]] = field(default_factory=dict)
    """In pairs: the 95 % interval of the change of each op, and of the window (None); 0.1 is 10 %."""
    agreeing: Mapping[str | None, int] = field(default_factory=dict)
    """How many of the pairs see the change of each op in `ops`, and of the window (None)."""

    @property
    def change(self) -> float | None:
        """How much slower the window is: 0.1 is 10 %."""
        return self.now.total_ns / self.base.total_ns - 1 if self.base and self.now and self.base.total_ns else None


def worst(total: Verdict, ops: Mapping[str, Verdict]) -> Verdict:
    """Return the worse of what became of the whole and of the ops."""
    found = {total, *ops.values()}
    return next((verdict for verdict in (Verdict.SLOWER, Verdict.FASTER) if verdict in found), Verdict.OK)


def undecided(found: TimingVerdict, why: str) -> TimingVerdict:
    """Return *found* without a verdict."""
    return replace(found, verdict=Verdict.NOISY, why=why, settled=True, total=Verdict.OK, ops={})
