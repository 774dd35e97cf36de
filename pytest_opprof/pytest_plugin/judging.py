"""Judge a test against its stored baselines and its budget: the report of each of its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pytest

from ..baselines.entry import WindowBaseline
from ..baselines.store import Store
from ..errors import BackendError, BaselineError, NothingMeasured
from ..frameworks.live.registry import hints
from ..machine.identity import machine
from ..measure.measurement import Measurement
from ..measure.plan import Settings, TestPlan
from ..measure.window import Window, profiles_of
from ..processes.pool import Answer, Pool, TimeLimit
from ..processes.request import request_of
from ..processes.this_run import say
from ..profile.environment import Environment
from ..profile.op_counts import counts_of
from ..profile.op_profile import OpProfile
from ..profile.timings import ProcessTimes, run_of, without_noise, works_on_host
from ..python_calls.counted import PythonCalls
from ..python_calls.names import PYTHON, differing, other_versions
from ..report import failure
from ..results.judged_window import DEPENDS, JudgedWindow
from ..results.window_result import BODY, WindowNumbers
from ..verdict.budgets import Budget
from ..verdict.compare import compare_counts_first, unseen, without_first_uses
from ..verdict.quantities import FACTS, HOST_MEMORY, PYTHON_CALLS
from ..verdict.stored_rule import Rule, judge, unjudged
from ..verdict.tolerances import LEAST_ROUNDS
from ..verdict.verdicts import TimingVerdict, undecided
from .ranks import of_this_rank, why_untimed
from .reruns.causes import Causes
from .reruns.coarse import LOOKING_S, Coarsely
from .reruns.looks import Looks, with_looks
from .test_run import TestRun


def _nothing_recorded(measurement: Measurement) -> str:
    """Return the message for an empty profile, with a remedy."""
    hint = hints(measurement.backends)
    return (
        f"nothing was recorded: no op ran, or no backend sees it{f' ({hint})' if hint else ''}."
        " If no op should run: op_budget(calls=0)"
    )


def _only_timed(measurement: Measurement, profile: OpProfile, python: PythonCalls | None, plan: TestPlan) -> str:
    compared = ["time"]
    compared += ["calls of Python functions"] if python and not python.uncounted else []
    compared += ["peak memory"] if profile.host_memory is not None else []
    *others, last = compared
    counted = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    more = "" if plan.marked or python else "--opprof-python compares calls of Python functions, too"
    advice = "; ".join(filter(None, [hints(measurement.backends), more]))
    return f"no op ran, or no backend sees it, so only its {counted} compared{f' ({advice})' if advice else ''}"


class Judging:
    """Judges the windows of tests, in more processes if one is not enough."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        store: Store,
        pool: Pool,
        errors: list[str],
        *,
        is_parallel: bool,
        is_apart: bool,
    ) -> None:
        """*errors* collects errors of baseline files, *is_apart*: whether another run judges these tests."""
        self.is_parallel = is_parallel
        """Whether other tests run at the same time."""
        self._errors = errors
        self._config = config
        self._pool = pool
        self._settings = settings
        self._store = store
        self._apart = is_apart
        self.limit = TimeLimit(LOOKING_S)
        """The time for re-measuring slow tests."""
        self.looks = Looks(config, settings, pool)
        self.causes = Causes(config, settings, store, self.looks, is_apart=is_apart)
        self.coarsely = Coarsely(config, settings, store, pool, is_parallel)

    def first(self, test: TestRun, measurement: Measurement) -> list[JudgedWindow]:
        """Judge each window by this process, with extra calls confirmed. Raises the error that makes judging
        impossible.
        """
        self.looks.begin()
        return self._confirmed(test, list(self._judge(test, measurement)))

    def retimed(self, test: TestRun, windows: Sequence[JudgedWindow], again: Sequence[Window]) -> list[JudgedWindow]:
        """Judge slow windows by the times of another moment, when the body ran *again* in this process.

        Its calls stay as measured first, because a repeated body may do more. If it does, its times are ignored.
        """
        plan, others = test.plan, profiles_of(again)

        def with_other_times(window: JudgedWindow, base: WindowBaseline) -> JudgedWindow:
            other = others.get(window.name)
            if other is None or counts_of(other) != window.numbers.counts:
                return window
            run = run_of(other, window.processes[0].threads)
            return self._compared(replace(window, processes=(run,)), base, plan) if run else window

        return self._each(test, windows, _unsettled, with_other_times)

    def _judge(self, test: TestRun, measurement: Measurement) -> Iterator[JudgedWindow]:
        """Yield the report of each window. Raises the error that makes judging impossible."""
        plan, profiles = test.plan, profiles_of(measurement.windows)  # a fixture may have added marks
        profiles = of_this_rank(profiles, self._settings.rank, measurement.backends)
        threads = {window.name: window.threads for window in measurement.windows}
        rounds = {window.name for window in measurement.rounds}
        if rounds and plan.measured:
            # If a marked test runs rounds of its own, its marks are about these.
            profiles.pop(BODY, None)
        for name, profile in profiles.items():
            limited = name in rounds or name == BODY
            python = measurement.python.get(name)
            report = self._report(test, plan, name, profile, limited, threads[name], python)
            if name == BODY and profile.is_empty and not report.findings:
                # With rounds, the test requires judged times, whatever runs; without a limit, coarse times are judged
                # too.
                asks_for_time = not (plan.budget.ops if plan.rounds >= LEAST_ROUNDS else plan.budget)
                is_looked_at = plan.leaks or bool(plan.host_memory and profile.host_memory is not None)
                has_calls = bool(plan.python and python is not None and not python.uncounted)
                if not plan.budget.allows_nothing and not (asks_for_time or is_looked_at or has_calls):
                    raise NothingMeasured(_nothing_recorded(measurement))
                is_timed = plan.rounds < LEAST_ROUNDS and not plan.budget.allows_nothing and report.diff is None
                # Of two revisions all tests are compared, and most of a suite may run no op.
                if is_timed and not is_looked_at and (plan.marked or not self._settings.against):
                    report = report.with_remark(_only_timed(measurement, profile, python, plan))
            is_lost = name == BODY and profile.is_empty and report.unseen and not report.accepted
            if is_lost and self.sees_alone(test):
                excused = f"in a fresh process it has the calls of the baseline, {DEPENDS}"
                test.keep_unmeasured(f"{report.unseen}; but {excused}")
                continue
            yield report
        if plan.measured and plan.baseline and not measurement.windows and not self._apart:
            nothing = Environment((), ranks=self._settings.rank.size)
            base = self._store.entry(nothing, *test.where, BODY)
            if base and (lost := unseen(base.ops, {})):
                raise NothingMeasured(f"{lost}. {_nothing_recorded(measurement)}")

    def _each(
        self,
        test: TestRun,
        windows: Iterable[JudgedWindow],
        concerns: Callable[[JudgedWindow], bool],
        change: Callable[[JudgedWindow, WindowBaseline], JudgedWindow],
    ) -> list[JudgedWindow]:
        """Return the reports; windows that it *concerns* are changed, given their baselines."""
        found = []
        for window in windows:
            base = concerns(window) and self._store.entry(window.environment, *test.where, window.name)
            found.append(change(window, base) if base else window)
        return found

    def _report(
        self,
        test: TestRun,
        plan: TestPlan,
        name: str,
        profile: OpProfile,
        limited: bool,
        threads: int,
        python: PythonCalls | None = None,
    ) -> JudgedWindow:
        where = (profile.environment, *test.where)
        base, is_unreadable = None, False
        if plan.baseline and not self._apart:
            try:
                base = self._store.entry(*where, name)
            except BaselineError as error:
                is_unreadable = True
                self._errors.append(str(error))
        known = base.ops if base else ()
        request = request_of(self._config)
        # A budget may limit quantities that this run does not measure; the requesting run judges it.
        limited = limited and not request.ops_only
        budget = plan.budget if limited else Budget()
        if request.first_look:
            budget = budget.without("leaks")  # which only the last look records
        limits = list(budget.judged(profile, self._settings.aliases, known, python))
        # Recording source lines changes the times.
        run = None if profile.has_sites else run_of(profile, threads)
        runs = (run,) if run else ()
        sites = self.causes.sites(profile, plan) if profile.has_sites else None
        numbers = WindowNumbers.of(name, profile, sites, python)
        report = JudgedWindow(
            numbers,
            [each for _, broken in limits for each in broken],
            accepted=self._settings.update == "all",
            processes=runs,
            limits=[limit for limit, _ in limits],
        )
        # In a marked test a run counts calls if its baseline has them, though nobody asks.
        wants_calls = plan.python is not False and (plan.marked or profile.is_empty)
        lacks_calls = base is None or (PYTHON_CALLS in base.facts and wants_calls)
        if plan.python or lacks_calls:
            if python is not None and python.uncounted:
                report = report.with_remark(f"calls of Python functions were not counted: {python.uncounted}")
            elif python is None and base is not None and not report.accepted:
                report = report.with_remark("calls of Python functions are not compared: this run could not count them")
        if base:
            report = _with_remark_of_versions(report, base, bool(plan.python))
            wanted = plan.host_memory or (profile.is_empty and plan.host_memory is None)
            if wanted and HOST_MEMORY in base.facts:
                why = "" if profile.host_memory is not None or plan.host_memory else "this run could not measure it"
                if HOST_MEMORY not in base.comparable_here(report.numbers).facts:
                    why = "the baseline is of another version of Python"
                report = report.with_remark(f"peak memory of the host is not compared: {why}") if why else report
            lost = "" if plan.budget.allows_nothing else unseen(base.ops, counts_of(profile), profile.unseen)
            return self._compared(replace(report, unseen=lost), base, plan)
        if not plan.baseline or self._settings.update or self._apart:
            return report
        if is_unreadable:
            return replace(report, no_baseline="its baseline file cannot be used", is_unreadable=True)
        others = self._store.other_environments(*where)
        return replace(report, no_baseline=failure.no_baseline(where[0], others))

    def _compared(self, report: JudgedWindow, base: WindowBaseline, plan: TestPlan) -> JudgedWindow:
        return _with_timing(report, base, plan, self._timing(base, report.processes, plan))

    def _timing(self, base: WindowBaseline, runs: Sequence[ProcessTimes], plan: TestPlan) -> TimingVerdict:
        before = base.times.get(machine(), ())
        if not self._settings.rank.is_alone:
            return unjudged(why_untimed(self._settings.rank), runs)
        if self._settings.sites:
            return unjudged("source lines were recorded, which takes time (--opprof-sites)", runs)
        if self.is_parallel:
            why = "measured in parallel with other tests (--opprof-serialize: one at a time)"
            return unjudged(why, runs)
        if not before and len(runs) and runs[0].rounds >= LEAST_ROUNDS:
            if machine() in base.mismatched:
                why = "the baseline's times belong to other calls (pytest --opprof-update records them again)"
                return unjudged(why, runs)
            if base.times:
                here = f"the baseline was timed on {', '.join(sorted(base.times))}, this is {machine()}"
                return unjudged(here, runs)
        if any(each.some_vary for each in base.ops.values()):
            return unjudged("its calls vary from run to run", runs)
        if self._settings.noise == "ignore":
            before, runs = (tuple(map(without_noise, side)) for side in (before, runs))
        return judge(before, runs, Rule(plan.tolerances))

    def _confirmed(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Re-check windows with extra calls in a fresh process; return them updated.

        The work of a first use in a process depends on the tests before it, as do the caches that these fill.
        """
        if not any(window.does_more for window in windows):
            return windows
        found, agrees = self._looked_at(test, windows, afresh=False)
        if not agrees and self.looks.is_second:  # only a process where nothing ran before excuses a test
            found, _ = self._looked_at(test, windows, afresh=True)
        return found

    def _looked_at(self, test: TestRun, windows: list[JudgedWindow], afresh: bool) -> tuple[list[JudgedWindow], bool]:
        """Re-check windows with extra calls in another process; return them updated, and whether it agrees."""
        looks, why = self.looks.at(
            test, "does more than its baseline; re-running it in a fresh process to confirm", 2, afresh
        )
        judged = partial(with_looks, looks, why, test.plan.tolerances)
        found = self._each(test, windows, lambda window: window.does_more, judged)
        asked = [now for before, now in zip(windows, found) if before.does_more]
        agrees = all(window.confirmed for window in asked)
        self.looks.end(asked, agrees)
        return found, agrees

    def sees_alone(self, test: TestRun) -> bool:
        """Return True if a body that showed nothing has its baseline's calls when it runs alone in a fresh process.

        If the repeat differed (`WindowBaseline.warm`), it may have its calls alone instead; any, if these are unknown.
        """
        try:
            nothing = Environment((), ranks=self._settings.rank.size)
            base = self._store.entry(nothing, *test.where, BODY)  # in any environment
        except BaselineError as error:
            self._errors.append(str(error))
            return False
        if base is None or self._apart:
            return False
        looks, _ = self.looks.at(test, "shows no op; re-running it in a fresh process to confirm", 1, afresh=True)
        self.looks.end([], agrees=False)
        seen = looks[0].windows.get(BODY) if looks else None
        if seen is None or base.allows(seen):
            return seen is not None
        if base.alone is None:
            return base.warm is not None and bool(seen.ops)
        ops, facts = base.with_differences(base.alone)
        return replace(base, ops=ops, facts=facts).allows(seen)

    def settled(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Judge windows that still look slower by fresh processes.

        They are slower if the processes agree. Without processes, or without time for them, there is no verdict.
        """
        plan = test.plan
        if _fails_already(windows):
            why = "the test fails whatever its times are"
            return self._each(test, windows, _unsettled, partial(_undecided, plan, why))
        # A process holds its device memory for its lifetime.
        stays = not self._settings.serialize and all(works_on_host(window.environment) for window in windows)
        while any(map(_unsettled, windows)):
            if why := self.limit.reached:
                return self._each(test, windows, _unsettled, partial(_undecided, plan, why))
            number = max(len(window.processes) for window in windows)
            say(self._config, f"opprof: {test.id} looks slower; measuring it in process {number + 1}")
            with self.limit.spent():
                try:
                    again = self._pool.measure(test.id, number - 1, stays)
                except BackendError as error:
                    return self._each(test, windows, _unsettled, partial(_undecided, plan, str(error)))
            windows = self._each(test, windows, _unsettled, partial(self._with, plan, again))
        return windows

    def _with(self, plan: TestPlan, again: Answer, window: JudgedWindow, base: WindowBaseline) -> JudgedWindow:
        """Return a slow window with the times of one more process added."""
        entry = again.windows.get(window.name)
        if entry is None:
            said = f" ({again.why})" if again.why else ""
            return _undecided(plan, f"a fresh process did not measure it{said}", window, base)
        if entry.ops != window.numbers.counts:
            return _undecided(plan, "a fresh process ran other ops", window, base)
        runs = (*window.processes, *entry.times.get(machine(), ()))
        if len(runs) == len(window.processes):
            return _undecided(plan, "a fresh process timed nothing", window, base)
        return self._compared(replace(window, processes=runs), base, plan)


def _undecided(plan: TestPlan, why: str, window: JudgedWindow, base: WindowBaseline) -> JudgedWindow:
    """Return a slow window that cannot be re-measured as "too noisy": one process is no verdict."""
    assert window.diff is not None  # without a diff it would not look slower
    why = f"looks slower, but could not be re-measured: {why}"
    return _with_timing(window, base, plan, undecided(window.diff.timing, why))


def _with_timing(window: JudgedWindow, base: WindowBaseline, plan: TestPlan, timing: TimingVerdict) -> JudgedWindow:
    known, now = base.comparable_here(window.numbers), window.numbers.done
    diff = compare_counts_first(known.done, now, timing, plan.tolerances, plan.top)
    if known.warm:
        diff = without_first_uses(diff, known.with_differences(known.warm), now)
    python, over = window.numbers.python, base.grown_across_versions(window.numbers)
    if python and over:
        diff = diff.with_rest(PYTHON_CALLS, f", of {other_versions(base.python, python.versions)}; {over.line()}")
    return replace(window, diff=diff)


def _with_remark_of_versions(window: JudgedWindow, base: WindowBaseline, is_asked: bool) -> JudgedWindow:
    """Return a window with the reason why its calls of Python functions are not compared, if any.

    Unless the user asked for Python calls, only a baseline without ops has to have them.
    """
    python = window.numbers.python
    if python is None or python.uncounted or window.accepted:
        return window
    if not base.python and base.ops and not is_asked:
        return window
    if base.grown_across_versions(window.numbers):
        return window  # judged with the time
    differ = differing(base.python, python.versions)
    why = other_versions(base.python, python.versions) if base.python else "the baseline has none"
    if not why:
        return window
    advice = f"record them with pytest --opprof-update{' --opprof-python' if is_asked else ''}"
    if base.python and PYTHON not in differ:  # another Python has other functions
        advice = f"opprof_sites_show = {' '.join(differ)} in the ini file compares them all the same, or {advice}"
    before, now = base.facts.get(PYTHON_CALLS), window.numbers.fact_ranges.get(PYTHON_CALLS)
    gate = FACTS[PYTHON_CALLS].gate
    if gate is None or before is None or now is None or gate.direction(before, now) <= 0:
        return window.with_remark(f"calls of Python functions not compared: {why}; {advice}")
    return window.with_remark(
        f"calls of Python functions: {now.most:,} (baseline: {before.most:,}), not judged: {why}; {advice}"
    )


def is_open(windows: Sequence[JudgedWindow]) -> bool:
    """Return True if a window looks slower and more times could change the test's outcome."""
    return any(map(_unsettled, windows)) and not _fails_already(windows)


def _fails_already(windows: Sequence[JudgedWindow]) -> bool:
    """Return True if a window fails regardless of times, so that no verdict on times is needed."""
    return any(window.budget or window.does_more for window in windows)


def _unsettled(window: JudgedWindow) -> bool:
    return window.diff is not None and not window.accepted and not window.diff.timing.settled
