"""Measure and judge each test of a run in the process where it runs."""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from typing import Any

import pytest
from msgspec.structs import replace

from ..baselines.entry import WindowBaseline
from ..baselines.store import Store
from ..errors import BackendError, BaselineError, OpprofError, UsageError
from ..frameworks.live.registry import load, load_all
from ..machine.allocator import keep_memory
from ..machine.identity import machine
from ..measure import random_numbers
from ..measure.measurement import Measurement
from ..measure.memory import glance
from ..measure.plan import Settings
from ..measure.recorder import is_in_use
from ..measure.window import Window, profiles_of
from ..processes.pool import Pool
from ..processes.recording import ADAPTS
from ..processes.request import USUAL, request_of
from ..processes.this_run import CORE
from ..profile.op_profile import OpProfile
from ..python_calls.counted import PythonCalls
from ..python_calls.counter import TELLS_LOOPS
from ..report.summary import Summary
from ..results.judged_window import DEPENDS, JudgedWindow
from ..results.plain import plain
from ..results.window_result import BODY, coarse_of
from ..units import plural
from ..verdict.quantities import HOST_MEMORY, LEFT_BEHIND, LEFT_OPEN, PYTHON_CALLS
from ..verdict.times.coarse import Coarse, repeats_limit_ns
from ..verdict.times.repeats import FEW_TESTS, SHORT_NS
from ..verdict.tolerances import LEAST_ROUNDS
from . import body, xdist
from .body import Call
from .fixture import measurement_of
from .judging import Judging
from .options import shown
from .outcome import concluded, defect
from .ranks import Compared
from .reruns.counts import why_no_sites, with_later, without_sites
from .reruns.order import Order
from .reruns.times import is_open
from .test_run import Failed, TestRun
from .traces import traced

_BENCHMARK = "pytest-benchmark"
_PROFILED = (
    "pytest-benchmark timed this under opprof's profiler, so its table shows more than the code takes; for its times"
    " run it without --opprof"
)


