"""The reports that a side of a comparison sends: pytest's, with the windows that it measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest

from ...baselines.entry import WindowBaseline, entry_of
from ...processes.collection import SideTest
from ...python_calls.counted import PythonCalls
from ...report import colours
from ...results.plain import converted
from ...results.test_result import TestRecord
from ...results.window_result import SitesByOp, WindowResult

# The measurement of a process, by window.
Windows = dict[str, WindowBaseline]


def report_of(config: pytest.Config, data: Mapping[str, Any]) -> Any:
    """Return the report that a side has sent."""
    copied = {**data, "longrepr": deepcopy(data.get("longrepr"))}  # pytest changes it
    report = config.hook.pytest_report_from_serializable(config=config, data=copied)
    if isinstance(report.longrepr, list):
        report.longrepr = tuple(report.longrepr)  # JSON has no tuples; pytest -v wants that of a skip
    return report


class Failure:
    """Why a test failed, for the terminal and JUnit: in full, and in a few words with the place of the test."""

    def __init__(self, message: Sequence[colours.TextLine], cause: str, test: SideTest) -> None:
        self._message = message
        self.reprcrash = SimpleNamespace(path=test.file, lineno=(test.location[1] or 0) + 1, message=cause)

    def __str__(self) -> str:
        return "\n".join(line.text for line in self._message)

    def toterminal(self, writer: Any) -> None:
        """Write the message in full; pytest calls this."""
        colours.write(writer, self._message)


def results_of(data: object) -> list[WindowResult]:
    """Return the windows of a test's record."""
    return converted(data, TestRecord).windows


def windows_of(reports: Sequence[dict[str, Any]]) -> Windows:
    """Return the numbers of all windows in the reports of a test."""
    return {window.name: entry_of(window) for window in measured(reports)}


def sites_of(windows: Sequence[WindowResult]) -> dict[str, SitesByOp]:
    """Return the source lines of each op, by window."""
    return {window.name: window.sites for window in windows}


def python_of(windows: Sequence[WindowResult]) -> dict[str, PythonCalls]:
    """Return the calls of Python functions, by window, where they were counted."""
    return {window.name: window.python for window in windows if window.python is not None}


def measured(reports: Sequence[dict[str, Any]]) -> list[WindowResult]:
    """Return the windows in the reports of a test."""
    return [window for report in reports if "opprof" in report for window in results_of(report["opprof"])]
