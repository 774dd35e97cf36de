"""One rank of several: the terminal of rank 0 is the run's, the others say what failed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import StringIO

import pytest

from ..errors import BackendError
from ..machine.ranks import Rank
from ..processes.ranks import Ranks
from ..report.summary import Summary


class InStep:
    """The hooks of every rank: the others see where it is, and it says which of them died or hang."""

    def __init__(self, ranks: Ranks, summary: Summary) -> None:
        self._ranks = ranks
        self._summary = summary
        self._failed: dict[str, None] = {}
        """The tests that failed by themselves: a collective fails where another rank does not come."""
        self._is_cut = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Let SIGTERM, by which a launcher ends the ranks beside one that failed, do as Ctrl-C."""
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with self._told():
                self._ranks.hello()
            return (yield)
        except KeyboardInterrupt:
            self._is_cut = True
            raise
        finally:
            # This rank ends anyway: what it has to say and to write is not to be cut.
            signal.signal(signal.SIGTERM, signal.SIG_IGN if before is signal.SIG_DFL else before)
            with self._told():
                self._ranks.end()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say where this rank is."""
        with self._told():
            self._ranks.is_at(nodeid, is_over=False)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Say that it is done with that."""
        with self._told():
            self._ranks.is_at(nodeid, is_over=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what failed, and not for what it spends."""
        if report.failed and not hasattr(report, "opprof"):
            self._failed[report.nodeid] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Say which ranks died, or hang where this one failed."""
        if self._failed or self._is_cut:
            with self._told():
                self._summary.errors += self._ranks.dead() or self._ranks.stuck(self._failed)

    def pytest_unconfigure(self) -> None:
        """Let go of what ranks share."""
        with suppress(BackendError):
            self._ranks.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Keep an error for the end of the run, where it is said once."""
        try:
            yield
        except BackendError as error:
            self._summary.errors.append(f"ranks do not hear of each other: {error}")


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
        sys.stdout.write("\n" + "".join(f"[rank {self._rank.rank}] {line}\n" for line in text.splitlines()))
        sys.stdout.flush()
