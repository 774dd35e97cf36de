"""Whether this process started others: what they do is in no window of it."""

from __future__ import annotations

import sys
import threading
from typing import NamedTuple

NOT_SEEN = "other processes were started in this window; their ops are not seen"


class Children(NamedTuple):
    """The processes that this one started so far."""

    alive: frozenset[str]
    ended_faults: int
    """Page faults of all that ended and were waited for: each process has some, so one more makes them more."""


def children() -> Children | None:
    """Return the processes that this one started; None where the system does not tell.

    Audit hooks would tell, too, but each call of `sys._getframe` would cost 0.1 us more, and for good.
    """
    if not sys.platform.startswith("linux"):
        return None
    import resource

    alive: set[str] = set()
    for thread in threading.enumerate():
        try:
            with open(f"/proc/self/task/{thread.native_id}/children", encoding="ascii") as file:
                alive.update(file.read().split())
        except OSError:
            pass  # the thread has ended, or the kernel is built without these files
    return Children(frozenset(alive), resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt)


def were_started(before: Children | None, after: Children | None) -> bool:
    """Tell whether a process was started between the two."""
    if before is None or after is None:
        return False
    return bool(after.alive - before.alive) or after.ended_faults > before.ended_faults
