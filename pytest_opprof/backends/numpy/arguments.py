"""The arrays among the arguments and results of an op: their bytes, their dtypes, and which are views of others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


def arrays_in(values: Any) -> list[Any]:
    """Return the arrays in *values*, also in lists and tuples."""
    found = []
    for value in values:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif type(value) is tuple or type(value) is list:
            found.extend(arrays_in(value))
    return found


def nbytes_of(values: Any) -> int:
    """Return the bytes of the arrays in *values*, also in lists and tuples."""
    # Without `arrays_in`: this runs for every op.
    size = 0
    for value in values:
        if isinstance(value, np.ndarray):
            size += value.nbytes
        elif type(value) is tuple or type(value) is list:
            size += nbytes_of(value)
    return size


def is_view(result: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether *result*, or the first of its items, is one of *args* or a view of one."""
    first = result[0] if type(result) in (list, tuple) and result else result
    # A view has a base. Most results have none and need no comparison.
    if not isinstance(first, np.ndarray) or (first.base is None and all(first is not array for array in args)):
        return False
    return any(np.may_share_memory(first, array) for array in arrays_in(args))


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype. NumPy computes it at each access, which takes 3 us."""
    return str(dtype.name)


def copied_dtypes(source: object, destination: np.ndarray[Any, Any]) -> tuple[str, ...]:
    """Return the dtypes of a copy from *source* to *destination*; nothing if *source* is no array."""
    return (dtype_name(source.dtype), dtype_name(destination.dtype)) if isinstance(source, np.ndarray) else ()
