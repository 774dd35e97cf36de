"""Judge the coarse time of every window: CPU time decides, from one cold round.

On 2,154 tests of kornia and scikit-learn, recorded on a quiet machine and beside four busy loops on two cores, CPU time
in one thread raised 2 alarms in 678,480 comparisons, both in a test that does different work in some processes. With
two threads 6 % were alarms: BLAS threads spin while they wait for a core, and 1 ms becomes 47. Wall time raised 0.9 to
19 % at x2. `benchmarks/coarse_quality.py` reproduces this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...units import format_factor, format_ns, format_share
from ..quantities import COARSE, CPU_TIME, WALL_TIME
from ..verdicts import Verdict
from ..work import Number, Work

# Minimum and maximum, ns.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a time: a factor on the baseline, and a minimum difference."""

    factor: float
    floor_ns: int
    shared: float
    """The factor while others use the machine, or a fixed piece of work takes clearly longer than at best."""
    elsewhere: float
    """The factor for a baseline from another machine or Python."""

    def of(self, base: Span, *, elsewhere: bool, shared: bool = False) -> float:
        """Return the largest time that passes; *elsewhere*: the baseline is from another machine or Python.

        *shared*: others use the machine. A test that does different work in some processes is judged by its slowest
        process.
        """
        reference = base[1] if self.is_split(base) else base[0]
        factor = self.elsewhere if elsewhere else self.shared if shared else self.factor
        return max(reference * factor, reference + self.floor_ns)

    def is_split(self, base: Span) -> bool:
        """Return True if the processes of a baseline differ by more than a regression must."""
        return base[1] > max(base[0] * self.factor, base[0] + self.floor_ns)


# 1.7 detects x2 of 20 ms in 99.92 % of 41,802 comparisons in one thread. A factor of 1.8 detects 99.7 %, a factor of 2
# only half, since x2 is then the limit itself. False alarms are 2 in 678,480 with any factor from 1.5 to 2, in one test
# that has two modes; they would be 26 if the spread of the baseline's processes were ignored.
# The cores did not share their units and their memory as other machines' do. On two hardware threads of one core,
# beside one to four busy processes, the fastest of three rounds of streaming NumPy exceeded 1.7 times a baseline from a
# quiet moment in 13 to 46 %, rounds of plain Python in up to 2 %; at 2.5 times both did in at most 0.4 %.
# With a floor of 5 ms an unchanged test of GPyTorch failed in each run: 8.3 ms after others, 16 to 21 ms alone.
CPU = Limit(1.7, 15_000_000, shared=2.5, elsewhere=5.0)
# Shorter times count if they grew further: with 5 ms h2's quadratic buffer passed, 1.6 ms that became 6.2. No alarm
# more in the same 678,480 comparisons, and none with 1 ms either. A first run of a test alone may import for 2 ms; its
# second run in the first of the processes that confirm refutes that.
STEEP = Limit(3.0, 2_000_000, shared=4.0, elsewhere=math.inf)
# Bottle's regular expression took 0.2 ms, then 2.1. No alarm more with x3 and 1 ms, or x10 and 0.3 ms, either.
STEEPEST = Limit(6.0, 1_000_000, shared=8.0, elsewhere=math.inf)
# Of windows in which only calls of Python functions changed, to fewer: other code that calls less may take longer
# (wcwidth's lost fast path: 0.66 ms became 1.98 ms for half of the calls), so a shorter time counts, too.
DOUBTED = Limit(1.7, 500_000, shared=2.5, elsewhere=math.inf)
# Against another revision: from here on a test is judged in rounds, on both sides by turns. Of many tests fewer are: of
# 939 unchanged ones of networkx 39 took x1.2 in their first run.
SEEMING = Limit(1.2, 300_000, shared=1.2, elsewhere=math.inf)
SEEMING_OF_FEW = Limit(1.05, 100_000, shared=1.05, elsewhere=math.inf)
# The fastest of ten later runs of a body while nothing is recorded, against the slowest process of the baseline. Of
# seven workloads of 0.3 to 3.5 ms in one thread, the fastest of three processes took at most 1.1 times as long in quiet
# and 1.3 beside a busy core; a copy of memory up to 2.1 beside processes that copy, too, which `shared` allows for.
REPEATED = Limit(1.4, 200_000, shared=2.5, elsewhere=math.inf)
# Wall time minus the time that threads waited for a CPU. At x2 and 20 ms raw wall time raised 0.9 to 19 % under load,
# at x3 and 50 ms 0.01 to 7 %, so even this is judged on a quiet machine only.
WALL = Limit(3.0, 50_000_000, shared=3.0, elsewhere=7.5)
# On a busy machine, too: nothing makes 14 ms a second of waiting in every run of four processes (watchdog).
LONG_WAIT = Limit(50.0, 500_000_000, shared=50.0, elsewhere=math.inf)
# A second of waiting takes 1 to 13 ms of CPU time in a virtual machine.
_OF_WAITING = 0.05
# If ops take less than this share of a round, its time is between the ops.
_BETWEEN = 0.5


