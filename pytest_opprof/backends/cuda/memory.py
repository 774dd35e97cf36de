"""Memory of the GPU: what CuPy's pools hand out, as its hook tells, and the calls of CUDA that allocate beside them."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ...ops import cuda_calls
from ...profile.event_log import EventLog
from .activity import Calls
from .events import Span

_UNKNOWN_SIZE = "memory of the GPU was allocated beside CuPy's pools: counted, of a size that is not recorded"


class Memory:
    """What one window allocates on the GPU."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._grown: list[int] = []
        """The interval of each time that a pool got memory from CUDA."""
        self._blocks: set[int] = set()
        self._hooked = False

    def hook(self) -> AbstractContextManager[object]:
        """Return what is open while CuPy's pools are watched, in this thread as CuPy has it; nothing without CuPy."""
        cupy: Any = sys.modules.get("cupy")
        if cupy is None:
            return nullcontext()
        self._hooked = True
        memory = self

        class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]  # CuPy is not imported here
            name = "opprof"

            def alloc_postprocess(self, **call: int) -> None:
                memory._grown.append(memory._log.interval)

            def malloc_postprocess(self, **call: int) -> None:
                memory._malloc(call["pmem_id"], call["mem_size"], call["mem_ptr"])

            def free_postprocess(self, **call: int) -> None:
                memory._free(call["pmem_id"], call["mem_size"])

        return Hook()

    def _malloc(self, block: int, size: int, address: int) -> None:
        # CuPy says by address 0 that there is none: the pool is exhausted, or the array is empty.
        if address:
            self._blocks.add(block)
            self._log.allocated(size)

    def _free(self, block: int, size: int) -> None:
        # Blocks from before the window do not lower the level: those of other threads look the same.
        if block in self._blocks:
            self._blocks.remove(block)
            self._log.allocated(-size)

    def finish(self, calls: Calls, span: Span) -> None:
        """Add the allocations that CUDA was asked for by others than a watched pool."""
        times = calls.start[calls.of(cuda_calls.allocates)]
        intervals = self._log.interval + 1
        asked = np.bincount(span.interval(times[span.has(times)]), minlength=intervals)
        beside = np.maximum(asked - np.bincount(np.array(self._grown, np.int64), minlength=intervals), 0)
        for interval in np.repeat(np.arange(intervals), beside).tolist():
            self._log.allocated(None, interval)
        if beside.any():
            self._log.remark(_UNKNOWN_SIZE)
        # Where CuPy was imported inside the window, what its pools handed out was not seen.
        self._log.knows_memory = self._hooked or "cupy" not in sys.modules