class Measuring:
    """Measures and judges the tests that this process runs."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        store: Store,
        summary: Summary,
        pool: Pool,
        judging: Judging,
        compared: Compared,
    ) -> None:
        self._config = config
        self._settings = settings
        self._store = store
        self._summary = summary
        self._pool = pool
        self._judging = judging
        self._may_judge_times = False
        """Whether a collected test is measured closely, as all with rounds are, or has the fixture, which may run as
        many."""
        self._compared = compared
        self._failing: dict[object, str] = {}
        """The first failing test of each cause."""
        self._ran_again: set[str] | None = set()
        """The tests without a mark whose body ran more than once; None once a failing test said their number."""
        self._modules: set[str] = set()
        """The modules whose baselines told how fast a core can be."""

    def header(self) -> list[str]:
        """Return the header lines: the backends, and the base of the comparison."""
        settings = self._settings
        backends = ",".join(settings.backends) if settings.backends else "auto"
        update = {"all": ", updating them", "new": ", adding new ones", "": ""}[settings.update]
        root = shown(self._config, self._store.root)
        compared = f"against {settings.against}" if settings.against else f"baselines in {root}"
        threads = f"{plural(settings.threads, 'thread') if settings.threads else 'all threads'} where times are judged"
        rank = "" if settings.rank.is_alone else f"{settings.rank} ({settings.rank.launcher}), "
        line = f"opprof: {rank}backend {backends}, timing {settings.timing}, {threads}, {compared}{update}"
        # A chosen backend that cannot run is an error. Of the others only NumPy is used everywhere, so only it is
        # reported.
        reason = None if settings.backends else load("numpy").unavailable()
        return [line, *([f"opprof: ops of NumPy are not seen: {reason}"] if reason else [])]

    @property
    def order(self) -> Order:
        """The order of the tests of this run."""
        return self._judging.order

    def read_marks(self, tests: Iterable[TestRun]) -> None:
        """Parse all marks before the first test runs. Raises pytest.UsageError with every error."""
        errors = []
        asked = set[tuple[str, ...] | None]()
        measured: list[TestRun] = []
        for test in tests:
            try:
                plan = test.plan
                self._may_judge_times |= test.has_fixture or plan.closely
                if test.measures:
                    measured.append(test)
                    self._pool.files.add(test.file)
                    self._summary.marked = True
                    asked.add(plan.backends)
            except UsageError as error:
                errors.append(str(error))
                test.wrong_mark = error
        if self._settings.everything and not self._judging.is_apart and self._are_few(measured):
            self._pool.closely = self._may_judge_times = True
            for test in measured:
                test.read_marks_anew(is_close=True)
        errors += [] if self._config.option.collectonly else _unsupported(asked)
        # In a worker of pytest-xdist this would be an internal error, so there each such test fails.
        if errors and not xdist.is_worker(self._config):
            raise pytest.UsageError("\n".join(dict.fromkeys(errors)))

    def _are_few(self, tests: Sequence[TestRun]) -> bool:
        """Return True if *tests* are few, and so are all baselines of their modules: one alone is judged like all."""
        if len(tests) > FEW_TESTS or self._settings.against:
            return len(tests) <= FEW_TESTS
        return sum(len(self._store.tests(module)) for module in {test.where[0] for test in tests}) <= FEW_TESTS

    def keep_memory(self) -> None:
        """Keep freed memory in the heap, so the first test allocates like later ones."""
        if self._may_judge_times and not self._config.option.collectonly:
            keep_memory()

    def call(self, test: TestRun) -> Generator[None, object, object]:
        """Run a test: measure the body of a marked one, and judge all its windows.

        Yields to let pytest run the body.
        """
        if test.wrong_mark is not None:
            raise Failed(str(test.wrong_mark))
        call = Call(test)
        self._compared.begin()
        try:
            return (yield from self._measured(test, call))
        except Failed as error:
            if error.saw_nothing and call.is_over and self._judging.looks.sees_alone(test):
                excused = f"in a fresh process it has the calls of the baseline, {DEPENDS}"
                test.keep_unmeasured(f"{error.cause}; but {excused}")
            elif self._settings.report_only and error is not call.raised:
                test.keep_unmeasured(reported=str(error))
            else:
                raise
        except Exception as error:
            if isinstance(error, BackendError) and error is not call.raised:
                if not self._settings.report_only:
                    raise test.unmeasured(error) from None
                test.keep_unmeasured(reported=str(test.unmeasured(error)))
                return call.result if call.is_over else (yield)
            if error is call.raised:
                self._say_ran_again(test)
                raise
            if isinstance(error, (OpprofError, pytest.exit.Exception)):
                raise  # the last: `Parent.ask` ends this process
            found = defect(f"{test.id} was not measured", error)
            self._summary.errors.append(found)
            # The run that started this process shows the remark alone.
            test.keep_unmeasured(found.splitlines()[0] if self._judging.is_apart else "")
            cause = error.__context__
            while cause is not None and cause is not call.raised:
                cause = cause.__context__
            if cause is not None:
                raise cause from None  # a defect while the test failed must not let it pass
        finally:
            with test.told_plainly():
                self._compared.leave(test)
        return call.result if call.is_over else (yield)

    def _say_ran_again(self, test: TestRun) -> None:
        """Say that a failing test may have found what a body that ran twice left in a module."""
        if self._ran_again:
            tests = plural(len(self._ran_again), "test")
            ran = f"{tests} without a mark had run twice, to count Python calls and memory"
            advice = "To rule this out as the cause: --no-opprof-python --no-opprof-memory --no-opprof-leaks"
            self._summary.lines.append(f"opprof: when {test.id} failed, {ran}. {advice}")
            self._ran_again = None  # once is enough

    def _note_further_run(self, test: TestRun) -> None:
        """Remember that the body of a test without a mark runs once more."""
        if self._ran_again is not None and not test.plan.marked:
            self._ran_again.add(test.id)

    def _measured(self, test: TestRun, call: Call) -> Generator[None, object, object]:
        with test.told_plainly():
            plan = test.plan
        if not plan.measured and test.measurement is None:
            return (yield from call.by_pytest())
        if request_of(self._config).cold:
            with test.told_plainly():
                measurement = measurement_of(test)
            try:
                return (yield from body.count_cold(call, measurement))
            finally:
                test.measurement = None
        with xdist.taking_turns(self._config, self._settings):
            self._know_core(test.where[0])
            with test.told_plainly():
                measurement = measurement_of(test)
            try:
                with measurement.in_one_thread() if request_of(self._config).one_thread else nullcontext():
                    if plan.measured:
                        with measurement.threads_for(plan.rounds):
                            result = yield from body.measure(call, measurement, is_alone=self._settings.rank.is_alone)
                            windows = self._judged_with_python(test, measurement, call, call)
                    else:
                        result = yield from call.by_pytest()
                        windows = self._judged_with_python(test, measurement, call, None)
            finally:
                measurement.is_over = True
                measurement.recorder.abandon()
                test.measurement = None
            if _adapts(test) == _BENCHMARK and not getattr(test.item.config.option, "benchmark_disable", True):
                windows = [window.with_remark(_PROFILED) for window in windows]
            self._conclude(test, measurement, windows)
            return result

    def _judged_with_python(
        self, test: TestRun, measurement: Measurement, call: Call, repeated: Call | None
    ) -> list[JudgedWindow]:
        """Return the judged windows, with calls of Python functions if these are counted.

        For that the test may run again. Later tests draw the random numbers that they draw without it.
        """
        with test.told_plainly(), random_numbers.apart():
            body.check_finished(measurement)
            if not request_of(self._config).ops_only:
                self._measure_beside_ops(test, measurement, call, is_body=repeated is not None)
            if repeated:
                self._time_repeats(test, measurement, call)
            windows = self._judged(test, measurement, repeated)
            if repeated:
                windows = self._judging.causes.slower_explained(
                    test,
                    windows,
                    lambda of_first: body.slow_lines(call, measurement, of_first=of_first),
                    partial(body.count, call, measurement, lines=True),
                    partial(body.times_of_functions, call, measurement),
                )
                if not body.why_not_again(test):
                    holders = partial(body.memory_holders, call, measurement)
                    left = partial(body.left_behind, call, measurement)
                    kept = partial(body.kept_at, call, measurement)
                    windows = self._judging.causes.memory_explained(test, windows, holders, left, kept)
            windows = self._judging.causes.explained(test, windows, partial(body.count, call, measurement, lines=True))
            return self._judging.causes.with_change(test, windows)

    def _measure_beside_ops(self, test: TestRun, measurement: Measurement, call: Call, *, is_body: bool) -> None:
        """Add the calls of Python functions, memory and leaks to windows, from further runs of the test.

        *is_body*: whether the body is measured, and not only windows of the fixture.
        """
        by_default = self._counted_by_default(test, measurement) if is_body else {}
        if test.plan.python:
            measurement.python = dict(self._counted(test, measurement, call))
        elif by_default and test.plan.python is None:
            self._note_further_run(test)
            counted = self._with_lines(partial(body.count, call, measurement))
            measurement.python = {name: each for name, each in counted.items() if name in by_default}
        # After the calls were counted: caches that these runs fill make fewer of them. Where time alone is in question,
        # tracing memory would take most of it (mistune: 17 times its regular expression).
        request = request_of(self._config)
        if is_body and not request.slow:
            fails_again = any(each.fails_again for each in measurement.python.values())
            # Tracing takes as long as counting, so of many unmarked tests only calls are counted.
            asks = bool(self._settings.update or self._settings.against or test.plan.marked)
            is_wanted = (test.plan.closely and asks) or HOST_MEMORY in self._facts(test, body.window_of(measurement))
            is_possible = not (fails_again or measurement.rounds or _why_uncountable(test, self._settings))
            if request.memory:
                body.measure_host_memory(call, measurement, by_default=is_wanted and is_possible)
            if test.plan.leaks:
                body.look_for_leaks(call, measurement)
            elif not fails_again:
                self._glance_for_leaks(test, measurement, call)

    def _glance_for_leaks(self, test: TestRun, measurement: Measurement, call: Call) -> None:
        """Run the body again, for leaks that nobody asked for: in an update, in a comparison of revisions, and where
        the baseline tells what it left behind. An update tells it of a body that leaves nothing, in its first process:
        a leak is in each. A long body is looked at for what it leaves open: to find the holder of an object takes 30
        calls.
        """
        settings, of_body = self._settings, body.window_of(measurement)
        if of_body is None or of_body.unfinished or test.plan.leaks is False or body.why_not_again(test):
            return
        known = {LEFT_BEHIND, LEFT_OPEN} & {*self._facts(test, of_body)}
        took_ns, most = min(of_body.profile.host_ns, default=0), glance.KNOWN if known else 1
        is_long = took_ns > most * glance.SHORT_NS
        if settings.update:
            is_wanted, counted = test.plan.closely and not self._judging.is_apart, known
        elif settings.against:
            is_wanted, counted = test.plan.closely, {LEFT_BEHIND}
        else:
            is_wanted, counted = bool(known), known
        # One rank would wait for the others, which do not repeat the body as often.
        if not (is_wanted and took_ns <= most * glance.LONGEST_NS and settings.rank.is_alone):
            return
        self._note_further_run(test)
        only_open = is_long or (counted == {LEFT_OPEN} and not settings.update)
        counted = {LEFT_OPEN} if is_long and counted else counted
        body.glance_for_leaks(call, measurement, counted=counted, only_open=only_open, is_stored=bool(settings.update))

    def _time_repeats(self, test: TestRun, measurement: Measurement, call: Call) -> None:
        """Time later runs of a body that is not long, if an update keeps their time, or the baseline has it.

        A test with the fixture may ask for its ops, so each of its runs records them.
        """
        of_body, plan = body.window_of(measurement), test.plan
        request, settings = request_of(self._config), self._settings
        if of_body is None or of_body.unfinished or test.has_fixture or plan.rounds >= LEAST_ROUNDS:
            return
        # Beside coverage and debuggers no CPU time is measured.
        if not of_body.profile.cpu_ns or _why_uncountable(test, settings) or body.why_not_again(test):
            return
        if request.repeats:
            body.time_repeats(call, measurement)
            return
        is_usual = not (request.ops_only or request.first_look or request.sites or settings.against)
        is_short = min(of_body.profile.host_ns) <= glance.KNOWN * glance.SHORT_NS
        if not (plan.closely and plan.may_run_again and is_usual and is_short) or _is_slowed():
            return
        base = None if settings.update else self._base(test, of_body)
        here = base.coarse_here if base else None
        if settings.update or (here and here.repeated_ns):
            self._note_further_run(test)
            body.time_repeats(call, measurement, repeats_limit_ns(here) if here else 0)

    def _counted(self, test: TestRun, measurement: Measurement, call: Call) -> Mapping[str, PythonCalls]:
        """Return the calls of Python functions by window: from another, warm run, else from a fresh process's only run.

        An update counts in several fresh processes, and keeps the range.
        """
        names = [BODY, *(window.name for window in measurement.windows)]
        if why := _why_uncountable(test, self._settings):
            return dict.fromkeys(names, PythonCalls(uncounted=why))
        counted = self._with_lines(partial(body.count, call, measurement))
        if not counted[BODY].fails_again:
            return counted
        why = counted[BODY].uncounted
        return self._with_lines(partial(self._judging.looks.counted_cold, test, why)) or counted

    def _with_lines(self, count: Callable[..., Mapping[str, PythonCalls]]) -> Mapping[str, PythonCalls]:
        """Return the calls of Python functions by window, with their lines if a comparison requests these.

        They take a run of their own where Python tells loops: while each call is walked, loops are not counted.
        """
        wants_lines = self._judging.causes.compares_lines
        counted = count(lines=wants_lines and not TELLS_LOOPS)
        if not wants_lines or not TELLS_LOOPS or not counted or counted[BODY].uncounted:
            return counted
        found = count(lines=True)
        return {name: each.with_lines(found[name]) if name in found else each for name, each in counted.items()}

    def _counted_by_default(self, test: TestRun, measurement: Measurement) -> Mapping[str, Window]:
        """Return the windows in which Python calls are counted unless the user forbids it.

        An update and a comparison of revisions count in windows that show few ops of tests that are measured closely;
        of all other tests in short ones without ops, if they share no state by fixtures. A run counts in windows whose
        baseline has such calls. No window if the body cannot run twice, because the user did not ask for these.
        """
        if _why_uncountable(test, self._settings) or body.why_not_again(test):
            return {}
        windows = measurement.windows
        return {each.name: each for each in windows if not each.unfinished and self._is_counted(test, each)}

    def _is_counted(self, test: TestRun, window: Window) -> bool:
        profile, settings = window.profile, self._settings
        wants_calls = settings.against or settings.update or (test.plan.marked and profile.is_empty)
        is_close = test.plan.closely
        if wants_calls and (profile.shows_little if is_close else self._is_short(profile) and not test.shares_state):
            return True
        return PYTHON_CALLS in self._facts(test, window)

    def _facts(self, test: TestRun, window: Window | None) -> Collection[str]:
        """Return the facts in the baseline of a window."""
        base = self._base(test, window)
        return base.facts if base else ()

    def _base(self, test: TestRun, window: Window | None) -> WindowBaseline | None:
        """Return the baseline of a window; None if it has none, or an unreadable one."""
        if window is not None:
            with suppress(BaselineError):  # reported where it is judged
                return self._store.entry(window.profile.environment, *test.where, window.name)
        return None

    def _is_short(self, profile: OpProfile) -> bool:
        """Return True if no op ran in a short round; a further process of an update allows it twice the time."""
        limit_ns = SHORT_NS * (2 if self._judging.is_apart else 1)
        return profile.is_empty and max(profile.host_ns, default=0) < limit_ns

    def _judged(self, test: TestRun, measurement: Measurement, call: Call | None = None) -> list[JudgedWindow]:
        """Return the judged windows; may run the body of *call* once more."""
        with test.told_plainly():
            body.check_finished(measurement)
            windows = self._judging.first(test, measurement)
            windows = self._compared.with_others(test, windows)
            # An extra run on one rank would wait for the other ranks, which do not repeat it.
            repeats = not body.why_not_again(test) and self._settings.rank.is_alone
            # One later run of the body answers both questions about it.
            later = cache(partial(_profiles_again, call, measurement)) if call and repeats else None
            if later and test.plan.rounds == 1 and not self._judging.is_apart:
                windows = self._judging.looks.with_repeats(test, windows, later)
            unrecorded = cache(partial(_times_unrecorded, later, call, measurement)) if call and later else None
            if later and self._compares_later(test) and any(window.numbers.ops for window in windows):
                windows = with_later(windows, later())
            if call and is_open(windows) and repeats:
                windows = self._judging.times.retimed(test, windows, body.measure_again(call, measurement))
            windows = self._judging.times.settled(test, windows)
            windows = self._judging.coarsely.settled(test, windows, later, unrecorded)
            no_sites = why_no_sites(measurement.backends, windows)
            if not _tells_sites(measurement, windows):
                return without_sites(windows, no_sites)
            look = partial(body.measure_again, call, measurement, sites=True) if repeats and call else None
            return self._judging.causes.located(test, windows, look, measurement.plan.rounds > 1, no_sites)

    def _compares_later(self, test: TestRun) -> bool:
        """Return True on a side of a comparison that is to tell how a later run of a test's body differs."""
        is_usual = self._settings.against and request_of(self._config) == USUAL and test.plan.closely
        return bool(is_usual) and test.plan.rounds == 1 and not test.plan.warmup

    def _conclude(self, test: TestRun, measurement: Measurement, windows: Sequence[JudgedWindow]) -> None:
        """Keep the record of a test, and fail the test if it must. Raises Failed."""
        broken = {window.name: window.unfinished for window in measurement.windows if window.unfinished}
        if not windows and not broken:
            return
        if self._settings.traces:
            windows = traced(test, windows, measurement.windows, self._settings, self._summary.errors)
        verbosity = getattr(self._config.option, "verbose", 0)  # pytest 8.0: get_verbosity() needs -p terminal
        first = self._failing if test.shows_failure else {}
        record, message, cause = concluded(
            test.id, windows, test.plan, self._settings, verbosity, first, broken, self._judging.is_parallel
        )
        line = test.item.location[1]
        test.record = replace(
            record,
            file=test.file,
            line=0 if line is None else line + 1,
            adapts=_adapts(test),
            tells_sites=_tells_sites(measurement, windows),
            no_sites=why_no_sites(measurement.backends, windows),
        )
        if message:
            raise Failed("\n".join(line.text for line in message), cause, tones=[line.tone for line in message])

    def _know_core(self, module: str) -> None:
        """Make rounds wait until the core is as fast as it was when a module's baselines were recorded."""
        core = self._config.stash.get(CORE, None)
        if core and module not in self._modules:
            self._modules.add(module)
            core.best_ns = min([core.best_ns, *self._store.yardsticks_ns(module, machine())])