@dataclass(frozen=True, slots=True)
class Coarse:
    """The time of a round: minimum and maximum over some processes."""

    cpu_ns: Span
    """CPU time of all threads of the process, and of the processes that began and ended meanwhile."""
    wall_ns: Span
    """Wall time minus the time that threads waited for a CPU."""
    processes: int = 1
    threaded: bool = False
    """Whether other threads than the test's own, or processes, used CPU time; part of it may be spinning."""
    yardstick_ns: int = 0
    """The time of a fixed piece of work before a round, on average, in a baseline at best; 0: unknown."""
    first: Coarse | None = None
    """In a baseline, the time of the first run in a process, if a later run takes clearly less: that first run imports,
    compiles or fills a cache."""
    unrecorded: Coarse | None = None
    """In a baseline, the time while no op is recorded, if that takes clearly less."""
    repeated_ns: Span | None = None
    """CPU time of the fastest of several later runs in one thread, in which nothing is recorded; None if there were
    none."""

    @classmethod
    def of(
        cls,
        cpu_ns: Sequence[int],
        thread_ns: Sequence[int],
        wall_ns: Sequence[int],
        yardstick_ns: Sequence[int] = (),
    ) -> Coarse | None:
        """Return the time of one process: the mean of its rounds; *thread_ns* is that of the test's own thread.

        The mean, because a window that opens several times may do different work each time. None without rounds.
        """
        if not cpu_ns or len(cpu_ns) != len(wall_ns):
            return None
        cpu, thread, wall = (rounded(sum(each) / len(cpu_ns)) for each in (cpu_ns, thread_ns, wall_ns))
        wall = max(wall, thread)  # waiting of several threads can exceed the test's own work
        is_threaded = cpu - thread > max(_THREADED * cpu, _THREADED_NS)
        yardstick = round(sum(yardstick_ns) / len(yardstick_ns)) if yardstick_ns else 0
        return cls((cpu, cpu), (wall, wall), threaded=is_threaded, yardstick_ns=yardstick)

    @property
    def at_first(self) -> Coarse:
        """The time of the first run in a process."""
        return self.first or self

    def beside(self, first: Coarse) -> Coarse:
        """Return the time of a later run, with that of the *first* if this one takes clearly less."""
        return replace(self, first=first) if slower(self, first, wall=False) else self

    def with_repeats(self, cpu_ns: int | None) -> Coarse:
        """Return the time with that of repeated runs, if known."""
        return self if cpu_ns is None else replace(self, repeated_ns=(cpu_ns, cpu_ns))

    @property
    def kept_repeats(self) -> Span | None:
        """The time of repeated runs as a baseline keeps it, to two significant digits."""
        if self.repeated_ns is None:
            return None
        least, most = (int(float(f"{ns:.2g}")) for ns in self.repeated_ns)
        return least, most

    @property
    def may_be_recording(self) -> bool:
        """Whether recording ops may take a notable part of it."""
        return self.cpu_ns[0] > _CLEAR_NS

    def is_clearly_above(self, unrecorded: Coarse) -> bool:
        """Return True if its CPU time is clearly above that of a run in which no op was recorded.

        4,000 numbers of NumPy as arguments of `range` took 2 ms, and 20 ms while calls were observed (jraph).
        """
        return not is_about(self.cpu_ns[0], unrecorded.cpu_ns[0])

    @property
    def split(self) -> str:
        """A remark if the baseline's processes differ; empty if they agree."""
        if not CPU.is_split(self.cpu_ns):
            return ""
        least, most = (format_ns(ns, 2) for ns in self.cpu_ns)
        return f"{COARSE[CPU_TIME]} differs from process to process: {least} to {most}"


