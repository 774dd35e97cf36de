"""One pytest run with ``--opprof``: measures tests, judges each where it runs, and keeps the baselines at the end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from . import reports, runs
from .conclusion import concluded
from .conditions import RUN, Core, keep_memory
from .environment import machine
from .errors import NothingMeasured, OpprofError, UsageError
from .fixture import MEASUREMENT, TURN, Measurement, settings_of
from .judge import BASE_PROCESSES, LEAST_ROUNDS
from .recorder import LEFT, OPEN, Window
from .recording import is_timed
from .recording import record as recorded
from .remeasure import ARGUMENTS, CORE, asked_for
from .reports import BODY, WindowReport
from .runs import TestRecord
from .settings import Plan
from .side import VARIABLE as SIDE
from .stale import Collected, split_id, stale
from .store import Store
from .stored import Stored
from .units import plural
from .updates import Updates, windows_by_environment

_RECORD = pytest.StashKey[TestRecord]()
_LOCK = "opprof-lock"
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
        self.is_parallel = self.is_worker and not self.settings.serialize
        os.environ.setdefault(RUN, str(os.getpid()))
        asked = asked_for()
        self.look_at = asked.tests if asked else None
        is_side = os.environ.get(SIDE) is not None
        self.is_apart = self.look_at is not None or is_side
        """Whether another run judges what this one measures."""
        self.store = Store(self.settings.baselines)
        self.updates = Updates(self.store, self.settings)
        # Sides that take turns find a core as slow as each other.
        if self.settings.noise != "ignore" and not self.is_parallel and not is_side:
            config.stash[CORE] = asked.core if asked else Core()
        self.collected = Collected(
            config.rootpath,
            config.args,
            config.invocation_params.dir,
            partial=bool(config.getoption("lf", False) or config.getoption("pyargs", False)),
        )
        self.stored = Stored(config, self.settings, self.store, parallel=self.is_parallel, apart=self.is_apart)
        self.may_judge_times = False
        """Whether a test was collected that has rounds enough, or the fixture, which may run as many."""
        self.lock_folder: tempfile.TemporaryDirectory[str] | None = None
        self.modules: set[str] = set()
        """Those whose baselines said how fast a core can be."""
        self.failed: set[str] = set()
        self.records: dict[str, TestRecord] = {}
        self.stale: list[str] = []
        self.errors: list[str] = []
        self.lines: list[str] = []
        """What to say at the end, beside the tests' own remarks."""

    def register_companions(self) -> None:
        """Register what makes this run a comparison of two versions, or one side of it."""
        from .against import Against
        from .side import plugin

        if side := plugin(self.config):
            self.config.pluginmanager.register(side, "opprof-side")
            self.config.stash[TURN] = side.turn
        elif self.settings.against and not self.config.option.collectonly:
            against = Against(self.config, self.settings.against, self.settings.against_python)
            self.config.pluginmanager.register(against, "opprof-against")

    # --- what is asked

    def pytest_report_header(self) -> str:
        """Say what measures and what it is compared with."""
        settings = self.settings
        backends = ",".join(settings.backends) if settings.backends else "auto"
        update = {"all": ", updating them", "new": ", adding new ones", "": ""}[settings.update]
        compared = f"against {settings.against}" if settings.against else f"baselines in {self._shown(self.store.root)}"
        threads = f"{plural(settings.threads, 'thread') if settings.threads else 'all threads'} where times are judged"
        return f"opprof: backend {backends}, timing {settings.timing}, {threads}, {compared}{update}"

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Collect only the module of the test that this process is to measure again, if it is."""
        if self.look_at is None or collection_path.is_dir():
            return None
        wanted = {self.config.rootpath / split_id(test)[0] for test in self.look_at}
        return None if collection_path in wanted else True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read every mark before the first test runs. Raises pytest.UsageError with all that are wrong."""
        if self.look_at is not None:
            items[:] = [item for item in items if item.nodeid in self.look_at]
        errors = []
        for item in items:
            try:
                rounds = Plan.of(item, self.settings).rounds
                self.may_judge_times |= rounds >= LEAST_ROUNDS or "opprof" in getattr(item, "fixturenames", ())
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
        with _told_plainly(item):
            plan = Plan.of(item, self.settings)  # again: a fixture may have added marks
        if not plan.measured and MEASUREMENT not in item.stash:
            return (yield)
        with self._alone():
            return (yield from self._measured(item, plan))

    def _measured(self, item: pytest.Item, plan: Plan) -> Generator[None, object, object]:
        self._know_core(split_id(item.nodeid)[0])
        with _told_plainly(item):
            measurement = Measurement.of(item)
        try:
            if plan.measured:
                with measurement.threads_for(plan.rounds):
                    result = yield from _measure_body(item, measurement)
                    windows = self._judged(item, measurement, partial(_measure_again, item, measurement))
            else:
                result = yield
                windows = self._judged(item, measurement)
        finally:
            measurement.is_over = True
            measurement.recorder.abandon()
            del item.stash[MEASUREMENT]
        broken = {window.name: window.unfinished for window in measurement.windows if window.unfinished}
        if windows or broken:
            self._conclude(item, windows, plan, broken)
        return result

    def _judged(
        self, item: pytest.Item, measurement: Measurement, again: Callable[[], Sequence[Window]] | None = None
    ) -> list[WindowReport]:
        with _told_plainly(item):
            _check_finished(measurement)
            return self.stored.reports(item, measurement, again)

    def _know_core(self, module: str) -> None:
        """Let rounds wait until the core is as fast as where the baselines of a module were recorded."""
        core = self.config.stash.get(CORE, None)
        if core and module not in self.modules:
            self.modules.add(module)
            known = [ns for run in self.store.runs(module, machine()) for ns in run.yardstick_ns]
            core.best_ns = min([core.best_ns, *known])

    def _alone(self) -> AbstractContextManager[object]:
        """Wait until no other worker measures, where they are to do it one at a time."""
        if not self.is_worker or not self.settings.serialize:
            return nullcontext()
        # Imported here: an extra of its own.
        from filelock import FileLock

        return FileLock(self.config.workerinput[_LOCK])  # type: ignore[attr-defined]  # xdist's

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist what it needs to measure by itself: the lock that lets one do so at a time."""
        if self.settings.serialize:
            self.lock_folder = self.lock_folder or tempfile.TemporaryDirectory(prefix="opprof-")
            node.workerinput[_LOCK] = f"{self.lock_folder.name}/lock"
            node.workerinput[ARGUMENTS] = list(map(str, self.config.invocation_params.args))

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

    def _conclude(
        self, item: pytest.Item, windows: Sequence[WindowReport], plan: Plan, broken: Mapping[str, str]
    ) -> None:
        """Keep the record of a test, and fail it if it must. Raises Failed.

        *broken* are the windows without numbers, and why.
        """
        verbosity = getattr(self.config.option, "verbose", 0)  # pytest 8.0: get_verbosity() needs -p terminal
        item.stash[_RECORD], failure = concluded(
            item.nodeid, windows, plan, self.settings, verbosity, broken, self.is_parallel
        )
        if failure:
            raise Failed(failure)

    # --- more processes

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Measure what is timed in further processes, for a baseline or because the user asks for it."""
        if self.may_judge_times and self.settings.noise != "ignore" and not self.config.option.collectonly:
            keep_memory()  # before the first test: what one costs is not to depend on those before it
        result = yield
        wanted = self.settings.processes or (BASE_PROCESSES if self.settings.update else 1)
        if wanted > 1 and not self.is_worker and not self.is_apart:
            tests = [record for record in self.records.values() if self._wants_times(record)]
            self.errors += recorded(self.config, tests, wanted, self.settings) if tests else ()
        return result

    def _wants_times(self, record: TestRecord) -> bool:
        """Tell whether the times of a test would be written, or every timed test is to be measured so often."""
        timed = [window for window in record.windows if is_timed(window) and window["verdict"] is not None]
        if record.outcome != "passed" or not timed:
            return False
        return not self.settings.update or any(self.updates.lacks_times(record.id, window) for window in timed)

    # --- the end of the run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was measured; of a test that is run again, the last."""
        if report.when == "call":
            self.records.pop(report.nodeid, None)
            if hasattr(report, "opprof"):
                self.records[report.nodeid] = TestRecord(**report.opprof)
        # A failing subtest reports before its test, which "passed"; a failing teardown after it.
        if report.failed and not hasattr(report, "opprof"):
            self.failed.add(report.nodeid)
        elif report.when == "setup":
            self.failed.discard(report.nodeid)
        if report.nodeid in self.failed and report.nodeid in self.records:
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
        if self.lock_folder:
            self.lock_folder.cleanup()
        if self.config.option.collectonly:
            return
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        looks_only = interrupted or self.is_apart or bool(self.settings.against)
        with self._told_at_the_end():
            if self.settings.update and not looks_only:
                self._update()
        with self._told_at_the_end():
            self.stale = [] if looks_only else sorted(self._stale())
        with self._told_at_the_end():
            if self.settings.json:
                runs.write(self.settings.json, list(self.records.values()), self.stale, interrupted)
        if self.settings.update and interrupted:
            self.errors.append("interrupted: no baseline was written")
        failed = self.errors or (self.stale and self.settings.strict)
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @contextmanager
    def _told_at_the_end(self) -> Iterator[None]:
        try:
            yield
        except OpprofError as error:
            self.errors.append(str(error))

    def _stale(self) -> Iterator[str]:
        folders = set()
        for record in self.records.values():
            folders |= {environment.folder for environment in windows_by_environment(record)}
            if record.outcome == "passed":
                for environment, window in self.updates.gone_windows(record):
                    yield f"{reports.titled(record.id, window)} [{environment}]"
        for path, test in stale(self.store.root, folders, self.collected, self.store.at):
            yield f"{self._shown(path)}: {test}"

    def _update(self) -> None:
        """Write the baselines of the tests that passed. Raises BaselineError."""
        counts, paths = self.updates.write(self.records.values())
        said = ", ".join(f"{number} {word}" for word, number in counts.items())
        self.lines.append(
            f"baselines of {plural(sum(counts.values()), 'test')}: {said}"
            + "".join(f"\n  wrote {self._shown(path)}" for path in paths)
        )

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        """Print what the tests did, and always the line that counts them."""
        options = config.option
        idle = (
            options.collectonly or options.setuponly or options.setupplan or exitstatus == pytest.ExitCode.USAGE_ERROR
        )
        if idle or getattr(options, "no_summary", False):
            return
        lines = list(self._summary(self.config.get_verbosity(), exitstatus == pytest.ExitCode.INTERRUPTED))
        terminalreporter.ensure_newline()
        if len(lines) > 1:
            terminalreporter.section("opprof", sep="-")
        for line in lines:
            terminalreporter.write_line(line)

    def _summary(self, verbosity: int, interrupted: bool) -> Iterator[str]:
        records = list(self.records.values())
        if verbosity >= 0:
            for record in records:
                if record.table:
                    yield from ["", record.id, *record.table]
                yield from record.remarks
            keeps = not self.settings.update and not self.settings.against
            if keeps and any(record.status == "improved" for record in records):
                yield "keep what became cheaper: pytest --opprof-update"
        if verbosity >= -1:
            yield from _grouped([record.untimed for record in records], verbosity)
        if verbosity >= 0:
            if any(record.status == "too noisy" for record in records) and not self.settings.against:
                yield "for a verdict in spite of noise, let two versions take turns: pytest --opprof-against=REV"
            yield from _grouped([record.missing for record in records], verbosity)
            if any(record.missing for record in records) and not self.settings.against:
                yield "record them: pytest --opprof-update-new"
        yield from self.lines
        if self.stale and (verbosity >= 0 or self.settings.strict):
            yield f"{len(self.stale)} stale baselines (opprof baselines prune removes tests, --opprof-update windows):"
            yield from (f"  {line}" for line in self.stale)
        yield from (f"opprof: error: {error}" for error in self.errors)
        yield runs.summary(records) if records else _INTERRUPTED if interrupted else _NOTHING


