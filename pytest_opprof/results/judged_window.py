"""A judged window: the limits it broke, and its changes since the baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from ..machine.ranks import on_ranks
from ..measure.memory.traced import parts
from ..profile.environment import Environment
from ..profile.memory import IN_USE
from ..profile.op_counts import Done
from ..profile.op_profile import Remark
from ..profile.timings import OUTSIDE, ProcessTimes
from ..python_calls import causes
from ..python_calls.growth import Before
from ..python_calls.names import LOOP, PREFIX, matching
from ..sites.places import WindowSites
from ..verdict.budgets import WINDOW_KEYS
from ..verdict.changed import titles
from ..verdict.diff import Diff, Row
from ..verdict.findings import RANKS, Broken, Finding, LimitResult, with_consequences
from ..verdict.python_limits import counted_as
from ..verdict.quantities import (
    COARSE,
    COMPILATIONS,
    CPU_TIME,
    FACTS,
    KEPT_MEMORY,
    LEAKED_MEMORY,
    LEFT_BEHIND,
    LEFT_OPEN,
    LOOP_ITERATIONS,
    OF_PYTHON,
    OF_TYPE,
    PEAKS,
    PYTHON_CALLS,
    WITH_LINES,
    as_a_whole,
)
from ..verdict.times.coarse import Coarse, clearly_more
from ..verdict.tolerances import LEAST_ROUNDS
from ..verdict.verdicts import SEVERITY, Status, Verdict
from .acceptance import TRAILER, Acceptance
from .grown_lines import GrownLines, at_line
from .window_result import RowResult, WindowNumbers, WindowResult, unknown_lines

# Of the sums over all ops: a change that takes more away than it adds may be meant (pyjanitor: one copy for 24 calls).
_CLEARLY_LESS = 0.8
# The reasons of functions compiled again that a failure shows.
_REASONS = 3
# A cause of more characters than this has more than one line.
_LONG = 160
# The quantities of a leak, and how it is told of one on top of another.
_LEFT = (LEFT_BEHIND, LEFT_OPEN, LEAKED_MEMORY)
_WITH_EARLIER = " behind, with what it left before, "
# The quantities that a leak adds to.
_HELD = ("held_memory", "held_each_round", LEFT_OPEN, LEAKED_MEMORY, KEPT_MEMORY)
DEPENDS = "so the difference comes from tests that ran before, or varies"


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """One measured window: its numbers, the limits it broke, and its changes since the baseline."""

    numbers: WindowNumbers
    budget: Sequence[Broken] = ()
    diff: Diff | None = None
    no_baseline: str = ""
    """The reason why there is no baseline to compare with; empty if there is one, or if none was requested."""
    is_unreadable: bool = False
    """Whether its baseline file cannot be used."""
    processes: tuple[ProcessTimes, ...] = ()
    """The times of each process: this one, and others if the test was measured again."""
    accepted: bool = False
    """Whether this run accepts the measurement as the baseline, so that no change is a regression."""
    unseen: str = ""
    """The reason why fewer calls than in the baseline may be calls that ran unseen."""
    weighs: str = ""
    """The CPU time of a window that fails for its calls, in words; empty if that is unknown."""
    slower_here: bool = False
    """Whether that is above its limit in this process."""
    dearer: str = ""
    """The CPU time that is clearly above its base's, so that a window that does less is no improvement; or empty."""
    looked: str = ""
    """The result of a fresh process for the extra work, if one was asked."""
    confirmed: bool = False
    """Whether that process found the same."""
    excused: str = ""
    """The reason why more work than in the baseline is no regression."""
    allowed: Mapping[str, Acceptance] = field(default_factory=dict)
    """The rows (`Row.accepted_as`) whose regression a commit accepts."""
    instead: Sequence[str] = ()
    """The lines that take its time, if it shows no op although its baseline does."""
    first_uses: Sequence[str] = ()
    """Extra work of the first use in a process, which is no finding; reported beside the extra work of each repeat."""
    repeat: Done | None = None
    """The differences of a later run of the body: of one that does more than the baseline's, and on each side of a
    comparison; None if not measured."""
    coarsely: bool = False
    """Whether its coarse time was compared with the baseline's."""
    undecided: str = ""
    """The coarse time over its limit, and why it has no verdict; empty if none is over."""
    said: Sequence[str] = ()
    """Remarks about its coarse time, which fail nothing."""
    limits: Sequence[LimitResult] = ()
    """The limits of its budget, kept or broken."""
    ranks_differ: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """If all ranks had to make the same calls: the ops that differ, with the calls on each rank."""
    base_sites: WindowSites | None = None
    """The source lines that called ops in the base; None if unknown."""
    uncompared: Collection[str] = ()
    """The facts whose lines in the base are unknown all the same."""
    changed: Mapping[str, Sequence[range]] = field(default_factory=dict)
    """The lines that differ from the base's, of each file with source lines of this window; empty if unknown."""
    base_sites_lost: str = ""
    """The reason why they are unknown, if they were looked up."""
    sites_lost: str = ""
    """The reason why its own source lines are unknown, if they were looked up."""
    base_functions: Before | None = None
    """The calls of each Python function in the base; None if unknown."""
    base_loops: Before | None = None
    """The loop iterations in the base, by function."""
    trace: str = ""
    """The trace file of one of its rounds; empty if none was written."""
    trace_lacks: str = ""
    """The parts missing from the trace, and why, if one was requested."""

    @property
    def name(self) -> str:
        """The name of the window."""
        return self.numbers.name

    @property
    def files(self) -> set[str]:
        """The files that lines of its ops, or its calling lines of Python functions, are in."""
        calling = self.numbers.python.lines if self.numbers.python else ()
        return {line.file for line in [*self.numbers.source_lines, *(each.line for each in calling)]}

    @property
    def grown_lines(self) -> GrownLines:
        """Its source lines, compared with the base's."""
        return GrownLines(self.numbers, self._rows, self.base_sites, self.uncompared, self.changed)

    @property
    def environment(self) -> Environment:
        """The environment of the measurement."""
        return self.numbers.environment.environment

    @property
    def verdict(self) -> Verdict:
        """The verdict against the baseline."""
        if self.diff is None:
            return Verdict.NO_BASELINE if self.no_baseline else Verdict.OK
        # With few rounds users expect no comparison of times, so equal calls are enough for "ok".
        few = self.diff.verdict is Verdict.INCOMPARABLE and not self.untimed
        if self.unseen and not self.accepted and not self.does_more:  # extra calls that were seen are certain
            return Verdict.UNSEEN
        if self.undecided and not self.diff.verdict.is_regression:
            return Verdict.NOISY
        passes = self.accepted or self.excused or few or (self.allowed and not self.is_worse)
        if passes or self._contradicted:
            return Verdict.OK
        if self.worse and self.worse[0].op in COARSE:  # it comes first where no more work explains it
            return self.worse[0].verdict
        left = [row.verdict for row in self.worse] if self.allowed else []
        return min(left, key=SEVERITY.__getitem__, default=self.diff.verdict)

    @property
    def _contradicted(self) -> str:
        """The CPU time that contradicts an improvement, in words; empty if none does."""
        if not self.dearer or self.diff is None or self.findings:
            return ""
        found = self.diff.verdict
        if found.status is not Status.IMPROVED or found is Verdict.FASTER:
            return ""
        less = Verdict.FEWER.value if found is Verdict.GONE else self.diff.worst.word
        return f"{less}, but {self.dearer}, in this process"

    def weighed(self, base: Coarse | None) -> JudgedWindow:
        """Return the window with its CPU time in this process, if that is clearly above the time of *base*."""
        now, diff = self.numbers.coarse, self.diff
        if base is None or now is None or diff is None or diff.wall_is_judged:
            return self
        over = clearly_more(base, now, in_doubt=diff.only_calls_less)  # pyparsing: x1.5 for 0.67 of its calls
        return replace(self, dearer=over.line(diff.then) if over else "")

    @property
    def does_more(self) -> bool:
        """Whether it does more than its baseline, which is known without times."""
        return any(row.verdict.does_more for row in self.worse)

    @property
    def is_slow(self) -> bool:
        """Whether it fails for its time, or for its time outside ops, which the lines of the body explain."""
        wall = self.diff is not None and self.diff.wall
        slower = [row for row in self.worse if row.verdict is Verdict.SLOWER]
        return any(row.op in COARSE or (wall and (row.is_total or row.op == OUTSIDE)) for row in slower)

    @property
    def worse(self) -> list[Row]:
        """The rows of ops, and of the window, that got worse and that nothing accepts or excuses."""
        if self.diff is None or self.accepted or self.excused:
            return []
        return [row for row in self.diff.worse if row.accepted_as not in self.allowed]

    @property
    def _lost(self) -> list[Finding]:
        """The finding that calls may have run unseen; beside extra calls, which are certain, it is no cause."""
        if self.diff is None or self.accepted:
            return []
        is_cause = not self.does_more
        short = Verdict.UNSEEN.value if is_cause else ""
        lost = [Finding(Verdict.UNSEEN.value, None, self.unseen, short)] if self.unseen else []
        return [*lost, *(Finding(Verdict.UNSEEN.value, None, f"  {text}") for text in self.instead if is_cause)]

    @property
    def compiled_again(self) -> list[str]:
        """Why functions were compiled again, by the first few; JAX's reasons may be 27 lines a test."""
        said = [each.text for each in self.numbers.remarks if each.about == "compilations"]
        more = [f"and {len(said) - _REASONS} more"] if len(said) > _REASONS else []
        return said[:_REASONS] + more

    @property
    def is_worse(self) -> bool:
        """Whether it is worse than its baseline, and nothing accepts or excuses that."""
        return bool(self.worse or self._lost)

    def _with_causes(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the *findings*, each followed by its known cause; a cause shared by several appears once."""
        found, told, rows, from_nothing = [], set[str](), self._rows, self._from_nothing
        for each in findings:
            of = each.rule if (each.op or "").startswith(OF_TYPE) else each.op or each.rule
            explained = self.compiled_again if matching(of, COMPILATIONS) else [self.numbers.explained.get(of, "")]
            in_python = self._python_causes(each)
            line = in_python[0].line if in_python else self.numbers.explained_at.get(of)
            if of in _LEFT and of in rows and from_nothing.isdisjoint(_LEFT):
                # Nobody knows which of all these were left before.
                explained, line = [text.replace(" behind ", _WITH_EARLIER, 1) for text in explained], None
            why = [text for text in (*(cause.text for cause in in_python), *explained) if text and text not in told]
            told.update(why)
            # The text is followed by the cause, which names the line.
            short = f"{each.short} at {line.location}" if line and each.short else each.short
            named = structs.replace(each, short=short, line=line) if line else each
            found += [named, *(Finding(each.rule, each.op, f"  {line}") for text in why for line in _lines(text))]
        return found

    def _python_causes(self, finding: Finding) -> list[causes.Cause]:
        python, of = self.numbers.python, finding.op or finding.rule
        if python is None or finding.adds:
            return []
        if of == PYTHON_CALLS:
            return causes.of_calls(self.base_functions, python, self.grown_lines.is_changed)
        if of == LOOP_ITERATIONS:
            return causes.of_loops(self.base_loops, python)
        names = {"gc.collect"} if of in OF_PYTHON else counted_as(of.removeprefix(PREFIX), python)
        return list(causes.lines_of(names, python)) if of in OF_PYTHON or of.startswith(PREFIX) else []

    @property
    def wanted_functions(self) -> set[str]:
        """The Python functions whose callers the user will want to see, and `LOOP` for lines of loops."""
        python, wanted = self.numbers.python, set[str]()
        if python is None or self.accepted:
            return wanted
        for of in [*(each.op or each.quantity for each in self.budget), *(row.op for row in self.worse)]:
            if of in (PYTHON_CALLS, LOOP_ITERATIONS):
                wanted |= causes.to_look_up(self.base_functions, python.functions)
                wanted |= {LOOP} if of == LOOP_ITERATIONS else set()
            elif of in OF_PYTHON:
                wanted.add("gc.collect")
            elif of.startswith(PREFIX):
                wanted |= counted_as(of.removeprefix(PREFIX), python)
        return wanted

    @property
    def asked(self) -> list[str]:
        """The ops, budget names or grad_nodes whose source lines the user will want to see."""
        limits = [each.op or each.rule for each in self.budget if not each.is_about_time]
        more = [row for row in self.worse if row.verdict.does_more]
        ops = {row.op for row in more if row.is_op}
        asked = [*limits, *(row.op for row in more)]
        lines_of = self.numbers.lines_of
        asked = [name if name in ops else lines_of(name) for name in asked if not name.startswith((PREFIX, OF_TYPE))]
        told = (*ops, *WITH_LINES)
        return [name for name in dict.fromkeys(asked) if name in told or name not in (*WINDOW_KEYS, *FACTS)]

    @property
    def remarks(self) -> list[str]:
        """Remarks: the backend's, accepted changes, and improvements; the table of a window that fails has these."""
        # Why the same was compiled again as in the baseline is no news, and the message of a failing test has the
        # reasons.
        compiles_more = self.diff is None or any(
            row.op in COMPILATIONS and row.verdict.does_more for row in self.diff.rows
        )
        fails = any(matching(each.op or each.rule, COMPILATIONS) for each in self.findings)
        of_backend = [each.text for each in self.numbers.remarks if each.about != "compilations"]
        said_by_backend = (*of_backend, *(self.compiled_again if compiles_more and not fails else ()), *self.said)
        if self.diff is None:
            explained = self.numbers.explained.values()
            # A leak on every call is worth a line even if no limit forbids it.
            told = {each.text.strip() for each in self.findings}
            new = (each for each in explained if not told.issuperset(_lines(each)))
            return [*said_by_backend, *dict.fromkeys(new)]
        said_by_backend = (*said_by_backend, *self.diff.not_judged)
        if self.excused:
            said = "; ".join(map(str, self.diff.findings()))
            return [*said_by_backend, f"{said}; but {self.excused}, {DEPENDS}"]
        better = () if self.findings else self.diff.improvements()
        but = filter(None, [self._contradicted])
        return [*said_by_backend, *map(str, self.diff.findings() if self.accepted else ()), *better, *but]

    def with_remark(self, text: str) -> JudgedWindow:
        """Return the window with one more remark."""
        return replace(self, numbers=structs.replace(self.numbers, remarks=(*self.numbers.remarks, Remark(text))))

    @property
    def untimed(self) -> str:
        """The reason why times were not judged despite enough rounds; empty if they were, or if nobody expects it."""
        if self.undecided:
            return self.undecided
        if self.diff is None or self.numbers.rounds < LEAST_ROUNDS:
            return ""
        if self.excused:
            return "its calls changed"
        if self.diff.verdict.is_regression:
            return ""
        return "; ".join(filter(None, [self.diff.times, self.diff.seen]))

    @property
    def times_judged(self) -> bool:
        """Whether times were compared with a baseline."""
        return self.diff is not None and not self.diff.times

    @property
    def findings(self) -> list[Finding]:
        """All findings that fail the test."""
        rows, found = self.worse, list[Finding]()
        for limit in self.budget:
            same = next((row for row in rows if row.breaks(limit)), None)
            found.append(self.diff.finding(same, limit) if self.diff and same else limit.finding)
            rows = [row for row in rows if row is not same]
        regressions = self.diff.findings(rows) if self.diff else ()
        return self._with_causes([*found, *self.differences, *regressions, *self._lost])

    @property
    def consequences(self) -> set[str | None]:
        """The failing ops that are reported below a cast, or below the op whose dtypes they have."""
        return {each.op for each in self.findings} - {each.op for each in self.told}

    @property
    def told(self) -> list[Finding]:
        """The findings as people read them: causes with their lines, each followed by its consequences."""
        rows = self._rows
        found = with_consequences(self.findings, rows, self.diff.then if self.diff else "")
        found = self.grown_lines.named(found, self.asked)
        found = _with_facts(found, self._from_nothing)
        is_told = any(self.dearer and self.dearer in each.text for each in found)
        sums = {row.op: row.work for row in rows.values() if row.is_told_as_a_whole}
        is_more = any(each.op in COARSE or each.op in PEAKS for each in found)  # of time or memory, with fewer calls
        if found and sums and not is_more and all(each.growth < _CLEARLY_LESS for each in sums.values()):
            less = as_a_whole({name: each.text for name, each in sums.items()}, " it does less")
            found.append(Finding(Verdict.FEWER.value, None, f"  {less}"))
        if not found or not self.weighs or is_told:
            return found
        explained = self.numbers.explained.get(CPU_TIME, "") if self.slower_here else ""
        weighs = [f"  {self.weighs}", *(f"    {line}" for line in _lines(explained))]
        return [*found, *(Finding(CPU_TIME, None, text) for text in weighs)]

    @property
    def _rows(self) -> dict[str, Row]:
        return {row.op: row for row in (self.diff.rows if self.diff else ())}

    @property
    def _from_nothing(self) -> set[str]:
        """The facts that were 0."""
        return {
            row.op for row in self._rows.values() if row.is_fact and row.work.number and row.work.number.base == "0"
        }

    @property
    def differences(self) -> list[Finding]:
        """The ops whose calls differ between ranks."""
        found = []
        for op, by_rank in self.ranks_differ.items():
            said = on_ranks(dict(enumerate(by_rank)))
            found.append(Finding(RANKS, op, f"{op}: calls differ between ranks: {said}", f"{op} {said}"))
        return found

    @property
    def unknown_lines(self) -> list[str]:
        """The sentences about source lines that are unknown although users will want to see them."""
        lost, base_lost = (why if self.asked else "" for why in (self.sites_lost, self.base_sites_lost))
        names = titles(self.told, self.diff.rows if self.diff else ())
        return unknown_lines(names, lost, base_lost if self.numbers.sites else "")

    def result(self, machine: str, parallel: bool, compared: bool) -> WindowResult:
        """Return the stored result; *parallel*: other tests ran at the same time, *compared*: it has a baseline."""
        return WindowResult(
            **{name: getattr(self.numbers, name) for name in WindowNumbers.__struct_fields__},
            machine=machine,
            warm=self.repeat,
            parallel=parallel,
            verdict=self.verdict if compared else None,
            findings=tuple(self.told),
            allowed=tuple(
                f"{self.diff.finding(row)}; {TRAILER} in {self.allowed[row.accepted_as]}"
                for row in self.diff.worse
                if row.accepted_as in self.allowed
            )
            if self.diff
            else (),
            rows=tuple(_row(row, self.allowed) for row in self.diff.rows) if self.diff else (),
            grown=self.grown_lines.grown(self.asked),
            whole=_row(self.diff.total, self.allowed) if self.diff else None,
            is_wall=self.diff is not None and self.diff.wall,
            limits=tuple(self.limits),
            times_changed=self.diff is not None and self.diff.times_changed,
            times_judged=self.times_judged if self.diff else None,
            coarsely=self.coarsely,
            untimed=self.diff.times if self.diff else "",
            no_baseline=self.no_baseline,
            processes=() if parallel else self.processes,
            trace=self.trace,
            trace_lacks=self.trace_lacks,
            looked=self.looked if self.findings else "",
            sites_lost=self.sites_lost if self.asked else "",
            base_sites_lost=self.base_sites_lost if self.asked and self.numbers.sites else "",
        )


def _lines(text: str) -> list[str]:
    """Return a cause in lines: of a long one each part has its own."""
    return parts(text) if len(text) > _LONG else [text] if text else []


def _with_facts(findings: Sequence[Finding], from_nothing: Collection[str | None]) -> list[Finding]:
    """Return *findings* with each fact below the finding that it is of: the memory that a leak holds below the leak,
    and the ops recorded for backward below the op of the same line.

    Facts *from_nothing* follow from no op: where nothing was recorded for backward, a `no_grad` is lost.
    """
    told = [*findings]
    causes = [each for each in findings if not each.adds]
    for fact in (each for each in causes if each.op not in from_nothing or each.op in _HELD):
        leader = next((each for each in causes if _is_of(fact, each)), None)
        if leader is None:
            continue
        told.remove(fact)
        at = told.index(leader) + 1
        while at < len(told) and told[at].adds:
            at += 1
        text = f"  {fact.text.removesuffix(at_line(fact.line))}"
        told.insert(at, structs.replace(fact, text=text, short="", line=None, over_budget=fact.breaks_budget))
    return told


def _is_of(fact: Finding, leader: Finding) -> bool:
    """Return True if a fact follows from another finding, which is no such fact itself."""
    name, of = (each.op or each.rule for each in (fact, leader))
    if of in (*_HELD, *WITH_LINES):
        return False
    same_line = fact.line is not None and fact.line == leader.line and fact.op not in IN_USE
    return (name in _HELD and of == LEFT_BEHIND) or (fact.op in WITH_LINES and same_line)


def _row(row: Row, allowed: Collection[str]) -> RowResult:
    accepted = row.accepted_as in allowed
    return RowResult(row.op, row.verdict, *row.calls, row.base_ns, row.now_ns, row.changed_work, accepted)
