"""Observers of calls: each reads the arguments of one kind of function, and none raises or changes anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from sys import _getframe
from time import perf_counter_ns
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from ...ops.numpy_work import NEEDS_ATTRIBUTES
from .arguments import attributes_of, copied_dtypes, is_delegated, is_view, letter_of, tensors_in
from .recording import QUIET, Key, Recording, Row

recordings: list[Recording] = []
"""Those of the windows that are open, the innermost last: it gets all calls."""
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NUMPY = os.path.dirname(os.path.abspath(np.__file__))
VIEW, CONVERTS, CASTS = "may be a view", "converts its argument", "casts"
"""What the result of a call has to tell."""
UFUNCS, FUNCTIONS = "__array_ufunc__", "__array_function__"
_DTYPES = (int, float, complex, bool)


class Op:
    """A function of NumPy."""

    __slots__ = ("about", "is_like", "is_quiet", "key", "name", "needs_attributes", "protocol", "ufunc")

    def __init__(
        self, name: str, about: str = "", protocol: str = "", is_quiet: bool = False, ufunc: Any = None
    ) -> None:
        """*about* is what its result has to tell; *protocol* with which another class takes its calls over.

        *is_quiet*: it computes nothing, so it is no op, and neither is anything inside.
        """
        self.name, self.about, self.protocol, self.is_quiet, self.ufunc = name, about, protocol, is_quiet, ufunc
        self.key: Key = QUIET if is_quiet else (name, (), "", None, None)
        self.needs_attributes = name in NEEDS_ATTRIBUTES
        self.is_like = name.endswith("_like") or about == CONVERTS


def _asked(op: Op, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any], dtypes: Any = None) -> Row | None:
    """Return a row for a call of *op* by *frame*; None if it is no op."""
    if not recordings:
        return None  # a subclass of arrays that was made while the window was open
    recording = recordings[-1]
    try:
        stack = recording.asked(frame, op.about is CONVERTS)
        if stack is None:
            return None
        protocol = op.protocol
        if protocol and (
            is_delegated(args, protocol, protocol is FUNCTIONS)
            or (kwargs and is_delegated(kwargs.values(), protocol, True))
        ):
            return None
        if op.is_quiet:
            return recording.begin(stack, frame, QUIET)
        key = op.key
        about = (op.about, args or tuple(kwargs.values())) if op.about else None
        attributes = attributes_of(args, kwargs) if op.needs_attributes else None
        if op.ufunc is not None:
            given = tensors_in(args[: op.ufunc.nin])
            if kwargs or (len(given) == 4 and given[0] is not given[2]) or len(given) > 4:
                asked = _dtype(kwargs["dtype"]) if "dtype" in kwargs else None
                if asked is not None or any(each != given[0] for each in given[2::2]):
                    kinds = _kinds(args[: op.ufunc.nin])
                    key = (op.name, (), "", (op.ufunc, kinds), asked) if kinds else key
        else:
            given = tensors_in(args if args or not kwargs else kwargs.values())
            if dtypes is not None:
                key = (op.name, dtypes, "", None, None)
            elif kwargs and "dtype" in kwargs and not op.is_like:
                key = (op.name, (), "", None, _dtype(kwargs["dtype"]))
        return recording.begin(stack, frame, key, given, attributes, about)
    except Exception as error:
        if not _is_ours(error.__traceback__):
            raise
        recording.unread += 1
        return None


def end(row: Row, result: object) -> None:
    """Observe the *result* of a call, and its end."""
    now = perf_counter_ns()
    if not row or not recordings:
        return
    recording = recordings[-1]
    number, _, key, given, attributes, about, stack, ends = row
    if stack and stack[-1] is row:
        stack.pop()
    if recording.ends is not ends:  # a window was opened or closed in the middle of the call
        row.clear()
        return
    try:
        if result is NotImplemented:
            key = QUIET
        elif about is not None:
            what, args = about
            key = _key(key, what, args, result)
        if key:
            case = key, given, tensors_in((result,)), attributes
            recording.case[number] = recording.cases.setdefault(case, len(recording.cases))
    except Exception as error:
        if not _is_ours(error.__traceback__):
            raise
        recording.unread += 1
    ends[number] = now


def _key(key: Key, about: str, args: tuple[Any, ...], result: Any) -> Key:
    """Return the key of a call now that its result is known; `QUIET` if it was no op."""
    source = args[0] if args else None
    if about == VIEW:
        return QUIET if is_view(result, args) else key
    if about == CASTS:
        return QUIET if is_view(result, (source,)) else (key[0], copied_dtypes(source, result), "", None, None)
    if issubclass(type(source), np.ndarray):
        is_moved = issubclass(type(result), np.ndarray) and not is_view(result, (source,))
        return (key[0], copied_dtypes(source, result), "", None, None) if is_moved else QUIET
    if type(source) not in (list, tuple):
        return QUIET
    return (key[0], (), "Concat" if source and issubclass(type(source[0]), np.ndarray) else key[0], None, None)


def _kinds(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return what `numpy.ufunc.resolve_dtypes` is to be told of the arguments; None where one is no array or number."""
    kinds: list[Any] = []
    for value in args:
        kind = type(value)
        if kind is int or kind is float or kind is complex:
            kinds.append(kind)
        elif found := tensors_in((value,)):
            if len(found) != 2 or not issubclass(kind, (np.ndarray, np.generic)):
                return None
            kinds.append(found[0])
        elif kind is bool:
            kinds.append("?")
        else:
            return None
    return tuple(kinds)


