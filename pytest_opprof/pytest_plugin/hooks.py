"""The hooks of a run with ``--opprof``, in the order in which pytest calls them.

Beside these: `xdist` has the two of pytest-xdist. A process that another run started has the hooks of `child`, and one
that compares with another revision those of `against`: each has a loop over tests of its own in place of pytest's.
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
    """The hooks of a process that runs tests, or starts the workers of pytest-xdist that do."""

    def __init__(
        self,
        config: pytest.Config,
        collected: Collected,
        summary: Summary,
        measuring: Measuring,
        closing: Closing | None,
        in_step: InStep | None,
    ) -> None:
        """*closing* is None in a worker, whose controller concludes; *in_step* where there is one rank."""
        self._config = config
        self._collected = collected
        self._summary = summary
        self._measuring = measuring
        self._closing = closing
        self._in_step = in_step

    def pytest_report_header(self) -> list[str]:
        """Say what measures, and what it is compared with."""
        return self._measuring.header()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Read every mark before the first test runs. Raises pytest.UsageError with all that are wrong."""
        self._measuring.read_marks(map(TestRun.of, items))

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember that the test exists, also where another shard runs it: not each plugin says what it deselects."""
        self._collected.add([id_of(item)])

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember that these tests exist."""
        self._collected.add(map(id_of, session.items))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Keep in step with other ranks while tests run; then measure in further processes what a baseline keeps."""
        with self._in_step.running() if self._in_step else nullcontext():
            self._measuring.keep_memory()
            return (yield from self._closing.after_tests()) if self._closing else (yield)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell other ranks where this one is."""
        if self._in_step:
            self._in_step.begin(nodeid)

    # Not pytest_pyfunc_call: unittest's methods never come through it.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the body of a marked test, and judge all its windows."""
        return (yield from self._measuring.call(TestRun.of(item)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what was measured on the report."""
        report = yield
        put_on_report(TestRun.of(item), call, report)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what was measured, here or in a worker; tell other ranks what failed."""
        if self._closing:
            self._closing.collect(report)
        if self._in_step:
            self._in_step.hear(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell other ranks that this one is done with a test."""
        if self._in_step:
            self._in_step.end(nodeid)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Conclude: what went wrong with ranks, stale baselines, the JSON, summary and page of the run."""
        if self._in_step:
            self._in_step.finish()
        if self._closing:
            self._closing.finish(session, exitstatus)
        else:
            xdist.tell_controller(self._config, self._collected, self._summary)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Print what the tests did."""
        if self._closing:
            self._closing.tell(terminalreporter, exitstatus)

    def pytest_unconfigure(self) -> None:
        """Let go of what ranks share."""
        if self._in_step:
            self._in_step.close()
