"""The observed functions: the places of NumPy's pointers, and the facts about each function."""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.random  # not at its first use, which may be in a window

from .cases import CASTS, CONVERTS, FUNCTIONS, UFUNCS, VIEW, Op
from .function_names import (
    BIT_GENERATORS,
    COMPARISONS,
    CONVERSIONS,
    CREATIONS,
    DRAWS,
    FUNCTIONS_OF_VIEWS,
    OPERATORS,
    QUERIES,
    UNARY_OPERATORS,
    ufunc_name,
)
from .machine_code import layout
from .observers import (
    assign,
    by_index,
    of_call,
    of_function,
    of_numba,
    of_one,
    of_packed,
    of_packed_ufunc_method,
    of_scalars,
    of_ufunc_method,
)

_METHODS = """all any argmax argmin argpartition argsort byteswap choose clip compress copy __copy__ cumprod cumsum
    __deepcopy__ diagonal dot fill flatten max mean min nonzero partition prod put ravel repeat reshape round
    searchsorted sort std sum take trace var""".split()
# Methods that may return a view; no data moved then, and it is no op.
_MAY_BE_VIEWS = frozenset(["diagonal", "ravel", "reshape"])
_UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")
# Makes the observer of a function with this calling convention.
Make = Callable[[str], Callable[..., Any]]


class Target(NamedTuple):
    """A pointer to redirect."""

    address: int
    routine: str
    observer: Callable[..., Any]
    owner: object
    """The object with the pointer: it is kept alive."""


def of_classes() -> Iterator[Target]:
    """Yield the methods of NumPy's classes, its builtin functions, and indexing."""
    for name in _METHODS:
        about = VIEW if name in _MAY_BE_VIEWS else ""
        yield from _method(np.ndarray.__dict__[name], Op(f"ndarray.{name}", about))
    yield from _method(np.ndarray.__dict__["astype"], Op("ndarray.astype", CASTS))
    for name in _UFUNC_METHODS:
        descriptor = np.ufunc.__dict__[name]
        for routine, address, packed in _definition(descriptor):
            observer = (of_packed_ufunc_method if packed else of_ufunc_method)(name, ufunc_name)
            yield Target(address, routine, observer, descriptor)
    yield from _builtins()
    yield from _random()
    yield from indexing(np.ndarray)
    yield from _scalars()
    for name, routine, observe in (
        ("__getitem__", "by_index", by_index),
        ("__setitem__", "three_int", assign),
    ):
        wrapper = np.ndarray.__dict__[name]
        yield Target(id(wrapper) + layout.WRAPPED, routine, observe, wrapper)


def indexing(kind: type) -> Iterator[Target]:
    """Yield the slots of a class of arrays by which Python indexes."""
    mapping = layout.pointer(id(kind) + layout.AS_MAPPING)
    if mapping:
        yield Target(mapping + layout.SUBSCRIPT, "by_index", by_index, kind)
        yield Target(mapping + layout.ASSIGN_SUBSCRIPT, "three_int", assign, kind)


def of_modules(modules: Mapping[str, object]) -> Iterator[Target]:
    """Yield the ufuncs of *modules*, and NumPy's functions behind its dispatcher."""
    dispatched = type(np.concatenate)
    for module in modules.values():
        if not isinstance(module, types.ModuleType):
            continue
        for value in list(module.__dict__.values()):
            kind = type(value)
            if kind is np.ufunc:
                op = Op(ufunc_name(value, "__call__"), protocol=UFUNCS, ufunc=value)
                yield Target(layout.vectorcall_at(value), "vectorcall", of_call(op), value)
            elif kind is dispatched:
                yield Target(layout.vectorcall_at(value), "vectorcall", _dispatched(value), value)


# By module of Numba: the class of its compiled functions.
_NUMBA = {
    "numba.core.registry": "CPUDispatcher",
    "numba.np.ufunc.dufunc": "DUFunc",
    "numba.np.ufunc.gufunc": "GUFunc",
}


def of_compiled() -> Iterator[Target]:
    """Yield the slots by which Python calls functions that Numba compiled, as far as it is imported."""
    for module, name in _NUMBA.items():
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            yield Target(id(kind) + layout.CALL, "three", of_numba, kind)