def _dtype(value: object) -> Any:
    """Return the dtype that is meant; None for none, and for an object whose own code would have to tell."""
    kind = type(value)
    if issubclass(kind, np.dtype):
        return letter_of(value)
    if kind is str or value in _DTYPES or (kind is type and issubclass(value, np.generic)):  # type: ignore[arg-type]
        return letter_of(np.dtype(value))  # type: ignore[call-overload]
    return None


def _is_ours(trace: TracebackType | None) -> bool:
    """Tell whether an exception is a mistake of an observer; else a signal handler raised it, in the middle of one."""
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith((_HERE, _NUMPY)):
            return False
        trace = trace.tb_next
    return True


_NONE: dict[str, Any] = {}


def of_call(op: Op) -> Callable[..., Any]:
    """Return an observer of calls with such arguments."""

    def observe(*args: Any, **kwargs: Any) -> Row | None:
        return _asked(op, _getframe(1), args, kwargs)

    return observe


def of_function(op: Op) -> Callable[..., Any]:
    """Return an observer of a function of a module: the module comes first."""

    def observe(module: object, /, *args: Any, **kwargs: Any) -> Row | None:
        return _asked(op, _getframe(1), args, kwargs)

    return observe


def of_packed(op: Op, takes_self: bool = True) -> Callable[..., Any]:
    """Return an observer of calls that are given self, a tuple of arguments and a dict of them."""

    def observe(self: Any, args: Any, kwargs: Any) -> Row | None:
        args = () if args is None else args if type(args) is tuple else (args,)
        return _asked(op, _getframe(1), (self, *args) if takes_self else args, kwargs or _NONE)

    return observe


def of_one(op: Op, takes_self: bool = True) -> Callable[..., Any]:
    """Return an observer of calls that are given self and one argument, or None."""

    def observe(self: Any, given: Any, _: None) -> Row | None:
        args = () if given is None else (given,)
        return _asked(op, _getframe(1), (self, *args) if takes_self else args, _NONE)

    return observe


def of_copyto(op: Op) -> Callable[..., Any]:
    """Return an observer of `numpy.copyto`."""

    def observe(*args: Any, **kwargs: Any) -> Row | None:
        dtypes = copied_dtypes(args[1], args[0]) if len(args) > 1 and issubclass(type(args[0]), np.ndarray) else ()
        return _asked(op, _getframe(1), args, kwargs, dtypes)

    return observe


def of_ufunc_method(method: str, name_of: Callable[[Any, str], str]) -> Callable[..., Any]:
    """Return an observer of a method of ufuncs, such as ``reduce``."""

    def observe(self: Any, /, *args: Any, **kwargs: Any) -> Row | None:
        return _asked(Op(name_of(self, method), protocol=UFUNCS), _getframe(1), args, kwargs)

    return observe


def of_packed_ufunc_method(method: str, name_of: Callable[[Any, str], str]) -> Callable[..., Any]:
    """Return an observer of a method of ufuncs that is given a tuple: ``at``."""

    def observe(self: Any, args: Any, kwargs: Any) -> Row | None:
        return _asked(Op(name_of(self, method), protocol=UFUNCS), _getframe(1), args, kwargs or _NONE)

    return observe


def of_scalars(ops: Sequence[Op]) -> Callable[..., Any]:
    """Return an observer of an operator of NumPy's scalars; *ops* are those of each comparison, or one."""
    single = ops[0] if len(ops) == 1 else None

    def observe(left: Any, right: Any, third: Any) -> Row | None:
        # With an array beside it NumPy calls a ufunc, which is observed itself; another class decides itself.
        for value in (left, right):
            kind = type(value)
            if id(kind) not in _NUMBERS and not issubclass(kind, np.generic):
                return None
        args = (left,) if right is None else (left, right)
        return _asked(single or ops[third], _getframe(1), args, _NONE)

    return observe


_NUMBERS = frozenset(map(id, (int, float, complex, bool, type(None))))
_BY_INDEX, _ASSIGN = Op("ndarray.__getitem__"), Op("ndarray.__setitem__")


def by_index(self: Any, key: Any, _: None) -> Row | None:
    """Observe indexing: only an index array gathers; with anything else NumPy returns a view or one item."""
    for each in key if type(key) is tuple else (key,):
        kind = type(each)
        if kind is list or issubclass(kind, np.ndarray):
            return _asked(_BY_INDEX, _getframe(1), (self, key), _NONE)
    return None


def assign(self: Any, key: Any, value: Any) -> Row | None:
    """Observe an assignment by index; an array of objects keeps the object itself."""
    dtype = np.ndarray.dtype.__get__(self)
    if dtype.hasobject:
        return None
    return _asked(_ASSIGN, _getframe(1), (self, key, value), _NONE, copied_dtypes(value, self))