_INTERRUPTED = "opprof: interrupted before a test was measured to its end"
_NOTHING = (
    "opprof: nothing was measured: no test with an op_budget or opprof mark or a window of the opprof fixture ran to"
    " its end (--opprof-all measures every test)"
)


def _measure_body(item: pytest.Item, measurement: Measurement) -> Generator[None, object, object]:
    """Run the body, as often as its mark says, inside the window `BODY`."""
    for _ in range(measurement.plan.warmup):
        measurement.begin_round()
        _run_once(item)
    return (yield from _measure_rounds(item, measurement))


def _measure_again(item: pytest.Item, measurement: Measurement) -> Sequence[Window]:
    """Run the rounds of the body once more; return its windows, none if anything goes wrong in them.

    What looks slower mostly was the moment, and a fresh process takes seconds. What comes of the test was decided
    before: a body that does not bear to run so often is no failure.
    """
    kept = measurement.windows, measurement.rounds
    measurement.windows, measurement.rounds = [], []
    if measurement.core:
        measurement.core.insist()
    try:
        for _ in _measure_rounds(item, measurement, again=True):
            pass
        return measurement.windows
    except pytest.exit.Exception:
        raise
    except (Exception, pytest.skip.Exception, pytest.fail.Exception):
        if hasattr(item, "_excinfo"):
            item._excinfo = None  # of a unittest.TestCase, for the report
        return []
    finally:
        measurement.windows, measurement.rounds = kept


