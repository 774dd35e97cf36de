"""pytest-xdist: workers measure and judge; the controller counts, and writes baselines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..baselines.stale import Collected
from ..machine.scratch import scratch
from ..measure.plan import Settings
from ..processes.this_run import ARGUMENTS
from ..report.summary import Summary

_LOCK = "opprof-lock"


def is_worker(config: pytest.Config) -> bool:
    """Tell whether this process is a worker."""
    return hasattr(config, "workerinput")


@contextmanager
def taking_turns(config: pytest.Config, settings: Settings) -> Iterator[None]:
    """Wait until no other worker measures, where they are to do it one at a time."""
    if not is_worker(config) or not settings.serialize:
        yield
        return
    # Imported here: only workers that take turns need it.
    from filelock import FileLock

    with FileLock(config.workerinput[_LOCK]):  # type: ignore[attr-defined]  # xdist's
        yield


class Worker:
    """The hook of a worker: it tells the controller what it knows."""

    def __init__(self, config: pytest.Config, collected: Collected, summary: Summary) -> None:
        self._config = config
        self._collected = collected
        self._summary = summary

    def pytest_sessionfinish(self) -> None:
        """Send which tests exist, and what went wrong."""
        known = {
            "tests": self._collected.plain(),
            "errors": self._summary.errors,
            "marked": self._summary.marked,
        }
        self._config.workeroutput["opprof"] = known  # type: ignore[attr-defined]  # xdist's


class Controller:
    """The hooks of the process that starts the workers, if there are any."""

    def __init__(self, config: pytest.Config, settings: Settings, collected: Collected, summary: Summary) -> None:
        self._config = config
        self._settings = settings
        self._collected = collected
        self._summary = summary
        self._folder: Path | None = None
        self._stack = ExitStack()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker how to start fresh processes, and the lock that lets one measure at a time."""
        node.workerinput[ARGUMENTS] = list(map(str, self._config.invocation_params.args))
        if self._settings.serialize:
            self._folder = self._folder or self._stack.enter_context(scratch())
            node.workerinput[_LOCK] = str(self._folder / "lock")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect what a worker knows; one that crashed says nothing."""
        known = getattr(node, "workeroutput", {}).get("opprof", {"tests": {}, "errors": [], "marked": False})
        self._collected.merge(known["tests"])
        self._summary.errors += known["errors"]
        self._summary.marked |= known["marked"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Remove the lock."""
        self._stack.close()
