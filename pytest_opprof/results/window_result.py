"""The result of one window: numbers and verdict, as they travel, are written and are shown."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from ..measure.function_times import FunctionTime
from ..measure.memory.traced import Where
from ..profile.environment_json import EnvironmentJson
from ..profile.kernels import KernelStats
from ..profile.memory import IN_USE
from ..profile.op_counts import Done, OpCounts
from ..profile.op_profile import ALWAYS, OpProfile, OpStats, Remark
from ..profile.range import Range
from ..profile.site_calls import SiteCalls, SourceLine
from ..profile.timings import ProcessTimes
from ..python_calls.counted import PythonCalls
from ..sites.places import Amount
from ..units import format_bytes, format_flops, plural
from ..verdict.changed import Changed, titles
from ..verdict.findings import OVER_BUDGET, RANKS_DIFFER, Broken, Finding, LimitResult
from ..verdict.quantities import FACTS, SUMS, as_a_whole, called, with_lines
from ..verdict.times.coarse import Coarse
from ..verdict.verdicts import Verdict

if TYPE_CHECKING:
    from typing_extensions import Self

# The name of the window around a whole test body.
BODY = "body"
# Checked in files only (`WindowResult.misfits`): a strange number from a worker must not end the run.
Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
PerRound = tuple[Count, ...]


class OpResult(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The numbers of an op, one for each round; null if the backend does not know."""

    calls: PerRound
    device_ns: Annotated[PerRound | None, Meta(description="Self time on the device.")]
    bytes: Annotated[PerRound | None, Meta(description="Bytes read and written.")]
    flops: PerRound | None
    dtypes: Annotated[dict[str, PerRound], Meta(description="Calls by dtypes; empty if unknown.")] = {}

    @classmethod
    def of(cls, stats: OpStats, dtypes: Mapping[str, PerRound] | None = None) -> OpResult:
        """Return *stats* without its name."""
        return cls(stats.calls, stats.device_ns, stats.bytes, stats.flops, dict(dtypes or {}))

    @property
    def counts(self) -> OpCounts:
        """The minimum and maximum over the rounds."""
        return OpCounts(
            Range.of(self.calls),
            {dtypes: Range.of(calls) for dtypes, calls in self.dtypes.items()},
            Range.of(self.bytes) if self.bytes else None,
            Range.of(self.flops) if self.flops else None,
        )


# The source lines of the calls, by op or by its name in a budget.
SitesByOp = dict[str, tuple[SiteCalls, ...]]


