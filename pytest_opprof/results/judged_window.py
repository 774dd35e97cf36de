"""A window as it was judged: which limits it broke, and what changed since its baseline."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from ..machine.ranks import on_ranks
from ..profile.environment import Environment
from ..profile.op_profile import OpProfile
from ..profile.range import Range
from ..profile.site_calls import kept_sites
from ..profile.timings import ProcessTimes
from ..python_calls import causes
from ..python_calls.counted import PythonCalls
from ..python_calls.names import PREFIX
from ..sites.match import Grown, grown
from ..sites.places import Amount, Place, WindowSites
from ..verdict.acceptance import TIME, TRAILER, Acceptance, worse
from ..verdict.budgets import WINDOW_KEYS, Budget
from ..verdict.compare import Diff, Row
from ..verdict.findings import Finding
from ..verdict.python_limits import counted_as
from ..verdict.quantities import FACTS, LOOP_ITERATIONS, OF_PYTHON, PYTHON_CALLS, WITH_LINES
from ..verdict.tolerances import LEAST_ROUNDS
from ..verdict.verdicts import Verdict
from .window_result import Cause, GrownLine, LimitResult, RowResult, WindowNumbers, WindowResult

_WORK_GREW = 1.01
"""FLOPs, or bytes, that grew by less are not looked for by line where the other grew by more than its tolerance."""
DEPENDS = "so that depends on what ran before"


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """One measured window: what it did, which limits it broke, and what changed since its baseline."""

    numbers: WindowNumbers
    budget: Sequence[Finding] = ()
    diff: Diff | None = None
    no_baseline: str = ""
    """Why there is nothing to compare with; empty where there is, or where nobody asked."""
    processes: tuple[ProcessTimes, ...] = ()
    """What each process timed: this one, and others if the test was measured again."""
    accepted: bool = False
    """Whether this run takes what it measured as the baseline: then no change is a regression."""
    unseen: str = ""
    """Why fewer calls than in the baseline may be calls that were not seen."""
    looked: str = ""
    """What a fresh process says of what it does more than in the baseline, where it was asked."""
    excused: str = ""
    """Why doing more than in the baseline is no regression."""
    allowed: Mapping[str, Acceptance] = field(default_factory=dict)
    """The ops (`acceptance.TIME`: the whole window) that a commit accepts to be worse than before."""
    instead: Sequence[str] = ()
    """At which lines its time is, where it shows no op and its baseline does."""
    first_uses: Sequence[str] = ()
    """What it does more only the first time in a process, and is no finding: beside what each repeat does more."""
    coarsely: bool = False
    """Whether its coarse time was compared with the baseline's."""
    undecided: str = ""
    """What of its coarse time is over its limit, and why that has no verdict; empty where nothing is."""
    said: Sequence[str] = ()
    """What is to be said of its coarse time, and fails nothing."""
    limits: Sequence[LimitResult] = ()
    """Those of its budget, whether they were kept or not."""
    ranks_differ: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Where all ranks were to make the same calls, the ops of which they did not: the calls on each rank."""
    base_sites: WindowSites | None = None
    """Which lines asked for ops in what it is compared with; None where that is not known."""
    base_sites_lost: str = ""
    """Why it is not, where that was looked for."""
    sites_lost: str = ""
    """Why it is not known which lines asked for ops, where that was to be found out."""
    base_functions: causes.Before | None = None
    """How often each Python function was called in what it is compared with; None where that is not known."""
    base_loops: causes.Before | None = None
    """How often loops went round there, by function."""
    trace: str = ""
    """The file with a trace of one of its rounds; empty where none was written."""
    trace_lacks: str = ""
    """What of it is in no trace, and why, where one was asked for."""

    @property
    def name(self) -> str:
        """The name of the window."""
        return self.numbers.name

    @property
    def environment(self) -> Environment:
        """Where it was measured."""
        return self.numbers.environment.environment

    @property
    def verdict(self) -> Verdict:
        """The verdict against the baseline."""
        if self.diff is None:
            return Verdict.NO_BASELINE if self.no_baseline else Verdict.OK
        # Nobody expects the times of a few rounds to be compared: there equal calls are all there is to be right.
        few = self.diff.verdict is Verdict.INCOMPARABLE and not self.untimed
        if self.unseen and not self.accepted and not self.does_more:  # what was seen to do more is certain
            return Verdict.UNSEEN
        if self.undecided and not self.diff.verdict.is_regression:
            return Verdict.NOISY
        passes = self.accepted or self.excused or few or (self.allowed and not self.regressions)
        return Verdict.OK if passes else self.diff.verdict

    @property
    def does_more(self) -> bool:
        """Whether it does more than in its baseline, which is known without its times."""
        return any(row.verdict.does_more for row in self.worse)

    @property
    def worse(self) -> list[Row]:
        """The rows of ops, and of the window, that are worse than before and that nothing accepts or excuses."""
        if self.diff is None or self.accepted or self.excused:
            return []
        return [row for row in worse(self.diff) if row.op not in self.allowed]

    @property
    def _found(self) -> tuple[list[Finding], list[Finding]]:
        """What is worse than before: what fails the test, and what a commit accepts."""
        found: tuple[list[Finding], list[Finding]] = [], []
        is_allowed = False
        for finding in self.diff.findings() if self.diff else ():
            # A line without a cause adds to the one before it.
            is_allowed = (finding.op or TIME) in self.allowed if finding.cause else is_allowed
            found[is_allowed].append(finding)
        return found

    @property
    def regressions(self) -> list[Finding]:
        """What is worse than the baseline, and was not accepted."""
        if self.diff is None or self.accepted:
            return []
        lost = [Finding(Verdict.UNSEEN.value, None, self.unseen, Verdict.UNSEEN.value)] if self.unseen else []
        lost += [Finding(Verdict.UNSEEN.value, None, f"  {text}") for text in self.instead]
        return [*([] if self.excused else self._with_causes(self._found[0])), *lost]

    def _with_causes(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the *findings*, each with where it comes from, as far as that is known; the same is told once."""
        found, told = [], set[str]()
        for each in findings:
            explained = self.numbers.explained.get(each.op or each.rule)
            why = [text for text in (*self._python_causes(each), explained) if text and text not in told]
            told.update(why)
            found += [each, *(Finding(each.rule, each.op, f"  {text}") for text in why)]
        return found

    def _python_causes(self, finding: Finding) -> list[str]:
        python, of = self.numbers.python, finding.op or finding.rule
        if python is None or not finding.cause:
            return []
        if of == PYTHON_CALLS:
            return causes.of_calls(self.base_functions, python)
        if of == LOOP_ITERATIONS:
            return causes.of_loops(self.base_loops, python)
        names = {"gc.collect"} if of in OF_PYTHON else counted_as(of.removeprefix(PREFIX), python)
        return list(causes.lines_of(names, python)) if of in OF_PYTHON or of.startswith(PREFIX) else []

    @property
    def wanted_functions(self) -> set[str]:
        """The Python functions of which the user will ask which lines call them."""
        python, wanted = self.numbers.python, set[str]()
        if python is None or self.accepted:
            return wanted
        for each in [*self.budget, *self._found[0]]:
            of = each.op or each.rule
            if of in (PYTHON_CALLS, LOOP_ITERATIONS):
                wanted |= causes.grown(self.base_functions or causes.NOTHING, python.functions).keys()
            elif of in OF_PYTHON:
                wanted.add("gc.collect")
            elif of.startswith(PREFIX):
                wanted |= counted_as(of.removeprefix(PREFIX), python)
        return wanted

    @property
    def asked(self) -> list[str]:
        """The ops, names in a budget, or grad_nodes, of which the user will ask where they come from."""
        limits = [each.op or each.rule for each in self.budget if not each.is_about_time]
        asked = [*limits, *(row.op for row in self.worse if row.verdict.does_more)]
        asked = [
            (FACTS[name].lines_of if name in FACTS else "") or name for name in asked if not name.startswith(PREFIX)
        ]
        return [name for name in dict.fromkeys(asked) if name in WITH_LINES or name not in (*WINDOW_KEYS, *FACTS)]

    @property
    def remarks(self) -> list[str]:
        """What to say of a test that passes: the backend's words, improvements, and changes that were accepted."""
        said_by_backend = (*self.numbers.remarks, *self.said)
        if self.diff is None:
            # What every call leaves behind is worth a line, though nothing says that it may not.
            return [*said_by_backend, *dict.fromkeys(self.numbers.explained.values())]
        said_by_backend = (*said_by_backend, *self.diff.not_judged)
        if self.excused:
            said = "; ".join(map(str, self.diff.findings()))
            return [*said_by_backend, f"{said}; but {self.excused}, {DEPENDS}"]
        return [*said_by_backend, *map(str, self.diff.findings() if self.accepted else ()), *self.diff.improvements()]

    def with_remark(self, text: str) -> JudgedWindow:
        """Return it with one more remark."""
        return replace(self, numbers=structs.replace(self.numbers, remarks=(*self.numbers.remarks, text)))

    @property
    def untimed(self) -> str:
        """Why times were not judged though there were enough rounds; empty where they were, or nobody expects it."""
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
        """Whether times were compared with a baseline's."""
        return self.diff is not None and not self.diff.times

    @property
    def findings(self) -> list[Finding]:
        """Everything that fails the test."""
        return [*self._with_causes(self.budget), *self.differences, *self.regressions]

    @property
    def differences(self) -> list[Finding]:
        """The ops of which ranks did not make the same calls."""
        found = []
        for op, by_rank in self.ranks_differ.items():
            said = on_ranks(dict(enumerate(by_rank)))
            found.append(Finding("ranks", op, f"{op}: calls differ between ranks: {said}", f"{op} {said}"))
        return found

    @property
    def grown(self) -> dict[str, tuple[GrownLine, ...]]:
        """The lines that ask for more than before of an op that fails it."""
        found: dict[str, tuple[GrownLine, ...]] = {}
        for op in self.asked:
            sites = self.numbers.sites.get(op, ())
            at = {Place(line.file, line.function, line.text): line for site in sites for line in site.lines}
            by, more = self.grown_of(op)
            if more:
                found[op] = tuple(GrownLine(at[each.place], each.more, each.is_new, by) for each in more)
        return found

    def grown_of(self, op: str) -> tuple[Amount, tuple[Grown, ...]]:
        """Return the lines that ask for more of an op, and of what: calls, or FLOPs or bytes where its work grew."""
        if self.base_sites is None:
            return "calls", ()
        row = next((row for row in (self.diff.rows if self.diff else ()) if row.op == op), None)
        before, now = self.base_sites.get(op, {}), kept_sites({op: self.numbers.sites.get(op, ())})[op]
        for by in _amounts_of(row):
            if found := grown(before, now, by):
                return by, found
        return "calls", ()

    def result(self, machine: str, parallel: bool, compared: bool) -> WindowResult:
        """Return what is kept of it; *parallel*: other tests ran at the same time, *compared*: it has a baseline."""
        return WindowResult(
            **{name: getattr(self.numbers, name) for name in WindowNumbers.__struct_fields__},
            machine=machine,
            parallel=parallel,
            verdict=self.verdict if compared else None,
            findings=tuple(map(str, self.findings)),
            allowed=tuple(
                f"{finding}; {TRAILER} in {self.allowed[finding.op or TIME]}"
                for finding in self._found[1]
                if finding.cause
            ),
            causes=tuple(Cause(each.rule, each.op, not each.cause) for each in self.findings),
            rows=tuple(map(_row, self.diff.rows)) if self.diff else (),
            grown=self.grown,
            whole=_row(self.diff.total) if self.diff else None,
            is_wall=self.diff is not None and self.diff.wall,
            limits=tuple(self.limits),
            times_changed=self.diff is not None and self.diff.times_changed,
            times_judged=self.times_judged if self.diff else None,
            coarsely=self.coarsely,
            untimed=self.diff.times if self.diff else "",
            no_baseline=self.no_baseline,
            processes=() if parallel else self.processes,
            trace=self.trace,
        )


