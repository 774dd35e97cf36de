"""A pytest that another run started to measure tests for it, apart from what ran there before."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec import Struct, convert

from ..machine.cpu_core import LOOKING_PATIENCE_S, Core
from ..python_calls.counted import PythonCalls
from ..results.run_result import TestRecord, plain
from ..results.test_id import id_of
from ..results.window_result import WindowResult
from .parent import Parent, why
from .this_run import COLD, CORE, COUNTED, FIRST_LOOK, ONE_THREAD, SITES


class Measured(Struct):
    """What such a run measured of a test."""

    windows: list[WindowResult] = []
    python: dict[str, PythonCalls] = {}
    """By window, the calls of Python functions, where only these were asked for."""
    why: str = ""
    """What went wrong; empty if nothing did."""


class Fresh:
    """The hooks of such a run: it collects, then measures the tests that it is asked for, until that run has ended.

    It answers with what it measured of each test.
    """

    def __init__(self, config: pytest.Config, parent: Parent) -> None:
        self._config = config
        self._parent = parent
        self._files = {Path(file) for file in parent.told["files"]}
        """The files of the tests that it may be asked for."""
        self._errors: dict[str, str] = {}
        self._answer = Measured()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Collect only what it may be asked for."""
        return None if collection_path.is_dir() or collection_path in self._files else True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember what cannot be collected."""
        if report.failed:
            self._errors[report.nodeid] = why(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> NoReturn:
        """Run the tests that it is asked for; `Parent.ask` ends that."""
        items = {id_of(item): item for item in session.items}
        answers: dict[str, Measured] = {}
        while True:
            asked = self._parent.ask("ready", plain(answers))
            self._config.stash[FIRST_LOOK] = asked.get("first_look", False)
            self._config.stash[ONE_THREAD] = asked.get("one_thread", False)
            self._config.stash[CORE] = Core(asked["best_ns"] or math.inf, LOOKING_PATIENCE_S)
            found = [items[test] for test in asked["tests"] if test in items]
            answers = {test: self._missing(test) for test in asked["tests"] if test not in items}
            # What a node below the item does not need stays: here the fixtures of its module, for the next time.
            last = found[-1].parent if found and asked["stays"] else None
            for item, following in zip(found, [*found[1:], last]):
                self._answer = answers[id_of(item)] = Measured()
                self._config.stash[SITES] = id_of(item) in asked["sites"]
                self._config.stash[COLD] = id_of(item) in asked["cold"]
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                self._answer.python = self._config.stash.setdefault(COUNTED, {})
                del self._config.stash[COUNTED]

    def _missing(self, test: str) -> Measured:
        errors = [f"{file}: {error}" for file, error in self._errors.items() if test.startswith(file)]
        return Measured(why="; ".join(errors) or "pytest did not collect it there")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what was measured, and what went wrong."""
        if report.when == "call" and hasattr(report, "opprof"):
            self._answer.windows = convert(report.opprof, TestRecord).windows
        # A body that was measured fails for what it spends: the run that asks says so itself.
        if not report.passed and not (report.when == "call" and self._answer.windows):
            self._answer.why = f"{'skipped' if report.skipped else 'failed'}: {why(report)}"
