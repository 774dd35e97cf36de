"""Arrays that know they are watched, through the override protocols that NumPy gives to every subclass.

Ufuncs (`__array_ufunc__`), functions (`__array_function__`), operators and methods on a `WatchedArray` run on the plain
array that it is a view of, are recorded, and their results are watched again. Views move no data and are no op.
"""

from __future__ import annotations

import copyreg
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, wraps
from threading import local
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...profile.columns import ABSENT
from ...profile.event_log import EventLog

_METHODS = """all any argmax argmin argpartition argsort byteswap choose clip compress copy __copy__ cumprod cumsum
    __deepcopy__ diagonal dot fill flatten max mean min nonzero partition prod put ravel repeat reshape round
    searchsorted sort std sum take trace var""".split()
_MAY_BE_VIEWS = frozenset(["diagonal", "ravel", "reshape"])
_FUNCTIONS_OF_VIEWS = frozenset(
    """array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to diag diagonal dsplit expand_dims flip
    fliplr flipud hsplit imag matrix_transpose moveaxis permute_dims ravel real real_if_close reshape rollaxis rot90
    sliding_window_view split squeeze swapaxes transpose unstack vsplit""".split()
)
"""Functions that may return a view: those that did moved no data. Others whose result is an argument wrote into it."""
_QUERIES = frozenset(
    """shape ndim size result_type can_cast common_type min_scalar_type iscomplexobj isrealobj may_share_memory
    shares_memory array_repr array_str array2string save savez savez_compressed savetxt""".split()
)
"""Functions that compute nothing: no op of a program."""
_CALL_BACK = frozenset(["apply_along_axis", "apply_over_axes", "piecewise"])
"""Functions that call the user's: what happens inside is seen as well."""
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "matmul": "matmul", "truediv": "divide", "mod": "remainder",
    "floordiv": "floor_divide", "divmod": "divmod", "lshift": "left_shift", "rshift": "right_shift",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
COMPARISONS = {
    "eq": ("equal", "eq"), "ne": ("not_equal", "ne"), "lt": ("less", "gt"), "le": ("less_equal", "ge"),
    "gt": ("greater", "lt"), "ge": ("greater_equal", "le"),
}  # fmt: skip
_INDEXING = frozenset(["ndarray.__getitem__", "ndarray.__setitem__"])

DURATION, BYTES = 1, 2
"""Where a row has them."""
WATCHED_SCALARS: dict[int, Any] = {}
"""By the `id` of a type of scalars, the subclass that is watched: the types are equal."""
PLAIN_SCALARS: dict[int, Any] = {}
"""The same the other way round."""
_HIDDEN: Any = object()


class _Here(local):
    """What runs in this thread."""

    around: Any = None
    """The row of the op whose inside is seen; `_HIDDEN` inside of what is no part of the program."""


_here = _Here()


class Watch:
    """What the watched arrays of one test report to."""

    def __init__(self) -> None:
        self.log: EventLog | None = None
        """None outside of windows."""
        self.everything = False
        """Whether arrays that are made in a window are watched, too."""
        self.is_over = False
        """Whether the test is. Its arrays are as plain ones then: no other test may depend on them."""
        self.has_arrays = False
        self.ended: dict[str, None] = {}
        """The functions in which the watch ended, each with the module and line that called it."""
        self._rows: list[list[Any]] = []

    @contextmanager
    def reporting(self, log: EventLog, everything: bool) -> Iterator[None]:
        """Fill *log*; it is complete when the context ends."""
        self.log, self.everything, self._rows, self.ended = log, everything, [], {}
        try:
            yield
        finally:
            self.log, self.everything = None, False
            rows, self._rows = self._rows, []
        index = {id(row): number for number, row in enumerate(rows)}
        for key, duration_ns, nbytes, around, interval in rows:
            log.add(log.name(*key), duration_ns, index.get(id(around), -1), interval, nbytes)

    def record(self, key: tuple[Any, ...], duration_ns: int, nbytes: int, around: Any = None) -> list[Any]:
        """Record an op, if a window is open, and return its row. *key* is what `EventLog.name` takes.

        An append is atomic, so that threads may do so at once.
        """
        log = self.log
        around = _here.around if around is None else around
        row = [key, duration_ns, nbytes, around, log.interval if log is not None else 0]
        if log is not None and around is not _HIDDEN:
            self._rows.append(row)
        return row

    def array(self, array: np.ndarray[Any, Any]) -> WatchedArray:
        """Return a watched view of *array*."""
        self.has_arrays = True
        watched = array.view(WatchedArray)
        watched.watch = self
        return watched

    def ends(self, function: str) -> None:
        """Say that what *function* does with a watched array, and makes of it, is not seen."""
        if self.log is None or _here.around is not None:
            return  # inside an op that is counted
        frame = sys._getframe(1)
        while frame.f_back and frame.f_globals.get("__name__", "").startswith(_NOT_THE_PROGRAM):
            frame = frame.f_back
        self.ended[f"{function} ({frame.f_globals.get('__name__')}:{frame.f_lineno})"] = None


