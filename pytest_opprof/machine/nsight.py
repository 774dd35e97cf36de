"""Nsight Systems, which may record this process: the user's own ranges are ranges of its timeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache

# Nsight Systems sets it in the processes that it records.
NSYS = "NSYS_PROFILING_SESSION_ID"
IS_AROUND = NSYS in os.environ
# Modules that can send a range to Nsight.
_NVTX = (
    ("torch.cuda.nvtx", "range_push", "range_pop"),
    ("cupy.cuda.nvtx", "RangePush", "RangePop"),
    ("nvtx", "push_range", "pop_range"),
)


@cache
def nvtx() -> tuple[Callable[[str], object], Callable[[], object]] | None:
    """Return the functions that begin and end a range of Nsight, from a module that the program has imported."""
    for name, push, pop in _NVTX:
        if (module := sys.modules.get(name)) and not _is_without_cuda(name):
            return getattr(module, push), getattr(module, pop)
    return None


def _is_without_cuda(module: str) -> bool:
    # A build of PyTorch for CPUs has the functions, and they raise.
    return module.startswith("torch.") and sys.modules["torch"].version.cuda is None
