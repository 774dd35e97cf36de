"""Sync timing: the times of work as the host sees them when each launch waits for its kernel."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError
from ...ops import cuda_calls
from ...profile.attribution import NOBODY
from ...profile.columns import ABSENT
from .activity import Calls, callers

BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""Set to 1 before CUDA is initialised, it lets each launch of a kernel return when that is done."""


def check_blocking() -> None:
    """Check that launches were to block from the start of the process. Raises BackendError where they were not."""
    if os.environ.get(BLOCKING) != "1":
        raise BackendError(
            "sync timing needs launches that block from the start of the process: run pytest --opprof-timing=sync, or"
            f" set {BLOCKING}=1"
        )


def waited_ns(
    calls: Calls, correlation: NDArray[np.uint32], start: NDArray[np.uint64], duration_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the times of work as a host sees them whose launches block: sync timing.

    From the call that asked for it (or the end of what that call asked for before) to its own end; the last also has
    what the call took after it, so that the times of a call's work add up to the call. Work that CUPTI did not time,
    or whose call is not known, keeps its time. Raises BackendError where launches did not block.
    """
    caller = callers(calls, correlation)
    known = np.flatnonzero((caller != NOBODY) & (duration_ns != ABSENT))
    end = start.astype(np.int64) + duration_ns
    known = known[np.lexsort((end[known], caller[known]))]
    caller, end = caller[known], end[known]
    _check_blocked(calls, caller, start[known])
    is_first = np.diff(caller, prepend=NOBODY) != 0
    is_last = np.append(is_first[1:], True)[: len(known)]
    begin = np.where(is_first, calls.start.astype(np.int64)[caller], np.roll(end, 1))
    until = np.where(is_last, np.maximum(end, calls.end.astype(np.int64)[caller]), end)
    found: NDArray[np.int64] = duration_ns.copy()
    found[known] = np.maximum(until - begin, 0)
    return found


def _check_blocked(calls: Calls, caller: NDArray[np.int64], start: NDArray[np.uint64]) -> None:
    # Half of them: a kernel may also start before a launch that does not block returns. Copies and graphs never block.
    launched = calls.of(lambda name: cuda_calls.is_launch(name) and "Graph" not in name)[caller]
    late = np.count_nonzero(start[launched] > calls.end[caller[launched]])
    if late * 2 > np.count_nonzero(launched):
        raise BackendError(
            f"sync timing needs launches that block, and {late} kernels began after theirs had returned: CUDA was"
            f" initialised before {BLOCKING}=1 was set. Run pytest --opprof-timing=sync, and initialise it no earlier"
        )
