"""The line tracer while a window is open, for profilers that record ops beside Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...profile.events.event_log import EventLog
from ...sites.chains import Chains
from ...sites.tracer import Tracer


@contextmanager
def traced(chains: Chains, log: EventLog, on_site: Callable[[int], None]) -> Iterator[None]:
    """Call *on_site* with a node of *chains* for each line that this thread comes to in the context."""
    with Tracer.joined(chains, on_site) as is_joined:
        if is_joined:  # another backend records this window, too, and its tracer serves both
            yield
            return
    tracer = Tracer(chains, on_site)
    if why := tracer.unavailable():
        log.remark(f"source lines are unknown: {why}", about="lines")
        yield
        return
    tracer.start(sys._getframe(1))
    try:
        yield
    finally:
        tracer.stop()
        if tracer.capped:
            log.remark(f"source lines are unknown after the first {tracer.most_marks:,} executed lines", about="lines")
        if tracer.replaced:
            log.remark("source lines may be wrong: something else traced lines (sys.settrace)", about="lines")
