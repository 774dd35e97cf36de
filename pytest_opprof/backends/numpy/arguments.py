"""The arrays among the arguments and results of an op: their dtypes and shapes, and which are views of others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...ops.numpy_work import Attributes

_HAVE_DTYPES = (np.ndarray, np.generic)
_NUMBERS = (int, float, str)


def arrays_in(values: Any) -> list[Any]:
    """Return the arrays in *values*, also in lists and tuples."""
    found = []
    for value in values:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif type(value) is tuple or type(value) is list:
            found.extend(arrays_in(value))
    return found


def tensors_in(values: Any) -> tuple[Any, ...]:
    """Return dtype, shape, dtype, shape ... of the arrays and NumPy scalars in *values*, also in lists and tuples."""
    # Flat, and without `arrays_in`: this runs twice for every op.
    found: list[Any] = []
    for value in values:
        if isinstance(value, _HAVE_DTYPES):
            found.append(value.dtype)
            found.append(value.shape)
        elif isinstance(value, (tuple, list)) and value and not isinstance(value[0], _NUMBERS):
            found += tensors_in(value)
    return tuple(found)


def attributes_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attributes:
    """Return the arguments as text where they are neither arrays nor numbers; in the place of an array is None."""

    def told(value: Any) -> Any:
        return None if isinstance(value, np.ndarray) else value if isinstance(value, (int, str)) else repr(value)

    return Attributes(tuple(map(told, args)), tuple((name, told(value)) for name, value in kwargs.items()))


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
