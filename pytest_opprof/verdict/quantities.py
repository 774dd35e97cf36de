"""What is counted or weighed of a window and of its ops: a `Quantity` each. A new one is an entry of the table.

Budgets, baselines, comparison, tables, JSON and pages read the entry: none of them names a quantity. What it is read
from is a property of `OpProfile` or `OpStats`. Imports no NumPy: the command line reads the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .. import units
from .verdicts import Status, Verdict

if TYPE_CHECKING:
    from ..profile.op_profile import OpProfile, OpStats

PerRound = Sequence[int] | None
"""A number for each round; None where the source does not know."""
Needs = Literal["", "memory", "leaks", "python"]
WORK_TOLERANCE, WORK_FLOOR = 0.01, 1024
"""Bytes and FLOPs have no noise: shapes may be padded a little differently. A smaller change is none."""


@dataclass(frozen=True, slots=True)
class Unit:
    """How people write an amount: the dimensions of `units` that a limit may have, and how it is shown."""

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
    """How a quantity of the window is compared with a baseline: a change beyond both margins has a verdict."""

    more: str
    """How a table says that there is more of it: ``more memory``."""
    less: str = ""
    """The same of less; empty where less is no news."""
    status: Status
    """How a run counts the tests that fail for it."""
    tolerance: float = 0.0
    """Of the baseline: 0.05 is 5 %."""
    floor: int = 0
    follows: bool = False
    """Whether it follows from ops: beside an op that does more it is not told. One cause is told once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Something that is counted or weighed."""

    name: str
    """In budgets, baselines and JSON."""
    text: str
    """In findings and tables."""
    whole: str = ""
    """The same of the window as a whole, where that is another."""
    unit: Unit = COUNT
    of_window: Callable[[OpProfile], PerRound] | None = None
    of_op: Callable[[OpStats], PerRound] | None = None
    """Of a window it is then the sum over its ops."""
    gate: Gate | None = None
    """None: nothing but a budget limits it."""
    in_budgets: bool = True
    is_noisy: bool = False
    """Whether a limit holds for the fastest round; of what has no noise it holds for the worst."""
    needs: Needs = ""
    """What has to be recorded or looked for that is not by itself."""
    lines_of: str = ""
    """The quantity whose lines tell where it comes from; empty where no line is known."""
    unknown: Callable[[OpProfile], str] | None = None
    """Why a window does not know it, where there is more to say than that nothing measures it."""

    def of_whole(self, profile: OpProfile) -> PerRound:
        """Return what each round of a window has of it."""
        if self.of_window is not None:
            return self.of_window(profile)
        return self.of_op(profile.total) if self.of_op is not None else None

    @property
    def called(self) -> str:
        """What it is called where it is of the window."""
        return self.whole or self.text


def _held_each_round(profile: OpProfile) -> PerRound:
    """Return what each of several rounds keeps but the first, which fills caches: that grows with every call."""
    held = profile.held_memory
    return (min(held[1:]),) * len(held) if held and len(held) > 1 else None


def _of_the_host(profile: OpProfile) -> str:
    return "what was recorded is the memory of the host, which host_memory limits" if profile.host_memory else ""


def _of_the_device(profile: OpProfile) -> str:
    return "peak_memory limits it where no device beside the CPU does the work" if profile.peak_memory else ""


def _of_programs(profile: OpProfile) -> str:
    known = profile.counted("temporary_memory") is not None
    return "JAX compiled a program before opprof counted, or loaded it from a file" if known else ""


_MORE_MEMORY = Gate(more="more memory", less="less memory", status="more memory", tolerance=0.05, follows=True)
_MORE_BYTES = Gate(
    more="more memory", less="less memory", status="more memory", tolerance=0.05, floor=1 << 16, follows=True
)
"""In 30 processes PyTorch's were the same to the byte; allocators of other versions round sizes in other ways."""
MORE_WORK = Gate(more="more work", less="less work", status="more work", tolerance=WORK_TOLERANCE, floor=WORK_FLOOR)