_NOT_THE_PROGRAM = (f"{__package__}.", "numpy.")


class StandsFor(type):
    """A class that is equal to its base and pickles as that: only ``type(x) is np.ndarray`` tells them apart."""

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__base__

    def __hash__(cls) -> int:
        return hash(cls.__base__)


copyreg.pickle(StandsFor, lambda cls: (operator.getitem, ((cls.__base__,), 0)))


class WatchedArray(np.ndarray[Any, np.dtype[Any]], metaclass=StandsFor):
    """An array whose ops are recorded; otherwise an ordinary `numpy.ndarray` of any shape and dtype."""

    __module__, __qualname__ = "numpy", "ndarray"  # which programs look at, and messages show
    __slots__ = ("hides_base", "watch")
    watch: Watch | None
    hides_base: bool
    """Whether it stands for the plain array that it is a view of, which nobody else ever saw."""

    def __array_finalize__(self, obj: object) -> None:
        """Watch the views of a watched array too."""
        self.watch = obj.watch if type(obj) is WatchedArray else None
        self.hides_base = False

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run and record a ufunc or one of its methods (``numpy.add``, ``numpy.add.reduce``)."""
        for value in inputs:
            kind: Any = type(value)
            if kind is not WatchedArray and kind is not np.ndarray and _answers(kind):
                return NotImplemented
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return run(live(self.watch, inputs), _ufunc_name(ufunc, method), function, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run and record a NumPy function (``numpy.concatenate``)."""
        if len(types) > 1 and not all(issubclass(kind, (np.ndarray, np.generic)) for kind in types):
            return NotImplemented
        name = func.__name__
        if name == "astype":
            return args[0].astype(*args[1:], **kwargs)
        if name in _QUERIES:
            return func(*plain(args), **plain(kwargs))
        watch, raw = live(self.watch, args), f"{func.__module__}.{name}"
        if name in _CALL_BACK and watch is not None and not is_hidden():
            return call(watch, raw, func._implementation, args, kwargs)
        dtypes = _dtypes(args[1], args[0]) if name == "copyto" else ()
        return run(watch, raw, func, args, kwargs, dtypes, name in _FUNCTIONS_OF_VIEWS)

    def __array_wrap__(self, array: Any, context: object = None, return_scalar: bool = False) -> Any:
        """Return the result of a function as it is: a plain array has no say in what it becomes."""
        return array[()] if return_scalar and array.ndim == 0 else watched(array, self.watch)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return an array that is watched, this one where it has the dtype."""
        array = plain(self)
        result = array.__array__(*args, **kwargs)
        return self if result is array else watched(result, self.watch)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert to *dtype*: a Cast, a Copy if it is the same, nothing with ``copy=False`` and the same."""
        dtypes = (dtype_name(self.dtype), dtype_name(np.dtype(dtype)))
        return run(self.watch, "ndarray.astype", np.ndarray.astype, (self, dtype, *args), kwargs, dtypes, True)

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """Return a view; ``numpy.ndarray`` is what this array stands for, any other class ends the watch."""
        result = _view(self, *args, **kwargs)
        if self.watch is not None and type(result) not in (WatchedArray, np.ndarray):
            self.watch.ends(f"ndarray.view({type(result).__name__})")
        return watched(result, self.watch)

    @property
    def base(self) -> Any:
        """What owns the memory, if that is not the array itself."""
        base = _base(self)
        return base.base if self.hides_base else base

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        """Resize in place: as the owner of its memory, where it stands for one."""
        if self.base is not None:
            return super().resize(*shape, refcheck=refcheck)  # NumPy says why it cannot
        resized = plain(self).copy()
        resized.resize(*shape, refcheck=False)
        self.__setstate__(resized.__reduce__()[2])
        self.hides_base = False

    def __getitem__(self, key: Any) -> Any:
        """Index: slices are views, index arrays gather."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, (list, np.ndarray)) for k in keys):
            return run(self.watch, "ndarray.__getitem__", np.ndarray.__getitem__, (self, key), {})
        return watched(super().__getitem__(key), self.watch)

    def __iter__(self) -> Iterator[Any]:
        """Go through rows, or scalars."""
        return (watched(each, self.watch) for each in super().__iter__())

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign into the array: a Copy, a Cast if *value* is an array of another dtype."""
        if self.dtype.hasobject:
            return super().__setitem__(key, value)  # it keeps the very object
        run(self.watch, "ndarray.__setitem__", np.ndarray.__setitem__, (self, key, value), {}, _dtypes(value, self))

    def __pow__(self, other: Any, *modulo: Any) -> Any:
        """Raise to a power, by the ufunc that NumPy chooses."""
        result = _answer_of(other, "__rpow__", self)
        return super().__pow__(other, *modulo) if result is NotImplemented else result

    def __rpow__(self, other: Any, *modulo: Any) -> Any:
        """Raise *other* to the powers that this array holds."""
        return super().__rpow__(other, *modulo)

    if sys.version_info >= (3, 12):  # where Python asks a subclass

        def __buffer__(self, flags: int) -> memoryview:
            """Let compiled code have the memory: what it does is not seen."""
            if self.watch is not None:
                self.watch.ends("compiled code")
            return super().__buffer__(flags)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as a plain array."""
        return plain(self).__reduce_ex__(protocol)

    def __reduce__(self) -> Any:
        """Pickle as a plain array."""
        return plain(self).__reduce__()

    def __repr__(self) -> str:
        """Show as a plain array."""
        return repr(plain(self))

    def __str__(self) -> str:
        """Show as a plain array."""
        return str(plain(self))

    def __format__(self, spec: str) -> str:
        """Show as a plain array."""
        return format(plain(self), spec)


WatchedArray.__name__ = "ndarray"
_view = np.ndarray.view
_base = np.ndarray.base.__get__


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


def _answer_of(other: object, reflected: str, array: WatchedArray) -> Any:
    """Return the answer of an *other* that Python asks first: one of a subclass that has operators of its own."""
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


@lru_cache(maxsize=256)
def _answers(kind: type) -> bool:
    """Tell whether *kind* says itself what ufuncs do: NumPy asks it if an array does not answer."""
    ufunc = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
    return ufunc not in (np.ndarray.__array_ufunc__, WatchedArray.__array_ufunc__)


@lru_cache(maxsize=1024)
def _ufunc_name(ufunc: np.ufunc, method: str) -> str:
    homes = (home for home in ("numpy", "scipy.special") if getattr(sys.modules.get(home), ufunc.__name__, 0) is ufunc)
    return f"{next(homes, 'ufunc')}.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")


def run(
    watch: Watch | None,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtypes: tuple[str, ...] = (),
    may_be_view: bool = False,
) -> Any:
    """Call *function* on the plain arrays, record it, and return its result watched."""
    plain_args = plain(args)
    plain_kwargs = plain(kwargs) if kwargs else kwargs
    begin = perf_counter_ns()
    result = function(*plain_args, **plain_kwargs)
    duration_ns = perf_counter_ns() - begin
    if result is NotImplemented:
        return result
    if watch is not None and watch.log is not None and not (may_be_view and is_view(result, plain_args)):
        # Of an indexed array an unknown part is read or written.
        nbytes = ABSENT if name in _INDEXING else nbytes_of(plain_args) + nbytes_of((result,))
        row = watch.record((name, dtypes), duration_ns, nbytes)
        if "dtype" in plain_kwargs and not name.endswith("_like"):
            _record_casts(watch, row, _arrays(plain_args), plain_kwargs["dtype"])
    if kwargs or getattr(result, "base", None) is not None:
        given, used = (*args, *kwargs.values()), (*plain_args, *plain_kwargs.values())
        if type(result) is tuple:
            return tuple(given_back(each, given, used, watch) for each in result)
        return given_back(result, given, used, watch)
    return watched(result, watch)


def given_back(result: Any, given: Iterable[Any], used: Iterable[Any], watch: Watch | None) -> Any:
    """Return *result* watched: where it is one of the values *used*, what was given in the place of that."""
    for before, now in zip(given, used):
        if now is result:
            return before
        if before is not now and (type(now) is tuple or type(now) is list):
            for inner_before, inner_now in zip(before, now):
                if inner_now is result:
                    return inner_before
    return watched(result, watch)


def call(watch: Watch, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call *function* on arrays that stay watched, and record it: what it does is inside it."""
    around = _here.around
    _here.around = row = watch.record((name,), ABSENT, ABSENT)
    begin = perf_counter_ns()
    try:
        result = function(*args, **kwargs)
    finally:
        _here.around = around
        row[DURATION] = perf_counter_ns() - begin
    row[BYTES] = nbytes_of(args) + nbytes_of((result,))
    return watched(result, watch)


