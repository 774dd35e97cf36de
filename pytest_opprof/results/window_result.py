"""What one window did, and what became of it: the numbers that travel, are written and are shown."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from ..profile.calls import CallRange, Range
from ..profile.environment_json import EnvironmentJson
from ..profile.kernels import KernelStats
from ..profile.op_profile import ALWAYS, OpProfile, OpStats
from ..profile.site_calls import SiteCalls, SourceLine
from ..profile.timings import ProcessTimes
from ..python_calls.counted import PythonCalls
from ..sites.places import Amount
from ..units import format_bytes, format_flops
from ..verdict.facts import (
    ALLOCATIONS,
    BYTES,
    CALLS,
    COLLECTIONS,
    FLOPS,
    GRAD_NODES,
    HELD_EACH_ROUND,
    HELD_MEMORY,
    HOST_MEMORY,
    LOOP_ITERATIONS,
    PEAK_MEMORY,
    PYTHON_CALLS,
    RECOMPILATIONS,
)
from ..verdict.verdicts import Verdict

BODY = "body"
"""The name of the window that is a test's whole body."""
Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
"""Checked in files alone (`WindowResult.misfits`): on its way from a worker a strange number must not end the run."""
PerRound = tuple[Count, ...]


class OpResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The numbers of an op, one a round; null where the backend does not know."""

    calls: PerRound
    device_ns: Annotated[PerRound | None, Meta(description="Self time on the device.")]
    bytes: Annotated[PerRound | None, Meta(description="Bytes read and written.")]
    flops: PerRound | None
    dtypes: Annotated[dict[str, PerRound], Meta(description="Calls by dtypes; empty where they are not known.")] = {}

    @classmethod
    def of(cls, stats: OpStats, dtypes: Mapping[str, PerRound] | None = None) -> OpResult:
        """Return *stats* without its name."""
        return cls(stats.calls, stats.device_ns, stats.bytes, stats.flops, dict(dtypes or {}))

    @property
    def calls_range(self) -> CallRange:
        """The least and the most of a round."""
        return CallRange(
            min(self.calls),
            max(self.calls),
            dtypes={dtypes: Range.of(calls) for dtypes, calls in self.dtypes.items()},
            bytes=Range.of(self.bytes) if self.bytes else None,
            flops=Range.of(self.flops) if self.flops else None,
        )


_Seen = tuple[Count, Count]


class Varies(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What of an op differed between the processes that measured it: the least and the most."""

    calls: _Seen | None = None
    bytes: _Seen | None = None
    flops: _Seen | None = None
    dtypes: Annotated[dict[str, _Seen], Meta(description="Calls by dtypes.")] = {}

    @classmethod
    def of(cls, calls: CallRange) -> Varies:
        """Return what varies of *calls*."""

        def seen(each: Range | None) -> _Seen | None:
            return (each.least, each.most) if each is not None and each.varies else None

        dtypes = {name: (each.least, each.most) for name, each in calls.dtypes.items() if each.varies}
        return cls(seen(calls), seen(calls.bytes), seen(calls.flops), dtypes)

    def applied(self, calls: CallRange) -> CallRange:
        """Return *calls* with what varies as ranges."""
        by_dtype = {name: Range(*seen, varies=True) for name, seen in self.dtypes.items()}
        return CallRange(
            *(self.calls or (calls.least, calls.most)),
            varies=self.calls is not None,
            dtypes={**calls.dtypes, **by_dtype},
            bytes=Range(*self.bytes, varies=True) if self.bytes else calls.bytes,
            flops=Range(*self.flops, varies=True) if self.flops else calls.flops,
        )


SitesByOp = dict[str, tuple[SiteCalls, ...]]
"""By op, or by its name in a budget: which lines asked for it."""


