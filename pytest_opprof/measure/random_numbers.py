"""The global random generators of Python, NumPy and PyTorch; JAX has none."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from zlib import crc32

# The generator of the functions of `random`.
_PYTHON: Any = random.seed.__self__  # type: ignore[attr-defined]  # typeshed calls it a function


@contextmanager
def apart() -> Iterator[None]:
    """Draw other numbers in the context than later code, which draws the same as without it.

    SciPy's tests of matrix functions do more or less work with other numbers of NumPy's global generator, and runs of a
    body that measure draw some. They draw others than the next test, whose names of files and ports may have to be new,
    and the same from the same state, so that processes agree.
    """
    restore: list[Callable[[], object]] = [partial(_PYTHON.setstate, _PYTHON.getstate())]
    _PYTHON.seed(_PYTHON.getrandbits(64))
    # Not by functions of the modules, which a test may have replaced: as a ban, or by a double.
    numpy: Any = getattr(getattr(sys.modules.get("numpy.random"), "mtrand", None), "_rand", None)
    if numpy is not None:
        restore.append(partial(numpy.set_state, numpy.get_state(legacy=False)))
        bits = numpy._bit_generator
        bits.state = type(bits)(numpy.randint(2**31)).state
    torch: Any = sys.modules.get("torch")
    for generator in [getattr(torch, "default_generator", None), *_of_accelerators(torch)]:
        if generator is not None:
            state = generator.get_state()
            restore.append(partial(generator.set_state, state))
            generator.manual_seed(crc32(state.numpy()))
    try:
        yield
    finally:
        for put_back in restore:
            put_back()


def _of_accelerators(torch: Any) -> Iterator[Any]:
    """Yield the generators of GPUs and NPUs that PyTorch uses."""
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and getattr(device, "is_initialized", bool)():
            yield from getattr(device, "default_generators", ())