class hidden:  # noqa: N801  # a context manager, called like contextlib's, in a quarter of the time
    """Run what is no part of the program: nothing is recorded in this thread."""

    __slots__ = ("around",)

    def __enter__(self) -> None:
        """Begin."""
        self.around, _here.around = _here.around, _HIDDEN

    def __exit__(self, *error: object) -> None:
        """End."""
        _here.around = self.around


def is_hidden() -> bool:
    """Tell whether this thread is inside a function whose inside is not seen."""
    return _here.around is _HIDDEN


def is_view(result: Any, args: tuple[Any, ...]) -> bool:
    """Tell whether a *result* is, or begins with, one of *args* or a view of one."""
    first = result[0] if type(result) in (list, tuple) and result else result
    # A view has a base; most results have none, and are spared the comparison.
    if not isinstance(first, np.ndarray) or (first.base is None and all(first is not array for array in args)):
        return False
    return any(np.may_share_memory(first, array) for array in _arrays(args))


def _record_casts(watch: Watch, row: list[Any], inputs: list[Any], dtype: Any) -> None:
    for array in inputs:
        if dtype is not None and array.dtype != dtype:
            # Its time is inside the ufunc's: known to have happened, not how long it took.
            key = ("dtype=", (dtype_name(array.dtype), dtype_name(np.dtype(dtype))))
            watch.record(key, ABSENT, ABSENT, row)


