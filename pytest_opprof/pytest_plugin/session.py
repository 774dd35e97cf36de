"""One pytest run with ``--opprof``: measures tests, judges each where it runs, and keeps the baselines at the end."""

from __future__ import annotations

import os
import shlex
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from ..backends.registry import hints, load_all
from ..baselines.stale import Collected, renamed, stale
from ..baselines.store import Store
from ..baselines.update import Updates, by_environment
from ..errors import BackendError, BaselineError, OpprofError, UsageError
from ..machine.allocator import keep_memory
from ..machine.core import Core
from ..machine.cpu import machine
from ..machine.load import RUN
from ..measure.measurement import Measurement
from ..measure.plan import Plan
from ..measure.window import Window
from ..processes.fresh import Fresh
from ..processes.parent import Parent
from ..processes.pool import Pool
from ..processes.recording import CALL_PROCESSES, Recording, is_timed
from ..processes.side import Side
from ..processes.this_run import ARGUMENTS, CORE
from ..results.run import TestRecord, summary, write
from ..results.test_id import id_of, split_id
from ..results.window import DEPENDS, WindowReport, titled
from ..units import plural
from ..verdict.tolerances import BASE_PROCESSES, LEAST_ROUNDS
from . import body
from .body import RECORD, Call, Failed, keep_unmeasured, told_plainly, unmeasured
from .fixture import MEASUREMENT, TURN, measurement_of, settings_of
from .judging import Stored
from .marks import plan_of
from .outcome import concluded

_LOCK = "opprof-lock"
_WRONG_MARK = pytest.StashKey[UsageError]()


