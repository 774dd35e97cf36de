"""Watched arrays: a subclass of `numpy.ndarray` that records its ops, by the protocols that NumPy has for subclasses.

A ufunc (`__array_ufunc__`), a function (`__array_function__`), an operator or a method of a `WatchedArray` runs on the
plain array behind it. It is recorded, and its result is watched, too. A view moves no data and is no op.
"""

from __future__ import annotations

import copyreg
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...ops.numpy_work import NEEDS_ATTRIBUTES
from ...profile.columns import ABSENT
from .arguments import arrays_in, attributes_of, copied_dtypes, dtype_name, is_view, tensors_in
from .function_names import CALL_BACK, FUNCTIONS_OF_VIEWS, QUERIES, ufunc_name
from .watch import CASE, DURATION, Watch, inside, is_hidden

_MAY_HOLD_ARRAYS = (np.ndarray, np.generic, list, tuple)
WATCHED_SCALARS: dict[int, Any] = {}
"""The watched subclass of each type of scalars, by the type's `id`: the two types compare equal. `scalars` fills it."""
PLAIN_SCALARS: dict[int, Any] = {}
"""The type of each watched subclass, by the `id` of the subclass."""


class StandsFor(type):
    """A class that equals its base class and pickles as that: only ``type(x) is np.ndarray`` tells them apart."""

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.__base__

    def __hash__(cls) -> int:
        return hash(cls.__base__)


copyreg.pickle(StandsFor, lambda cls: (operator.getitem, ((cls.__base__,), 0)))


class WatchedArray(np.ndarray[Any, np.dtype[Any]], metaclass=StandsFor):
    """An array whose ops are recorded; otherwise an ordinary `numpy.ndarray` of any shape and dtype.

    `operators` adds its operators and methods.
    """

    __module__, __qualname__ = "numpy", "ndarray"  # programs look at them, messages show them
    __slots__ = ("hides_base", "watch")
    watch: Watch | None
    hides_base: bool
    """Whether nobody else has the plain array behind it, which it stands for."""

    def __array_finalize__(self, obj: object) -> None:
        """Watch the views of a watched array, too."""
        self.watch = obj.watch if type(obj) is WatchedArray else None
        self.hides_base = False

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run and record a ufunc or one of its methods (``numpy.add``, ``numpy.add.reduce``)."""
        for value in inputs:
            kind: Any = type(value)
            if kind is not WatchedArray and kind is not np.ndarray and _answers(kind):
                return NotImplemented
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return run(live(self.watch, inputs), ufunc_name(ufunc, method), function, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run and record a NumPy function (``numpy.concatenate``)."""
        if len(types) > 1 and not all(issubclass(kind, (np.ndarray, np.generic)) for kind in types):
            return NotImplemented
        name = func.__name__
        if name == "astype":
            return args[0].astype(*args[1:], **kwargs)
        if name in QUERIES:
            return func(*plain(args), **plain(kwargs))
        watch, raw = live(self.watch, args), f"{func.__module__}.{name}"
        if name in CALL_BACK and watch is not None and not is_hidden():
            return call(watch, raw, func._implementation, args, kwargs)
        dtypes = copied_dtypes(args[1], args[0]) if name == "copyto" else ()
        return run(watch, raw, func, args, kwargs, dtypes, name in FUNCTIONS_OF_VIEWS)

    def __array_wrap__(self, array: Any, context: object = None, return_scalar: bool = False) -> Any:
        """Return a function's result watched, and change nothing else: a plain array would not either."""
        return array[()] if return_scalar and array.ndim == 0 else watched(array, self.watch)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        """Return a watched array: this one if it has the dtype that is asked for."""
        array = plain(self)
        result = array.__array__(*args, **kwargs)
        return self if result is array else watched(result, self.watch)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert to *dtype*: a Cast. To the same dtype it is a Copy, or with ``copy=False`` no op."""
        dtypes = (dtype_name(self.dtype), dtype_name(np.dtype(dtype)))
        return run(self.watch, "ndarray.astype", np.ndarray.astype, (self, dtype, *args), kwargs, dtypes, True)

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """Return a view. It is watched, unless it is of a class other than ``numpy.ndarray``: that ends the watch."""
        result = _view(self, *args, **kwargs)
        if self.watch is not None and type(result) not in (WatchedArray, np.ndarray):
            self.watch.ends(f"ndarray.view({type(result).__name__})")
        return watched(result, self.watch)

    @property
    def base(self) -> Any:
        """The object that owns the memory; None if this array does."""
        base = _base(self)
        return base.base if self.hides_base else base

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        """Resize in place, if this array stands for one that owns its memory."""
        if self.base is not None:
            return super().resize(*shape, refcheck=refcheck)  # NumPy says why it cannot
        resized = plain(self).copy()
        resized.resize(*shape, refcheck=False)
        self.__setstate__(resized.__reduce__()[2])
        self.hides_base = False

    def __getitem__(self, key: Any) -> Any:
        """Return the items at *key*: a view for a slice; an op for an index array, which gathers."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, (list, np.ndarray)) for k in keys):
            return run(self.watch, "ndarray.__getitem__", np.ndarray.__getitem__, (self, key), {})
        return watched(super().__getitem__(key), self.watch)

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows, or the scalars of an array of one dimension."""
        return (watched(each, self.watch) for each in super().__iter__())

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign: a Copy, or a Cast if *value* is an array of another dtype."""
        if self.dtype.hasobject:
            return super().__setitem__(key, value)  # such an array keeps the object itself
        dtypes = copied_dtypes(value, self)
        run(self.watch, "ndarray.__setitem__", np.ndarray.__setitem__, (self, key, value), {}, dtypes)

    if sys.version_info >= (3, 12):  # earlier ones do not ask a subclass

        def __buffer__(self, flags: int) -> memoryview:
            """Give the memory to compiled code: what that does is not seen."""
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


