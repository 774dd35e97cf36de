"""Functions that take the place of NumPy's and SciPy's while a window is open; `modules` puts them there.

NumPy does not ask a subclass when a function converts (`np.asarray`) or makes arrays (`np.zeros`, `np.random.normal`),
nor when SciPy works on them (`scipy.linalg.solve`). So such a function is replaced by one that calls it, records it and
watches its result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np
import numpy.testing  # not at its first use: that may be in a window, and its imports would be counted there

from .arguments import dtype_name, tensors_in
from .arrays import WatchedArray, call, given_back, plain, watch_of, watched, watched_view
from .function_names import BIT_GENERATORS, CHECKS, CONVERSIONS, CREATIONS, DRAWS, SCIPY_QUERIES, SEEDS
from .watch import Watch, hidden, is_hidden

_INSIDE = tuple(f"numpy.{name}." for name in ("core", "_core", "fft", "lib", "linalg", "matrixlib", "random"))
"""Packages of NumPy whose functions call each other."""
OURS = "pytest_opprof."
open_watches: list[Watch] = []
"""The watches that have a window open, the innermost last."""


class Replacement(NamedTuple):
    """A function, or class, and what takes its place."""

    original: Any
    ours: Any
    makes: bool = False
    """Whether it makes arrays without being given one: replaced only if everything is watched."""
    package: str = "numpy"


def of_numpy() -> Iterator[Replacement]:
    """Yield the replacements of NumPy's functions."""
    for name in CONVERSIONS:
        if function := getattr(np, name, None):
            yield Replacement(function, _making(f"numpy.{name}", function, converts=True))
    as_strided = np.lib.stride_tricks.as_strided
    yield Replacement(as_strided, _making("numpy.lib.stride_tricks.as_strided", as_strided, converts=True))
    for name in CREATIONS:
        function = getattr(np, name)
        yield Replacement(function, _making(f"numpy.{name}", function), makes=True)
    for name in DRAWS:
        if function := getattr(np.random, name, None):
            yield Replacement(function, _making(f"numpy.random.{name}", function), makes=True)
    for name in CHECKS:
        check = getattr(np.testing, name)
        yield Replacement(check, _hiding(check))
    for name in SEEDS:
        yield Replacement(getattr(np.random, name), _hiding(getattr(np.random, name)), makes=True)
    generator = _drawing(np.random.Generator)
    yield Replacement(np.random.Generator, generator, makes=True)
    yield Replacement(np.random.RandomState, _drawing(np.random.RandomState), makes=True)
    yield Replacement(np.random.default_rng, _seeding(generator), makes=True)
    for name in BIT_GENERATORS:
        yield Replacement(getattr(np.random, name), _drawing(getattr(np.random, name)), makes=True)


def of_scipy(modules: Iterable[str]) -> Iterator[Replacement]:
    """Yield the replacements of the functions of these *modules* of SciPy."""
    for module in modules:
        for name in sys.modules[module].__all__:
            function = getattr(sys.modules[module], name)
            # These ask the subclass by themselves, as NumPy's do.
            asks = isinstance(function, (np.ufunc, type(np.concatenate)))
            if callable(function) and not isinstance(function, type) and not asks and name not in SCIPY_QUERIES:
                yield Replacement(function, _calling(f"{module}.{name}", function), package="scipy")


