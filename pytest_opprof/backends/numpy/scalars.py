"""Watched scalars: NumPy returns a scalar in the place of an array without dimensions.

A watched scalar is an instance of a subclass of its type, which stands for that type. `numpy.bool` allows no subclass,
and a date cannot refer to a watch: these are not watched.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import PLAIN_SCALARS, WATCHED_SCALARS, StandsFor, WatchedArray, live, run
from .operators import COMPARISONS, OPERATORS

_TYPES: tuple[Any, ...] = (
    np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint16, np.uint32, np.uint64, np.ulonglong,
    np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.clongdouble,
)  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
_OPERANDS = (int, float, complex, np.generic, np.ndarray, list, tuple)
"""What NumPy computes with. Any other class decides itself what an operator returns."""


def _binary(function: Callable[..., Any], ufunc: str, swapped: bool = False) -> Callable[..., Any]:
    name = f"numpy.{ufunc}"

    def watched(self: Any, other: Any) -> Any:
        watch = live(self.watch, (other,)) if isinstance(other, _OPERANDS) else None
        return run(watch, name, function, (other, self) if swapped else (self, other), {})

    return watched


def _unary(function: Callable[..., Any], ufunc: str) -> Callable[..., Any]:
    name = f"numpy.{ufunc}"
    return lambda self: run(self.watch, name, function, (self,), {})


def _watched(kind: Any) -> Any:
    """Return the subclass of *kind* whose scalars are watched."""
    binary = {name: (getattr(operator, f"__{name}__", divmod), ufunc) for name, ufunc in OPERATORS.items()}
    binary["pow"] = (pow, "power")
    compared = {name: (getattr(operator, name), ufunc) for name, (ufunc, _) in COMPARISONS.items()}
    members: dict[str, Any] = {
        "__module__": "numpy",
        "__qualname__": kind.__name__,
        "__doc__": kind.__doc__,
        "__hash__": kind.__hash__,
        "__repr__": lambda self: repr(kind(self)),
        "__array_ufunc__": WatchedArray.__array_ufunc__,
        "__array_function__": WatchedArray.__array_function__,
        "watch": None,
        **{f"__{name}__": _unary(getattr(operator, name), ufunc) for name, ufunc in _UNARY.items()},
        **{f"__{name}__": _binary(*use) for name, use in (binary | compared).items()},
        **{f"__r{name}__": _binary(*use, swapped=True) for name, use in binary.items()},
    }
    return StandsFor(kind.__name__, (kind,), members)


for _kind in _TYPES:
    _subclass = _watched(_kind)
    WATCHED_SCALARS[id(_kind)] = _subclass
    PLAIN_SCALARS[id(_subclass)] = _kind
