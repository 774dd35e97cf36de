"""One rank of several: rank 0 owns the terminal, the others print only their failures."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import StringIO
from threading import current_thread, main_thread
from time import time
from typing import Any

import pytest

from ..errors import BackendError, UsageError
from ..frameworks.live.contract import Backend
from ..frameworks.live.failures import failures_of
from ..machine.identity import usable_cores
from ..machine.ranks import Rank, ranks_named
from ..measure.recorder import is_in_use
from ..processes.parent import why
from ..processes.ranks import Failure, Ranks
from ..profile.op_profile import ALWAYS, OpProfile, Remark
from ..report.summary import Summary
from ..results.judged_window import JudgedWindow
from ..units import plural
from .test_run import TestRun

# How long rank 0 waits for others to end after its own last test.
_ENDING_S = 10
_SHOWN, _KEPT = 5, 100


class InStep:
    """One of several ranks: it shares its position with the others, and reports ranks that died or hang."""

    def __init__(self, ranks: Ranks, summary: Summary) -> None:
        self._ranks = ranks
        self._summary = summary
        self._failed: dict[str, Failure] = {}
        """The tests that failed by themselves: a collective fails if another rank never joins it."""
        self._failures: list[Failure] = []
        """All failures of this rank, including budgets and baselines."""
        self._of_others: dict[int, list[Failure]] = {}
        self._is_cut = False
        self._test = ""
        """The running test; empty between two."""
        self._handler: Any = None
        """The earlier handler of SIGTERM; None if it was not replaced."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Stay in step while tests run. SIGTERM acts like Ctrl-C, since launchers send it to the ranks beside a
        failed one.
        """
        if current_thread() is main_thread():
            self._handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with self._told():
                self._ranks.hello()
            yield
        except KeyboardInterrupt:
            self._is_cut = True
            raise
        finally:
            # This rank ends anyway; nothing should cut its output.
            if self._handler is not None:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with self._told():
                self._hear_of_others()
                self._ranks.end()  # then others may remove the shared files

    def _hear_of_others(self) -> None:
        """Find out what failed on other ranks; rank 0 waits for them to end, since its terminal is the run's.

        A launcher waits for all of them, too.
        """
        is_first = not self._ranks.rank.rank
        self._of_others, running = self._ranks.failures(_ENDING_S if is_first and not self._is_cut else 0)
        if is_first:
            failed = {rank: found for rank, found in self._of_others.items() if found}
            for rank, found in failed.items():
                self._summary.lines += [f"failed on rank {rank}: {each.test} - {each.why}" for each in found[:_SHOWN]]
                if len(found) > _SHOWN:
                    more = plural(len(found) - _SHOWN, "more failure")
                    self._summary.lines.append(f"... and {more} on rank {rank} (its own output has them)")
            self._summary.elsewhere = [
                f"{plural(len({each.test for each in found}), 'test')} failed on rank {rank}"
                for rank, found in failed.items()
            ] + ([f"{ranks_named(running)} not ended yet"] if running else [])

    def begin(self, nodeid: str) -> None:
        """Tell the others which test this rank runs."""
        with self._told():
            self._ranks.is_at(nodeid, is_over=False)
        self._test = nodeid

    def end(self, nodeid: str) -> None:
        """Tell the others that the test has ended."""
        with self._told():
            self._ranks.is_at(nodeid, is_over=True)
        self._test = ""

    def hear(self, report: pytest.TestReport) -> None:
        """Remember a failure and tell the others, also one that is not about budgets or baselines."""
        if not report.failed:
            return
        is_ours = hasattr(report, "opprof")
        crash: Any = getattr(report.longrepr, "reprcrash", None)
        failure = Failure(report.nodeid, crash.message if is_ours and crash else why(report), time())
        self._failures.append(failure)
        if not is_ours:
            self._failed.setdefault(report.nodeid, failure)
        with self._told():
            self._ranks.tell("failed", self._failures[:_KEPT])

    def finish(self) -> None:
        """Report ranks that died, or that hang after this one failed."""
        if self._failed or self._is_cut:
            with self._told():
                self._summary.errors += self._ranks.dead() or [*self._first(), *self._ranks.stuck(self._failed)]

    def _first(self) -> Iterator[str]:
        """Yield the ranks that failed in a test before this one did, which may have waited for them.

        A launcher may have ended this rank while it still waited in the test, so it may have no failure of its own.
        """
        for rank, found in self._of_others.items():
            for each in found:
                here = self._failed.get(each.test)
                if each.at < here.at if here is not None else each.test == self._test:
                    yield f"rank {rank} failed first in {each.test}: {each.why}"

    def close(self) -> None:
        """Release the shared files, and restore the handler of SIGTERM."""
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
        with suppress(BackendError):
            self._ranks.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Keep an error for the end of the run, so that it is reported once."""
        try:
            yield
        except BackendError as error:
            self._summary.errors.append(f"ranks cannot communicate: {error}")


