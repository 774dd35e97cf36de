"""Memory of the GPU: allocations from CuPy's pools, by its hook, and CUDA's allocations outside of these pools."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ....ops import cuda_calls
from ....profile.events.event_log import EventLog
from .calls import Calls
from .events import Span

_UNKNOWN_SIZE = "GPU memory was allocated outside CuPy's pools: the allocations are counted, their sizes are unknown"


class Memory:
    """The allocations of one window on the GPU."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._grown: list[int] = []
        """An interval for each time that a pool got memory from CUDA."""
        self._blocks: set[int] = set()
        self._hooked = False

    def hook(self) -> AbstractContextManager[object]:
        """Return a context that watches CuPy's pools in this thread, like its hooks; without CuPy it does nothing."""
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
        # Address 0 means that no memory was given: the pool is exhausted, or the array is empty.
        if address:
            self._blocks.add(block)
            self._log.allocated(size)

    def _free(self, block: int, size: int) -> None:
        # Blocks from before the window do not count: they cannot be told from other threads' blocks.
        if block in self._blocks:
            self._blocks.remove(block)
            self._log.allocated(-size)

    def finish(self, calls: Calls, span: Span) -> None:
        """Add the allocations of CUDA outside of watched pools."""
        times = calls.start[calls.of(cuda_calls.allocates)]
        intervals = self._log.interval + 1
        asked = np.bincount(span.interval(times[span.has(times)]), minlength=intervals)
        beside = np.maximum(asked - np.bincount(np.array(self._grown, np.int64), minlength=intervals), 0)
        for interval in np.repeat(np.arange(intervals), beside).tolist():
            self._log.allocated(None, interval)
        if beside.any():
            self._log.remark(_UNKNOWN_SIZE)
        # If CuPy was imported inside the window, its pools were not watched.
        self._log.knows_memory = self._hooked or "cupy" not in sys.modules
