"""NumPy: arrays that know they are watched, through the override protocols NumPy gives to every subclass.

`watch` returns a view of an array as a `WatchedArray`; ufuncs (`__array_ufunc__`), functions (`__array_function__`) and
methods on it are recorded and their results stay watched. Views move no data and are not recorded. What leaves the
watch is not seen: `np.asarray`, scalars, C code that takes the plain array. About 3 us an op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..environment import Environment
from ..errors import BackendError, UsageError
from ..model import ABSENT, EventLog
from . import Options

_METHODS = """all any argmax argmin argpartition argsort choose clip compress copy __copy__ cumprod cumsum diagonal dot
    fill flatten max mean min nonzero partition prod put ravel repeat reshape round searchsorted sort std sum take
    trace var""".split()
_MAY_BE_VIEWS = frozenset(["diagonal", "ravel", "reshape"])
_FUNCTIONS_OF_VIEWS = frozenset(
    """array_split asanyarray asarray ascontiguousarray asfortranarray atleast_1d atleast_2d atleast_3d broadcast_arrays
    broadcast_to diag diagonal dsplit expand_dims flip fliplr flipud hsplit imag matrix_transpose moveaxis
    permute_dims ravel real real_if_close require reshape rollaxis rot90 sliding_window_view split squeeze swapaxes
    transpose unstack vsplit""".split()
)
"""Functions that may return a view: those that did moved no data. Others whose result is an argument wrote into it."""
_QUERIES = frozenset(
    """shape ndim size result_type can_cast common_type min_scalar_type iscomplexobj isrealobj may_share_memory
    shares_memory array_repr array_str array2string save savez savez_compressed savetxt""".split()
)
"""Functions that compute nothing: no op of a program."""


_INDEXING = frozenset(["ndarray.__getitem__", "ndarray.__setitem__"])


class NumpyBackend:
    """Records what is done with arrays that `watch` returned, and with what comes of them."""

    name = "numpy"

    def __init__(self) -> None:
        self.log: EventLog | None = None
        self._watching = False

    def unavailable(self) -> None:
        """NumPy is always there: this package needs it."""

    def in_use(self) -> bool:
        """It costs nothing to wait for a watched array."""
        return True

    def blind(self) -> str | None:
        """Say that no array is watched yet, so that nothing could be seen."""
        return None if self._watching else "no array was made by opprof.array(), and NumPy shows no others"

    def begin_test(self) -> None:
        """Forget the arrays that earlier tests watched: what this one sees must not depend on them."""
        self._watching = False

    def watch(self, array: ArrayLike) -> WatchedArray:
        """Return a watched view of *array* (of a new array, if it is none yet).

        Raises UsageError for a subclass of ndarray: a mask or unit would be lost.
        """
        if isinstance(array, np.ndarray) and type(array) not in (np.ndarray, WatchedArray):
            raise UsageError(
                f"opprof.array() watches plain arrays, not {type(array).__name__}: it would lose its meaning"
            )
        self._watching = True
        return _watched(np.asarray(array), self)  # type: ignore[no-any-return]

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends. Raises BackendError when it records already."""
        if self.log is not None:
            raise BackendError("the numpy backend is recording already; it cannot be nested")
        self.log = EventLog(Environment((("numpy", np.__version__),)))
        try:
            yield self.log
        finally:
            self.log = None


def backend() -> NumpyBackend:
    """Return the backend (the entry point calls this)."""
    return NumpyBackend()


class WatchedArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose ops are recorded; otherwise an ordinary `numpy.ndarray` of any shape and dtype."""

    watcher: NumpyBackend | None

    def __array_finalize__(self, obj: object) -> None:
        """Watch the views of a watched array too."""
        self.watcher = getattr(obj, "watcher", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run and record a ufunc or one of its methods (``numpy.add``, ``numpy.add.reduce``)."""
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return _run(self.watcher, _ufunc_name(ufunc, method), function, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run and record a NumPy function (``numpy.concatenate``)."""
        if func.__name__ == "astype":
            return args[0].astype(*args[1:], **kwargs)
        if func.__name__ in _QUERIES:
            return func(*_plain(args), **_plain(kwargs))
        dtypes = _dtypes(args[1], args[0]) if func is np.copyto else ()
        name = f"{func.__module__}.{func.__name__}"
        return _run(self.watcher, name, func, args, kwargs, dtypes, func.__name__ in _FUNCTIONS_OF_VIEWS)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert to *dtype*: a Cast, a Copy if it is the same, nothing with ``copy=False`` and the same."""
        dtypes = (_dtype_name(self.dtype), _dtype_name(np.dtype(dtype)))
        return _run(self.watcher, "ndarray.astype", np.ndarray.astype, (self, dtype, *args), kwargs, dtypes, True)

    def __getitem__(self, key: Any) -> Any:
        """Index: slices are views, index arrays gather."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, (list, np.ndarray)) for k in keys):
            return _run(self.watcher, "ndarray.__getitem__", np.ndarray.__getitem__, (self, key), {})
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign into the array: a Copy, a Cast if *value* is an array of another dtype."""
        _run(self.watcher, "ndarray.__setitem__", np.ndarray.__setitem__, (self, key, value), {}, _dtypes(value, self))


def _watched_method(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    @wraps(method)
    def watched(self: WatchedArray, *args: Any, **kwargs: Any) -> Any:
        return _run(self.watcher, f"ndarray.{name}", method, (self, *args), kwargs, (), name in _MAY_BE_VIEWS)

    return watched


for _name in _METHODS:
    setattr(WatchedArray, _name, _watched_method(_name))


@cache
def _ufunc_name(ufunc: np.ufunc, method: str) -> str:
    module = "numpy" if getattr(np, ufunc.__name__, None) is ufunc else "ufunc"
    return f"{module}.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")


def _run(
    watcher: NumpyBackend | None,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dtypes: tuple[str, ...] = (),
    may_be_view: bool = False,
) -> Any:
    """Call *function* on the plain arrays, record it, and return its result watched."""
    plain_args = _plain(args)
    plain_kwargs = _plain(kwargs) if kwargs else kwargs
    begin = perf_counter_ns()
    result = function(*plain_args, **plain_kwargs)
    duration_ns = perf_counter_ns() - begin
    log = watcher.log if watcher is not None else None
    if log is not None and not (may_be_view and _is_view(result, plain_args)):
        # Of an indexed array an unknown part is read or written.
        nbytes = ABSENT if name in _INDEXING else _nbytes(plain_args) + _nbytes((result,))
        event = log.add(log.name(name, dtypes), duration_ns, nbytes=nbytes)
        if "dtype" in plain_kwargs:
            _record_casts(log, event, name, _arrays(plain_args), plain_kwargs["dtype"])
    if kwargs:
        out = kwargs.get("out")
        if out is not None:
            return out[0] if type(out) is tuple and len(out) == 1 else out
    return _watched(result, watcher)


def _is_view(result: Any, args: tuple[Any, ...]) -> bool:
    first = result[0] if type(result) in (list, tuple) and result else result
    # A view has a base; most results have none, and are spared the comparison.
    if not isinstance(first, np.ndarray) or (first.base is None and all(first is not array for array in args)):
        return False
    return any(np.may_share_memory(first, array) for array in _arrays(args))


def _record_casts(log: EventLog, event: int, name: str, inputs: list[Any], dtype: Any) -> None:
    if dtype is None or name.endswith("_like"):
        return
    for array in inputs:
        if array.dtype != dtype:
            # Its time is inside the ufunc's: known to have happened, not how long it took.
            log.add(log.name("dtype=", (_dtype_name(array.dtype), _dtype_name(np.dtype(dtype)))), ABSENT, event)


def _plain(value: Any) -> Any:
    """Return *value* with the watched arrays in it replaced by plain views of them."""
    kind = type(value)
    if kind is WatchedArray:
        return value.view(np.ndarray)
    if kind is tuple or kind is list:
        # The first case again, without a call: most arguments are arrays, and this runs for every op.
        return kind([item.view(np.ndarray) if type(item) is WatchedArray else _plain(item) for item in value])
    if kind is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


def _watched(value: Any, watcher: NumpyBackend | None) -> Any:
    """Return *value* with the plain arrays in it replaced by watched views of them."""
    kind = type(value)
    if kind is np.ndarray:
        array = value.view(WatchedArray)
        array.watcher = watcher
        return array
    if kind is tuple or kind is list:
        return kind([_watched(item, watcher) for item in value])
    if hasattr(value, "_make"):  # what numpy.linalg returns: SVDResult and its kin
        return value._make([_watched(item, watcher) for item in value])
    return value


def _nbytes(values: Any) -> int:
    size = 0
    for value in values:
        if isinstance(value, np.ndarray):
            size += value.nbytes
        elif type(value) is tuple or type(value) is list:
            size += _nbytes(value)
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
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype.name)  # computed by NumPy at each access: 3 us


def _dtypes(source: object, destination: np.ndarray[Any, Any]) -> tuple[str, ...]:
    return (_dtype_name(source.dtype), _dtype_name(destination.dtype)) if isinstance(source, np.ndarray) else ()
