"""Nsight Systems, which may record this process: ranges of the user's own are ranges of its timeline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache

NSYS = "NSYS_PROFILING_SESSION_ID"
"""Nsight Systems sets it in the processes that it records."""
IS_AROUND = NSYS in os.environ
_NVTX = (
    ("torch.cuda.nvtx", "range_push", "range_pop"),
    ("cupy.cuda.nvtx", "RangePush", "RangePop"),
    ("nvtx", "push_range", "pop_range"),
)
"""Who can tell Nsight of a range."""


@cache
def nvtx() -> tuple[Callable[[str], object], Callable[[], object]] | None:
    """Return what begins and what ends a range of Nsight's, of a module that the program imported before."""
    for name, push, pop in _NVTX:
        if (module := sys.modules.get(name)) and not _is_without_cuda(name):
            return getattr(module, push), getattr(module, pop)
    return None


def _is_without_cuda(module: str) -> bool:
    # A build of PyTorch for CPUs has the functions, and they raise.
    return module.startswith("torch.") and sys.modules["torch"].version.cuda is None