class WindowNumbers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of a window, in one process."""

    name: str
    environment: EnvironmentJson
    rounds: Annotated[int, Meta(extra_json_schema={"minimum": 1})]
    host_ns: Annotated[PerRound, Meta(description="Wall time.")]
    busy_ns: Annotated[PerRound | None, Meta(description="Busy time of devices; overlapping ops count once.")]
    ops: Annotated[dict[str, OpResult], Meta(description="By op, the most expensive first.")]
    total: Annotated[OpResult, Meta(description="All ops together.")]
    kernels: Annotated[
        tuple[KernelStats, ...] | UnsetType,
        Meta(
            description="Kernels, copies and sets of devices, the most expensive first; absent if none ran or"
            " they are unknown."
        ),
    ] = UNSET
    communication_ns: Annotated[
        PerRound | None,
        Meta(description="Time of collectives, waiting for other ranks included; not part of the ops' times."),
    ] = None
    facts: Annotated[
        dict[str, PerRound],
        Meta(
            description="Of the window as a whole, by quantity: peak_memory (bytes), grad_nodes, recompilations. Absent"
            " if unknown; sums over all ops are in total."
        ),
    ] = {}
    explained: Annotated[
        dict[str, str], Meta(description="Sources of some facts, in words: the holders of leaked objects.")
    ] = {}
    explained_at: Annotated[
        dict[str, SourceLine], Meta(description="The lines of such sources, if known: where the holder grows.")
    ] = {}
    coarse: Annotated[Coarse | None, Meta(description="Coarse CPU and wall time of a round; null if not measured.")] = (
        None
    )
    python: Annotated[
        PythonCalls | None, Meta(description="Calls of Python functions in a separate round; null if not requested.")
    ] = None
    functions: Annotated[
        tuple[FunctionTime, ...] | UnsetType,
        Meta(
            description="Times of the program's functions; absent unless a process that compares a slower test asked."
        ),
    ] = UNSET
    remarks: Annotated[tuple[Remark, ...], Meta(description="Remarks of the backend.")] = ()
    sites: Annotated[
        SitesByOp,
        Meta(description="Source lines of calls, by op or by its name in a budget; empty if not recorded."),
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
            facts={
                name: tuple(found)
                for name, each in FACTS.items()
                if each.of_window and (found := each.of_window(profile)) is not None
            }
            | (python.facts(profile.steps) if python else {}),
            explained=dict(profile.explained),
            explained_at={name: SourceLine.at(place) for name, place in profile.explained_at.items()},
            busy_ns=profile.busy_ns,
            communication_ns=profile.communication_ns,
            ops={stats.op: OpResult.of(stats, profile.calls_by_dtype.get(stats.op)) for stats in profile.ops},
            total=OpResult.of(profile.total),
            kernels=profile.kernels or UNSET,
            coarse=coarse_of(profile),
            python=python,
            remarks=tuple(_of_rounds(profile)),
            sites=sites or {},
        )

    @property
    def explanations(self) -> dict[str, Where]:
        """The sources of facts and times, with a line if known."""
        at = self.explained_at
        return {name: Where(text, at[name].location if name in at else "") for name, text in self.explained.items()}

    @property
    def source_lines(self) -> list[SourceLine]:
        """The source lines that call its ops, and the lines around them."""
        return [line for sites in self.sites.values() for site in sites for line in site.lines]

    def lines_of(self, name: str) -> str:
        """Return the quantity whose lines explain another; all allocations where those in use are unknown."""
        found = with_lines(name)
        return "allocations" if found in IN_USE and self.sites and found not in self.sites else found

    def explained_by(self, said: Mapping[str, Where]) -> Self:
        """Return the numbers with more explanations."""
        explained = {name: each.text for name, each in said.items()}
        at = {name: SourceLine.at(each.line) for name, each in said.items() if each.line}
        return replace(self, explained={**self.explained, **explained}, explained_at={**self.explained_at, **at})

    @property
    def stats(self) -> list[OpStats]:
        """The numbers of each op, with its name."""
        return [OpStats(op, each.calls, each.device_ns, each.bytes, each.flops) for op, each in self.ops.items()]

    @property
    def fastest_ns(self) -> int | None:
        """Device time of the fastest round; None if unknown."""
        return min(self.total.device_ns, default=0) if self.total.device_ns is not None else None

    @property
    def fact_ranges(self) -> dict[str, Range]:
        """The known facts of the window as a whole: minimum and maximum over the rounds."""
        sums = {name: getattr(self.total, name) for name in SUMS}
        return {name: Range.of(by_round) for name, by_round in {**self.facts, **sums}.items() if by_round}

    @property
    def counts(self) -> dict[str, OpCounts]:
        """The calls and work of each op."""
        return {op: each.counts for op, each in self.ops.items()}

    @property
    def done(self) -> Done:
        """The calls and all facts."""
        return self.counts, self.fact_ranges


class RowResult(Changed, Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The change of an op, of the time outside ops, or of a fact of the window, since the baseline."""

    op: Annotated[str, Meta(description="An op, or another row: (outside ops), peak_memory.")]
    verdict: Verdict
    base_calls: Annotated[Range | None, Meta(description="In one round.")] = None
    now_calls: Range | None = None
    base_ns: Annotated[int | None, Meta(description="Self time in the representative round.")] = None
    now_ns: int | None = None
    work: Annotated[str, Meta(description="The change of its dtypes, bytes, FLOPs or amount.")] = ""
    accepted: Annotated[bool, Meta(description="Whether a commit accepts that it got worse.")] = False

    @property
    def calls(self) -> tuple[Range | None, Range | None]:
        """Its calls before and now."""
        return self.base_calls, self.now_calls


