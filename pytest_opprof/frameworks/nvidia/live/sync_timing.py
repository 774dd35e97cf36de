"""Sync timing: each launch waits for its kernel, and the time of work is the host's wait for it.

An op of PyTorch takes longer than its kernels: its own time, dispatching included.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from ....ops import cuda_calls
from ....profile.columns import ABSENT
from ....profile.events.attribution import NOBODY
from .activity import Work
from .calls import Calls

# If it is 1 when CUDA is initialised, each launch returns when its kernel is done.
BLOCKING = "CUDA_LAUNCH_BLOCKING"


def check_blocking() -> None:
    """Check that launches block from the start of the process. Raises BackendError if they do not."""
    if os.environ.get(BLOCKING) != "1":
        raise BackendError(
            "sync timing needs launches that block from the start of the process. Run pytest --opprof-timing=sync, or"
            f" set {BLOCKING}=1"
        )


def waited_ns(calls: Calls, work: Work) -> NDArray[np.int64]:
    """Return the times of *work* in sync timing, as if the host waited for each.

    Work takes from the start of its call to its own end. The host does not wait for copies and graphs, so work after
    one in the same call or stream takes from its end. The last work of a call takes until the call ends. Work that
    CUPTI did not time, or whose call was not recorded, keeps its time. Raises BackendError if launches did not block.
    """
    caller = work.caller
    known = np.flatnonzero((caller != NOBODY) & (work.device_ns != ABSENT))
    end = work.start.astype(np.int64) + work.device_ns
    known = known[np.lexsort((end[known], caller[known]))]
    _check_blocked(calls, caller[known], work.start[known])
    caller, start, end = caller[known], work.start[known], end[known]
    begin = np.maximum(calls.start.astype(np.int64)[caller], _end_before([caller], end, end))
    begin = np.maximum(begin, _end_before(list(work.place[:2, known]), start, end))
    is_last = np.append(np.diff(caller) != 0, True)[: len(known)]
    until = np.where(is_last, np.maximum(end, calls.end.astype(np.int64)[caller]), end)
    found: NDArray[np.int64] = work.duration_ns.copy()
    found[known] = np.maximum(until - begin, 0)
    return found


def _end_before(lanes: Sequence[NDArray[Any]], order: NDArray[Any], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the *end* of the work before each one, by *order*, in the same *lanes*; 0 if there is none."""
    rows = np.lexsort((order, *lanes))
    found = np.zeros(len(end), np.int64)
    same = np.logical_and.reduce([np.diff(lane[rows]) == 0 for lane in lanes])
    found[rows[1:][same]] = end[rows[:-1][same]]
    return found


def _check_blocked(calls: Calls, caller: NDArray[np.int64], start: NDArray[np.uint64]) -> None:
    # More than half must be late before this is an error: some kernels start before their launch returns, also in
    # blocking mode. Copies and graph launches never block.
    launched = calls.of(cuda_calls.is_kernel_launch)[caller]
    late = np.count_nonzero(start[launched] > calls.end[caller[launched]])
    if late * 2 > np.count_nonzero(launched):
        raise BackendError(
            f"sync timing needs launches that block, but {late} kernels began after their launches returned: CUDA was"
            f" initialised before {BLOCKING}=1 was set. Run pytest --opprof-timing=sync, and initialise CUDA later"
        )
