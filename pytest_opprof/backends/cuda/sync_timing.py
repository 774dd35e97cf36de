"""Sync timing: each launch waits for its kernel, and the time of work is how long the host waited for it."""

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
"""If it is 1 when CUDA is initialised, each launch returns when its kernel is done."""


def check_blocking() -> None:
    """Check that launches block from the start of the process. Raises BackendError if they do not."""
    if os.environ.get(BLOCKING) != "1":
        raise BackendError(
            "sync timing needs launches that block from the start of the process: run pytest --opprof-timing=sync, or"
            f" set {BLOCKING}=1"
        )


def waited_ns(
    calls: Calls, correlation: NDArray[np.uint32], start: NDArray[np.uint64], duration_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the times of work in sync timing.

    Work takes from the start of its call, or from the end of the work before it of the same call, to its own end. The
    last work of a call takes until the call ends, so the times add up to that of the call. Work that CUPTI did not
    time, or whose call was not recorded, keeps its time. Raises BackendError if launches did not block.
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
    # More than half have to be late: some kernels start before their launch returns, also where it does not block.
    # Copies and launches of graphs never block.
    launched = calls.of(lambda name: cuda_calls.is_launch(name) and "Graph" not in name)[caller]
    late = np.count_nonzero(start[launched] > calls.end[caller[launched]])
    if late * 2 > np.count_nonzero(launched):
        raise BackendError(
            f"sync timing needs launches that block, and {late} kernels began after their launches had returned: CUDA"
            f" was initialised before {BLOCKING}=1 was set. Run pytest --opprof-timing=sync, and initialise CUDA later"
        )