PYTHON_CALLS, LOOP_ITERATIONS, COLLECTIONS = "python_calls", "loop_iterations", "collections"
OF_PYTHON = (PYTHON_CALLS, LOOP_ITERATIONS, COLLECTIONS)
"""What a round of its own counts; it depends on the versions of Python and of the packages called."""
_MORE_CALLS = Gate(more="more calls", less="fewer calls", status="more calls", tolerance=0.01, floor=10)
"""In 1,939 tests of pandas, scikit-learn and SciPy calls of Python functions are equal in three processes; on a change
of other code they move by a few calls, a cache that holds more or less."""

_TABLE = (
    Quantity(
        name="calls",
        text="calls",
        whole="calls of all ops",
        of_op=lambda op: op.calls,
        gate=Gate(more="more calls", less="fewer calls", status="more calls"),
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
        gate=Gate(more="more launches", less="fewer launches", status="more work", follows=True),
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
        text="rounds of loops",
        unit=THOUSANDS,
        of_window=lambda window: window.counted(LOOP_ITERATIONS),
        gate=_MORE_CALLS,
        needs="python",
    ),
    Quantity(
        name=COLLECTIONS,
        text="full garbage collections",
        of_window=lambda window: window.counted(COLLECTIONS),
        gate=Gate(more="more calls", less="fewer calls", status="more calls"),
        needs="python",
    ),
    Quantity(
        name="recompilations",
        text="functions compiled again",
        of_window=lambda window: window.counted("recompilations"),
        # Fewer say little: a function that an earlier test compiled is not compiled here.
        gate=Gate(more="compiled again", status="more work"),
    ),
    Quantity(
        name="program_ops",
        text="ops traced for the programs that ran",
        unit=THOUSANDS,
        of_window=lambda window: window.counted("program_ops"),
        # A few more are optimised away and take no time: XLA compiles 20 of them in 30 to 80 ms.
        gate=Gate(more="more traced", less="less traced", status="more work", tolerance=0.1, floor=20),
        lines_of="program_ops",
        unknown=_of_programs,
    ),
    Quantity(
        name="grad_nodes",
        text="ops recorded for backward",
        of_window=lambda window: window.counted("grad_nodes"),
        gate=Gate(more="more recorded for backward", less="less recorded for backward", status="more memory"),
        lines_of="grad_nodes",
    ),
    Quantity(
        name="peak_memory",
        text="peak memory",
        unit=SIZE,
        of_window=lambda window: window.peak_memory,
        gate=_MORE_BYTES,
        needs="memory",
        lines_of="allocations",
        unknown=_of_the_host,
    ),
    Quantity(
        name="temporary_memory",
        text="temporary memory of a program",
        unit=SIZE,
        of_window=lambda window: window.counted("temporary_memory"),
        # Told beside ops that do more, too: it does not follow from them, XLA decides what it keeps.
        gate=Gate(more="more memory", less="less memory", status="more memory", tolerance=0.05, floor=1 << 16),
    ),
    Quantity(
        name="host_memory",
        text="peak memory of the host",
        unit=SIZE,
        of_window=lambda window: window.host_memory,
        gate=_MORE_BYTES,
        unknown=_of_the_device,
    ),
    Quantity(
        name="held_memory",
        text="memory held at the end",
        unit=BYTES,
        of_window=lambda window: window.held_memory,
        gate=_MORE_BYTES,
        needs="memory",
        lines_of="allocations",
    ),
    Quantity(
        name="held_each_round",
        text="memory held by each round",
        unit=BYTES,
        of_window=_held_each_round,
        # However little it is: it grows with every call.
        gate=Gate(more="more memory", status="more memory", tolerance=0.05, follows=True),
        in_budgets=False,  # held_memory limits it
        needs="memory",
        lines_of="allocations",
    ),
    Quantity(
        name="allocations",
        text="allocations",
        of_window=lambda window: window.allocations,
        gate=_MORE_MEMORY,
        needs="memory",
        lines_of="allocations",
    ),
    Quantity(
        name="left_behind",
        text="left behind by each call",
        of_window=lambda window: window.counted("left_behind"),
        gate=Gate(more="leaves more behind", less="leaves less behind", status="more memory"),
        needs="leaks",
    ),
    Quantity(
        name="leaked_memory",
        text="memory left behind by each call",
        unit=BYTES,
        of_window=lambda window: window.counted("leaked_memory"),
        gate=Gate(
            more="leaves more behind", less="leaves less behind", status="more memory", tolerance=0.05, floor=1 << 16
        ),
        needs="leaks",
    ),
    Quantity(name="device_time", text="device time", unit=TIME, of_op=lambda op: op.device_ns, is_noisy=True),
    Quantity(name="host_time", text="host time", unit=TIME, of_window=lambda window: window.wall_ns, is_noisy=True),
)
"""In the order in which findings are told."""
SHARE_OF_TIME = Quantity(name="share", text="share of device time", unit=SHARE, is_noisy=True)
"""Of an op alone: its device time over that of the window."""
QUANTITIES: Mapping[str, Quantity] = {each.name: each for each in _TABLE}
FACTS: Mapping[str, Quantity] = {name: each for name, each in QUANTITIES.items() if each.gate}
"""Those of a window as a whole that baselines keep and judge."""
SUMS = tuple(name for name, each in FACTS.items() if each.of_op)
"""The facts that are sums over all ops."""
WITH_LINES = tuple(name for name, each in QUANTITIES.items() if each.lines_of == name)
"""Those of which the program's lines are known that asked for them."""


