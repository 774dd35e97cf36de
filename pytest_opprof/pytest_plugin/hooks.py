"""The hooks of a run with ``--opprof``, in the order in which pytest calls them.

`xdist` has the two hooks of pytest-xdist. A process that another run started has the hooks of `child`, and a run that
compares with another revision the hooks of `against`; both replace pytest's loop over tests.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext

import pytest

from ..baselines.stale import Collected
from ..report.summary import Summary
from ..results.test_id import id_of
from . import xdist
from .closing import Closing
from .measuring import Measuring, put_on_report
from .ranks import InStep
from .test_run import TestRun


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

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Parse all marks before the first test runs. Raises pytest.UsageError with every error."""
        self._measuring.read_marks(map(TestRun.of, items))

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember every collected test, since a plugin that splits the suite may not report deselected tests."""
        self._collected.add([id_of(item)])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the tests that will run: pytest-xdist adds their group to the ids of collected tests."""
        self._collected.add(map(id_of, session.items))

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
