"""The run that started this process: it is asked for instructions."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Any, Literal

import pytest

# In a process started by another run, that run's instructions as JSON.
VARIABLE = "OPPROF_PARENT"
HASH_SEED = "PYTHONHASHSEED"


class Parent:
    """The connection to the run that started this process."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.kind: Literal["fresh", "side"] = told["kind"]
        """The role of this process."""
        self.told = told
        with socket.create_connection(("127.0.0.1", told["port"])) as connection:  # the stream keeps it open
            self._stream = connection.makefile("rw", encoding="utf-8", newline="\n")
        self._say(told["hello"])

    @classmethod
    def found(cls) -> Parent | None:
        """Return the run that started this process, connected; None if it is on its own."""
        told = os.environ.pop(VARIABLE, None)  # a pytest that a test starts is on its own
        if not told:
            return None
        parent = cls(json.loads(told))
        # The seed was this process's alone: what a test starts has the user's.
        os.environ.pop(HASH_SEED, None)
        if seed := parent.told.get("hash_seed"):
            os.environ[HASH_SEED] = seed
        return parent

    def ask(self, *message: object) -> Any:
        """Send a message and wait for the answer. Ends this process if nobody answers."""
        try:
            self._say(message)
            return json.loads(self._stream.readline())
        except (ValueError, OSError):
            pytest.exit("the run that started this one has ended", returncode=1)

    def close(self) -> None:
        """End the connection. Otherwise Python warns of it in a process that goes on after pytest."""
        with suppress(OSError):  # the other end may be gone
            self._stream.close()

    def _say(self, message: object) -> None:
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()


def why(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Return in one line why a report failed or was skipped."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    said = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E  ")]
    return (said or report.longreprtext.splitlines() or ["it gives no reason"])[-1]