class Session:
    """The hooks of a run that measures. Workers of pytest-xdist measure and judge; the controller counts and writes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.settings = settings_of(config)
        self.is_worker = hasattr(config, "workerinput")
        self.is_parallel = self.is_worker and not self.settings.serialize
        os.environ.setdefault(RUN, str(os.getpid()))
        self.parent = Parent.found()
        """The run that judges what this one measures; None for one on its own."""
        self.store = Store(self.settings.baselines)
        self.updates = Updates(self.store, self.settings)
        self.pool = Pool(config)
        # Sides that take turns find a core as slow as each other.
        is_side = self.parent is not None and self.parent.kind == "side"
        if self.settings.noise != "ignore" and not self.is_parallel and not is_side:
            config.stash[CORE] = Core()
        self.collected = Collected(
            config.rootpath,
            config.args,
            config.invocation_params.dir,
            partial=bool(config.getoption("lf", False) or config.getoption("pyargs", False)),
        )
        self.stored = Stored(
            config, self.settings, self.store, self.pool, parallel=self.is_parallel, apart=self.parent is not None
        )
        self.may_judge_times = False
        """Whether a test was collected that has rounds enough, or the fixture, which may run as many."""
        self.lock_folder: tempfile.TemporaryDirectory[str] | None = None
        self.modules: set[str] = set()
        """Those whose baselines said how fast a core can be."""
        self.has_written = False
        """Whether calls were written."""
        self.is_cut = False
        """Whether the run ended before its last test."""
        self.ran = False
        """Whether any test ran."""
        self.failed: set[str] = set()
        self.records: dict[str, TestRecord] = {}
        self.stale: list[str] = []
        self.errors: list[str] = []
        self.lines: list[str] = []
        """What to say at the end, beside the tests' own remarks."""

    def register_companions(self) -> None:
        """Register what makes this run a comparison of two versions, or what another run started it for."""
        from .against import Against

        manager = self.config.pluginmanager
        if self.parent and self.parent.kind == "side":
            side = Side(self.config, self.parent)
            manager.register(side, "opprof-side")
            self.config.stash[TURN] = side.turn
        elif self.parent:
            manager.register(Fresh(self.config, self.parent), "opprof-fresh")
        elif self.settings.against and not self.config.option.collectonly:
            manager.register(
                Against(self.config, self.settings.against, self.settings.against_python), "opprof-against"
            )

    # --- what is asked

    def pytest_report_header(self) -> str:
        """Say what measures and what it is compared with."""
        settings = self.settings
        backends = ",".join(settings.backends) if settings.backends else "auto"
        update = {"all": ", updating them", "new": ", adding new ones", "": ""}[settings.update]
        compared = f"against {settings.against}" if settings.against else f"baselines in {self._shown(self.store.root)}"
        threads = f"{plural(settings.threads, 'thread') if settings.threads else 'all threads'} where times are judged"
        return f"opprof: backend {backends}, timing {settings.timing}, {threads}, {compared}{update}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read every mark before the first test runs. Raises pytest.UsageError with all that are wrong."""
        errors = []
        for item in items:
            try:
                plan, has_fixture = plan_of(item, self.settings), "opprof" in getattr(item, "fixturenames", ())
                self.may_judge_times |= has_fixture or (plan.measured and plan.rounds >= LEAST_ROUNDS)
                if plan.measured or has_fixture:
                    self.pool.files.add(str(item.path))
            except UsageError as error:
                errors.append(str(error))
                item.stash[_WRONG_MARK] = error
        # In a worker of pytest-xdist it would be an internal error: there each such test fails.
        if errors and not self.is_worker:
            raise pytest.UsageError("\n".join(dict.fromkeys(errors)))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember that these tests exist."""
        self.collected.add(map(id_of, items))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember that these tests exist."""
        self.collected.add(map(id_of, session.items))

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
        call = Call(item)
        try:
            return (yield from self._measured(item, call))
        except Failed as error:
            if not (error.saw_nothing and call.is_over and self.stored.sees_alone(item)):
                raise
            excused = f"alone in a fresh process it has the calls of the baseline, {DEPENDS}"
            keep_unmeasured(item, f"{id_of(item)}: {error.cause}; but {excused}")
        except Exception as error:
            if isinstance(error, BackendError) and error is not call.raised:
                raise unmeasured(item, error) from None
            if error is call.raised or isinstance(error, (OpprofError, pytest.exit.Exception)):
                raise  # the last: `Parent.ask` ends this process
            self._internal_error(f"{id_of(item)} was not measured", error)
            keep_unmeasured(item)
        return call.result if call.is_over else (yield)

    def _measured(self, item: pytest.Item, call: Call) -> Generator[None, object, object]:
        with told_plainly(item):
            plan = plan_of(item, self.settings)  # again: a fixture may have added marks
        if not plan.measured and MEASUREMENT not in item.stash:
            return (yield from call.by_pytest())
        with self._alone():
            self._know_core(split_id(id_of(item))[0])
            with told_plainly(item):
                measurement = measurement_of(item)
            try:
                if plan.measured:
                    with measurement.threads_for(plan.rounds):
                        result = yield from body.measure(call, measurement)
                        # A subtest that fails is reported at once: what is measured again must not fail.
                        has_subtests = "subtests" in getattr(item, "fixturenames", ())
                        again = None if has_subtests else partial(body.measure_again, call, measurement)
                        windows = self._judged(item, measurement, again)
                else:
                    result = yield from call.by_pytest()
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
        with told_plainly(item):
            body.check_finished(measurement)
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
        # Imported here: only workers that take turns need it.
        from filelock import FileLock

        return FileLock(self.config.workerinput[_LOCK])  # type: ignore[attr-defined]  # xdist's

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist how to start fresh processes, and the lock that lets one measure at a time."""
        node.workerinput[ARGUMENTS] = list(map(str, self.config.invocation_params.args))
        if self.settings.serialize:
            self.lock_folder = self.lock_folder or tempfile.TemporaryDirectory(prefix="opprof-")
            node.workerinput[_LOCK] = f"{self.lock_folder.name}/lock"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what was measured on the report, which travels to the controller, unless the test failed by itself."""
        report = yield
        crash: Any = getattr(report.longrepr, "reprcrash", None)
        if crash and call.excinfo and isinstance(call.excinfo.value, Failed):
            # The short summary, --tb=line and JUnit's message show this: the test and the cause, not a line of ours.
            crash.path, crash.lineno = str(item.path), (item.location[1] or 0) + 1
            crash.message = call.excinfo.value.cause
        if id_of(item) != report.nodeid:
            report.opprof_id = id_of(item)  # type: ignore[attr-defined]
        record = item.stash.get(RECORD, None)
        if call.when == "call" and record is not None:
            del item.stash[RECORD]
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
        record, failure, cause = concluded(
            id_of(item), windows, plan, self.settings, verbosity, broken, self.is_parallel
        )
        item.stash[RECORD] = replace(record, file=str(item.path), adapts=_adapts(item))
        if failure:
            raise Failed(failure, cause)

    def _internal_error(self, what: str, error: Exception) -> None:
        """Say in a line what went wrong in this plugin: it is no matter of the test."""
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
        self.errors.append(f"{what}, by a defect of pytest-opprof: {type(error).__name__}: {error} ({where})")

    # --- more processes

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Measure what is timed in further processes, for a baseline or because the user asks for it."""
        if self.may_judge_times and self.settings.noise != "ignore" and not self.config.option.collectonly:
            keep_memory()  # before the first test: what one costs is not to depend on those before it
        begin = monotonic()
        try:
            result = yield
        except pytest.Session.Failed:  # -x, --maxfail
            self._record(monotonic() - begin)
            raise
        except BaseException:  # also of pytest.exit(), which may give any exit status
            self.is_cut = True
            raise
        self._record(monotonic() - begin)
        return result

    def _record(self, took_s: float) -> None:
        """Measure in further processes what a baseline keeps, and write it: calls first, since times take longer."""
        settings = self.settings
        if self.is_worker or self.parent or settings.against or self.config.option.collectonly:
            return
        with self._told_at_the_end("baselines were not written"):
            recording = Recording(self.config, settings, self.lines, self.errors, took_s)
            tests = [test for test, _ in self._looked_up()]
            timed = [test for test in tests if self._wants_times(test)]
            processes = settings.processes or (BASE_PROCESSES if settings.update else 1)
            if settings.update:
                self._move_renamed()
                changed = [test for test in tests if self.updates.changes_calls(test)]
                recording.calls(changed, min(processes, CALL_PROCESSES))
                self._write_calls(tests, times=processes == 1)
            if timed and processes > 1:
                recording.times(timed, processes)
                if settings.update:
                    self._write_times(tests)

    def _looked_up(self) -> Iterator[tuple[TestRecord, bool]]:
        """Yield the tests whose baseline files can be used, and whether they have no baseline at all."""
        for record in self.records.values():
            try:
                yield record, self.updates.is_new(record)
            except BaselineError as error:
                self.errors.append(str(error))

    def _wants_times(self, record: TestRecord) -> bool:
        """Tell whether the times of a test would be written, or every timed test is to be measured so often."""
        timed = [window for window in record.windows if is_timed(window) and window["verdict"] is not None]
        if record.outcome != "passed" or not timed:
            return False
        return not self.settings.update or any(self.updates.lacks_times(record.id, window) for window in timed)

    # --- the end of the run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was measured; of a test that is run again, the last."""
        test = getattr(report, "opprof_id", report.nodeid)
        if report.when == "call":
            self.ran = True
            self.records.pop(test, None)
            if hasattr(report, "opprof"):
                self.records[test] = TestRecord(**report.opprof)
        # A failing subtest reports before its test, which "passed"; a failing teardown after it.
        if report.failed and not hasattr(report, "opprof"):
            self.failed.add(test)
        elif report.when == "setup":
            self.failed.discard(test)
        if test in self.failed and test in self.records:
            self.records[test].outcome = "failed"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect what a worker of pytest-xdist knows; one that crashed says nothing."""
        known = getattr(node, "workeroutput", {}).get("opprof", {"tests": {}, "errors": []})
        self.collected.merge(known["tests"])
        self.errors += [error for error in known["errors"] if error not in self.errors]

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the JSON of the run. What cannot be written fails the run; so do stale baselines, if strict."""
        if self.is_worker:
            self.config.workeroutput["opprof"] = {  # type: ignore[attr-defined]  # xdist's
                "tests": self.collected.plain(),
                "errors": [*self.errors, *self.stored.errors],
            }
            return
        if self.lock_folder:
            self.lock_folder.cleanup()
        if self.config.option.collectonly:
            return
        interrupted = self.is_cut = self.is_cut or exitstatus == pytest.ExitCode.INTERRUPTED
        with self._told_at_the_end("stale baselines were not looked for"):
            if not (interrupted or self.parent or self.settings.against):
                self.stale = sorted(self._stale())
                self.lines += self._renamed_lines()
        with self._told_at_the_end("the JSON of the run was not written"):
            if self.settings.json:
                write(self.settings.json, list(self.records.values()), self.stale, interrupted)
        if self.settings.update and interrupted:
            what = "calls were recorded, times were not" if self.has_written else "no baseline was written"
            self.errors.append(f"interrupted: {what}")
        self.errors = list(dict.fromkeys([*self.errors, *self.stored.errors]))
        failed = self.errors or (self.stale and self.settings.strict)
        if failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @contextmanager
    def _told_at_the_end(self, what: str) -> Iterator[None]:
        """Keep an error for the end of the run; *what* did not happen for one that is no fault of the user."""
        try:
            yield
        except OpprofError as error:
            self.errors.append(str(error))
        except Exception as error:
            self._internal_error(what, error)

    def _stale(self) -> Iterator[str]:
        folders = set()
        for record in self.records.values():
            folders |= {environment.folder for environment in by_environment(record)}
            if record.outcome == "passed":
                for environment, window in self.updates.gone_windows(record):
                    yield f"{titled(record.id, window)} [{environment}]"
        for path, test in stale(self.store.root, folders, self.collected, self.store.at):
            yield f"{self._shown(path)}: {test}"

    def _renamed(self) -> list[tuple[str, str, int]]:
        """Return the modules whose baselines seem to have another name: the old one, the new one, how many tests."""
        lacking: dict[str, set[str]] = {}
        for module, test in (split_id(record.id) for record, is_new in self._looked_up() if is_new):
            lacking.setdefault(module, set()).add(test)
        folders = {environment.folder for record in self.records.values() for environment in by_environment(record)}
        return list(renamed(self.store.root, folders, self.collected, self.store.at, lacking)) if lacking else []

    def _renamed_lines(self) -> Iterator[str]:
        for old, new, tests in self._renamed():
            yield (
                f"{old} is gone, and has baselines of {plural(tests, 'test')} that {new} has none of. If it was"
                f" renamed: opprof baselines move {shlex.quote(old)} {shlex.quote(new)}"
            )

    def _move_renamed(self) -> None:
        """Let an update compare what was renamed with the baselines of its old name, and keep them."""
        if self.settings.update == "all":
            for old, new, tests in self._renamed():
                try:
                    self.store.move(old, new)
                except BaselineError as error:
                    self.lines.append(f"{old} is gone, and was it renamed to {new}? {error}")
                    continue
                self.store.save()
                self.lines.append(
                    f"{old} is gone: {new} has its baselines now ({plural(tests, 'test')} of the same name)"
                )

    def _write_calls(self, tests: Sequence[TestRecord], times: bool) -> None:
        """Write the baselines of the tests that passed. Raises BaselineError."""
        counts, paths = self.updates.write(tests, times)
        said = ", ".join(f"{number} {word}" for word, number in counts.items())
        self.lines.append(f"baselines of {plural(sum(counts.values()), 'test')}: {said}{self._wrote(paths)}")
        self.has_written = True

    def _write_times(self, tests: Sequence[TestRecord]) -> None:
        """Write the times that belong to them. Raises BaselineError."""
        counts, paths = self.updates.write(tests, times=True)
        if paths:
            number = plural(counts["new"] + counts["changed"], "test")
            self.lines.append(f"times of {number} were recorded{self._wrote(paths)}")

    def _wrote(self, paths: Iterable[Path]) -> str:
        return "".join(f"\n  wrote {self._shown(path)}" for path in paths)

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
            stale = plural(len(self.stale), "stale baseline")
            yield f"{stale} (opprof baselines prune removes tests, --opprof-update windows):"
            yield from (f"  {line}" for line in self.stale)
        yield from (f"opprof: error: {error}" for error in self.errors)
        nothing = _nothing_seen(self.settings.backends) if self.settings.everything and self.ran else _NOTHING
        said = summary(records) if records else _INTERRUPTED if self.is_cut else nothing
        yield said + (f", {plural(len(self.errors), 'error')}" if self.errors else "")