_THREADED, _THREADED_NS = 0.1, 2_000_000


def _shown(ns: int) -> str:
    return format_ns(ns) if ns else f"below {format_ns(_STEP_NS)}"


def _span(least_ns: int, most_ns: int) -> str:
    return _shown(least_ns) + (f" to {_shown(most_ns)}" if most_ns > least_ns * _CLEAR else "")


def rounded(ns: float) -> int:
    """Round a time to two significant digits and 0.1 ms, so that a reviewed file changes only if a time did.

    >>> rounded(3_934_567_890), rounded(12_345_678), rounded(240_000)
    (3900000000, 12000000, 200000)
    """
    if ns < 10 * _STEP_NS:
        return round(max(ns, 0) / _STEP_NS) * _STEP_NS
    return int(float(f"{ns:.2g}"))


_STEP_NS = 100_000


def together(seen: Sequence[Coarse]) -> Coarse:
    """Join the times of several processes into one range."""
    repeated = [each.repeated_ns for each in seen if each.repeated_ns]
    return Coarse(
        _joined([each.cpu_ns for each in seen]),
        _joined([each.wall_ns for each in seen]),
        sum(each.processes for each in seen),
        any(each.threaded for each in seen),
        repeated_ns=_joined(repeated) if repeated else None,
        yardstick_ns=min((each.yardstick_ns for each in seen if each.yardstick_ns), default=0),
    )


def _joined(spans: Sequence[Span]) -> Span:
    return min(least for least, _ in spans), max(most for _, most in spans)


@dataclass(frozen=True, slots=True)
class Slower:
    """A time that exceeds its limit."""

    name: str
    """`CPU_TIME` or `WALL_TIME`."""
    base_ns: int
    now_ns: int
    most_ns: int = 0
    """The time of the base's slowest process, if this is no longer than that."""

    @property
    def factor(self) -> float:
        """How many times as long as the base; infinite if that took no time."""
        return self.now_ns / self.base_ns if self.base_ns else math.inf

    @property
    def text(self) -> str:
        """The change, as a table shows it."""
        return f"{_shown(self.base_ns)} -> {_shown(self.now_ns)}"

    def number(self, *more: str) -> Number:
        """Return the change as a finding shows it, with *more* text."""
        times = self.now_ns / self.base_ns if self.base_ns else 0
        shown = f", {format_factor(times)}" if times else ""
        now = f"{COARSE[self.name]}: {_shown(self.now_ns)}"
        return Number(self.name, now, _span(self.base_ns, self.most_ns), "; ".join([shown, *filter(None, more)]))

    def line(self, then: str = "baseline") -> str:
        """Return the change in a line; *then* names the base."""
        return self.number().told(then)

    def work(self, *more: str) -> Work:
        """Return the change as `Work`, with *more* text."""
        return Work(Verdict.SLOWER, self.text, self.number(*more))