def _amounts_of(row: Row | None) -> Iterator[Amount]:
    """Yield by which amounts lines are compared that explain a *row*; FLOPs say more than bytes."""
    if row is None or row.verdict is not Verdict.MORE_WORK or row.base is None or row.now is None:
        yield "calls"
        return
    base, now = row.base, row.now
    amounts: tuple[tuple[Amount, Range | None, Range | None], ...] = (
        ("flops", base.flops, now.flops),
        ("bytes", base.bytes, now.bytes),
    )
    for by, before, after in amounts:
        if before is not None and after is not None and after.most > before.most * _WORK_GREW:
            yield by


def limits_of(
    budget: Budget,
    profile: OpProfile,
    aliases: Mapping[str, str],
    known: Collection[str],
    python: PythonCalls | None = None,
) -> Iterator[LimitResult]:
    """Yield the limits of a *budget* with what *profile* uses of them; *known* and *python* as in `Budget.check`."""
    for use in budget.uses(profile, aliases, known, python):
        most = use.limit.most
        share = use.high / most if most else None
        yield LimitResult(use.limit.what.name, use.limit.written(use.digits), use.op, use.used, share, use.is_broken)
    broken = {finding.rule for finding in budget.check(profile, aliases, known, python)}
    for rule, names in (("only", budget.only), ("top", budget.top)):
        if names is not None:
            yield LimitResult(rule, ", ".join(names) or "no op", is_broken=rule in broken)


def _row(row: Row) -> RowResult:
    return RowResult(row.op, row.verdict, *row.calls, row.base_ns, row.now_ns, row.changed_work)