class GrownLine(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line with more calls of an op than in the baseline, or with more work in as many calls."""

    line: SourceLine
    more: Annotated[int, Meta(description="The number of extra calls, FLOPs or bytes.")]
    is_new: Annotated[bool, Meta(description="Whether the baseline has no such line.")] = False
    of: Annotated[Amount, Meta(description="The unit of more.")] = "calls"

    def __str__(self) -> str:
        return f"+{amount(self.more, self.of)}"


def amount(number: int, of: Amount) -> str:
    """Format calls, FLOPs or bytes for people."""
    return format_flops(number) if of == "flops" else format_bytes(number) if of == "bytes" else str(number)


def amount_of(name: str, sites: Iterable[SiteCalls]) -> str:
    """Return the calls that *sites* make of an op; of memory in use, its bytes."""
    if name in IN_USE:
        return format_bytes(sum(site.bytes or 0 for site in sites))
    return str(sum(site.calls for site in sites))


class LinesOfCause(NamedTuple):
    """The source lines of one cause."""

    ops: tuple[str, ...]
    """The op or fact; several ops have extra calls from one line."""
    grown: list[tuple[SourceLine, str, bool]]
    """The lines with more calls or work: how much more, and whether the baseline lacks the line."""
    others: list[SiteCalls]
    """The lines that call the op as often as before, the most calls first; none are given for several ops."""

    @property
    def title(self) -> str:
        """The op or fact in words: ``Cast``, ``allocations``, ``Item and 7 more ops``."""
        return called(self.ops[0]) + (f" and {plural(len(self.ops) - 1, 'more op')}" if self.ops[1:] else "")

    @property
    def question(self) -> str:
        """The title of a list of them: ``Where Cast comes from``."""
        is_plural = self.ops[1:] or (self.ops[0] in FACTS and self.ops[0] not in IN_USE)
        return f"Where {self.title} {'come' if is_plural else 'comes'} from"

    def said(self, site: SiteCalls) -> str:
        """Return the calls of one of the *others*, or the bytes of memory in use, in words."""
        return amount_of(self.ops[0], [site]) if self.ops[0] in IN_USE else plural(site.calls, "call")


class RankNumbers(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The numbers of one rank in a window that several ranks measured."""

    rank: int
    host_ns: Annotated[int, Meta(description="Wall time in the fastest round.")]
    device_ns: Annotated[int | None, Meta(description="In the fastest round; null if unknown.")] = None
    communication_ns: Annotated[int | None, Meta(description="In the round with the smallest value.")] = None
    calls: Annotated[dict[str, Range], Meta(description="In one round, of ops whose calls differ between ranks.")] = {}


class WindowResult(WindowNumbers, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a window: its numbers and its verdict."""

    machine: Annotated[str, Meta(description="The machine; times are comparable only on an equal one.")]
    parallel: Annotated[bool, Meta(description="Other tests ran at the same time, so times are unreliable.")]
    verdict: Annotated[Verdict | None, Meta(description="Against the baseline; null if none was requested.")]
    findings: Annotated[tuple[Finding, ...], Meta(description="The findings that fail the test, the cause first.")]
    allowed: Annotated[
        tuple[str, ...],
        Meta(description="Regressions that a commit accepts, a line each, with the commit."),
    ] = ()
    rows: Annotated[
        tuple[RowResult, ...],
        Meta(description="By op, its change since the baseline, the most damaging first; empty without a baseline."),
    ] = ()
    grown: Annotated[
        dict[str, tuple[GrownLine, ...]],
        Meta(description="By failing op, the source lines with extra calls; empty if unknown."),
    ] = {}
    whole: Annotated[
        RowResult | None, Meta(description="The change of the window as a whole; null without a baseline.")
    ] = None
    is_wall: Annotated[bool, Meta(description="Whether the total is wall time instead of the sum of ops.")] = False
    limits: Annotated[tuple[LimitResult, ...], Meta(description="The limits of the budget, kept or broken.")] = ()
    times_changed: Annotated[bool, Meta(description="Whether a time is beyond its tolerance.")]
    times_judged: Annotated[
        bool | None, Meta(description="Whether times were compared with the baseline; null if there is none.")
    ]
    coarsely: Annotated[bool, Meta(description="Whether its coarse time was compared with the baseline's.")] = False
    untimed: Annotated[str, Meta(description="Why times were not compared; empty if they were.")] = ""
    no_baseline: Annotated[str, Meta(description="Why there is no baseline to compare with.")] = ""
    vary: Annotated[dict[str, OpCounts], Meta(description="The ops that differed between processes.")] = {}
    facts_vary: Annotated[
        dict[str, Range], Meta(description="The facts of the window that differed between processes.")
    ] = {}
    warm: Annotated[
        Done | None,
        Meta(description="The ops and facts that differed in a later run of the same process; null if not measured."),
    ] = None
    alone: Annotated[
        Done | None,
        Meta(description="The ops and facts that differed in a process without other tests; null if not measured."),
    ] = None
    compiled_anew: Annotated[
        bool,
        Meta(description="Whether functions compiled again were also counted with no function compiled before."),
    ] = False
    processes: Annotated[
        tuple[ProcessTimes, ...],
        Meta(description="The times of each process, this one first; empty if tests ran in parallel."),
    ] = ()
    trace: Annotated[
        str,
        Meta(description="The file with a trace of one of its rounds, in Chrome's format; empty without one."),
    ] = ""
    trace_lacks: Annotated[
        str,
        Meta(description="The part of the window that no trace has, with the reason; empty if a trace has all of it."),
    ] = ""
    looked: Annotated[
        str,
        Meta(
            description="The result of a fresh process: that it confirmed the changes, or why it did not; empty"
            " if none measured the test again."
        ),
    ] = ""
    sites_lost: Annotated[
        str, Meta(description="Why source lines of the failing ops are unknown; empty if they are known.")
    ] = ""
    base_sites_lost: Annotated[
        str, Meta(description="Why it is unknown which of these lines are new; empty if it is known.")
    ] = ""
    rank: Annotated[int | None, Meta(description="The rank of these numbers, if the run has several.")] = None
    by_rank: Annotated[
        tuple[RankNumbers, ...], Meta(description="The numbers of each rank; empty for a single one.")
    ] = ()

    @property
    def beside_changes(self) -> dict[str | None, str]:
        """By op, what a table says of it beside its change since the baseline: ``over budget``, ``ranks differ``."""
        return {each.op: kind for each in self.findings for kind in each.kinds if kind in (RANKS_DIFFER, OVER_BUDGET)}

    @property
    def unknown_lines(self) -> list[str]:
        """The sentences about source lines that are unknown, with the reasons."""
        return unknown_lines(self.titles, self.sites_lost, self.base_sites_lost)

    @property
    def broken(self) -> list[Broken]:
        """The numbers that break limits of the budget."""
        found = [Broken.of(limit) for limit in self.limits if limit.is_broken and limit.used]
        only = next((limit for limit in self.limits if limit.rule == "only"), None)
        for each in self.findings:
            if only and each.rule == "only" and each.op and not each.adds:
                found.append(Broken.of_only(each.op, max(self.ops[each.op].calls), only))
            elif each.rule == "top" and not each.adds:
                found.append(Broken("top", None, "top", each.text, "", each.short))
        return found

    @property
    def titles(self) -> dict[str, str]:
        """The ops and facts of the findings, each with its name in a table."""
        return titles(self.findings, self.rows)

    @property
    def lines_of_causes(self) -> list[LinesOfCause]:
        """The source lines of each cause, if they are known."""
        found: list[LinesOfCause] = []
        for each in self.findings:
            name = each.op or each.rule
            ops = () if each.adds else each.ops or (name if name in self.sites else self.lines_of(name),)
            more: dict[SourceLine, list[tuple[str, GrownLine]]] = defaultdict(list)
            for op in ops:
                for line in self.grown.get(op, ()):
                    more[line.line].append((op, line))
            sites = self.sites.get(ops[0], ()) if len(ops) == 1 else ()
            others = [site for site in sites if site.lines and site.lines[0] not in more]
            if more or others:
                by_line = sorted(more.items(), key=lambda item: -len(item[1]))
                grown = [
                    (line, ", ".join(f"{op} {each}" if ops[1:] else str(each) for op, each in of), of[0][1].is_new)
                    for line, of in by_line
                ]
                by_size = sorted(others, key=lambda site: -(site.bytes or 0 if ops[0] in IN_USE else site.calls))
                found.append(LinesOfCause(ops, grown, by_size))
        return found

    @property
    def told_rows(self) -> list[RowResult]:
        """The rows of a table; `as_a_whole` has the others."""
        return [row for row in self.rows if not row.is_told_as_a_whole]

    @property
    def as_a_whole(self) -> str:
        """The sums over all ops that changed with them, in a line."""
        return as_a_whole({row.op: row.work for row in self.rows if row.is_told_as_a_whole})

    def misfits(self) -> Iterator[str]:
        """Yield each problem of a file: columns without a number for each round, or with a negative one."""
        columns: list[tuple[str, Sequence[int] | None]] = [("the wall time", self.host_ns)]
        columns += [("the busy time", self.busy_ns), ("the time of communication", self.communication_ns)]
        columns += self.facts.items()
        for op, each in [*self.ops.items(), ("total", self.total)]:
            columns += [(f"op {op!r}", column) for column in (each.calls, each.device_ns, each.bytes, each.flops)]
            columns += [(f"op {op!r}", column) for column in each.dtypes.values()]
        for run in self.processes:
            columns += [("a process", run.total_ns), *((f"op {op!r}", times) for op, times in run.ops_ns.items())]
            columns += [("a process", column) for column in (run.wait_ns, run.yardstick_ns) if column]
        for what, column in columns:
            if column is not None and (len(column) != self.rounds or not column):
                yield f"{what} does not have a number for each of {self.rounds} rounds"
            elif column is not None and min(column) < 0:
                yield f"{what} has a negative number"


def unknown_lines(titles: Mapping[str, str], sites_lost: str, base_sites_lost: str) -> list[str]:
    """Return a sentence about the source lines of failing ops if they are unknown, or if it is unknown which are new.

    *titles* are the names of the ops; *sites_lost* and *base_sites_lost* are the reasons, as in `WindowResult`.
    """
    ops = ", ".join(dict.fromkeys(titles.values()))
    of_ops = f" for {ops}" if ops else ""
    lines = [f"source lines{of_ops} are unknown: {sites_lost}"] if sites_lost else []
    return [*lines, *([f"it is unknown which of these lines are new: {base_sites_lost}"] if base_sites_lost else [])]


def coarse_of(profile: OpProfile) -> Coarse | None:
    """Return the coarse time of a profile; None without CPU times."""
    waited = profile.wait_ns or (0,) * profile.steps
    wall = [max(host - wait, 0) for host, wait in zip(profile.host_ns, waited)]
    cpu, thread = ([each[side] for each in profile.cpu_ns] for side in (0, 1))
    found = Coarse.of(cpu, thread, wall, profile.yardstick_ns)
    return found.with_repeats(profile.repeated_ns) if found else None


def open_trace(path: str) -> str:
    """Return the command that opens a trace."""
    return f"opprof open {shlex.quote(path)}"


def titled(test: str, window: str) -> str:
    """Return the title of a window of a test."""
    return test if window == BODY else f"{test} window {window}"


def total_of(ops: Sequence[OpResult], rounds: int) -> OpResult:
    """Return the sums over *ops*, for files without them; times and bytes only of ops that know theirs."""

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


def _of_rounds(profile: OpProfile) -> Iterator[Remark]:
    """Yield the backend's remarks; on single rounds only if there are several, since one cold round proves nothing."""
    yield from dict.fromkeys(remark for step, remark in profile.remarks if step == ALWAYS)
    rounds = defaultdict[Remark, list[int]](list)
    for step, remark in profile.remarks if profile.steps > 1 else ():
        if step != ALWAYS:
            rounds[remark].append(step + 1)
    for remark, numbers in rounds.items():
        in_rounds = f"in {len(numbers)} of {profile.steps} rounds (first in round {min(numbers)})"
        yield Remark(f"{in_rounds} {remark.text}", remark.about)
