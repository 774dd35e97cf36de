"""Judge the times of rounds by stored baselines: in this process, and in fresh ones if a window looks slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from ...baselines.entry import WindowBaseline
from ...baselines.store import Store
from ...errors import BackendError
from ...machine.identity import machine
from ...measure.plan import Settings, TestPlan
from ...measure.window import Window, profiles_of
from ...processes.pool import Answer, Pool, TimeLimit
from ...processes.this_run import say
from ...profile.op_counts import counts_of
from ...profile.timings import ProcessTimes, run_of, without_noise
from ...python_calls.names import other_versions
from ...results.judged_window import JudgedWindow
from ...verdict.compare import compare_counts_first, without_first_uses
from ...verdict.quantities import PYTHON_CALLS
from ...verdict.times.repeats import TIMES_S
from ...verdict.times.stored_rule import Rule, judge, unjudged
from ...verdict.tolerances import LEAST_ROUNDS
from ...verdict.verdicts import TimingVerdict, undecided
from ..ranks import why_untimed
from ..test_run import TestRun
from .counts import may_stay


class JudgedTimes:
    """Judges windows with judged times."""

    def __init__(
        self, config: pytest.Config, settings: Settings, store: Store, pool: Pool, *, is_parallel: bool
    ) -> None:
        """*is_parallel*: whether other tests run at the same time."""
        self._config = config
        self._settings = settings
        self._store = store
        self._pool = pool
        self._is_parallel = is_parallel
        self.limit = TimeLimit(TIMES_S)

    def compared(self, report: JudgedWindow, base: WindowBaseline, plan: TestPlan) -> JudgedWindow:
        """Return a window compared with its baseline, times included, as far as its processes tell."""
        return _with_timing(report, base, plan, self._timing(base, report.processes, plan))

    def _timing(self, base: WindowBaseline, runs: Sequence[ProcessTimes], plan: TestPlan) -> TimingVerdict:
        before = base.times.get(machine(), ())
        if not self._settings.rank.is_alone:
            return unjudged(why_untimed(self._settings.rank), runs)
        if self._settings.sites:
            return unjudged("source lines were recorded, which takes time (--opprof-sites)", runs)
        if self._is_parallel:
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
            return self.compared(replace(window, processes=(run,)), base, plan) if run else window

        return test.with_bases(self._store, windows, _unsettled, with_other_times)

    def settled(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Judge windows that still look slower by fresh processes.

        They are slower if the processes agree. Without processes, or without time for them, there is no verdict.
        """
        plan = test.plan
        if _fails_already(windows):
            why = "the test fails whatever its times are"
            return test.with_bases(self._store, windows, _unsettled, partial(_undecided, plan, why))
        stays = may_stay(self._settings, windows)
        while any(map(_unsettled, windows)):
            if why := self.limit.reached:
                return test.with_bases(self._store, windows, _unsettled, partial(_undecided, plan, why))
            number = max(len(window.processes) for window in windows)
            say(self._config, f"opprof: {test.id} looks slower; measuring it in process {number + 1}")
            with self.limit.spent():
                try:
                    again = self._pool.measure(test.id, number - 1, stays)
                except BackendError as error:
                    return test.with_bases(self._store, windows, _unsettled, partial(_undecided, plan, str(error)))
            windows = test.with_bases(self._store, windows, _unsettled, partial(self._with, plan, again))
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
        return self.compared(replace(window, processes=runs), base, plan)


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


def is_open(windows: Sequence[JudgedWindow]) -> bool:
    """Return True if a window looks slower and more times could change the test's outcome."""
    return any(map(_unsettled, windows)) and not _fails_already(windows)


def _fails_already(windows: Sequence[JudgedWindow]) -> bool:
    """Return True if a window fails regardless of times, so that no verdict on times is needed."""
    return any(window.budget or window.does_more for window in windows)


def _unsettled(window: JudgedWindow) -> bool:
    return window.diff is not None and not window.accepted and not window.diff.timing.settled
