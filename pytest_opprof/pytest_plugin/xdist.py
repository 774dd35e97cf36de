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
from .options import WIDTH

_LOCK = "opprof-lock"


def is_worker(config: pytest.Config) -> bool:
    """Return True if this process is a worker."""
    return hasattr(config, "workerinput")


@contextmanager
def taking_turns(config: pytest.Config, settings: Settings) -> Iterator[None]:
    """Wait until no other worker measures, if they have to take turns."""
    if not is_worker(config) or not settings.serialize:
        yield
        return
    # Imported here: only workers that take turns need it.
    from filelock import FileLock

    with FileLock(config.workerinput[_LOCK]):  # type: ignore[attr-defined]  # xdist's
        yield


def tell_controller(config: pytest.Config, collected: Collected, summary: Summary) -> None:
    """Send a worker's collected tests and errors to the controller."""
    known = {"tests": collected.plain(), "errors": summary.errors, "marked": summary.marked}
    config.workeroutput["opprof"] = known  # type: ignore[attr-defined]  # xdist's


class Controller:
    """The hooks of pytest-xdist, in the process that starts the workers."""

    def __init__(self, config: pytest.Config, settings: Settings, collected: Collected, summary: Summary) -> None:
        self._config = config
        self._settings = settings
        self._collected = collected
        self._summary = summary
        self._folder: Path | None = None
        self._stack = ExitStack()
        config.add_cleanup(self._stack.close)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a worker the width of the terminal, the command for fresh processes, and the lock for taking turns."""
        node.workerinput[WIDTH] = self._settings.width
        node.workerinput[ARGUMENTS] = list(map(str, self._config.invocation_params.args))
        if self._settings.serialize:
            self._folder = self._folder or self._stack.enter_context(scratch())
            node.workerinput[_LOCK] = str(self._folder / "lock")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collect a worker's tests and errors; a crashed worker sent none."""
        if known := getattr(node, "workeroutput", {}).get("opprof"):
            self._collected.merge(known["tests"])
            self._summary.errors += known["errors"]
            self._summary.marked |= known["marked"]
