"""The hooks of a run with ``--opprof``, in the order in which pytest calls them, and their registration.

`xdist` has the two hooks of pytest-xdist. A process that another run started has the hooks of `child`, and a run that
compares with another revision the hooks of `against.run`; both replace pytest's loop over tests.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from ..baselines.files.writing import check_writable
from ..baselines.stale import Collected
from ..baselines.store import Store
from ..frameworks.live.registry import begin_run
from ..machine.cpu_core import Core
from ..machine.load import RUN
from ..processes.base import base_of
from ..processes.parent import Parent
from ..processes.pool import Pool
from ..processes.ranks import Ranks
from ..processes.request import Request, put_request
from ..processes.this_run import CORE
from ..report.summary import Summary
from ..results.plain import converted
from ..results.test_id import id_of
from ..sites.code import kinds
from ..sites.shown import package_of
from . import xdist
from .child import Fresh, Side
from .closing import Closing
from .fixture import MEASURING, TURN
from .judging import Judging
from .measuring import Measuring, put_on_report
from .options import check_flags, settings_of
from .ranks import Compared, InStep, OtherRank
from .test_run import TestRun


def register(config: pytest.Config) -> None:
    """Register the hooks that measure, judge and conclude. Raises UsageError for invalid options.

    Workers of pytest-xdist measure and judge; their controller counts and writes. A process that another run started
    measures for that run and keeps nothing.
    """
    settings, manager, is_worker = settings_of(config), config.pluginmanager, xdist.is_worker(config)
    check_flags(config, settings.rank)
    os.environ.setdefault(RUN, str(os.getpid()))
    whose = ExitStack()
    config.add_cleanup(whose.close)
    whose.enter_context(kinds.of_run(config.rootpath, map(package_of, settings.sites_show)))
    if parent := Parent.found():
        whose.callback(parent.close)
    base = None
    if settings.against and parent is None and not config.option.collectonly:
        base = base_of(config.invocation_params.dir, settings.against)
        settings = replace(settings, against=f"{settings.against} ({base.commit[:10]})")
    is_parallel = is_worker and not settings.serialize
    # Sides that take turns see the same speed of the core.
    is_side = parent is not None and parent.kind == "side"
    if settings.noise != "ignore" and not is_parallel and not is_side and settings.rank.is_alone:
        config.stash[CORE] = Core()
    store, pool, summary = Store(settings.baselines, settings.rank.rank), Pool(config, settings.rank), Summary()
    is_partial = bool(config.getoption("lf", False) or config.getoption("pyargs", False))
    collected = Collected(config.rootpath, config.args, config.invocation_params.dir, partial=is_partial)
    ranks = None
    if not settings.rank.is_alone and not config.option.collectonly:
        shared = config.option.opprof_json or config.getini("opprof_json")
        ranks = Ranks(settings.rank, Path(config.invocation_params.dir, shared).parent if shared else None)
    judging = Judging(
        config,
        settings,
        store,
        pool,
        summary.errors,
        collected=collected,
        is_parallel=is_parallel,
        is_apart=parent is not None,
    )
    measuring, closing = Measuring(config, settings, store, summary, pool, judging, Compared(ranks)), None
    begin_run(settings.backends)
    if not is_worker:
        manager.register(xdist.Controller(config, settings, collected, summary), "opprof-controller")
        keeps = parent is None and not settings.against and not settings.rank.rank
        if keeps and settings.update and not config.option.collectonly:
            check_writable(settings.baselines)
        closing = Closing(config, settings, store, pool, collected, summary, keeps, ranks)
    in_step = InStep(ranks, summary) if ranks else None
    if parent and is_side:
        side = Side(config, parent)
        manager.register(side, "opprof-side")  # before the hooks that read marks: it chooses the tests
        config.stash[TURN] = side.turn
        put_request(config, converted(parent.told["request"], Request))
    manager.register(Hooks(config, collected, summary, measuring, closing, in_step), MEASURING)
    if settings.rank.rank:
        manager.register(OtherRank(config, settings.rank, summary), "opprof-rank")
    if parent and not is_side:
        manager.register(Fresh(config, parent, judging.order), "opprof-fresh")
    elif base:
        from .against.run import Against

        manager.register(Against(config, base, settings.against_python, summary), "opprof-against")


class Hooks:
    """The hooks of a process that runs tests, or that starts the workers of pytest-xdist."""

    def __init__(
        self,
        config: pytest.Config,
        collected: Collected,
        summary: Summary,
        measuring: Measuring,
        closing: Closing | None,
        in_step: InStep | None,
    ) -> None:
        """*closing* is None in a worker, since its controller concludes; *in_step* is None for a run of one rank."""
        self._config = config
        self._collected = collected
        self._summary = summary
        self._measuring = measuring
        self._closing = closing
        self._in_step = in_step

    def pytest_report_header(self) -> list[str]:
        """Print the backends, and the base of the comparison."""
        return self._measuring.header()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember every collected test, since a plugin that splits the suite may not report deselected tests."""
        self._collected.add([id_of(item)])
        self._measuring.order.add(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the tests that will run (pytest-xdist adds their group to the ids of collected tests), and parse
        their marks. Raises pytest.UsageError with every error.
        """
        self._collected.add(map(id_of, session.items))
        self._measuring.order.choose(session.items)
        self._measuring.read_marks(map(TestRun.of, session.items))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Keep in step with other ranks while tests run; then measure baselines in further processes."""
        with self._in_step.running() if self._in_step else nullcontext():
            self._measuring.keep_memory()
            return (yield from self._closing.after_tests()) if self._closing else (yield)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell other ranks which test this one runs."""
        if self._in_step:
            self._in_step.begin(nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Remember which tests pytest reached, skipped ones too."""
        self._measuring.order.begin(item)
        return (yield)

    # Not pytest_pyfunc_call, because unittest's methods never pass through it.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the body of a marked test, and judge all its windows."""
        return (yield from self._measuring.call(TestRun.of(item)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the measurement on the report."""
        report = yield
        put_on_report(TestRun.of(item), call, report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the results from here or from a worker; tell other ranks about failures."""
        if self._closing:
            self._closing.collect(report)
        if self._in_step:
            self._in_step.hear(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell other ranks that this one has finished a test."""
        if self._in_step:
            self._in_step.end(nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Conclude the run: errors of ranks, stale baselines, JSON, summary and page."""
        if self._in_step:
            self._in_step.finish()
        if self._closing:
            self._closing.finish(session, exitstatus)
        else:
            xdist.tell_controller(self._config, self._collected, self._summary)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Print the results of the tests."""
        if self._closing:
            self._closing.tell(terminalreporter, exitstatus)

    def pytest_unconfigure(self) -> None:
        """Release the connection between ranks."""
        if self._in_step:
            self._in_step.close()
