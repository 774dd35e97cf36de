"""The global random generators of Python, NumPy and PyTorch; JAX has none."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def kept() -> Iterator[None]:
    """Let later code draw the same numbers as without the context: runs of a body that measure draw some.

    SciPy's tests of matrix functions draw from NumPy's global generator, and do more or less work with other numbers.
    """
    restore: list[Callable[[], object]] = [partial(random.setstate, random.getstate())]
    numpy_random: Any = sys.modules.get("numpy.random")
    if hasattr(numpy_random, "get_state"):
        restore.append(partial(numpy_random.set_state, numpy_random.get_state(legacy=False)))
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_rng_state"):
        restore.append(partial(torch.set_rng_state, torch.get_rng_state()))
    for device in _started(torch):
        restore.append(partial(device.set_rng_state_all, device.get_rng_state_all()))
    try:
        yield
    finally:
        for each in restore:
            each()


def _started(torch: Any) -> Iterator[Any]:
    """Yield the kinds of accelerators that PyTorch uses."""
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            yield device


def seed(number: int) -> None:
    """Seed the generators that are loaded, so that two processes draw the same numbers."""
    random.seed(number)
    numpy_random: Any = sys.modules.get("numpy.random")
    if hasattr(numpy_random, "seed"):
        numpy_random.seed(number)
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "manual_seed"):
        torch.manual_seed(number)
