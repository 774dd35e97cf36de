"""The time of every window, coarsely: CPU time decides, of one cold round and on a busy machine too.

On 2,154 tests of kornia and scikit-learn, recorded quiet and beside four busy loops on two cores, CPU time in one
thread raised 2 alarms in 678,480 comparisons, both of a test that does other work in some processes. In two threads
6 % were alarms: threads of BLAS spin for a core that they do not get, and 1 ms becomes 47. Wall time raised 0.9 to
19 % at x2. `benchmarks/coarse_quality.py` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..units import format_ns, format_share
from .quantities import COARSE, CPU_TIME, WALL_TIME
from .verdicts import Verdict
from .work import Work

Span = tuple[int, int]
"""The least and the most, ns."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a time has to exceed: so many times the baseline's, and by so much."""

    factor: float
    floor_ns: int
    elsewhere: float
    """The factor where the baseline is of another machine or Python."""

    def of(self, base: Span, elsewhere: bool = False) -> float:
        """Return the most that is no regression; *elsewhere*: the baseline is of another machine or Python.

        A test that does other work in some processes is judged by the most of it.
        """
        reference = base[1] if self.is_split(base) else base[0]
        return max(reference * (self.elsewhere if elsewhere else self.factor), reference + self.floor_ns)

    def is_split(self, base: Span) -> bool:
        """Tell whether the processes of a baseline differ by more than a regression has to."""
        return base[1] > max(base[0] * self.factor, base[0] + self.floor_ns)


CPU = Limit(1.7, 15_000_000, elsewhere=5.0)
"""So that x2 of 20 ms is seen: in 99.92 % of 41,802 comparisons in one thread. A factor of 1.8 gives 99.7 %, one of 2
half, as x2 is then the limit itself. False alarms are 2 in 678,480 with any factor from 1.5 to 2, in one test that has
two modes, and 26 if the spread of the baseline's processes did not count. A core that another hardware thread shares
takes up to 1.6 times as long."""
WALL = Limit(3.0, 50_000_000, elsewhere=7.5)
"""Wall time less what threads waited for a CPU. At x2 and 20 ms raw wall time raised 0.9 to 19 % under load, at x3 and
50 ms 0.01 to 7 %: so only where the machine is quiet, too."""
PROCESSES = 3
"""How many fresh processes have to exceed the limit: the least of three against the least of three."""
_BETWEEN = 0.5
"""A time of which ops take less than this share is between the ops."""
_NAMES: Mapping[str, Limit] = {CPU_TIME: CPU, WALL_TIME: WALL}


@dataclass(frozen=True, slots=True)
class Coarse:
    """What a round of a window takes, from least to most of some processes."""

    cpu_ns: Span
    """CPU time of all threads of the process."""
    wall_ns: Span
    """Wall time less what threads waited for a CPU."""
    processes: int = 1
    threaded: bool = False
    """Whether threads beside the test's own took CPU time: some of it may be waiting."""

    @classmethod
    def of(cls, cpu_ns: Sequence[int], thread_ns: Sequence[int], wall_ns: Sequence[int]) -> Coarse | None:
        """Return what one process took, the mean of its rounds; *thread_ns* is CPU time of the test's own thread.

        The mean: a window that is opened several times may do other work each time. None where nothing was timed.
        """
        if not cpu_ns or len(cpu_ns) != len(wall_ns):
            return None
        cpu, thread, wall = (rounded(sum(each) / len(cpu_ns)) for each in (cpu_ns, thread_ns, wall_ns))
        wall = max(wall, thread)  # what several threads waited for is more than the test did
        return cls((cpu, cpu), (wall, wall), threaded=cpu - thread > max(_THREADED * cpu, _THREADED_NS))

    @property
    def split(self) -> str:
        """Say that processes do not take the same; empty where they do."""
        if not CPU.is_split(self.cpu_ns):
            return ""
        least, most = (format_ns(ns, 2) for ns in self.cpu_ns)
        return f"{COARSE[CPU_TIME]} differs from process to process: {least} to {most}"


_THREADED, _THREADED_NS = 0.1, 2_000_000


def _shown(ns: int) -> str:
    return format_ns(ns) if ns else f"below {format_ns(_STEP_NS)}"


