"""Detect Python threads beside the recorded one, for backends that record one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any


class OtherThreads:
    """The other threads that ran in a context."""

    def __init__(self) -> None:
        self.started = 0
        """Threads that began in it."""
        self.worked = False
        """Whether a thread of an executor, which began before, ran in it."""

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(None)  # in the new thread, which is asked once
        self.started += 1

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Watch threads until the context ends."""
        before, hook = _executors_ns(), threading.getprofile()
        if hook is None:  # no other tool profiles new threads
            threading.setprofile(self._note)
        try:
            yield
        finally:
            if hook is None:
                threading.setprofile(None)
            after = _executors_ns()
            self.worked = any(after.get(thread, ns) > ns for thread, ns in before.items())


def _executors_ns() -> dict[int, int]:
    """Return the run time of each thread of `concurrent.futures` so far, on Linux; other threads may be anyone's."""
    module = sys.modules.get("concurrent.futures.thread")
    found: dict[int, int] = {}
    for thread in list(getattr(module, "_threads_queues", ())):
        try:
            text = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text(encoding="ascii")
            found[thread.native_id] = int(text.split()[0])
        except (OSError, ValueError, IndexError):
            pass  # it has ended, or this is no Linux
    return found
