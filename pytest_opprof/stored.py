"""What a test did against its stored baselines, and against its budget: the report of each of its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

import pytest

from . import reports
from .baselines import Entry, calls_of, run_of
from .compare import compare_counts_first
from .environment import machine
from .errors import BackendError, NothingMeasured
from .fixture import Measurement
from .judge import LEAST_ROUNDS, Judgement, Rule, Verdict, judge, undecided, unjudged
from .model import OpProfile, joined
from .recorder import Window
from .remeasure import LOOKING_S, measure, say
from .reports import BODY, WindowReport
from .samples import Run, without_noise
from .settings import Plan, Settings
from .stale import split_id
from .store import Store

_NO_OP = (
    "nothing was recorded: no op ran, or none that a backend sees (torch must be imported at the top of the module,"
    " NumPy arrays come from opprof.array()). If no op is meant to run, say op_budget(calls=0)"
)


class Stored:
    """Judges the windows of tests, in more processes where one is not enough."""

    def __init__(self, config: pytest.Config, settings: Settings, store: Store, *, parallel: bool, apart: bool) -> None:
        """*parallel*: whether other tests run at the same time; *apart*: whether another run judges these."""
        self._config = config
        self._settings = settings
        self._store = store
        self._parallel = parallel
        self._apart = apart
        self._looking_s = 0.0

    def reports(
        self, item: pytest.Item, measurement: Measurement, again: Callable[[], Sequence[Window]] | None = None
    ) -> list[WindowReport]:
        """Return the report of each window. Raises what makes judging impossible.

        *again* measures the body once more in this process, if that can be done, and returns its windows.
        """
        windows = list(self._judge(item, measurement))
        if again and _needs_another_look(windows):
            others = _profiles(again())
            windows = self._each_unsettled(item, windows, partial(self._retimed, measurement.plan, others))
        return self._looked_again(item, measurement.plan, windows)

    def _judge(self, item: pytest.Item, measurement: Measurement) -> Iterator[WindowReport]:
        """Yield the report of each window. Raises what makes judging impossible."""
        plan, profiles = measurement.plan, _profiles(measurement.windows)
        threads = {window.name: window.threads for window in measurement.windows}
        rounds = {window.name for window in measurement.rounds}
        if rounds and plan.measured:
            # In a marked test that runs its own rounds, they are what the marks are about.
            profiles.pop(BODY, None)
        for name, profile in profiles.items():
            if name == BODY and not len(profile.op):
                if not plan.marked:
                    continue
                if not plan.budget.allows_nothing:
                    raise NothingMeasured(_NO_OP)
            yield self._report(item, plan, name, profile, name in rounds or name == BODY, threads[name])

    def _retimed(self, plan: Plan, others: Mapping[str, OpProfile], window: WindowReport, base: Entry) -> WindowReport:
        """Return the report of a window that looks slower with the times of another moment.

        Its calls stay what they were: a body that has run so often may do more. Where it does, its times say nothing.
        """
        other = others.get(window.name)
        if other is None or calls_of(other) != calls_of(window.profile):
            return window
        run = run_of(other, window.runs[0].threads)
        return self._compared(replace(window, runs=(run,)), base, plan) if run else window

    def _each_unsettled(
        self,
        item: pytest.Item,
        windows: Iterable[WindowReport],
        change: Callable[[WindowReport, Entry], WindowReport],
    ) -> list[WindowReport]:
        """Return the reports, those of windows that look slower changed, given their baselines."""
        found = []
        for window in windows:
            base = self._store.entry(window.profile.environment, *split_id(item.nodeid), window.name)
            found.append(change(window, base) if base and _unsettled(window) else window)
        return found

    def _report(
        self, item: pytest.Item, plan: Plan, name: str, profile: OpProfile, limited: bool, threads: int
    ) -> WindowReport:
        where = (profile.environment, *split_id(item.nodeid))
        base = self._store.entry(*where, name) if plan.baseline and not self._apart else None
        known = base.calls if base else ()
        broken = plan.budget.check(profile, self._settings.aliases, known) if limited else []
        run = run_of(profile, threads)
        runs = (run,) if run else ()
        report = WindowReport(name, profile, broken, accepted=self._settings.update == "all", runs=runs)
        if base:
            return self._compared(report, base, plan)
        if not plan.baseline or self._settings.update or self._apart:
            return report
        return replace(report, no_baseline=reports.no_baseline(where[0], self._store.other_environments(*where)))

    def _compared(self, report: WindowReport, base: Entry, plan: Plan) -> WindowReport:
        return _with_timing(report, base, plan, self._timing(base, report.runs, plan))

    def _timing(self, base: Entry, runs: Sequence[Run], plan: Plan) -> Judgement:
        before = base.times.get(machine(), ())
        if self._parallel:
            why = "measured in parallel with other tests (--opprof-serialize: one at a time)"
            return unjudged(why, before, runs)
        if base.times and not before and len(runs) and runs[0].rounds >= LEAST_ROUNDS:
            here = f"the baseline was timed on {', '.join(sorted(base.times))}, this is {machine()}"
            return unjudged(here, before, runs)
        if self._settings.noise == "ignore":
            before, runs = (tuple(map(without_noise, side)) for side in (before, runs))
        return judge(before, runs, Rule(plan.limits))

    def _looked_again(self, item: pytest.Item, plan: Plan, windows: list[WindowReport]) -> list[WindowReport]:
        """Return the reports after measuring the test in fresh processes, if it is slower in some and no worse.

        It is slower where they agree. Where they cannot be had, or there is no time for them, there is no verdict.
        """
        if not _needs_another_look(windows):
            return windows
        while any(map(_unsettled, windows)):
            if self._looking_s > LOOKING_S:
                why = f"this run has spent {LOOKING_S} s on that; measure it by itself"
                return self._each_unsettled(item, windows, partial(_undecided, plan, why))
            number = 1 + max(len(window.runs) for window in windows)
            say(self._config, f"opprof: {item.nodeid} looks slower; measuring it in process {number}")
            try:
                again = self._measured_again(item)
            except BackendError as error:
                return self._each_unsettled(item, windows, partial(_undecided, plan, str(error)))
            windows = self._each_unsettled(item, windows, partial(self._with, plan, again))
        return windows

    def _measured_again(self, item: pytest.Item) -> Mapping[str, Entry]:
        begin = monotonic()
        try:
            return measure(self._config, [item.nodeid]).get(item.nodeid, {})
        finally:
            self._looking_s += monotonic() - begin

    def _with(self, plan: Plan, again: Mapping[str, Entry], window: WindowReport, base: Entry) -> WindowReport:
        """Return the report of a window that looks slower with what one more process timed."""
        if window.name not in again:
            return _undecided(plan, "a fresh process did not measure it", window, base)
        if again[window.name].calls != calls_of(window.profile):
            return _undecided(plan, "a fresh process ran other ops", window, base)
        runs = (*window.runs, *again[window.name].times.get(machine(), ()))
        if len(runs) == len(window.runs):
            return _undecided(plan, "a fresh process timed nothing", window, base)
        return self._compared(replace(window, runs=runs), base, plan)


def _undecided(plan: Plan, why: str, window: WindowReport, base: Entry) -> WindowReport:
    """Return the report of a window that looks slower, and cannot be measured again: one process is no verdict."""
    assert window.diff is not None  # or it would not look slower
    why = f"looks slower, and could not be measured again: {why}"
    return _with_timing(window, base, plan, undecided(window.diff.timing, why))


def _with_timing(window: WindowReport, base: Entry, plan: Plan, timing: Judgement) -> WindowReport:
    now = base.comparable(calls_of(window.profile))
    diff = compare_counts_first(base.calls, now, timing, plan.limits, plan.top)
    return replace(window, diff=diff)


def _profiles(windows: Iterable[Window]) -> dict[str, OpProfile]:
    """Return what was measured in windows of each name, those without an end left out."""
    by_name: dict[str, list[OpProfile]] = {}
    for window in windows:
        if not window.unfinished:
            by_name.setdefault(window.name, []).append(window.profile)
    return {name: joined(parts) for name, parts in by_name.items()}


def _needs_another_look(windows: Sequence[WindowReport]) -> bool:
    """Tell whether one looks slower, and none fails whatever its times are."""
    worse = any(window.budget or window.verdict in (Verdict.NEW, Verdict.MORE) for window in windows)
    return not worse and any(map(_unsettled, windows))


def _unsettled(window: WindowReport) -> bool:
    return window.diff is not None and not window.accepted and not window.diff.timing.settled
