"""The table of quantities of a window and its ops, one `Quantity` each. A new quantity is a new entry.

Budgets, baselines, comparison, tables, JSON and pages read the entry; none of them names a quantity. The value comes
from a property of `OpProfile` or `OpStats`. Imports no NumPy, since the command line reads the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from .. import units
from ..ops.vocabulary import COMPILE
from .verdicts import Status, Verdict

if TYPE_CHECKING:
    from ..profile.op_profile import OpProfile, OpStats
    from ..profile.range import Range

# A number for each round; None if the source does not know.
PerRound = Sequence[int] | None
Needs = Literal["", "memory", "host memory", "leaks", "python"]
# Bytes and FLOPs have no noise, but versions pad shapes a little differently. A smaller change does not count.
WORK_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Unit:
    """The spelling of an amount: the dimensions of `units` that a limit may have, and how to show it."""

    dimensions: tuple[str, ...]
    write: Callable[[float, int], str]


COUNT = Unit(("count",), lambda count, digits: f"{count:.0f}")
THOUSANDS = Unit(("count",), lambda count, digits: f"{count:,.0f}")
TIME = Unit(("time",), units.format_ns)
SHARE = Unit(("share",), units.format_share)
BYTES = Unit(("bytes", "count"), units.format_bytes)
SIZE = Unit(("bytes",), units.format_bytes)
FLOPS = Unit(("flops", "count"), units.format_flops)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The comparison of a window's quantity with a baseline: a change beyond both margins gets a verdict."""

    more: str
    """A table's word for an increase: ``more memory``."""
    less: str = ""
    """The word for a decrease; empty if a decrease is not worth reporting."""
    status: Status
    """The status of a test that fails for it."""
    tolerance: float = 0.0
    """Relative to the baseline: 0.05 is 5 %."""
    floor: int = 0
    follows: Literal["", "calls", "bytes"] = ""
    """The amount of ops that explains it: beside ops that do as much more it is not reported, so that one cause is
    reported once."""

    def direction(self, base: Range, now: Range, tolerance: float | None = None) -> int:
        """Return 1 if *now* is more than *base* beyond both margins, -1 if it is less, else 0."""
        margin = max((self.tolerance if tolerance is None else tolerance) * base.highest, self.floor)
        return (now.most > base.highest + margin) - (now.most < base.lowest - margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity that is counted or measured."""

    name: str
    """In budgets, baselines and JSON."""
    text: str
    """In findings and tables."""
    whole: str = ""
    """The name for the window as a whole, if it differs."""
    unit: Unit = COUNT
    of_window: Callable[[OpProfile], PerRound] | None = None
    of_op: Callable[[OpStats], PerRound] | None = None
    """For a window, the sum over its ops is then used."""
    gate: Gate | None = None
    """None: only a budget limits it."""
    in_budgets: bool = True
    is_noisy: bool = False
    """Whether a limit applies to the fastest round; for an exact quantity it applies to the worst."""
    needs: Needs = ""
    """The extra recording or search that it requires."""
    lines_of: str = ""
    """The quantity whose source lines explain this one; empty if no line is known."""
    unknown: Callable[[OpProfile], str] | None = None
    """Returns why a window does not know it, if there is a better reason than "nothing measures it"."""

    def of_whole(self, profile: OpProfile) -> PerRound:
        """Return the quantity of each round of a window."""
        if self.of_window is not None:
            return self.of_window(profile)
        return self.of_op(profile.total) if self.of_op is not None else None

    @property
    def called(self) -> str:
        """Its name for a window."""
        return self.whole or self.text

    def of(self, op: str | None) -> str:
        """Return the quantity of *op*, or of the window, in words: ``bytes moved by Cast``."""
        return f"{self.text} {'by' if self.name == 'bytes' else 'of'} {op}" if op else self.text


def _held_each_round(profile: OpProfile) -> PerRound:
    """Return the memory that each round but the first keeps: growth with every call. The first round fills caches."""
    held = profile.held_memory
    return (min(held[1:]),) * len(held) if held and len(held) > 1 else None


def _of_the_host(profile: OpProfile) -> str:
    return "the recorded memory is the host's; limit it with host_memory" if profile.host_memory else ""


def _of_the_device(profile: OpProfile) -> str:
    if said := next((remark.text for _, remark in profile.remarks if remark.about == "host memory"), ""):
        return said
    of_ops = any(profile.peak_memory or ())
    if profile.environment.device == "cpu":
        known = "live, it is known of whole bodies of Python and NumPy"
        return f"{known}; peak_memory limits the memory of other ops" if of_ops else known
    return "peak_memory limits the memory of the device, and the host's is not recorded" if of_ops else ""


def _of_programs(profile: OpProfile) -> str:
    known = profile.counted("temporary_memory") is not None
    return "JAX compiled a program before opprof counted, or loaded it from a file" if known else ""


# In 30 processes PyTorch's peak was the same to the byte; other versions' allocators round sizes differently.
_MORE_BYTES = Gate(
    more="more memory", less="less memory", status=Status.MORE_MEMORY, tolerance=0.05, floor=1 << 16, follows="bytes"
)
# Reported beside ops that do more, too: a reduction reads an array without allocating any. scikit-image's convex hull
# took 150 times its peak memory beside one call of ReduceAll, whose input is large.
_HIGHER_PEAK = replace(_MORE_BYTES, follows="")
MORE_WORK = Gate(more="more work", less="less work", status=Status.MORE_WORK, tolerance=WORK_TOLERANCE, floor=1024)

LEFT_BEHIND, LEFT_OPEN, LEAKED_MEMORY, KEPT_MEMORY = "left_behind", "left_open", "leaked_memory", "kept_memory"
# The things that a call may leave behind beside objects, by field of `machine.left.InUse`.
OPEN_THINGS = {"threads": "thread", "files": "open file", "processes": "process"}
# The prefix of a type in a budget.
OF_TYPE = f"{LEFT_BEHIND}:"
# Less memory that a call keeps fails no test.
NOTABLE_KEPT = 1 << 16
PYTHON_CALLS, LOOP_ITERATIONS, COLLECTIONS = "python_calls", "loop_iterations", "collections"
RECOMPILATIONS, HOST_MEMORY, PEAK_MEMORY = "recompilations", "host_memory", "peak_memory"
# Of functions compiled again JAX and MindSpore count a fact, torch.compile an op.
COMPILATIONS = (RECOMPILATIONS, COMPILE)
# Quantities that a separate round counts; they depend on the versions of Python and of the packages called.
OF_PYTHON = (PYTHON_CALLS, LOOP_ITERATIONS, COLLECTIONS)
# Quantities that the lines which hold the memory of Python and NumPy explain.
PEAKS = frozenset([HOST_MEMORY, PEAK_MEMORY])
# In 1,939 tests of pandas, scikit-learn and SciPy, calls of Python functions are equal in three processes. An unrelated
# code change moves them by a few calls, such as a cache that holds one entry more.
_MORE_CALLS = Gate(more="more calls", less="fewer calls", status=Status.MORE_CALLS, tolerance=0.01, floor=10)

# In the order in which findings are reported.
_TABLE = (
    Quantity(
        name="calls",
        text="calls",
        whole="calls of all ops",
        of_op=lambda op: op.calls,
        gate=Gate(more="more calls", less="fewer calls", status=Status.MORE_CALLS),
    ),
    Quantity(
        name="bytes",
        text="bytes moved",
        whole="bytes by all ops",
        unit=BYTES,
        of_op=lambda op: op.bytes,
        gate=MORE_WORK,
    ),
    Quantity(
        name="flops", text="FLOPs", whole="FLOPs of all ops", unit=FLOPS, of_op=lambda op: op.flops, gate=MORE_WORK
    ),
    Quantity(
        name="launches",
        text="launches",
        of_window=lambda window: window.launches,
        gate=Gate(more="more launches", less="fewer launches", status=Status.MORE_WORK, follows="calls"),
    ),
    Quantity(
        name=PYTHON_CALLS,
        text="calls of Python functions",
        unit=THOUSANDS,
        of_window=lambda window: window.counted(PYTHON_CALLS),
        gate=_MORE_CALLS,
        needs="python",
    ),
    Quantity(
        name=LOOP_ITERATIONS,
        text="loop iterations",
        unit=THOUSANDS,
        of_window=lambda window: window.counted(LOOP_ITERATIONS),
        gate=replace(_MORE_CALLS, more="more iterations", less="fewer iterations", status=Status.MORE_WORK),
        needs="python",
    ),
    Quantity(
        name=COLLECTIONS,
        text="full garbage collections",
        of_window=lambda window: window.counted(COLLECTIONS),
        gate=Gate(more="more collections", less="fewer collections", status=Status.MORE_CALLS),
        needs="python",
    ),
    Quantity(
        name=RECOMPILATIONS,
        text="functions compiled again",
        of_window=lambda window: window.counted("recompilations"),
        # A decrease means little: a function that an earlier test compiled is not compiled here.
        gate=Gate(more="compiled again", status=Status.MORE_WORK),
    ),
    Quantity(
        name="program_ops",
        text="ops traced for the programs that ran",
        unit=THOUSANDS,
        of_window=lambda window: window.counted("program_ops"),
        # XLA optimises a few extra ops away; 20 of them compile in 30 to 80 ms.
        gate=Gate(more="more traced", less="less traced", status=Status.MORE_WORK, tolerance=0.1, floor=20),
        lines_of="program_ops",
        unknown=_of_programs,
    ),
    Quantity(
        name="grad_nodes",
        text="ops recorded for backward",
        of_window=lambda window: window.counted("grad_nodes"),
        gate=Gate(more="more recorded for backward", less="less recorded for backward", status=Status.MORE_MEMORY),
        lines_of="grad_nodes",
    ),
    Quantity(
        name=PEAK_MEMORY,
        text="peak memory",
        unit=SIZE,
        of_window=lambda window: window.peak_memory,
        gate=_HIGHER_PEAK,
        needs="memory",
        lines_of=PEAK_MEMORY,
        unknown=_of_the_host,
    ),
    Quantity(
        name="temporary_memory",
        text="temporary memory of a program",
        unit=SIZE,
        of_window=lambda window: window.counted("temporary_memory"),
        # Reported beside ops that do more, too: XLA decides which buffers it keeps, so memory does not follow from the
        # ops.
        gate=Gate(more="more memory", less="less memory", status=Status.MORE_MEMORY, tolerance=0.05, floor=1 << 16),
    ),
    Quantity(
        name=HOST_MEMORY,
        text="peak memory of the host",
        unit=SIZE,
        of_window=lambda window: window.host_memory,
        gate=_HIGHER_PEAK,
        needs="host memory",
        unknown=_of_the_device,
    ),
    Quantity(
        name=KEPT_MEMORY,
        text="memory of the host kept after a call",
        unit=SIZE,
        of_window=lambda window: window.counted(KEPT_MEMORY),
        # Less of it means little: a leak of random size is less in every second run.
        gate=Gate(more="leaves more behind", status=Status.LEAVES_MORE, tolerance=0.05, floor=NOTABLE_KEPT),
        needs="host memory",
        unknown=_of_the_device,
    ),
    Quantity(
        name="held_memory",
        text="memory held at the end",
        unit=BYTES,
        of_window=lambda window: window.held_memory,
        gate=_MORE_BYTES,
        needs="memory",
        lines_of="held_memory",
    ),
    Quantity(
        name="held_each_round",
        text="memory held by each round",
        unit=BYTES,
        of_window=_held_each_round,
        # No floor: the leak grows with every call.
        gate=Gate(more="more memory", status=Status.MORE_MEMORY, tolerance=0.05, follows="bytes"),
        in_budgets=False,  # held_memory limits it
        needs="memory",
        lines_of="held_memory",
    ),
    Quantity(
        name="allocations",
        text="allocations",
        of_window=lambda window: window.allocations,
        # A refactoring moves them by a few: at 5 % alone, 46 tests of librosa failed for changes such as 10 -> 11.
        gate=Gate(
            more="more allocations",
            less="fewer allocations",
            status=Status.MORE_MEMORY,
            tolerance=0.05,
            floor=10,
            follows="calls",
        ),
        needs="memory",
        lines_of="allocations",
    ),
    Quantity(
        name=LEFT_BEHIND,
        text="left behind by each call",
        of_window=lambda window: window.counted(LEFT_BEHIND),
        gate=Gate(more="leaves more behind", less="leaves less behind", status=Status.LEAVES_MORE),
        needs="leaks",
    ),
    Quantity(
        name=LEFT_OPEN,
        text="threads, open files and processes left behind by each call",
        of_window=lambda window: window.counted(LEFT_OPEN),
        # Of its own, since the number of all objects varies: cheroot left 85 behind, and 85 to 105 with a thread more.
        gate=Gate(more="leaves more behind", less="leaves less behind", status=Status.LEAVES_MORE),
        needs="leaks",
    ),
    Quantity(
        name=LEAKED_MEMORY,
        text="memory left behind by each call",
        unit=BYTES,
        of_window=lambda window: window.counted(LEAKED_MEMORY),
        gate=Gate(
            more="leaves more behind",
            less="leaves less behind",
            status=Status.LEAVES_MORE,
            tolerance=0.05,
            floor=1 << 16,
        ),
        needs="leaks",
    ),
    Quantity(name="device_time", text="device time", unit=TIME, of_op=lambda op: op.device_ns, is_noisy=True),
    Quantity(name="host_time", text="host time", unit=TIME, of_window=lambda window: window.wall_ns, is_noisy=True),
)
# Of an op only: its device time over that of the window.
SHARE_OF_TIME = Quantity(name="share", text="share of device time", unit=SHARE, is_noisy=True)
QUANTITIES: Mapping[str, Quantity] = {each.name: each for each in _TABLE}
# The quantities of a window as a whole that baselines keep and judge.
FACTS: Mapping[str, Quantity] = {name: each for name, each in QUANTITIES.items() if each.gate}
# The facts that are sums over all ops.
SUMS = tuple(name for name, each in FACTS.items() if each.of_op)
# The quantities with known source lines.
WITH_LINES = tuple(name for name, each in QUANTITIES.items() if each.lines_of == name)


CPU_TIME, WALL_TIME = "cpu_time", "wall_time"
# Times of the window as a whole, which have a rule of their own (`verdict.coarse`).
COARSE: Mapping[str, str] = {CPU_TIME: "CPU time", WALL_TIME: "wall time"}


def is_fact(op: str) -> bool:
    """Return True if a row is about the window as a whole, not about an op."""
    return op in FACTS or op in COARSE


def with_lines(name: str) -> str:
    """Return the op whose lines explain a finding about *name*, which may be a fact of the window."""
    return (FACTS[name].lines_of if name in FACTS else "") or name


def called(op: str) -> str:
    """Return an op's name in a sentence, or that of a fact of the window."""
    return FACTS[op].called if op in FACTS else op


def named(op: str) -> str:
    """Return an op's name in a table; a quantity of the window stands in parentheses."""
    if op in COARSE:
        return f"({COARSE[op]})"
    return f"({QUANTITIES[op].called})" if op in QUANTITIES else op


def as_a_whole(changed: Mapping[str, str], does: str = "") -> str:
    """Return one line with the *changed* sums over all ops: ``as a whole: 40 -> 56 calls``; *does*: more words.

    >>> as_a_whole({"bytes": "1.3 MiB -> 0.9 MiB", "calls": "40 -> 56"})
    'as a whole: 40 -> 56 calls, 1.3 MiB -> 0.9 MiB moved'
    """
    nouns = {"calls": " calls", "bytes": " moved"}
    told = [f"{changed[name]}{nouns.get(name, '')}" for name in SUMS if name in changed]
    return f"as a whole{does}: {', '.join(told)}" if told else ""


def word(op: str, verdict: Verdict) -> str:
    """Return a table's word for the verdict on an op or a fact: ``more calls``, ``more memory``."""
    gate = FACTS[op].gate if op in FACTS else None
    plain: str = verdict.value
    return {Verdict.ABOVE: gate.more, Verdict.BELOW: gate.less}.get(verdict, plain) if gate else plain


def words(*, worse: bool) -> frozenset[str]:
    """Return all words for a change for the worse, or for the better."""
    gates = [each.gate for each in FACTS.values() if each.gate]
    plain = {each.value for each in Verdict if (each.is_regression if worse else each.is_improvement)}
    return frozenset(plain | {gate.more if worse else gate.less for gate in gates} - {""})