_INTERRUPTED = "opprof: interrupted before a test was measured to its end"
_NOTHING = (
    "opprof: nothing was measured: no test with an op_budget or opprof mark or a window of the opprof fixture ran to"
    " its end (--opprof-all measures every test)"
)


def _nothing_seen(chosen: Iterable[str] | None) -> str:
    """Return that nothing was measured, and what to do about it with the *chosen* backends."""
    try:
        hint = hints(load_all(chosen))
    except OpprofError as error:
        hint = str(error)
    seen = f"{hint}; " if hint else ""
    return (
        "opprof: nothing was measured: no test ran an op that a backend sees"
        f" ({seen}opprof backends says which can run here)"
    )


def _adapts(item: pytest.Item) -> str:
    """Return what makes a test do more or less in each run, as far as it is known by name."""
    if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        return "Hypothesis"
    return "pytest-benchmark" if "benchmark" in getattr(item, "fixturenames", ()) else ""


def _grouped(reasons: Iterable[Mapping[str, str]], verbosity: int) -> Iterator[str]:
    """Yield a line for each reason, with the windows it holds for."""
    by_reason: dict[str, list[str]] = {}
    for title, reason in (item for each in reasons for item in each.items()):
        by_reason.setdefault(reason, []).append(title)
    for reason, titles in by_reason.items():
        shown = titles if verbosity > 0 else titles[:3]
        more = f" and {len(titles) - len(shown)} more" if len(titles) > len(shown) else ""
        yield f"{reason}: {', '.join(shown)}{more}"