CPU_TIME, WALL_TIME = "cpu_time", "wall_time"
COARSE: Mapping[str, str] = {CPU_TIME: "CPU time", WALL_TIME: "wall time"}
"""Times of the window as a whole, which have a rule of their own (`verdict.coarse`)."""


def is_fact(op: str) -> bool:
    """Tell whether a row is of the window as a whole, not of an op."""
    return op in FACTS or op in COARSE


def named(op: str) -> str:
    """Return what an op is called in a table; a fact of the window is none, and in parentheses."""
    if op in COARSE:
        return f"({COARSE[op]})"
    return f"({FACTS[op].called})" if op in FACTS else op


def is_told_as_a_whole(op: str, verdict: Verdict) -> bool:
    """Tell whether a row is of a sum over all ops that follows from them: `as_a_whole` has all of these."""
    return op in SUMS and not verdict.is_change


def as_a_whole(changed: Mapping[str, str]) -> str:
    """Return what all ops together did before and do now, given what *changed*: ``as a whole: 40 -> 56 calls``.

    >>> as_a_whole({"bytes": "1.3 MiB -> 0.9 MiB", "calls": "40 -> 56"})
    'as a whole: 40 -> 56 calls, 1.3 MiB -> 0.9 MiB moved'
    """
    nouns = {"calls": " calls", "bytes": " moved"}
    told = [f"{changed[name]}{nouns.get(name, '')}" for name in SUMS if name in changed]
    return f"as a whole: {', '.join(told)}" if told else ""


def word(op: str, verdict: Verdict) -> str:
    """Return how a table says what became of an op, or of a fact of the window: ``more calls``, ``more memory``."""
    gate = FACTS[op].gate if op in FACTS else None
    plain: str = verdict.value
    return {Verdict.ABOVE: gate.more, Verdict.BELOW: gate.less}.get(verdict, plain) if gate else plain


def words(*, worse: bool) -> frozenset[str]:
    """Return all words for what is worse, or better, than in a baseline."""
    gates = [each.gate for each in FACTS.values() if each.gate]
    plain = {each.value for each in Verdict if (each.is_regression if worse else each.is_improvement)}
    return frozenset(plain | {gate.more if worse else gate.less for gate in gates} - {""})
