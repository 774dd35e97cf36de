"""One side of an A/B comparison: a pytest that runs a round of a test whenever it is told that it is its turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .parent import Parent, why

_INSTALLED = frozenset(["site-packages", "dist-packages"])


class Side:
    """The hooks of a run that is a side."""

    def __init__(self, config: pytest.Config, parent: Parent) -> None:
        self._config = config
        self._parent = parent
        self._reports: list[dict[str, Any]] = []
        self._errors: dict[str, str] = {}

    def turn(self) -> None:
        """Wait for this side's turn to run a round."""
        self._parent.ask("turn")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember what cannot be collected, and why in a line."""
        if report.failed:
            self._errors[report.nodeid] = why(report)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that both sides have, in the order that both run them in."""
        wanted: list[str] = self._parent.ask("tests", [item.nodeid for item in items], self._errors)
        order = {test: number for number, test in enumerate(wanted)}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test together with the other side."""
        self._reports.clear()
        self._parent.ask("begin", nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what became of a phase of the test."""
        plain = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(plain)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Send what became of the test."""
        self._parent.ask("end", nodeid, self._reports)

    def pytest_sessionfinish(self) -> None:
        """Say which packages came from somewhere else."""
        self._parent.ask("bye", list(misplaced(**self._parent.told["trees"])))


def misplaced(own: str, own_first: str, other: str) -> Iterator[str]:
    """Yield the modules that this process has of the *other* tree, or not of its *own* though that has them."""
    roots = (Path(own, "src"), Path(own)) if own_first else ()
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or not file:
            continue
        path = Path(file).resolve()
        installed = not _INSTALLED.isdisjoint(path.parts)
        if path.is_relative_to(own) and not installed:
            continue
        is_own = any((root / name / "__init__.py").is_file() or (root / f"{name}.py").is_file() for root in roots)
        if is_own or (path.is_relative_to(other) and not installed):
            yield f"{name} from {path}"
