"""The line tracer of this Python: `Tracer`."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 12):
    from .monitoring import MonitoringTracer as Tracer
else:
    from .settrace import SettraceTracer as Tracer

__all__ = ["Tracer", "unavailable"]


def unavailable() -> str | None:
    """Return why lines cannot be traced now, or None if they can."""
    return Tracer.unavailable()