def slower(
    base: Coarse, now: Coarse, *, wall: bool, elsewhere: bool = False, shared: bool = False, doubted: bool = False
) -> Slower | None:
    """Return the time that exceeds its limit in the fastest of all processes, CPU time first; None if none does.

    *wall*: whether to judge wall time, which needs a quiet machine; *elsewhere*: *base* is from another machine;
    *shared*: others used the machine *now*; *doubted*: also by the limit `DOUBTED`.
    """
    found = [(CPU_TIME, base.cpu_ns, now.cpu_ns), *([(WALL_TIME, base.wall_ns, now.wall_ns)] if wall else [])]
    if _only_waits(base, now, elsewhere):
        del found[0]
    for name, before, after in found:
        # A baseline that ran in several threads took less wall time for the same work.
        explained = name == WALL_TIME and after[0] - now.cpu_ns[0] <= WALL.floor_ns
        here = [] if elsewhere else [STEEP, STEEPEST, *([DOUBTED] if doubted else [])]
        limits = [WALL] if name == WALL_TIME else [CPU, *here]
        most = min(each.of(before, elsewhere=elsewhere, shared=shared) for each in limits)
        if after[0] > most and not explained:
            return Slower(name, before[0], after[0])
    return None


def _only_waits(base: Coarse, now: Coarse, elsewhere: bool) -> bool:
    """Return True if wall time exceeds its limit, and the more CPU time is what so much waiting takes."""
    waits_ns, works_ns = now.wall_ns[0] - base.wall_ns[0], now.cpu_ns[0] - base.cpu_ns[0]
    return now.wall_ns[0] > WALL.of(base.wall_ns, elsewhere=elsewhere) and works_ns < _OF_WAITING * waits_ns


def waits_long(base: Coarse, now: Coarse, *, elsewhere: bool = False) -> bool:
    """Return True if the wall time is so much longer that no other program explains it."""
    return now.wall_ns[0] - now.cpu_ns[0] > LONG_WAIT.of(base.wall_ns, elsewhere=elsewhere)


def repeats_limit_ns(base: Coarse, *, shared: bool = False) -> float:
    """Return the largest CPU time of repeated runs that passes; infinite if the *base* has none."""
    slowest = base.repeated_ns[1] if base.repeated_ns else 0
    return REPEATED.of((slowest, slowest), elsewhere=False, shared=shared) if slowest else math.inf


def slower_repeated(base: Coarse, now: Coarse, *, shared: bool = False) -> Slower | None:
    """Return the CPU time of repeated runs that exceeds its limit in the fastest of all processes; None if none does.

    *shared*: others used the machine *now*.
    """
    if not (base.repeated_ns and now.repeated_ns) or now.repeated_ns[0] <= repeats_limit_ns(base, shared=shared):
        return None
    return Slower(CPU_TIME, base.repeated_ns[1], now.repeated_ns[0])


def slower_despite_tracer(base: Coarse, host_ns: Sequence[int]) -> Slower | None:
    """Return the wall time of the rounds *host_ns* if a tracer alone does not explain it; None if it may.

    Coverage or a debugger takes CPU time for each line, so the limit is that of another machine.
    """
    now = rounded(sum(host_ns) / len(host_ns))
    return Slower(WALL_TIME, base.wall_ns[0], now) if now > CPU.of(base.wall_ns, elsewhere=True) else None


def as_before(base: Coarse, now: Coarse, then: str) -> str:
    """Return a remark that a window with extra calls takes no extra CPU time; empty below the shortest time that tells.

    Also empty if the base took clearly longer: its first run imported or compiled, as this one did not. *then* names
    the base.
    """
    if base.cpu_ns[0] < _LEAST_TOLD_NS or slower(now, base, wall=False):
        return ""
    (least, most), took = base.cpu_ns, now.cpu_ns[0]
    times = f", {format_factor(took / least)}" if most < _TOLD * least <= took else ""
    return f"{COARSE[CPU_TIME]}: {_shown(took)} ({then}: {_span(least, most)}){times}, within its limit"