def _measure_rounds(
    item: pytest.Item, measurement: Measurement, again: bool = False
) -> Generator[None, object, object]:
    plan = measurement.plan
    measurement.forget()
    body = Window(BODY, measurement.aliases)
    body.threads = measurement.threads
    running = False
    try:
        with measurement.recorder.open(body):
            for number in range(plan.rounds):
                measurement.begin_round()
                running = True
                with measurement.recorder.step(body):
                    # pytest itself runs the last round, between the wrappers of other plugins.
                    result = _run_once(item) if again or number < plan.rounds - 1 else (yield)
                running = False
    except NothingMeasured as error:
        if running:
            raise
        if plan.marked:
            raise _unmeasured(item, error) from None
        return result
    except OpprofError as error:
        if running:
            raise  # the test's own mistake: with the traceback to its line
        raise _unmeasured(item, error) from None
    measurement.windows.append(body)
    return result


def _run_once(item: pytest.Item) -> object:
    result = item.runtest()
    if getattr(item, "_excinfo", None):
        # A unittest.TestCase keeps its failures and skips for pytest's report, which takes the first of them.
        raise Failed("a round failed or was skipped")
    return result


@contextmanager
def _told_plainly(item: pytest.Item) -> Iterator[None]:
    """Fail the test with the message of an error of ours, without a traceback."""
    try:
        yield
    except OpprofError as error:
        raise _unmeasured(item, error) from None


def _check_finished(measurement: Measurement) -> None:
    """Raise UsageError for a window without an end: what it saw would be judged by nobody."""
    for window in measurement.windows:
        if window.unfinished in (OPEN, LEFT):
            raise UsageError(
                f"window {window.name!r} {window.unfinished}: it has to end inside the test. Leave a with block or a"
                " loop over rounds at its end, and open windows in the test, not in a fixture"
            )


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