class Compared:
    """Compares the calls of ranks in a test whose mark, or the flag, requires them to be equal."""

    def __init__(self, ranks: Ranks | None) -> None:
        """*ranks* is None for a single process, which has nothing to compare."""
        self._ranks = ranks
        self._told: dict[str, int] = {}
        """The number of times that each test sent its calls."""
        self._is_told = False

    def begin(self) -> None:
        """Begin a test."""
        self._is_told = False

    def with_others(self, test: TestRun, windows: list[JudgedWindow]) -> list[JudgedWindow]:
        """Return the reports with the ops whose calls differ between ranks; waits for the others.

        Raises BackendError if a rank does not answer.
        """
        self._is_told = True
        if self._ranks is None or not (told := self._name(test)):
            return windows
        mine = {each.name: {op: str(counts.calls) for op, counts in each.numbers.counts.items()} for each in windows}
        every: list[dict[str, dict[str, str]] | None] = self._ranks.gather(told, mine)
        if failed := [rank for rank, each in enumerate(every) if each is None]:
            raise BackendError(f"ranks could not be compared: on {ranks_named(failed)} the test itself failed")
        return [
            replace(each, ranks_differ=_differ([(of or {}).get(each.name, {}) for of in every])) for each in windows
        ]

    def leave(self, test: TestRun) -> None:
        """Tell waiting ranks that this one has no calls of a test to compare."""
        if self._ranks is not None and not self._is_told and (told := self._name(test)):
            self._ranks.tell(told, None)

    def _name(self, test: TestRun) -> str:
        """Return the key under which the calls of *test* are shared; empty if they are not."""
        if test.plan.ranks != "equal" or not (test.plan.measured or test.has_fixture):
            return ""
        self._told[test.id] = number = self._told.get(test.id, 0) + 1
        return f"calls/{test.id}/{number}"


def _differ(every: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the calls by rank of the ops that differ."""
    ops = dict.fromkeys(op for calls in every for op in calls)
    by_op = {op: [calls.get(op, "0") for calls in every] for op in ops}
    return {op: by_rank for op, by_rank in by_op.items() if len(set(by_rank)) > 1}


def why_untimed(rank: Rank) -> str:
    """Return why the times of ranks are not judged."""
    cores = usable_cores()
    if (rank.local_size or 1) > cores:
        return f"{rank.local_size} ranks share {plural(cores, 'core')}"
    return f"ranks are launched once, and one process of {rank.size} ranks is no verdict"


def of_this_rank(profiles: Mapping[str, OpProfile], rank: Rank, backends: Iterable[Backend]) -> dict[str, OpProfile]:
    """Return the profiles labelled with *rank*. Raises UsageError if a framework reports another rank."""
    remarks: list[tuple[int, Remark]] = []
    for backend in filter(is_in_use, backends):
        with failures_of(backend):
            said = backend.rank()
        if said is None or said == (rank.rank, rank.size):
            continue
        told = f"{backend.name} says that this is rank {said[0]} of {said[1]}"
        if not rank.is_alone:
            raise UsageError(f"{told}, {rank.launcher} says {rank}: one of them is left over from another launch")
        why = "but pytest was not told (RANK and WORLD_SIZE are not set): it is judged as a run of its own"
        remarks += [(ALWAYS, Remark(f"{told}, {why}"))] if said[1] > 1 else []
    return {
        name: replace(
            profile,
            environment=replace(profile.environment, ranks=rank.size),
            remarks=(*profile.remarks, *remarks),
        )
        for name, profile in profiles.items()
    }


class _Nowhere(StringIO):
    """The output stream of a rank other than 0."""

    def write(self, text: str) -> int:
        """Discard *text*."""
        return len(text)


class OtherRank:
    """The hooks of a rank other than 0: its terminal shows only failures, each prefixed with its rank."""

    def __init__(self, config: pytest.Config, rank: Rank, summary: Summary) -> None:
        self._rank = rank
        self._summary = summary
        if reporter := config.pluginmanager.get_plugin("terminalreporter"):
            config.pluginmanager.unregister(reporter)
            config.pluginmanager.register(pytest.TerminalReporter(config, _Nowhere()), "terminalreporter")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Print a collection error."""
        if report.failed:
            self._say(f"ERROR {report.nodeid}\n{report.longreprtext}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print a failing test with its reason."""
        if report.failed:
            word = "FAILED" if report.when == "call" else "ERROR"
            self._say(f"{word} {report.nodeid}\n{report.longreprtext}")

    def pytest_internalerror(self, excrepr: object) -> None:
        """Print an internal error of pytest or a plugin."""
        self._say(f"INTERNALERROR\n{excrepr}")

    def pytest_keyboard_interrupt(self) -> None:
        """Print that the rank was interrupted."""
        self._say("interrupted")

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self) -> None:
        """Print the errors that fail the run apart from its tests."""
        if self._summary.errors:
            self._say("\n".join(f"opprof: error: {error}" for error in self._summary.errors))

    def _say(self, text: str) -> None:
        # Flush at once, since ranks write to one terminal.
        sys.stdout.write("\n" + "".join(f"[rank {self._rank.rank}] {line}\n" for line in text.splitlines()))
        sys.stdout.flush()