def _dispatched(function: Any) -> Callable[..., Any]:
    name = function.__name__
    raw = f"{function.__module__}.{name}"
    if name == "copyto":
        return of_call(Op(raw, protocol=FUNCTIONS, moves=(1, 0)))
    if name == "astype":
        return of_call(Op("ndarray.astype", CASTS, FUNCTIONS))
    return of_call(Op(raw, VIEW if name in FUNCTIONS_OF_VIEWS else "", FUNCTIONS, name in QUERIES))


def _builtins() -> Iterator[Target]:
    for names, about in ((CONVERSIONS, CONVERTS), (CREATIONS, "")):
        for name in names:
            function = getattr(np, name, None)
            if isinstance(function, types.BuiltinFunctionType):
                yield from _method(function, Op(f"numpy.{name}", about), takes_self=False)


def _random() -> Iterator[Target]:
    for kind in (np.random.Generator, np.random.RandomState):
        for name, member in kind.__dict__.items():
            if not name.startswith("_") and callable(member):
                yield from _method(member, Op(f"numpy.random.{name}", is_quiet=name not in DRAWS), takes_self=False)
    yield from _method(np.random.default_rng, Op("numpy.random.default_rng", is_quiet=True), takes_self=False)
    kinds: list[Any] = [np.random.Generator, np.random.RandomState]
    for kind in (*kinds, *(getattr(np.random, name) for name in BIT_GENERATORS)):
        op = Op(f"numpy.random.{kind.__name__}", is_quiet=True)
        for slot, routine in ((layout.INIT, "three_int"), (layout.NEW, "three")):
            if layout.pointer(id(kind) + slot):
                yield Target(id(kind) + slot, routine, of_packed(op, takes_self=False), kind)


def _scalars() -> Iterator[Target]:
    compare = of_scalars([Op(f"numpy.{name}") for name in COMPARISONS])
    operators = [
        (8 * layout.NUMBER_SLOTS.index(slot), routine, of_scalars([Op(f"numpy.{name}")]))
        for names, of in ((OPERATORS, "two"), (UNARY_OPERATORS, "one"))
        for slot, name in names.items()
        for routine in ["three" if slot == "power" else of]
    ]
    for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"]:
        kind = np.dtype(code).type
        yield Target(id(kind) + layout.COMPARE, "compare", compare, kind)
        for offset, routine, observer in operators:
            yield Target(layout.pointer(id(kind) + layout.AS_NUMBER) + offset, routine, observer, kind)


def _method(function: Any, op: Op, takes_self: bool = True) -> Iterator[Target]:
    for routine, address, packed in _definition(function):
        if packed:
            observer = (of_one if packed == "one" else of_packed)(op, takes_self)
        else:
            observer = (of_call if takes_self else of_function)(op)
        yield Target(address, routine, observer, function)


def _definition(function: Any) -> Iterator[tuple[str, int, str]]:
    """Yield the routine for a function of C, the address of its pointer, and how arguments are packed."""
    is_method = isinstance(function, types.MethodDescriptorType)
    definition = layout.pointer(id(function) + (layout.DESCRIBED if is_method else layout.DEFINITION))
    flags = ctypes.c_int.from_address(definition + layout.METHOD_FLAGS).value
    flags &= layout.VARARGS | layout.KEYWORDS | layout.NOARGS | layout.ONE | layout.FASTCALL
    address = definition + layout.METHOD
    known = {
        layout.VARARGS: ("two", "tuple"),
        layout.VARARGS | layout.KEYWORDS: ("three", "tuple"),
        layout.FASTCALL: ("fastcall", ""),
        layout.FASTCALL | layout.KEYWORDS: ("fastcall_keywords", ""),
        layout.NOARGS: ("two", "one"),
        layout.ONE: ("two", "one"),
    }
    if flags in known:
        routine, packed = known[flags]
        yield routine, address, packed
    elif isinstance(getattr(function, "__name__", None), str) and layout.vectorcall_at(function):
        yield "vectorcall", layout.vectorcall_at(function), ""
