"""Equal calls: an `Ask` is known when a call begins, a `Case` when its result is known, too.

Most calls of a program repeat an earlier one on the same dtypes and shapes. They find its ask by a key that takes 0.2
us to make, so that arguments are fully examined only once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ....ops.signature import Signature
from ....profile.columns import ABSENT
from ....profile.events.event_log import EventLog
from ..work import NEEDS_ATTRIBUTES, NO_ATTRIBUTES, work
from .arguments import (
    LASTING,
    NUMBERS,
    arrays_in,
    attributes_of,
    copied_dtypes,
    dtype_name,
    dtype_of,
    is_delegated,
    is_view,
    letter_of,
    tensors_in,
)
from .casts import casts_of

# Raw name, dtypes and op, as for `EventLog.name`, then the input of `casts_of`; empty if a call is no op.
Key = tuple[Any, ...]
QUIET: Key = ()
# The question that only the result of a call answers.
VIEW, CONVERTS, CASTS = "may be a view", "converts its argument", "casts"
UFUNCS, FUNCTIONS = "__array_ufunc__", "__array_function__"
# The most kept asks: 1 KB each.
MOST_KEPT = 20_000
# The most kept cases of an ask.
_MOST_RESULTS = 1000
# The most items of a list or tuple in a key.
_MOST_ITEMS = 8
_ndarray = np.ndarray
# Arguments whose effect on the result is entirely in the key.
_IN_KEYS = {"out", "where", "dtype"}
# Before NumPy 2 the dtype of a result depended on the values of scalars.
_IS_2 = int(np.__version__.partition(".")[0]) > 1
_SCALARS = {np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?"}
_TYPES = frozenset(map(id, (*_SCALARS, int, float, complex, bool)))
# Classes that mean a dtype, by `id`.
_MEAN_DTYPES = _TYPES | {id(object), id(str), id(np.object_), id(np.str_)}
_DTYPES: tuple[Any, ...] = (int, float, complex, bool)
PLAIN = NUMBERS | _TYPES | {id(each) for each in (bytes, slice, type(...), type, type(len), type(tensors_in))}
PLAIN |= {id(type(np.dtype(code))) for code in np.typecodes["All"]}
"""Classes, by `id`, of arguments that their class describes fully: none is an array, none takes calls over."""


class Op:
    """A function of NumPy."""

    __slots__ = ("about", "is_like", "is_quiet", "moves", "name", "needs_attributes", "protocol", "ufunc")

    def __init__(
        self,
        name: str,
        about: str = "",
        protocol: str = "",
        is_quiet: bool = False,
        ufunc: Any = None,
        moves: tuple[int, int] | None = None,
    ) -> None:
        """*about* is the question for its result; *protocol* is the attribute by which another class takes its calls
        over.

        *is_quiet*: it computes nothing, so neither it nor anything inside is an op. *moves*: the positions of the
        copied argument and of the destination.
        """
        self.name, self.about, self.protocol, self.is_quiet, self.ufunc = name, about, protocol, is_quiet, ufunc
        self.moves = moves
        self.needs_attributes = name in NEEDS_ATTRIBUTES
        self.is_like = name.endswith("_like") or about == CONVERTS


class Case:
    """The facts about a call that has ended."""

    __slots__ = ("_figures", "_known", "returned")

    def __init__(self, key: Key, given: Any, returned: Any, attributes: Any = None) -> None:
        self._known = key, given, returned, attributes
        self.returned = returned
        self._figures: Figures | None = None

    @property
    def figures(self) -> Figures:
        """The figures derived from them."""
        if self._figures is None:
            self._figures = _figures(*self._known)
        return self._figures


class Ask:
    """The facts about a call that begins."""

    __slots__ = ("about", "attributes", "cases", "given", "is_sure", "key", "sole")

    def __init__(self, key: Key, given: Any = (), attributes: Any = None, about: Any = "") -> None:
        self.key, self.given, self.attributes, self.about = key, given, attributes, about
        self.is_sure = False
        """Whether all calls have the same case: the arguments of a ufunc of numbers determine its result."""
        self.sole: Case | None = None
        self.cases: dict[Any, Case] = {}
        """By `id` of the dtype and the shape of the returned array, or by `id` of the class of a number."""

    def case(self, args: tuple[Any, ...], result: Any) -> Case | None:
        """Return the case of a call with this *result*; None if it was no op."""
        key = self.key
        if result is NotImplemented or not key:
            return None
        if self.about:
            key = _key(key, self.about, args, result)
        return Case(key, self.given, tensors_in((result,)), self.attributes) if key else None

    def keep(self, answer: Any, case: Case) -> None:
        """Store this case by its *answer*, as `cases` has it."""
        if len(self.cases) >= _MOST_RESULTS:
            self.cases.clear()
        self.cases[answer] = case
        if self.is_sure and case.returned and "O" not in case.returned:
            self.sole = case


# By `key_of`.
known: dict[tuple[Any, ...], Ask] = {}


def key_of(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return a key shared by calls that differ only in numbers and in the contents of arrays.

    None if that would take longer than it saves. Keys have ids, and keep nothing alive; ids of objects that may be
    freed are in no key of `known`.
    """
    if not kwargs and len(args) == 2:  # the common case
        value, other = args
        if type(value) is _ndarray:
            if type(other) is _ndarray:
                return op, id(value.dtype), value.shape, id(other.dtype), other.shape
            if id(type(other)) in PLAIN:
                return op, id(value.dtype), value.shape, id(type(other))
    key: list[Any] = [op]
    for value in args:
        kind = type(value)
        if kind is _ndarray:
            key += id(value.dtype), value.shape
        elif id(kind) in PLAIN:
            key.append(id(kind))
        elif not _add(key, kind, value):
            return None
    if kwargs:
        for name, value in kwargs.items():
            key.append(name)
            kind = type(value)
            if name == "dtype":
                if kind is not str and id(value) not in LASTING and id(value) not in _MEAN_DTYPES and value is not None:
                    return None
                key.append(value if kind is str else id(value))
            elif kind is _ndarray:
                key += id(value.dtype), value.shape
            elif id(kind) in PLAIN:
                key.append(id(kind))
            elif not _add(key, kind, value):
                return None
    return tuple(key)


