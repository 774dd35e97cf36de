"""The operators and methods of watched arrays: each runs the one of `numpy.ndarray`, and is recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from .arrays import WatchedArray, live, run

_METHODS = """all any argmax argmin argpartition argsort byteswap choose clip compress copy __copy__ cumprod cumsum
    __deepcopy__ diagonal dot fill flatten max mean min nonzero partition prod put ravel repeat reshape round
    searchsorted sort std sum take trace var""".split()
_MAY_BE_VIEWS = frozenset(["diagonal", "ravel", "reshape"])
"""Methods that may return a view: then no data moved, and it is no op."""
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "matmul": "matmul", "truediv": "divide", "mod": "remainder",
    "floordiv": "floor_divide", "divmod": "divmod", "lshift": "left_shift", "rshift": "right_shift",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
"""The ufunc of each operator. A power is not among them: NumPy chooses its ufunc."""
COMPARISONS = {
    "eq": ("equal", "eq"), "ne": ("not_equal", "ne"), "lt": ("less", "gt"), "le": ("less_equal", "ge"),
    "gt": ("greater", "lt"), "ge": ("greater_equal", "le"),
}  # fmt: skip
"""The ufunc of each comparison, and the comparison with its sides exchanged."""


def _watched_operator(dunder: str, ufunc: str, reflected: str = "") -> Callable[..., Any]:
    method, name = getattr(np.ndarray, dunder), f"numpy.{ufunc}"

    @wraps(method)
    def watched(self: WatchedArray, other: Any) -> Any:
        if reflected and isinstance(other, np.ndarray):
            result = _answer_of(other, reflected, self)
            if result is not NotImplemented:
                return result
        return run(live(self.watch, (other,)), name, method, (self, other), {})

    return watched


@wraps(np.ndarray.__pow__)
def _power(self: WatchedArray, other: Any, *modulo: Any) -> Any:
    result = _answer_of(other, "__rpow__", self)
    return np.ndarray.__pow__(self, other, *modulo) if result is NotImplemented else result


@wraps(np.ndarray.__rpow__)
def _reflected_power(self: WatchedArray, other: Any, *modulo: Any) -> Any:
    # Without a method of ours Python would not ask the right side of `plain ** watched` first.
    return np.ndarray.__rpow__(self, other, *modulo)


def _answer_of(other: object, reflected: str, array: WatchedArray) -> Any:
    """Return the result of the *reflected* operator of *other*, if its class is a subclass of arrays that has its own.

    Python would ask such a class first if *array* were a plain array.
    """
    kind = type(other)
    if kind is WatchedArray or kind is np.ndarray or not issubclass(kind, np.ndarray):
        return NotImplemented
    theirs = getattr(kind, reflected)
    return NotImplemented if theirs is getattr(np.ndarray, reflected) else theirs(other, array)


def _watched_method(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    @wraps(method)
    def watched(self: WatchedArray, *args: Any, **kwargs: Any) -> Any:
        return run(self.watch, f"ndarray.{name}", method, (self, *args), kwargs, (), name in _MAY_BE_VIEWS)

    return watched


for _name in _METHODS:
    setattr(WatchedArray, _name, _watched_method(_name))
for _name, _ufunc in OPERATORS.items():
    setattr(WatchedArray, f"__{_name}__", _watched_operator(f"__{_name}__", _ufunc, f"__r{_name}__"))
    setattr(WatchedArray, f"__r{_name}__", _watched_operator(f"__r{_name}__", _ufunc))
for _name, (_ufunc, _swapped) in COMPARISONS.items():
    setattr(WatchedArray, f"__{_name}__", _watched_operator(f"__{_name}__", _ufunc, f"__{_swapped}__"))
WatchedArray.__pow__ = _power  # type: ignore[assignment]  # set as the others are
WatchedArray.__rpow__ = _reflected_power  # type: ignore[assignment]