def plain(value: Any) -> Any:
    """Return *value* with the watched arrays in it replaced by plain views of them."""
    kind = type(value)
    if kind is WatchedArray:
        return _view(value, np.ndarray)
    if kind is tuple or kind is list:
        # The first case again, without a call: most arguments are arrays, and this runs for every op.
        return kind([_view(item, np.ndarray) if type(item) is WatchedArray else plain(item) for item in value])
    if kind is dict:
        return {key: plain(item) for key, item in value.items()}
    return PLAIN_SCALARS[id(kind)](value) if id(kind) in PLAIN_SCALARS else value


def watched(value: Any, watch: Watch | None) -> Any:
    """Return *value* with the plain arrays in it replaced by watched views of them, and scalars by watched ones."""
    kind = type(value)
    if watch is None or watch.is_over:
        return value
    if kind is np.ndarray:
        array = _view(value, WatchedArray)
        array.watch = watch
        array.hides_base = True
        return array
    if id(kind) in WATCHED_SCALARS:
        scalar = WATCHED_SCALARS[id(kind)](value)
        scalar.watch = watch
        return scalar
    if kind is tuple or kind is list:
        return kind([watched(item, watch) for item in value])
    if hasattr(value, "_make"):  # what numpy.linalg returns: SVDResult and its kin
        return value._make([watched(item, watch) for item in value])
    return value


def watch_of(values: Iterable[Any], depth: int = 32) -> Watch | None:
    """Return what the first array reports to that is still watched, also in lists and tuples; None if there is none.

    A list that begins with a number of Python's is taken for one of those. *depth*: of lists, which may contain
    themselves; NumPy's arrays had 32 dimensions at most, now 64.
    """
    for value in values:
        kind = type(value)
        watch: Watch | None = value.watch if kind is WatchedArray or id(kind) in PLAIN_SCALARS else None
        if watch is not None and not watch.is_over:
            return watch
        is_nested = (kind is list or kind is tuple) and value and isinstance(value[0], _MAY_HOLD_ARRAYS)
        if is_nested and depth and (found := watch_of(value, depth - 1)):
            return found
    return None


_MAY_HOLD_ARRAYS = (np.ndarray, np.generic, list, tuple)


def live(watch: Watch | None, others: Iterable[Any]) -> Watch | None:
    """Return *watch*, or that of one of the *others* if the test that it is of is over."""
    return watch if watch is not None and not watch.is_over else watch_of(others)


def nbytes_of(values: Any) -> int:
    """Return the bytes of the arrays in *values*, also in lists and tuples."""
    size = 0
    for value in values:
        if isinstance(value, np.ndarray):
            size += value.nbytes
        elif type(value) is tuple or type(value) is list:
            size += nbytes_of(value)
    return size


def _arrays(values: Any) -> list[Any]:
    found = []
    for value in values:
        if isinstance(value, np.ndarray):
            found.append(value)
        elif type(value) is tuple or type(value) is list:
            found.extend(_arrays(value))
    return found


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype; NumPy computes it at each access: 3 us."""
    return str(dtype.name)


def _dtypes(source: object, destination: np.ndarray[Any, Any]) -> tuple[str, ...]:
    return (dtype_name(source.dtype), dtype_name(destination.dtype)) if isinstance(source, np.ndarray) else ()