def rounded(ns: float) -> int:
    """Return a time with two significant digits, to 0.1 ms: a file that is reviewed changes only where a time did.

    >>> rounded(3_934_567_890), rounded(12_345_678), rounded(240_000)
    (3900000000, 12000000, 200000)
    """
    if ns < 10 * _STEP_NS:
        return round(max(ns, 0) / _STEP_NS) * _STEP_NS
    return int(float(f"{ns:.2g}"))


_STEP_NS = 100_000


def together(seen: Sequence[Coarse]) -> Coarse:
    """Return what several processes took as one range."""
    cpu, wall = [each.cpu_ns for each in seen], [each.wall_ns for each in seen]
    return Coarse(
        (min(least for least, _ in cpu), max(most for _, most in cpu)),
        (min(least for least, _ in wall), max(most for _, most in wall)),
        sum(each.processes for each in seen),
        any(each.threaded for each in seen),
    )


@dataclass(frozen=True, slots=True)
class Slower:
    """A time that exceeds its limit."""

    name: str
    """`CPU_TIME` or `WALL_TIME`."""
    base_ns: int
    now_ns: int

    @property
    def text(self) -> str:
        """The change, as a table has it."""
        return f"{_shown(self.base_ns)} -> {_shown(self.now_ns)}"

    def line(self, then: str = "baseline") -> str:
        """Return the change, as a finding has it; *then* is what it calls the base."""
        times = self.now_ns / self.base_ns if self.base_ns else 0
        shown = f", x{times:.0f}" if times >= 100 else f", x{times:.3g}" if times else ""
        return f"{COARSE[self.name]}: {_shown(self.now_ns)} ({then}: {_shown(self.base_ns)}){shown}"

    def work(self, then: str, *more: str) -> Work:
        """Return what became of it, with *more* to say."""
        return Work(Verdict.SLOWER, self.text, "; ".join([self.line(then), *filter(None, more)]))


def slower(base: Coarse, now: Coarse, *, wall: bool, elsewhere: bool = False) -> Slower | None:
    """Return the time that exceeds its limit, by the least of all processes; CPU time first. None: no regression.

    *wall*: whether wall time says anything, as on a quiet machine; *elsewhere*: *base* is of another machine.
    """
    found = [(CPU_TIME, base.cpu_ns, now.cpu_ns), *([(WALL_TIME, base.wall_ns, now.wall_ns)] if wall else [])]
    for name, before, after in found:
        # A baseline in several threads took less wall time for the same work.
        explained = name == WALL_TIME and after[0] - now.cpu_ns[0] <= WALL.floor_ns
        if after[0] > _NAMES[name].of(before, elsewhere) and not explained:
            return Slower(name, before[0], after[0])
    return None


def as_before(base: Coarse, now: Coarse, then: str) -> str:
    """Say that a window which does more takes no more CPU time; empty where that is too little to tell.

    *then* is what a finding calls the base.
    """
    if base.cpu_ns[0] < _LEAST_TOLD_NS:
        return ""
    return f"{COARSE[CPU_TIME]}: {_shown(now.cpu_ns[0])} ({then}: {_shown(base.cpu_ns[0])}), within its limit"


_LEAST_TOLD_NS = 5_000_000


def differs(base: Coarse, now: Coarse) -> bool:
    """Tell whether *now* is no longer what the baseline says, for better or worse: an update records it."""
    return slower(base, now, wall=False) is not None or slower(now, base, wall=False) is not None


def is_split_only(base: Coarse, now: Coarse, elsewhere: bool = False) -> bool:
    """Tell whether CPU time passes only since processes of the baseline differ."""
    least = (base.cpu_ns[0], base.cpu_ns[0])
    return now.cpu_ns[0] > CPU.of(least, elsewhere) and slower(base, now, wall=False, elsewhere=elsewhere) is None


def base_for(times: Mapping[str, Coarse], here: str) -> tuple[Coarse, bool] | None:
    """Return what to compare with *here*, and whether it is of another machine: then the slowest of them.

    *times* are by machine. None: there is nothing to compare with.
    """
    if here in times:
        return times[here], False
    if not times:
        return None
    return max(times.values(), key=lambda each: each.cpu_ns[0]), True


def where(in_ops_ns: int | None, wall_ns: int) -> str:
    """Say whether the time of a round is in its ops or between them; empty where the times of ops are not known."""
    if in_ops_ns is None or wall_ns <= 0:
        return ""
    share = in_ops_ns / wall_ns
    return "the time is between ops" if share < _BETWEEN else f"{format_share(min(share, 1.0), 2)} of it is in ops"
