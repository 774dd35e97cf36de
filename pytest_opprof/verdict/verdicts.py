"""The vocabulary of verdicts: `Verdict`, the `Times` that it judges, and both as a `TimingVerdict`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typing_extensions import Self

Sense = Literal["worse", "better", "unknown", "neither"]


class Status(Enum):
    """The result of a test, the worst first.

    Each has its word, its words in the summary line and its sense.
    """

    OVER_BUDGET = "over budget", "over budget", "worse"
    MORE_CALLS = "more calls", "with more calls", "worse"
    WIDER_DTYPES = "wider dtypes", "with wider dtypes", "worse"
    MORE_WORK = "more work", "with more work", "worse"
    MORE_MEMORY = "more memory", "with more memory", "worse"
    LEAVES_MORE = "leaves more behind", "leaving more behind", "worse"
    RANKS_DIFFER = "ranks differ", "with ranks that differ", "worse"
    SLOWER = "slower", "slower", "worse"
    NOT_MEASURED = "not measured", "not measured", "worse"
    NO_BASELINE = "no baseline", "without baseline", "unknown"
    TOO_NOISY = "too noisy", "too noisy to judge", "unknown"
    NOT_COMPARED = "not compared", "with times not compared", "neither"
    IMPROVED = "improved", "improved", "better"
    OK = "ok", "ok", "neither"

    _value_: str
    words: str
    sense: Sense

    def __new__(cls, word: str, words: str, sense: Sense) -> Self:
        """Make the member; its value is its word."""
        member = object.__new__(cls)
        member._value_, member.words, member.sense = word, words, sense
        return member


class Verdict(Enum):
    """A change of an op, or of a window, since its baseline, the worst first.

    Each has its word, its sense and the status that it gives a test.
    """

    NEW = "new", "new", "worse", Status.MORE_CALLS
    MORE = "more calls", "with more calls", "worse", Status.MORE_CALLS
    WIDER = "wider dtypes", "in wider dtypes", "worse", Status.WIDER_DTYPES
    OTHER_LAYOUT = "other layout", "in another layout", "worse", Status.MORE_WORK
    MORE_WORK = "more work", "with more work", "worse", Status.MORE_WORK
    ABOVE = "more", "more", "worse", Status.MORE_WORK
    """A quantity of the window; its gate has the word and the status."""
    SLOWER = "slower", "slower", "worse", Status.SLOWER
    UNSEEN = "not seen", "not seen", "worse", Status.NOT_MEASURED
    NOISY = "no verdict, too noisy", "no verdict, too noisy", "unknown", Status.TOO_NOISY
    GONE = "gone", "gone", "better", Status.IMPROVED
    FEWER = "fewer calls", "with fewer calls", "better", Status.IMPROVED
    NARROWER = "narrower dtypes", "in narrower dtypes", "better", Status.IMPROVED
    LESS_WORK = "less work", "with less work", "better", Status.IMPROVED
    BELOW = "less", "less", "better", Status.IMPROVED
    OTHER_DTYPES = "other dtypes", "in other dtypes, none wider", "better", Status.OK
    """Changed, but not worse: the baseline should follow."""
    FASTER = "faster", "faster", "better", Status.IMPROVED
    INCOMPARABLE = "not compared", "not compared", "neither", Status.OK
    NO_BASELINE = "no baseline", "no baseline", "neither", Status.NO_BASELINE
    OK = "ok", "ok", "neither", Status.OK

    _value_: str
    words: str
    """How a count of ops says it: ``2 ops are worse (1 with more calls, 1 slower)``."""
    sense: Sense
    status: Status

    def __new__(cls, word: str, words: str, sense: Sense, status: Status) -> Self:
        """Make the member; its value is its word, as in JSON."""
        member = object.__new__(cls)
        member._value_, member.words, member.sense, member.status = word, words, sense, status
        return member

    @property
    def is_regression(self) -> bool:
        """Whether it fails a test."""
        return self.sense == "worse"

    @property
    def is_improvement(self) -> bool:
        """Whether the baseline should follow."""
        return self.sense == "better"

    @property
    def is_change(self) -> bool:
        """Whether it is for better or worse."""
        return self.sense in ("worse", "better")

    @property
    def does_more(self) -> bool:
        """Whether it fails a test, and is known without times."""
        return self.is_regression and self not in (Verdict.SLOWER, Verdict.UNSEEN)

    @property
    def is_of_more_calls(self) -> bool:
        """Whether an op has more calls; a new one had none before."""
        return self.status is Status.MORE_CALLS

    @property
    def is_of_calls(self) -> bool:
        """Whether it is about the number of calls of an op, not about its dtypes, work or time."""
        return self.is_of_more_calls or self in (Verdict.FEWER, Verdict.GONE)


# The rank of each verdict, the worst first.
SEVERITY: Mapping[Verdict, int] = {verdict: place for place, verdict in enumerate(Verdict)}
# The words of an op with more calls, as results have them.
OF_MORE_CALLS = frozenset(verdict.value for verdict in Verdict if verdict.is_of_more_calls)


@dataclass(frozen=True, slots=True)
class Times:
    """The representative of several rounds: of the whole window, and of each op, ns."""

    total_ns: float
    ops_ns: Mapping[str, float]

    def ns(self, op: str) -> int | None:
        """Return the time of *op*, None if it has none."""
        return round(self.ops_ns[op]) if op in self.ops_ns else None


@dataclass(frozen=True, slots=True)
class TimingVerdict:
    """The judgement of a window's times."""

    verdict: Verdict
    why: str = ""
    """The reason for no verdict, or for no comparison."""
    base: Times | None = None
    now: Times | None = None
    processes: int = 0
    """The number of processes of the new code that were compared, or of pairs."""
    settled: bool = True
    """Whether more processes would change nothing."""
    total: Verdict = Verdict.OK
    ops: Mapping[str, Verdict] = field(default_factory=dict)
    """The ops that changed beyond their limits."""
    in_pairs: bool = False
    clean: int = 0
    """The number of processes with clean rounds; 0 if this was not checked."""
    intervals: Mapping[str | None, tuple[float, float]] = field(default_factory=dict)
    """In pairs: the 95 % interval of the change of each op, and of the window (None); 0.1 is 10 %."""
    agreeing: Mapping[str | None, int] = field(default_factory=dict)
    """The number of pairs that see the change of each op in `ops`, and of the window (None)."""

    @property
    def is_unjudged(self) -> bool:
        """Whether its times have no verdict."""
        return self.verdict in (Verdict.NOISY, Verdict.INCOMPARABLE)

    @property
    def change(self) -> float | None:
        """The slowdown of the window: 0.1 is 10 %."""
        return self.now.total_ns / self.base.total_ns - 1 if self.base and self.now and self.base.total_ns else None


def worst(total: Verdict, ops: Mapping[str, Verdict]) -> Verdict:
    """Return the worse of the verdicts on the total and on the ops."""
    found = {total, *ops.values()}
    return next((verdict for verdict in (Verdict.SLOWER, Verdict.FASTER) if verdict in found), Verdict.OK)


def undecided(found: TimingVerdict, why: str) -> TimingVerdict:
    """Return *found* with the verdict "too noisy"."""
    return replace(found, verdict=Verdict.NOISY, why=why, settled=True, total=Verdict.OK, ops={})
