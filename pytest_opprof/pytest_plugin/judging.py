"""Judge a test against its stored baselines and its budget: the report of each of its windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ..baselines.entry import WindowBaseline
from ..baselines.stale import Collected
from ..baselines.store import Store
from ..errors import BaselineError, NothingMeasured
from ..frameworks.live.registry import hints
from ..measure.measurement import Measurement
from ..measure.memory.glance import KNOWN, SHORT_NS
from ..measure.plan import Settings, TestPlan
from ..measure.recorder import is_in_use
from ..measure.window import profiles_of
from ..processes.pool import Pool
from ..processes.request import request_of
from ..profile.environment import Environment
from ..profile.op_counts import counts_of
from ..profile.op_profile import OpProfile
from ..profile.timings import run_of
from ..python_calls.counted import PythonCalls
from ..python_calls.names import PYTHON, differing, other_versions
from ..report import failure
from ..results.judged_window import DEPENDS, JudgedWindow
from ..results.window_result import BODY, WindowNumbers
from ..units import format_ns
from ..verdict.budgets import Budget
from ..verdict.compare import unseen
from ..verdict.quantities import FACTS, HOST_MEMORY, LEFT_BEHIND, LEFT_OPEN, PYTHON_CALLS
from ..verdict.tolerances import LEAST_ROUNDS
from .ranks import of_this_rank
from .reruns.causes import Causes
from .reruns.coarse import Coarsely
from .reruns.counts import Looks
from .reruns.order import Order
from .reruns.times import JudgedTimes
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
    compared += ["leaks"] if profile.counted(LEFT_BEHIND) is not None else []
    *others, last = compared
    counted = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    more = "" if plan.marked or python else "--opprof-python compares calls of Python functions, too"
    used = [backend for backend in measurement.backends if is_in_use(backend)]  # others can have missed nothing
    advice = "; ".join(filter(None, [hints(used), more]))
    return f"no op ran, or no backend sees it, so only its {counted} compared{f' ({advice})' if advice else ''}"


_COUNTS_ONCE = "--opprof-python counts them in a fresh process"


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
        collected: Collected,
        is_parallel: bool,
        is_apart: bool,
    ) -> None:
        """*errors* collects errors of baseline files, *is_apart*: whether another run judges these tests."""
        self.is_parallel = is_parallel
        """Whether other tests run at the same time."""
        self._errors = errors
        self._config = config
        self._settings = settings
        self._store = store
        self.is_apart = is_apart
        """Whether another run judges these tests."""
        self.order = Order(config, settings, store, pool, collected)
        self.looks = Looks(config, settings, store, pool, errors, self.order, is_apart=is_apart)
        self.times = JudgedTimes(config, settings, store, pool, is_parallel=is_parallel)
        self.causes = Causes(config, settings, store, self.looks, is_apart=is_apart)
        self.coarsely = Coarsely(config, settings, store, pool, self.order, is_parallel)

    def first(self, test: TestRun, measurement: Measurement) -> list[JudgedWindow]:
        """Judge each window by this process, with more and fewer calls confirmed. Raises the error that makes judging
        impossible.
        """
        self.looks.begin()
        return self.looks.confirmed_less(test, self.looks.confirmed(test, list(self._judge(test, measurement))))

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
                # A process that confirms a time measures nothing else, whatever the budget limits.
                asks_for_time |= request_of(self._config).ops_only
                if not plan.budget.allows_nothing and not (asks_for_time or is_looked_at or has_calls):
                    raise NothingMeasured(_nothing_recorded(measurement))
                is_timed = plan.rounds < LEAST_ROUNDS and not plan.budget.allows_nothing and report.diff is None
                # Of two revisions all tests are compared, and most of a suite may run no op. A fresh process compares
                # nothing.
                is_told = plan.marked if self._settings.against else not self.is_apart
                if is_timed and not is_looked_at and is_told:
                    report = report.with_remark(_only_timed(measurement, profile, python, plan))
            is_lost = name == BODY and profile.is_empty and report.unseen and not report.accepted
            if is_lost and self.looks.sees_alone(test):
                excused = f"in a fresh process it has the calls of the baseline, {DEPENDS}"
                test.keep_unmeasured(f"{report.unseen}; but {excused}")
                continue
            yield report
        if plan.measured and plan.baseline and not measurement.windows and not self.is_apart:
            nothing = Environment((), ranks=self._settings.rank.size)
            base = self._store.entry(nothing, *test.where, BODY)
            if base and (lost := unseen(base.ops, {})):
                raise NothingMeasured(f"{lost}. {_nothing_recorded(measurement)}")

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
        if plan.baseline and not self.is_apart:
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
        # A run counts calls if its baseline has them, though nobody asks.
        lacks_calls = plan.python is not False and (PYTHON_CALLS in base.facts if base else plan.marked)
        if plan.python or lacks_calls:
            if python is not None and python.uncounted:
                advice = f"; {_COUNTS_ONCE}" if python.fails_again and plan.python is None else ""
                report = report.with_remark(f"calls of Python functions were not counted: {python.uncounted}{advice}")
            elif python is None and base is not None and not report.accepted:
                advice = f"; {_COUNTS_ONCE}" if plan.python is None else ""
                why = f"this run could not count them{advice}"
                report = report.with_remark(f"calls of Python functions are not compared: {why}")
        if base:
            report = _with_remark_of_versions(report, base, bool(plan.python))
            if plan.host_memory and profile.host_memory is not None and HOST_MEMORY not in base.facts:
                why = "the baseline does not have it; an update records it"
                report = report.with_remark(f"peak memory of the host is not compared: {why}")
            if plan.host_memory is not False and HOST_MEMORY in base.facts:
                why = "" if profile.host_memory is not None or plan.host_memory else "this run could not measure it"
                if HOST_MEMORY not in base.comparable_here(report.numbers).facts:
                    why = "the baseline is of another version of Python"
                report = report.with_remark(f"peak memory of the host is not compared: {why}") if why else report
            looked = [name for name in (LEFT_BEHIND, LEFT_OPEN) if name in base.facts]
            if plan.leaks is None and any(profile.counted(name) is None for name in looked):
                longest_ns = SHORT_NS if self._settings.against else KNOWN * SHORT_NS
                is_long = min(profile.host_ns, default=0) > longest_ns
                why = f"the body takes more than {format_ns(longest_ns)}" if is_long else "it cannot run again"
                report = report.with_remark(f"leaks are not compared: {why}")
            lost = "" if plan.budget.allows_nothing else unseen(base.ops, counts_of(profile), profile.unseen)
            return self.times.compared(replace(report, unseen=lost), base, plan)
        if not plan.baseline or self._settings.update or self.is_apart:
            return report
        if is_unreadable:
            return replace(report, no_baseline="its baseline file cannot be used", is_unreadable=True)
        others = self._store.other_environments(*where)
        return replace(report, no_baseline=failure.no_baseline(where[0], others))


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
