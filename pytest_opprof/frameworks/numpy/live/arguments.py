"""The arrays among the arguments and results of an op: their dtypes and shapes, and which are views of others.

Nothing here runs code of another package: attributes are read as `numpy.ndarray` has them, whatever a subclass
overrides.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..work import Attributes

_ndarray, _generic = np.ndarray, np.generic
NUMBERS = frozenset(map(id, (int, float, str, complex, bool, type(None))))
# By `id`, because looking a class up, or comparing it, may run the code of its metaclass.
_PLAIN = NUMBERS | {id(np.ndarray)}
_TEXT = frozenset(map(id, (int, str, bool)))
_SHOWN = frozenset(map(id, (float, complex, type(None), tuple, list, slice)))
dtype_of = np.ndarray.dtype.__get__
_shape_of = np.ndarray.shape.__get__
_base_of = np.ndarray.base.__get__
# Without the dispatcher, which is observed.
_may_share_memory: Any = getattr(np.may_share_memory, "_implementation", np.may_share_memory)
_mro_of = type.__dict__["__mro__"].__get__
# A letter in place of a dtype that is never freed, because programs may count references to it, as NumPy's tests do.
_KNOWN = {id(np.dtype(code)): code for code in np.typecodes["All"] if code not in "SUVMm"}
# The `id` of each dtype that is never freed.
LASTING = frozenset(_KNOWN)
# Numbers of dtypes below it are NumPy's own: ``NPY_NTYPES_LEGACY``.
_BUILTIN = 24
# Of a list; of a longer one the first.
MOST_ITEMS = 10_000
_FIRST = slice(MOST_ITEMS)


def letter_of(dtype: Any) -> Any:
    """Return the letter or text of a *dtype*, to keep no reference to it; itself if it is not NumPy's own."""
    return _KNOWN.get(id(dtype)) or (dtype.str if 0 <= dtype.num < _BUILTIN else dtype)


def arrays_in(values: Any, depth: int = 8) -> list[Any]:
    """Return the arrays in *values*, also in lists and tuples."""
    found = []
    for value in values:
        kind = type(value)
        if kind is np.ndarray or issubclass(kind, _ndarray):
            found.append(value)
        elif issubclass(kind, (tuple, list)) and depth:
            found.extend(arrays_in(value, depth - 1))
    return found


def tensors_in(values: Any, depth: int = 8) -> tuple[Any, ...]:
    """Return dtype or its letter, shape, dtype ... of the arrays and NumPy scalars in *values*, lists included."""
    # Flat, and without `arrays_in`, since this runs twice for every op.
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is _ndarray:
            dtype = value.dtype
            found.append(_KNOWN.get(id(dtype)) or letter_of(dtype))
            found.append(value.shape)
        elif id(kind) in NUMBERS:
            pass
        elif issubclass(kind, _ndarray):
            dtype = dtype_of(value)
            found.append(_KNOWN.get(id(dtype)) or letter_of(dtype))
            found.append(_shape_of(value))
        elif issubclass(kind, _generic):
            dtype = np.generic.dtype.__get__(value)
            found.append(_KNOWN.get(id(dtype)) or letter_of(dtype))
            found.append(())
        elif issubclass(kind, (list, tuple)) and depth:
            items = (list if issubclass(kind, list) else tuple).__getitem__(value, _FIRST)
            if items and id(type(items[0])) not in NUMBERS:
                found += tensors_in(items, depth - 1)
    return tuple(found)


def is_delegated(values: Any, protocol: str, in_lists: bool = False) -> bool:
    """Return True if NumPy hands the call to another class with the *protocol*, such as ``__array_ufunc__``.

    That class then calls the ops.
    """
    for value in values:
        kind = type(value)
        if kind is _ndarray or id(kind) in _PLAIN:
            continue
        if issubclass(kind, (list, tuple)) and in_lists:
            items = (list if issubclass(kind, list) else tuple).__getitem__(value, _FIRST)
            if items and id(type(items[0])) not in _PLAIN and is_delegated(items, protocol):
                return True
        elif not issubclass(kind, _generic):
            for cls in _mro_of(kind):
                if cls is np.ndarray:
                    break
                if protocol in type.__getattribute__(cls, "__dict__"):
                    return True
    return False


def attributes_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attributes:
    """Return the arguments as text if they are neither arrays nor numbers; an array becomes None."""

    def told(value: Any) -> Any:
        kind = id(type(value))
        return value if kind in _TEXT else repr(value) if kind in _SHOWN else None

    return Attributes(tuple(map(told, args)), tuple((name, told(value)) for name, value in kwargs.items()))


def is_view(result: Any, args: tuple[Any, ...]) -> bool:
    """Return True if *result*, or the first of its items, is one of *args* or a view of one."""
    first = result[0] if type(result) in (list, tuple) and result else result
    # A view has a base. Most results have none and need no comparison.
    if not issubclass(type(first), np.ndarray):
        return False
    arrays = arrays_in(args)
    if any(first is array for array in arrays):
        return True
    if _base_of(first) is None:
        return any(_base_of(array) is first for array in arrays)
    return any(_may_share_memory(first, array) for array in arrays)


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype. NumPy computes it at each access, which takes 3 us."""
    return str(dtype.name)


for _code in _KNOWN.values():
    dtype_name(np.dtype(_code))  # not at its first use, which would add a reference


def copied_dtypes(source: object, destination: Any) -> tuple[str, ...]:
    """Return the dtypes of a copy from *source* to *destination*; empty if *source* is no array."""
    if not issubclass(type(source), np.ndarray):
        return ()
    return dtype_name(dtype_of(source)), dtype_name(dtype_of(destination))