class WindowNumbers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a window did, in one process."""

    name: str
    environment: EnvironmentJson
    rounds: Annotated[int, Meta(extra_json_schema={"minimum": 1})]
    host_ns: Annotated[PerRound, Meta(description="Wall time.")]
    peak_memory_bytes: PerRound | None
    allocations: Annotated[PerRound | None, Meta(description="How often memory was allocated.")]
    busy_ns: Annotated[
        PerRound | None, Meta(description="How long devices were busy, where ops that overlap count once.")
    ]
    ops: Annotated[dict[str, OpResult], Meta(description="By op, the most expensive first.")]
    total: Annotated[OpResult, Meta(description="All ops together.")]
    kernels: Annotated[
        tuple[KernelStats, ...] | UnsetType,
        Meta(
            description="Kernels, copies and sets of devices, the most expensive first; absent where none ran or"
            " nothing tells."
        ),
    ] = UNSET
    communication_ns: Annotated[
        PerRound | None,
        Meta(description="How long collectives took, waiting for other ranks included: in no op's time."),
    ] = None
    held_memory_bytes: Annotated[PerRound | None, Meta(description="Allocated and not freed.")] = None
    host_memory_bytes: Annotated[
        PerRound | None, Meta(description="The most of the host's memory in use, where a device does the work.")
    ] = None
    grad_nodes: Annotated[PerRound | None, Meta(description="How many ops autograd recorded for a backward pass.")] = (
        None
    )
    recompilations: Annotated[
        PerRound | None, Meta(description="How many functions were compiled again that the test had compiled before.")
    ] = None
    python: Annotated[
        PythonCalls | None, Meta(description="Calls of Python functions in a round of its own; null if not asked for.")
    ] = None
    remarks: Annotated[tuple[str, ...], Meta(description="What the backend had to say.")] = ()
    sites: Annotated[
        SitesByOp,
        Meta(description="By op, or by its name in a budget, which lines asked for it; empty where nobody looked."),
    ] = {}

    @classmethod
    def of(
        cls, name: str, profile: OpProfile, sites: SitesByOp | None = None, python: PythonCalls | None = None
    ) -> WindowNumbers:
        """Return the numbers of *profile*, and the calls of Python functions."""
        return cls(
            name=str(name),
            environment=EnvironmentJson.of(profile.environment),
            rounds=profile.steps,
            host_ns=profile.host_ns,
            peak_memory_bytes=profile.peak_memory,
            allocations=profile.allocations,
            held_memory_bytes=profile.held_memory,
            host_memory_bytes=profile.host_memory,
            grad_nodes=profile.grad_nodes,
            recompilations=profile.recompilations,
            busy_ns=profile.busy_ns,
            communication_ns=profile.communication_ns,
            ops={stats.op: OpResult.of(stats, profile.calls_by_dtype.get(stats.op)) for stats in profile.ops},
            total=OpResult.of(profile.total),
            kernels=profile.kernels or UNSET,
            python=python,
            remarks=tuple(_of_rounds(profile)),
            sites=sites or {},
        )

    @property
    def stats(self) -> list[OpStats]:
        """The numbers of each op, with its name."""
        return [OpStats(op, each.calls, each.device_ns, each.bytes, each.flops) for op, each in self.ops.items()]

    @property
    def fastest_ns(self) -> int | None:
        """Device time in the fastest round; None where it is not known."""
        return min(self.total.device_ns, default=0) if self.total.device_ns is not None else None

    @property
    def facts(self) -> dict[str, Range]:
        """What is known of the window as a whole, by the names of `verdict.facts`."""
        known = {
            GRAD_NODES: self.grad_nodes,
            PEAK_MEMORY: self.peak_memory_bytes,
            HOST_MEMORY: self.host_memory_bytes,
            HELD_MEMORY: self.held_memory_bytes,
            HELD_EACH_ROUND: (min(held[1:]),) if (held := self.held_memory_bytes) and self.rounds > 1 else None,
            ALLOCATIONS: self.allocations,
            RECOMPILATIONS: self.recompilations,
            CALLS: self.total.calls,
            BYTES: self.total.bytes,
            FLOPS: self.total.flops,
        }
        of_python = self.python if self.python and not self.python.uncounted else None
        if of_python:
            known[PYTHON_CALLS], known[COLLECTIONS] = (of_python.total,), (of_python.collections,)
            known[LOOP_ITERATIONS] = None if of_python.iterations is None else (of_python.iterations,)
        return {name: Range.of(by_round) for name, by_round in known.items() if by_round}

    @property
    def calls(self) -> dict[str, CallRange]:
        """The calls of each op, and what they worked on."""
        return {op: each.calls_range for op, each in self.ops.items()}


class RowResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What became of an op, of the time outside ops, or of a fact of the window, since the baseline."""

    op: Annotated[str, Meta(description="Or what else it is: (outside ops), peak_memory.")]
    verdict: Verdict
    base_calls: Annotated[_Seen | None, Meta(description="The fewest and the most of a round.")] = None
    now_calls: _Seen | None = None
    base_ns: Annotated[int | None, Meta(description="Self time in the round that stands for all.")] = None
    now_ns: int | None = None
    work: Annotated[str, Meta(description="How its dtypes, bytes, FLOPs or what else it is changed.")] = ""

    @property
    def more_calls(self) -> int:
        """How many calls more than in the baseline it has, in the worst round."""
        return (self.now_calls or (0, 0))[1] - (self.base_calls or (0, 0))[1]


class GrownLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line that asks for an op more often than in the baseline, or for more work with as many calls."""

    line: SourceLine
    more: Annotated[int, Meta(description="How many calls more, FLOPs or bytes.")]
    is_new: Annotated[bool, Meta(description="Whether the baseline has no such line.")] = False
    of: Annotated[Amount, Meta(description="What is more.")] = "calls"

    def __str__(self) -> str:
        return f"+{amount(self.more, self.of)}"


def amount(number: int, of: Amount) -> str:
    """Return calls, FLOPs or bytes as people write them."""
    return format_flops(number) if of == "flops" else format_bytes(number) if of == "bytes" else str(number)


class LimitResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A limit of the test's budget, and what was used of it."""

    rule: Annotated[str, Meta(description="What it limits, as in a cause: calls, device_time, only.")]
    limit: Annotated[str, Meta(description="As people write it, with its unit.")]
    op: Annotated[str | None, Meta(description="As the budget calls it; null where it is of the whole window.")] = None
    used: Annotated[str, Meta(description="What was used of it, as people write it; empty for only and top.")] = ""
    share: Annotated[
        float | None, Meta(description="What was used, as a share of the most that it allows; null where that is 0.")
    ] = None
    is_broken: bool = False


class Cause(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a finding is about: the same as long as it is found, whatever its numbers are."""

    rule: Annotated[str, Meta(description="The kind of limit that was broken, or what became of the op.")]
    op: Annotated[str | None, Meta(description="Or the fact of the window; null where it is the whole window.")] = None
    adds: Annotated[bool, Meta(description="Whether the finding only adds to that before it.")] = False


class RankNumbers(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one rank did in a window that several measured."""

    rank: int
    host_ns: Annotated[int, Meta(description="Wall time in the fastest round.")]
    device_ns: Annotated[int | None, Meta(description="In the fastest round; null where it is not known.")] = None
    communication_ns: Annotated[int | None, Meta(description="In the round with the least of it.")] = None
    calls: Annotated[
        dict[str, _Seen], Meta(description="The fewest and the most of a round, of ops that ranks call not as often.")
    ] = {}


class WindowResult(WindowNumbers, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a window did, and what became of it."""

    machine: Annotated[str, Meta(description="What decides whether times may be compared.")]
    parallel: Annotated[bool, Meta(description="Other tests ran at the same time: times mean little.")]
    verdict: Annotated[Verdict | None, Meta(description="Against the baseline; null where none was asked for.")]
    findings: Annotated[tuple[str, ...], Meta(description="What fails the test, a line each.")]
    allowed: Annotated[
        tuple[str, ...],
        Meta(description="What is worse than before and a commit accepts, a line each, with the commit."),
    ] = ()
    causes: Annotated[tuple[Cause, ...], Meta(description="What the findings are about, one for each.")] = ()
    rows: Annotated[
        tuple[RowResult, ...],
        Meta(description="By op, what became of it since the baseline, the most damaging first; none where none is."),
    ] = ()
    grown: Annotated[
        dict[str, tuple[GrownLine, ...]],
        Meta(description="By op that fails it, the lines that ask for more of it; none where nobody knows."),
    ] = {}
    whole: Annotated[
        RowResult | None, Meta(description="What became of the window as a whole; null where there is no baseline.")
    ] = None
    is_wall: Annotated[bool, Meta(description="Whether the times of the whole are wall time, not the sum of ops.")] = (
        False
    )
    limits: Annotated[tuple[LimitResult, ...], Meta(description="Of the budget, whether they were kept or not.")] = ()
    times_changed: Annotated[bool, Meta(description="Whether a time is beyond its tolerance.")]
    times_judged: Annotated[
        bool | None, Meta(description="Whether times were compared with the baseline's; null where there is none.")
    ]
    untimed: Annotated[str, Meta(description="Why times were not compared; empty where they were.")] = ""
    no_baseline: Annotated[str, Meta(description="Why there is no baseline to compare with.")] = ""
    vary: Annotated[
        dict[str, Varies], Meta(description="The ops that differed between the processes that measured them.")
    ] = {}
    facts_vary: Annotated[
        dict[str, tuple[Count, Count]], Meta(description="The facts of the window that differed between processes.")
    ] = {}
    processes: Annotated[
        tuple[ProcessTimes, ...],
        Meta(description="What each process timed, this one first; none where tests ran in parallel."),
    ] = ()
    trace: Annotated[
        str,
        Meta(description="The file with when everything ran in one of its rounds, a Chrome trace; empty without one."),
    ] = ""
    rank: Annotated[int | None, Meta(description="Of several ranks in one run, the one whose numbers these are.")] = (
        None
    )
    by_rank: Annotated[
        tuple[RankNumbers, ...], Meta(description="What each of several ranks did; none where only one is here.")
    ] = ()

    def misfits(self) -> Iterator[str]:
        """Yield what is wrong in a file: columns that have not a number for each round, or a negative one."""
        columns: list[tuple[str, Sequence[int] | None]] = [("the wall time", self.host_ns)]
        columns += [("the busy time", self.busy_ns), ("the peak memory", self.peak_memory_bytes)]
        columns += [("the time of communication", self.communication_ns)]
        columns += [("the held memory", self.held_memory_bytes), ("grad_nodes", self.grad_nodes)]
        columns += [("recompilations", self.recompilations)]
        columns += [("the memory of the host", self.host_memory_bytes)]
        for op, each in [*self.ops.items(), ("total", self.total)]:
            columns += [(f"op {op!r}", column) for column in (each.calls, each.device_ns, each.bytes, each.flops)]
            columns += [(f"op {op!r}", column) for column in each.dtypes.values()]
        for run in self.processes:
            columns += [("a process", run.total_ns), *((f"op {op!r}", times) for op, times in run.ops_ns.items())]
            columns += [("a process", column) for column in (run.wait_ns, run.yardstick_ns) if column]
        for what, column in columns:
            if column is not None and (len(column) != self.rounds or not column):
                yield f"{what} has not a number for each of {self.rounds} rounds"
            elif column is not None and min(column) < 0:
                yield f"{what} has a negative number"


def open_trace(path: str) -> str:
    """Return the command that shows a trace."""
    return f"opprof open {shlex.quote(path)}"


def titled(test: str, window: str) -> str:
    """Return how to name a window of a test."""
    return test if window == BODY else f"{test} window {window}"


def total_of(ops: Sequence[OpResult], rounds: int) -> OpResult:
    """Return the sums over *ops*, for files that do not have them; times and bytes of those that know them."""

    def summed(columns: Sequence[PerRound | None]) -> PerRound | None:
        known = [column for column in columns if column is not None]
        return tuple(map(sum, zip(*known))) if known else None

    calls = summed([op.calls for op in ops]) or (0,) * rounds
    return OpResult(
        calls,
        summed([op.device_ns for op in ops]),
        summed([op.bytes for op in ops]),
        summed([op.flops for op in ops]),
    )


def _of_rounds(profile: OpProfile) -> Iterator[str]:
    """Yield what the backend said; of rounds only where there are several: one, cold, may be anything."""
    yield from dict.fromkeys(text for step, text in profile.remarks if step == ALWAYS)
    rounds = defaultdict[str, list[int]](list)
    for step, text in profile.remarks if profile.steps > 1 else ():
        if step != ALWAYS:
            rounds[text].append(step + 1)
    for text, numbers in rounds.items():
        yield f"in {len(numbers)} of {profile.steps} rounds (first in round {min(numbers)}) {text}"
