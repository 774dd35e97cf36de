"""One rank of several: the terminal of rank 0 is the run's, the others say what failed."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from ..machine.ranks import Rank
from ..report.summary import Summary


class _Nowhere(StringIO):
    """What a rank other than 0 writes to."""

    def write(self, text: str) -> int:
        """Forget *text*."""
        return len(text)


class OtherRank:
    """The hooks of a rank other than 0: its terminal has lines for what fails, each with its rank before it."""

    def __init__(self, config: pytest.Config, rank: Rank, summary: Summary) -> None:
        self._rank = rank
        self._summary = summary
        if reporter := config.pluginmanager.get_plugin("terminalreporter"):
            config.pluginmanager.unregister(reporter)
            config.pluginmanager.register(pytest.TerminalReporter(config, _Nowhere()), "terminalreporter")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Say what cannot be collected."""
        if report.failed:
            self._say(f"ERROR {report.nodeid}\n{report.longreprtext}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Say which test fails, and why."""
        if report.failed:
            word = "FAILED" if report.when == "call" else "ERROR"
            self._say(f"{word} {report.nodeid}\n{report.longreprtext}")

    def pytest_internalerror(self, excrepr: object) -> None:
        """Say what went wrong in pytest or a plugin."""
        self._say(f"INTERNALERROR\n{excrepr}")

    def pytest_keyboard_interrupt(self) -> None:
        """Say that the rank was told to stop."""
        self._say("interrupted")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """Say what fails the run beside its tests."""
        if self._summary.errors:
            self._say("\n".join(f"opprof: error: {error}" for error in self._summary.errors))

    def _say(self, text: str) -> None:
        # At once: ranks write to one terminal.
        sys.stdout.write("".join(f"[rank {self._rank.rank}] {line}\n" for line in text.splitlines()))
        sys.stdout.flush()