def _add(key: list[Any], kind: type, value: Any) -> bool:
    """Add a list or tuple to a *key*; return False for anything else."""
    if kind is not list and kind is not tuple:
        return False
    key.append(id(kind))
    if not value or id(type(value[0])) in NUMBERS:
        return True  # `tensors_in` looks no further
    if len(value) > _MOST_ITEMS:
        return False
    key.append(len(value))
    for each in value:
        kind = type(each)
        if kind is _ndarray:
            key += id(each.dtype), each.shape
        elif id(kind) in PLAIN:
            key.append(id(kind))
        elif not _add(key, kind, each):
            return False
    return True


def ask_of(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ask | None:
    """Return the facts about a call; None if another class takes it over."""
    key = None if op.needs_attributes else key_of(op, args, kwargs)
    if key is not None and (ask := known.get(key)):
        return ask
    protocol = op.protocol
    if protocol and (
        is_delegated(args, protocol, protocol is FUNCTIONS)
        or (kwargs and is_delegated(kwargs.values(), protocol, True))
    ):
        return None
    ask = _ask(op, args, kwargs)
    if key is not None and all(id(dtype_of(each)) in LASTING for each in arrays_in((*args, *kwargs.values()))):
        if len(known) >= MOST_KEPT:
            known.clear()
        known[key] = ask
        ask.is_sure = _IS_2 and op.ufunc is not None and "O" not in ask.given and kwargs.keys() <= _IN_KEYS
    return ask


def _ask(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ask:
    if op.is_quiet:
        return Ask(QUIET)
    key: Key = (op.name, (), "", None, None)
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
        if op.moves:
            source, destination = op.moves
            if len(args) > max(op.moves) and issubclass(type(args[destination]), np.ndarray):
                key = (op.name, copied_dtypes(args[source], args[destination]), "", None, None)
        elif kwargs and "dtype" in kwargs and not op.is_like:
            key = (op.name, (), "", None, _dtype(kwargs["dtype"]))
    return Ask(key, given, attributes, op.about)


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
    """Return the arguments for `numpy.ufunc.resolve_dtypes`; None if one is no array or number."""
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
    """Return the requested dtype; None for none, and for an object whose own code would decide."""
    kind = type(value)
    if issubclass(kind, np.dtype):
        return letter_of(value)
    if kind is str or value in _DTYPES or (kind is type and issubclass(value, np.generic)):  # type: ignore[arg-type]
        return letter_of(np.dtype(value))  # type: ignore[call-overload]
    return None


class Figures(NamedTuple):
    """The facts about an op from its name and its arrays."""

    raw: str
    dtypes: tuple[str, ...]
    op: str
    signature: Signature
    nbytes: int
    flops: int | None
    casts: tuple[Figures, ...] = ()
    """The casts that a ufunc makes as it computes."""

    def name(self, log: EventLog) -> int:
        """Return the number of its name in a *log*."""
        return log.name(self.raw, self.dtypes, self.op, None, self.signature)


def _named(value: Any) -> Any:
    return np.dtype(value) if type(value) is str else value


@lru_cache(maxsize=4096)  # tests of one package call the same ops on the same shapes: 60 us for each case
def _figures(key: Key, given: Any, returned: Any, attributes: Any) -> Figures:
    given, returned = ([*map(_named, arrays)] for arrays in (given, returned))
    read, written = (
        [(dtype_name(dtype), shape) for dtype, shape in zip(arrays[::2], arrays[1::2])] for arrays in (given, returned)
    )
    raw, dtypes, op, ufunc, asked = key
    signature, nbytes, flops = work(raw, read, written, op, attributes or NO_ATTRIBUTES)
    casts = [
        _figures(
            ("dtype=", (dtype_name(dtype), dtype_name(to)), "", None, None),
            (letter_of(dtype), shape),
            (letter_of(to), shape),
            None,
        )
        for dtype, to, shape in casts_of(given, ufunc, asked)
    ]
    return Figures(raw, dtypes, op, signature, ABSENT if nbytes is None else nbytes, flops, tuple(casts))
