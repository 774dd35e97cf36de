"""Names of GPU kernels: what CUPTI reports -> what people call them."""

from __future__ import annotations

import re

_CUPY_COPY = re.compile(r"cupy_copy__([a-z]+\d*)_([a-z]+\d*)")


def demangled(raw: str) -> str:
    """Return the C++ name that *raw* stands for."""
    return raw


def canonical(raw: str) -> str:
    """Return the op that the kernel *raw* does, or its name without what changes from build to build.

    >>> canonical("cupy_copy__float64_float32")
    'Cast'
    """
    if copy := _CUPY_COPY.fullmatch(raw):
        return "Copy" if copy[1] == copy[2] else "Cast"
    return raw.partition("<")[0]
