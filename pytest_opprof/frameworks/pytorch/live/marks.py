"""Set marks in a session of torch's profiler: an annotation where each interval of a log begins."""

from __future__ import annotations

from ....errors import BackendError

MARK = "opprof::mark"
LOST = (
    "the torch profiler lost this window: another torch.profiler (or autograd.profiler) ran inside the test,"
    " and PyTorch has one session at a time, or a window was opened inside an op (an autograd hook or Function)"
    ". Remove it, or leave the test out of opprof"
)


def mark() -> None:
    """Set a mark now. It takes 15 us."""
    from torch.profiler import record_function

    with record_function(MARK):
        pass


def check_all(found: int, expected: int) -> None:
    """Check that as many marks were *found* as set. Raises BackendError if not: another profiler recorded them."""
    if found != expected:
        raise BackendError(LOST)