_LEAST_TOLD_NS = 5_000_000
# A lower factor is not shown, and none on times that vary by as much.
_TOLD = 1.1


def differs(base: Coarse, now: Coarse) -> bool:
    """Return True if *now* differs from the baseline, for better or worse, so that an update records it.

    A first run alone may hide a later one that became slower, so it differs from a baseline that has both.
    """
    if (now.first and not base.first) or slower(base, now, wall=True) or slower(now, base, wall=True):
        return True
    if (now.repeated_ns and not base.repeated_ns) or slower_repeated(base, now) or slower_repeated(now, base):
        return True
    firsts = base.at_first, now.at_first
    return bool(slower(*firsts, wall=False) or slower(*firsts[::-1], wall=False))


def is_split_only(base: Coarse, now: Coarse, elsewhere: bool = False) -> bool:
    """Return True if CPU time passes only because the baseline's processes differ."""
    least = (base.cpu_ns[0], base.cpu_ns[0])
    over_least = now.cpu_ns[0] > CPU.of(least, elsewhere=elsewhere)
    return over_least and slower(base, now, wall=False, elsewhere=elsewhere) is None


def base_for(times: Mapping[str, Coarse], here: str) -> tuple[Coarse, bool] | None:
    """Return the baseline time to compare with *here*, and whether it is from another machine (then the slowest).

    *times* are by machine. None if there are none.
    """
    if here in times:
        return times[here], False
    if not times:
        return None
    return max(times.values(), key=lambda each: each.cpu_ns[0]), True


def where(in_ops_ns: int | None, wall_ns: int) -> str:
    """Return whether a round's time is in its ops or between them; empty if the times of ops are unknown."""
    if in_ops_ns is None or wall_ns <= 0:
        return ""
    share = in_ops_ns / wall_ns
    return "the time is between ops" if share < _BETWEEN else f"{format_share(min(share, 1.0), 2)} of it is in ops"


def recording(calls: int, cpu_ns: int) -> str:
    """Return a remark that recording *calls* of ops takes a notable part of a CPU time; empty if not, or if unknown."""
    takes_part = 0 < _RECORDED * cpu_ns <= calls * _RECORDED_NS
    return f"recording {calls:,} calls of ops takes part of it" if takes_part else ""


def is_about(ns: int, other_ns: int) -> bool:
    """Return True if a time is not clearly above the *other*."""
    return ns <= max(other_ns * _CLEAR, other_ns + _CLEAR_NS)


# One call takes 2 us or more (docs/costs.md). 96,000 scalars of NumPy took 4 ms, and 170 ms while they were recorded:
# x28 was said to be x3.4.
_RECORDED_NS, _RECORDED = 2_000, 0.25


def clearly_more(base: Coarse, now: Coarse, *, in_doubt: bool = False) -> Slower | None:
    """Return the CPU time of a first run if it is clearly above the baseline's; None if the difference may be noise.

    Weaker than a limit: it fails nothing by itself, but contradicts or confirms a change of calls. *in_doubt*: return
    it unless it is clearly below the baseline's: GitPython's regular expressions make 0.71 times the calls, and take
    x1.25.
    """
    # In one thread 0.2 to 0.8 % of 374,160 cold runs of unchanged tests of kornia and scikit-learn, quiet and under
    # load, are beyond this against three other processes; in two threads 4 to 12 % are, since threads of BLAS spin.
    before, after = base.at_first, now.at_first
    (least, most), took = before.cpu_ns, after.cpu_ns[0]
    is_certain = took > most and not (before.threaded or after.threaded)
    is_more = took > _CLEARLY_LESS * least if in_doubt else is_certain and not is_about(took, least)
    return Slower(CPU_TIME, least, took, 0 if took > most else most) if is_more else None


_CLEAR, _CLEAR_NS = 1.25, 2_000_000
_CLEARLY_LESS = 0.9