def put_on_report(test: TestRun, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put the measurement on the report, which travels to the controller, unless the test failed by itself."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    if crash and call.excinfo and isinstance(call.excinfo.value, Failed):
        # The short summary, --tb=line and JUnit's message show this: the test and the cause, not a line of opprof.
        crash.path, crash.lineno = test.file, (test.item.location[1] or 0) + 1
        crash.message = call.excinfo.value.cause
        report.opprof_tones = call.excinfo.value.tones  # type: ignore[attr-defined]
    if test.id != report.nodeid:
        report.opprof_id = test.id  # type: ignore[attr-defined]
    if call.when == "call" and test.record is not None:
        record, test.record = test.record, None
        if call.excinfo is None or isinstance(call.excinfo.value, Failed):
            report.opprof = plain(replace(record, outcome=report.outcome))  # type: ignore[attr-defined]


def _profiles_again(call: Call, measurement: Measurement) -> Mapping[str, OpProfile]:
    """Run the body once more, and return the profile of each of its windows."""
    return profiles_of(body.measure_again(call, measurement))


def _times_unrecorded(
    recorded: Callable[[], Mapping[str, OpProfile]], call: Call, measurement: Measurement
) -> dict[str, Coarse]:
    """Run the body without recording its ops, and return the times of windows that take clearly less than *recorded*
    once more; none if the body may ask for its ops.
    """
    if call.test.has_fixture:
        return {}
    again = recorded()
    with measurement.unrecorded():
        bare = _profiles_again(call, measurement)
    found = {}
    for name in again.keys() & bare.keys():
        before, after = coarse_of(again[name]), coarse_of(bare[name])
        if before and after and before.is_clearly_above(after):
            found[name] = after
    return found


def _is_slowed() -> bool:
    """Return True if this process traces memory or checks each allocation, which others need not do."""
    return sys.flags.dev_mode or bool(os.environ.get("PYTHONMALLOC")) or tracemalloc.is_tracing()


def _why_uncountable(test: TestRun, settings: Settings) -> str:
    """Return why a test's calls of Python functions cannot be counted at all; empty if they can."""
    if not settings.rank.is_alone:
        return f"this is one of {settings.rank.size} ranks, and the others would have to count, too"
    adapts = _adapts(test)
    return f"{adapts}: {ADAPTS[adapts]}" if adapts else ""


def _unsupported(asked: Iterable[tuple[str, ...] | None]) -> list[str]:
    """Return an error for each outdated framework that tests *asked* for, or of all imported ones (None)."""
    found = dict[str, None]()
    for chosen in asked:
        with suppress(BackendError):  # each test that needs it reports it
            for backend in load_all(chosen):
                if (chosen or is_in_use(backend)) and (why := backend.unsupported()):
                    found[f"opprof cannot measure with the {backend.name} backend: {why}"] = None
    return list(found)


def _adapts(test: TestRun) -> str:
    """Return the name of a library that makes a test do more or less in each run, if known."""
    if getattr(getattr(test.item, "obj", None), "is_hypothesis_test", False):
        return "Hypothesis"
    return _BENCHMARK if "benchmark" in getattr(test.item, "fixturenames", ()) else ""


def _tells_sites(measurement: Measurement, windows: Sequence[JudgedWindow]) -> bool:
    """Return True if a backend that can report source lines saw some of the *windows*."""
    frameworks = {name for window in windows for name, _ in window.environment.frameworks}
    return any(backend.tells_sites and backend.name in frameworks for backend in measurement.backends)