def _watching(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watch | None:
    """Return the watch of a call with these arguments; None if it is not to be recorded or watched."""
    watch = watch_of(args) or (watch_of(kwargs.values()) if kwargs else None)
    innermost = open_watches[-1:]  # a copy: another thread may close the window
    if watch is None and innermost and innermost[0].everything and not _is_internal():
        watch = innermost[0]
    return None if watch is None or not innermost or is_hidden() else watch


def _is_internal() -> bool:
    """Tell whether the call is no part of the program: NumPy makes it, or a module that is being imported."""
    namespace = sys._getframe(3).f_globals
    name = namespace.get("__name__", "")
    if name.startswith((*_INSIDE, OURS)):
        return ".tests." not in name
    return getattr(namespace.get("__spec__"), "_initializing", False) or "importlib" in name


def _conversion(name: str, source: Any, result: Any) -> tuple[Any, ...]:
    """Return the arguments of `EventLog.name` for what was done; none if no data moved."""
    if isinstance(source, np.ndarray):
        moved = isinstance(result, np.ndarray) and not np.may_share_memory(source, result)
        return (name, (dtype_name(source.dtype), dtype_name(result.dtype))) if moved else ()
    if not isinstance(source, (list, tuple)):
        return ()
    return (name, (), "Concat" if source and isinstance(source[0], np.ndarray) else name)


def _found_by(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with the *name* of the one it replaces, by which pickle finds it."""
    function.__module__, _, function.__qualname__ = name.rpartition(".")
    return function


def _making(name: str, function: Callable[..., Any], converts: bool = False) -> Callable[..., Any]:
    """Return a function that calls *function*, records it as an op and watches its result.

    *converts*: it returns its first argument if that is already what is asked for.
    """

    @wraps(function)
    def making(*args: Any, **kwargs: Any) -> Any:
        watch = _watching(args, kwargs)
        if watch is None:
            return function(*args, **kwargs)
        given = [*args, *kwargs.values()]
        used = [plain(value) if type(value) is WatchedArray else value for value in given]
        with hidden():
            begin = perf_counter_ns()
            result = function(*used[: len(args)], **dict(zip(kwargs, used[len(args) :])))
            duration_ns = perf_counter_ns() - begin
        if converts and used and result is used[0]:
            is_plain = type(given[0]) is not WatchedArray and type(result) is np.ndarray
            return watched_view(result, watch) if is_plain else given[0]
        key = _conversion(name, used[0], result) if converts and used else (name,)
        if key:
            watch.record(key, duration_ns, tensors_in(used), tensors_in((result,)), begin_ns=begin)
        if type(result) is np.ndarray:
            watch.has_arrays = True
            back = given_back(result, given, used, watch)
            return watched_view(result, watch) if back is result else back
        if type(result) is np.lib.npyio.NpzFile:
            result.__class__ = _Archive
        if isinstance(result, np.ndarray) and type(result) is not WatchedArray and watch_of(given):
            watch.ends(name)
        return watched(result, watch)

    return _found_by(name, making)


class _Archive(np.lib.npyio.NpzFile):
    """What `np.load` returns for a file of several arrays: it reads each array when it is asked for."""

    __getitem__ = _making("numpy.load", np.lib.npyio.NpzFile.__getitem__)


def _calling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls *function* and records it as an op with the ops in it inside."""

    @wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        watch = _watching(args, kwargs)
        if watch is None or watch.log is None:
            return function(*args, **kwargs)
        return call(watch, name, function, args, kwargs)

    return _found_by(name, calling)


def _hiding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls *function* and records nothing of it."""

    @wraps(function)
    def hiding(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with hidden():
            return function(*plain(args), **plain(kwargs))

    return hiding


def _drawing(base: Any) -> Any:
    """Return a subclass of *base*, a class of random generators; every instance of *base* counts as one of its own.

    What its methods draw is recorded and watched. Nothing is recorded while it makes an instance or sets a seed.
    """
    draws = {name: _making(f"numpy.random.{name}", getattr(base, name)) for name in DRAWS if hasattr(base, name)}
    seeds = {name: _hiding(getattr(base, name)) for name in SEEDS if hasattr(base, name)}

    class Drawing(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            with hidden():
                return super().__call__(*args, **kwargs) if draws else base(*args, **kwargs)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, base)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, base)

    return Drawing(base.__name__, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **seeds, **draws})


def _seeding(generator: Any) -> Callable[..., Any]:
    default_rng = np.random.default_rng

    @wraps(default_rng)
    def seeding(*args: Any, **kwargs: Any) -> Any:
        with hidden():
            made = default_rng(*args, **kwargs)
        is_given = any(made is given for given in (*args, *kwargs.values()))
        is_seen = any(watch.everything for watch in open_watches[-1:])
        return generator(made.bit_generator) if is_seen and not is_given else made

    return seeding