@lru_cache(maxsize=256)
def _answers(kind: type) -> bool:
    """Tell whether *kind* decides itself what ufuncs do with it: NumPy asks it after an array declined."""
    ufunc = getattr(kind, "__array_ufunc__", np.ndarray.__array_ufunc__)
    return ufunc not in (np.ndarray.__array_ufunc__, WatchedArray.__array_ufunc__)


def run(
    watch: Watch | None,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtypes: tuple[str, ...] = (),
    may_be_view: bool = False,
) -> Any:
    """Call *function* with plain arrays, record it as an op, and return its result watched."""
    plain_args = plain(args)
    plain_kwargs = plain(kwargs) if kwargs else kwargs
    begin = perf_counter_ns()
    result = function(*plain_args, **plain_kwargs)
    duration_ns = perf_counter_ns() - begin
    if result is NotImplemented:
        return result
    if watch is not None and watch.log is not None and not (may_be_view and is_view(result, plain_args)):
        attributes = attributes_of(plain_args, plain_kwargs) if name in NEEDS_ATTRIBUTES else None
        used, made = tensors_in(plain_args), tensors_in((result,))
        row = watch.record((name, dtypes), duration_ns, used, made, attributes, begin_ns=begin)
        if "dtype" in plain_kwargs and not name.endswith("_like"):
            dtype = plain_kwargs["dtype"]
            for array in arrays_in(plain_args) if dtype is not None else ():
                if array.dtype != dtype:
                    # The ufunc casts as it computes. So the cast is an op inside it, without a time of its own.
                    cast = ("dtype=", (dtype_name(array.dtype), dtype_name(np.dtype(dtype))))
                    watch.record(cast, ABSENT, tensors_in((array,)), (np.dtype(dtype), array.shape), around=row)
    if kwargs or getattr(result, "base", None) is not None:
        given, used = (*args, *kwargs.values()), (*plain_args, *plain_kwargs.values())
        if type(result) is tuple:
            return tuple(given_back(each, given, used, watch) for each in result)
        return given_back(result, given, used, watch)
    return watched(result, watch)


def given_back(result: Any, given: Iterable[Any], used: Iterable[Any], watch: Watch | None) -> Any:
    """Return *result* watched. If it is one of the values *used*, return the one of *given* that it was made from."""
    for before, now in zip(given, used):
        if now is result:
            return before
        if before is not now and (type(now) is tuple or type(now) is list):
            for inner_before, inner_now in zip(before, now):
                if inner_now is result:
                    return inner_before
    return watched(result, watch)


def call(watch: Watch, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call *function* with the arrays still watched, and record it as an op with the ops in it inside."""
    row = watch.record((name,), ABSENT)
    with inside(row):
        begin = perf_counter_ns()
        try:
            result = function(*args, **kwargs)
        finally:
            row[DURATION] = perf_counter_ns() - begin
            watch.began(row, begin)
    row[CASE] = (name,), tensors_in(args), tensors_in((result,)), None
    return watched(result, watch)


def watched_view(array: np.ndarray[Any, Any], watch: Watch) -> WatchedArray:
    """Return a watched view of *array*, which others have as well."""
    watch.has_arrays = True
    view = array.view(WatchedArray)
    view.watch = watch
    return view


def plain(value: Any) -> Any:
    """Return *value* with the watched arrays in it replaced by plain views, and the watched scalars by plain ones."""
    kind = type(value)
    if kind is WatchedArray:
        return _view(value, np.ndarray)
    if kind is tuple or kind is list:
        # The first case once more, to save a call: most arguments are arrays, and this runs for every op.
        return kind([_view(item, np.ndarray) if type(item) is WatchedArray else plain(item) for item in value])
    if kind is dict:
        return {key: plain(item) for key, item in value.items()}
    return PLAIN_SCALARS[id(kind)](value) if id(kind) in PLAIN_SCALARS else value


def watched(value: Any, watch: Watch | None) -> Any:
    """Return *value* with the plain arrays in it replaced by watched views, and the plain scalars by watched ones."""
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
    if hasattr(value, "_make"):  # the named tuples of numpy.linalg, such as SVDResult
        return value._make([watched(item, watch) for item in value])
    return value


def watch_of(values: Iterable[Any], depth: int = 32) -> Watch | None:
    """Return the watch of the first array or scalar whose test is not over, also in lists and tuples; else None.

    A list whose first item is a number of Python is taken for a list of such numbers. *depth* limits lists in lists,
    as a list may contain itself; arrays of NumPy 1 had 32 dimensions at most.
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


def live(watch: Watch | None, others: Iterable[Any]) -> Watch | None:
    """Return *watch*, or the watch of one of the *others* if there is none or its test is over."""
    return watch if watch is not None and not watch.is_over else watch_of(others)
