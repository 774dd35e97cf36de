"""One pytest run with ``--opprof``: measures tests, judges each where it runs, and keeps the baselines at the end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from . import reports, runs
from .baselines import Entry, environment_of
from .compare import compare
from .environment import machine
from .errors import BackendError, NothingMeasured, OpprofError, UsageError
from .fixture import MEASUREMENT, Measurement, settings_of
from .judge import Verdict
from .model import OpProfile, joined
from .recorder import Window
from .remeasure import LOOKS, VARIABLE, measure_again
from .reports import BODY, WindowReport
from .runs import TestRecord
from .settings import Plan
from .stale import Collected, split_id, stale
from .store import Store

_PLAN = pytest.StashKey[Plan]()
_RECORD = pytest.StashKey[TestRecord]()
_WRONG_MARK = pytest.StashKey[UsageError]()


class Failed(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # pytest sets the attribute at run time
    """A test that broke its budget or got worse: fails it where it runs, without a traceback."""

    __module__ = "builtins"  # as pytest's own: the short summary then says "Failed: ..."

    def __init__(self, message: str) -> None:
        super().__init__(message, pytrace=False)


class Session:
    """The hooks of a run that measures. Workers of pytest-xdist measure and judge; the controller counts and writes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = settings_of(config)
        self.is_worker = hasattr(config, "workerinput")
        self.is_look = VARIABLE in os.environ
        self.store = Store(self.settings.baselines)
        self.collected = Collected(
            config.rootpath,
            config.args,
            config.invocation_params.dir,
            partial=bool(config.getoption("lf", False) or config.getoption("pyargs", False)),
        )
        self.records: dict[str, TestRecord] = {}
        self.stale: list[str] = []
        self.errors: list[str] = []
        self.lines: list[str] = []
        """What to say at the end, beside the tests' own remarks."""

    # --- what is asked

    def pytest_report_header(self) -> str:
        """Say what measures and what it is compared with."""
        settings = self.settings
        backends = ",".join(settings.backends) if settings.backends else "auto"
        update = {"all": ", updating them", "new": ", adding new ones", "": ""}[settings.update]
        return (
            f"opprof: backend {backends}, timing {settings.timing}, baselines in {self._shown(self.store.root)}{update}"
        )

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read every mark before the first test runs. Raises pytest.UsageError with all that are wrong."""
        errors = []
        for item in items:
            try:
                item.stash[_PLAN] = Plan.of(item, self.settings)
            except UsageError as error:
                errors.append(str(error))
                item.stash[_WRONG_MARK] = error
        # In a worker of pytest-xdist it would be an internal error: there each such test fails.
        if errors and not self.is_worker:
            raise pytest.UsageError("\n".join(dict.fromkeys(errors)))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember that these tests exist."""
        self.collected.add(item.nodeid for item in items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember that these tests exist."""
        self.collected.add(item.nodeid for item in session.items)

    def _shown(self, path: Path) -> str:
        """Return *path* as it is best read: relative to the root directory if it is below it."""
        return str(path.relative_to(self.config.rootpath) if path.is_relative_to(self.config.rootpath) else path)

    # --- measuring

    # Not pytest_pyfunc_call: unittest's methods never come through it.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the body of a marked test, and judge all its windows."""
        if _WRONG_MARK in item.stash:
            raise Failed(str(item.stash[_WRONG_MARK]))
        plan = item.stash[_PLAN]
        if not plan.measured and MEASUREMENT not in item.stash:
            return (yield)
        with _told_plainly(item):
            measurement = Measurement.of(item)
        try:
            result = (yield from _measure_body(item, measurement)) if plan.measured else (yield)
            with _told_plainly(item):
                windows = [self._looked_again(item, plan, window) for window in self._judge(item, measurement)]
        finally:
            measurement.recorder.abandon()
            del item.stash[MEASUREMENT]
        if windows:
            self._conclude(item, windows, plan)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what was measured on the report, which travels to the controller, unless the test failed by itself."""
        report = yield
        record = item.stash.get(_RECORD, None)
        if call.when == "call" and record is not None:
            del item.stash[_RECORD]
            if call.excinfo is None or isinstance(call.excinfo.value, Failed):
                report.opprof = asdict(replace(record, outcome=report.outcome))  # type: ignore[attr-defined]
        return report

    def _judge(self, item: pytest.Item, measurement: Measurement) -> Iterator[WindowReport]:
        """Yield the report of each window. Raises what makes judging impossible."""
        plan = measurement.plan
        profiles: dict[str, list[OpProfile]] = {}
        for window in measurement.windows:
            profiles.setdefault(window.name, []).append(window.profile)
        rounds = {window.name for window in measurement.rounds}
        if rounds and plan.measured:
            # In a marked test that runs its own rounds, they are what the marks are about.
            profiles.pop(BODY, None)
        for name, parts in profiles.items():
            limited = name in rounds or name == BODY
            profile = joined(parts)
            if name == BODY and not len(profile.op):
                if not plan.marked:
                    continue
                if not plan.budget.allows_nothing:
                    raise NothingMeasured(_NO_OP)
            yield self._report(item, plan, name, profile, limited)

    def _report(self, item: pytest.Item, plan: Plan, name: str, profile: OpProfile, limited: bool) -> WindowReport:
        where = (profile.environment, *split_id(item.nodeid))
        base = self.store.entry(*where, name) if plan.baseline and not self.is_look else None
        known = base.calls if base else ()
        broken = plan.budget.check(profile, self.settings.aliases, known) if limited else []
        report = WindowReport(name, profile, broken, accepted=self.settings.update == "all")
        if base:
            now = Entry.of(profile, machine())
            return replace(report, diff=compare(base, now, machine(), plan.rule, self.is_worker, plan.top))
        if not plan.baseline or self.settings.update:
            return report
        return replace(report, no_baseline=reports.no_baseline(where[0], self.store.other_environments(*where)))

    def _looked_again(self, item: pytest.Item, plan: Plan, window: WindowReport) -> WindowReport:
        """Return the report of a window that is slower and nothing else after measuring it in fresh processes."""
        if window.verdict is not Verdict.SLOWER or window.budget or window.diff is None:
            return window
        base = self.store.entry(window.profile.environment, *split_id(item.nodeid), window.name)
        now = Entry.of(window.profile, machine())
        for look in range(LOOKS):
            try:
                again = measure_again(self.config, item.nodeid).get(window.name)
            except BackendError as error:
                return replace(window, diff=window.diff.unjudged(f"looked slower, but {error}"))
            if base is None or again is None or again.calls != now.calls:
                return replace(window, diff=window.diff.unjudged("looked slower, but a fresh process ran other ops"))
            now = now.with_rounds_of(again)
            diff = replace(compare(base, now, machine(), plan.rule, top=plan.top), processes=look + 2)
            window = replace(window, diff=diff)
            if window.verdict is not Verdict.SLOWER:
                break
        return window

    def _conclude(self, item: pytest.Item, windows: Sequence[WindowReport], plan: Plan) -> None:
        """Keep the record of a test, and fail it if it must. Raises Failed."""
        verbosity = getattr(self.config.option, "verbose", 0)  # pytest 8.0: get_verbosity() needs -p terminal
        titled = {reports.titled(item.nodeid, window.name): window for window in windows}
        item.stash[_RECORD] = TestRecord(
            id=item.nodeid,
            status=runs.status(windows),
            windows=[runs.plain_window(window, machine(), self.is_worker, plan.baseline) for window in windows],
            remarks=[f"{title}: {remark}" for title, window in titled.items() for remark in window.remarks],
            missing={title: window.no_baseline for title, window in titled.items() if window.no_baseline},
            untimed={
                title: f"times not judged, {window.untimed}" for title, window in titled.items() if window.untimed
            },
            table=[line for window in windows for line in reports.table(window, 0, True)] if verbosity > 1 else [],
        )
        if any(window.findings for window in windows):
            accept = f"pytest {shlex.quote(item.nodeid)} --opprof-update"
            raise Failed(reports.failure(item.nodeid, windows, plan.top, verbosity > 0, accept))
        missing = next((window.no_baseline for window in windows if window.no_baseline), "")
        if missing and self.settings.strict:
            raise Failed(f"{missing}: record it with pytest {shlex.quote(item.nodeid)} --opprof-update-new")

    # --- the end of the run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was measured; of a test that is run again, the last."""
        if report.when == "call":
            self.records.pop(report.nodeid, None)
            if hasattr(report, "opprof"):
                self.records[report.nodeid] = TestRecord(**report.opprof)
        elif report.failed and report.nodeid in self.records:
            self.records[report.nodeid].outcome = "failed"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect what a worker of pytest-xdist knows; one that crashed says nothing."""
        self.collected.merge(getattr(node, "workeroutput", {}).get("opprof", {}))

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write baselines and JSON. What cannot be written fails the run; so do stale baselines, if strict."""
        if self.is_worker:
            self.config.workeroutput["opprof"] = self.collected.plain()  # type: ignore[attr-defined]  # xdist's
            return
        if self.config.option.collectonly:
            return
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        self.stale = [] if interrupted else sorted(self._stale())
        try:
            if self.settings.update and not interrupted and not self.is_look:
                self._update()
            if self.settings.json:
                runs.write(self.settings.json, list(self.records.values()), self.stale, interrupted)
        except OpprofError as error:
            self.errors.append(str(error))
        if self.settings.update and interrupted:
            self.errors.append("interrupted: no baseline was written")
        failed = self.errors or (self.stale and self.settings.strict)
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _stale(self) -> Iterator[str]:
        folders = set()
        for record in self.records.values():
            module, test = split_id(record.id)
            by_environment: dict[Any, set[str]] = {}
            for window in record.windows:
                by_environment.setdefault(environment_of(window["environment"]), set()).add(window["name"])
            for environment, windows in by_environment.items():
                folders.add(environment.folder)
                if record.outcome == "passed":
                    gone = set(self.store.windows(environment, module, test)) - windows
                    yield from (f"{reports.titled(record.id, window)} [{environment}]" for window in gone)
        for path, test in stale(self.store.root, folders, self.collected):
            yield f"{self._shown(path)}: {test}"

    def _update(self) -> None:
        """Write the baselines of the tests that passed. Raises BaselineError."""
        counts = {"new": 0, "changed": 0, "unchanged": 0}
        for record in self.records.values():
            if record.outcome != "passed":
                continue
            done = {self._put(record.id, window) for window in record.windows if window["verdict"] is not None}
            for word in counts:
                if word in done:
                    counts[word] += 1
                    break
        paths = self.store.save()
        said = ", ".join(f"{number} {word}" for word, number in counts.items())
        self.lines.append(
            f"baselines of {sum(counts.values())} tests: {said}" + "".join(f"\n  wrote {self._shown(p)}" for p in paths)
        )

    def _put(self, node_id: str, window: dict[str, Any]) -> str:
        where = (environment_of(window["environment"]), *split_id(node_id), window["name"])
        base, now = self.store.entry(*where), runs.entry_of(window)
        if base and self.settings.update == "new":
            return "unchanged"
        entry = base.updated(now, window["machine"], window["times_changed"]) if base else now
        if entry == base:
            return "unchanged"
        self.store.put(*where, entry)
        return "changed" if base else "new"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what the tests did, and always the line that counts them."""
        if self.config.option.collectonly or getattr(self.config.option, "no_summary", False):
            return
        lines = list(self._summary(self.config.get_verbosity()))
        terminalreporter.ensure_newline()
        if len(lines) > 1:
            terminalreporter.section("opprof", sep="-")
        for line in lines:
            terminalreporter.write_line(line)

    def _summary(self, verbosity: int) -> Iterator[str]:
        records = list(self.records.values())
        if verbosity >= 0:
            for record in records:
                if record.table:
                    yield from ["", record.id, *record.table]
                yield from record.remarks
            if not self.settings.update and any(record.status == "improved" for record in records):
                yield "keep what became cheaper: pytest --opprof-update"
            yield from _grouped([record.untimed for record in records], verbosity)
            yield from _grouped([record.missing for record in records], verbosity)
            if any(record.missing for record in records):
                yield "record them: pytest --opprof-update-new"
            yield from self.lines
        if self.stale and (verbosity >= 0 or self.settings.strict):
            yield f"{len(self.stale)} stale baselines (opprof baselines prune removes them):"
            yield from (f"  {line}" for line in self.stale)
        yield from (f"opprof: error: {error}" for error in self.errors)
        yield runs.summary(records) if records else _NOTHING


_NO_OP = (
    "nothing was recorded: no op ran, or none that a backend sees (torch must be imported at the top of the module,"
    " NumPy arrays come from opprof.array()). If no op is meant to run, say op_budget(calls=0)"
)
_NOTHING = (
    "opprof: nothing was measured: no test that ran has an op_budget or opprof mark or opened a window of the opprof"
    " fixture (--opprof-all measures every test)"
)


def _measure_body(item: pytest.Item, measurement: Measurement) -> Generator[None, object, object]:
    """Run the body, as often as its mark says, inside the window `BODY`."""
    plan = measurement.plan
    for _ in range(plan.warmup):
        measurement.begin_round()
        item.runtest()
    measurement.forget()
    body = Window(BODY, measurement.aliases)
    running = False
    try:
        with measurement.recorder.open(body):
            for number in range(plan.rounds):
                measurement.begin_round()
                running = True
                with measurement.recorder.step(body):
                    # pytest itself runs the last round, between the wrappers of other plugins.
                    result = item.runtest() if number < plan.rounds - 1 else (yield)
                running = False
    except NothingMeasured:
        if running or plan.marked:
            raise
        return result
    except OpprofError as error:
        if running:
            raise  # the test's own mistake: with the traceback to its line
        raise _unmeasured(item, error) from None
    measurement.windows.append(body)
    return result


@contextmanager
def _told_plainly(item: pytest.Item) -> Iterator[None]:
    """Fail the test with the message of an error of ours, without a traceback."""
    try:
        yield
    except OpprofError as error:
        raise _unmeasured(item, error) from None


def _unmeasured(item: pytest.Item, error: OpprofError) -> Failed:
    item.stash[_RECORD] = TestRecord(item.nodeid, "not measured")
    return Failed(f"opprof could not measure {item.nodeid}: {error}")


def _grouped(reasons: Iterable[Mapping[str, str]], verbosity: int) -> Iterator[str]:
    """Yield a line for each reason, with the windows it holds for."""
    by_reason: dict[str, list[str]] = {}
    for title, reason in (item for each in reasons for item in each.items()):
        by_reason.setdefault(reason, []).append(title)
    for reason, titles in by_reason.items():
        shown = titles if verbosity > 0 else titles[:3]
        more = f" and {len(titles) - len(shown)} more" if len(titles) > len(shown) else ""
        yield f"{reason}: {', '.join(shown)}{more}"
