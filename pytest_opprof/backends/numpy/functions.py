"""Functions that see watched arrays only while a window is open: then they are replaced wherever a module has them.

NumPy gives a subclass no say in `np.asarray`, and none in what makes arrays (`np.zeros`, `np.random.normal`) or works
on them outside of NumPy (`scipy.linalg.solve`). So every attribute of a module that is such a function is set to one
that calls it and watches the result when the first window opens, and set back when the last one closes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, wraps
from threading import Lock
from time import perf_counter_ns
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.testing  # NumPy does so at the first use: in a window, and counts would depend on the order of tests

from .arrays import Watch, WatchedArray, call, dtype_name, given_back, hidden, is_hidden, plain, watch_of, watched

_CONVERSIONS = """array asarray asanyarray asarray_chkfinite ascontiguousarray asfarray asfortranarray asmatrix bmat
    frombuffer from_dlpack require""".split()
_CREATIONS = """arange bartlett blackman empty eye fromfile fromfunction fromiter fromregex fromstring full genfromtxt
    hamming hanning identity indices kaiser load loadtxt ones tri zeros""".split()
_DRAWS = """beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric integers
    laplace logistic lognormal logseries multinomial multivariate_hypergeometric multivariate_normal negative_binomial
    noncentral_chisquare noncentral_f normal pareto permutation permuted poisson power rand randint randn random
    random_integers random_sample ranf rayleigh sample shuffle standard_cauchy standard_exponential standard_gamma
    standard_normal standard_t triangular uniform vonmises wald weibull zipf""".split()
_SEEDS = ("get_state", "seed", "set_state")
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence")
_CHECKS = """assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal
    assert_array_almost_equal_nulp assert_array_compare assert_array_equal assert_array_less assert_array_max_ulp
    assert_equal""".split()
"""What a test says of results is no op of the program."""
_SCIPY = ("scipy.linalg", "scipy.fft", "scipy.signal", "scipy.sparse.linalg", "scipy.special")
_QUERIES = frozenset(
    """aslinearoperator bandwidth choose_conv_method fhtoffset find_best_blas_type get_blas_funcs get_lapack_funcs
    get_workers geterr is_sptriangular ishermitian issymmetric next_fast_len prev_fast_len register_backend
    set_backend set_global_backend set_workers seterr skip_backend spbandwidth use_solver""".split()
)
"""Functions of SciPy's that compute nothing."""
_INSIDE = tuple(f"numpy.{name}." for name in ("core", "_core", "fft", "lib", "linalg", "matrixlib", "random"))
"""Packages behind functions that are ops by themselves."""
_OURS = "pytest_opprof."
_PUBLIC = (*_SCIPY, "numpy.fft", "numpy.lib.stride_tricks", "numpy.linalg", "numpy.random", "numpy.testing")

_open: list[Watch] = []
_lock = Lock()


@contextmanager
def replaced(watch: Watch) -> Iterator[None]:
    """Let the functions see the arrays of *watch* until the context ends."""
    try:
        with _lock:
            _open.append(watch)
            _places().replace(watch.everything)
        yield
    finally:
        with _lock:
            _open.remove(watch)
            if not _open:
                watch.ended |= dict.fromkeys(f"{name}, first imported in the window" for name in _places().put_back())


def put_back() -> None:
    """Set back what was set to ours after the last window: `monkeypatch` in one undoes to what it found there."""
    with _lock:
        if not _open and _places.cache_info().currsize:
            _places().put_back()


class _Replacement(NamedTuple):
    original: Any
    ours: Any
    makes: bool = False
    """Whether it makes arrays of nothing, which only concerns who watches everything."""
    package: str = "numpy"


class _Places:
    """Where in the modules of this process the functions are."""

    def __init__(self) -> None:
        self._replacements = _by_identity(_of_numpy())
        self._modules: dict[str, object] = {}
        self._last: tuple[int, object] = (0, None)
        """How many modules there were, and which was imported last."""
        self._found: list[tuple[dict[str, Any], str, Any, Any, bool]] = []

    def replace(self, everything: bool) -> None:
        """Set all to ours, those that make arrays only for who watches *everything*."""
        self._look()
        for namespace, name, original, ours, makes in self._found:
            if (everything or not makes) and namespace.get(name) is original:
                namespace[name] = ours

    def put_back(self) -> list[str]:
        """Set all back, also in modules that are new. Return those among these whose functions should have been set."""
        late = self._look()
        for namespace, name, original, ours, _ in self._found:
            if namespace.get(name) is ours:
                namespace[name] = original
        return late

    def _look(self) -> list[str]:
        """Look through the modules that are new. Return those that have functions of their own to replace."""
        last = len(sys.modules), next(reversed(sys.modules.values()))
        if last == self._last:
            return []
        self._last = last
        new = {name: module for name, module in list(sys.modules.items()) if self._modules.get(name) is not module}
        self._modules |= new
        self._find(self._replacements, new)
        late = [name for name in _SCIPY if name in new]
        if late:
            more = _by_identity(each for each in _of_scipy(late) if id(each.original) not in self._replacements)
            self._replacements |= more
            self._find(more, self._modules)
        return late

    def _find(self, replacements: Mapping[int, _Replacement], modules: Mapping[str, object]) -> None:
        for name, module in modules.items():
            if isinstance(module, ModuleType) and not name.startswith(_OURS):
                for attribute, value in list(module.__dict__.items()):
                    found = replacements.get(id(value))
                    if found and not _is_inside(name, found.package):
                        self._found.append((module.__dict__, attribute, found.original, found.ours, found.makes))


@cache
def _places() -> _Places:
    return _Places()


def _is_inside(module: str, package: str) -> bool:
    """Tell whether a *module* is the inside of a *package*, whose functions are part of others there."""
    return module.startswith(f"{package}.") and module not in _PUBLIC and ".tests." not in module


def _by_identity(replacements: Iterable[_Replacement]) -> dict[int, _Replacement]:
    """Return them by `id` of both functions: a module that is imported in a window gets ours."""
    return {id(function): each for each in replacements for function in (each.original, each.ours)}


def _of_numpy() -> Iterator[_Replacement]:
    for name in _CONVERSIONS:
        if function := getattr(np, name, None):
            yield _Replacement(function, _making(f"numpy.{name}", function, converts=True))
    as_strided = np.lib.stride_tricks.as_strided
    yield _Replacement(as_strided, _making("numpy.lib.stride_tricks.as_strided", as_strided, converts=True))
    for name in _CREATIONS:
        function = getattr(np, name)
        yield _Replacement(function, _making(f"numpy.{name}", function), makes=True)
    for name in _DRAWS:
        if function := getattr(np.random, name, None):
            yield _Replacement(function, _making(f"numpy.random.{name}", function), makes=True)
    for name in _CHECKS:
        check = getattr(np.testing, name)
        yield _Replacement(check, _hiding(check))
    for name in _SEEDS:
        yield _Replacement(getattr(np.random, name), _hiding(getattr(np.random, name)), makes=True)
    generator = _drawing(np.random.Generator)
    yield _Replacement(np.random.Generator, generator, makes=True)
    yield _Replacement(np.random.RandomState, _drawing(np.random.RandomState), makes=True)
    yield _Replacement(np.random.default_rng, _seeding(generator), makes=True)
    for name in _BIT_GENERATORS:
        yield _Replacement(getattr(np.random, name), _drawing(getattr(np.random, name)), makes=True)


def _of_scipy(modules: Iterable[str]) -> Iterator[_Replacement]:
    for module in modules:
        for name in sys.modules[module].__all__:
            function = getattr(sys.modules[module], name)
            asks = isinstance(function, (np.ufunc, type(np.concatenate)))  # its arguments, as those of NumPy do
            if callable(function) and not isinstance(function, type) and not asks and name not in _QUERIES:
                yield _Replacement(function, _calling(f"{module}.{name}", function), package="scipy")


def _watching(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watch | None:
    """Return who watches what a function is given, or makes."""
    watch = watch_of(args) or (watch_of(kwargs.values()) if kwargs else None)
    innermost = _open[-1:]  # at once: another thread may close it
    if watch is None and innermost and innermost[0].everything and not _is_by_itself():
        watch = innermost[0]
    return None if watch is None or not innermost or is_hidden() else watch


def _is_by_itself() -> bool:
    """Tell whether NumPy calls for its own use, or a module that is being imported, and so not in every window."""
    namespace = sys._getframe(3).f_globals
    name = namespace.get("__name__", "")
    if name.startswith((*_INSIDE, _OURS)):
        return ".tests." not in name
    return getattr(namespace.get("__spec__"), "_initializing", False) or "importlib" in name


def _conversion(name: str, source: Any, result: Any) -> tuple[Any, ...]:
    """Return what was done, as `EventLog.name` takes it; nothing where no data moved."""
    if isinstance(source, np.ndarray):
        moved = isinstance(result, np.ndarray) and not np.may_share_memory(source, result)
        return (name, (dtype_name(source.dtype), dtype_name(result.dtype))) if moved else ()
    if not isinstance(source, (list, tuple)):
        return ()
    return (name, (), "Concat" if source and isinstance(source[0], np.ndarray) else name)


def _found_by(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* with the *name* that it is found by while it is there, for who pickles it."""
    function.__module__, _, function.__qualname__ = name.rpartition(".")
    return function


def _making(name: str, function: Callable[..., Any], converts: bool = False) -> Callable[..., Any]:
    """Return *function* as one that is recorded, and whose result is watched.

    *converts*: whether it does nothing where its first argument is what is asked for.
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
            return given[0] if type(given[0]) is WatchedArray or type(result) is not np.ndarray else watch.array(result)
        key = _conversion(name, used[0], result) if converts and used else (name,)
        if key:
            arrays = [each for each in (*used, result) if isinstance(each, np.ndarray)]
            watch.record(key, duration_ns, sum(array.nbytes for array in arrays))
        if type(result) is np.ndarray:
            watch.has_arrays = True
            back = given_back(result, given, used, watch)
            return watch.array(result) if back is result else back
        if type(result) is np.lib.npyio.NpzFile:
            result.__class__ = _Archive
        if isinstance(result, np.ndarray) and type(result) is not WatchedArray and watch_of(given):
            watch.ends(name)
        return watched(result, watch)

    return _found_by(name, making)


class _Archive(np.lib.npyio.NpzFile):
    """What `np.load` returns of several arrays, which it reads when they are asked for."""

    __getitem__ = _making("numpy.load", np.lib.npyio.NpzFile.__getitem__)


def _calling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* as an op whose inside is seen."""

    @wraps(function)
    def calling(*args: Any, **kwargs: Any) -> Any:
        watch = _watching(args, kwargs)
        if watch is None or watch.log is None:
            return function(*args, **kwargs)
        return call(watch, name, function, args, kwargs)

    return _found_by(name, calling)


def _hiding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* as one whose inside is no part of the program."""

    @wraps(function)
    def hiding(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with hidden():
            return function(*plain(args), **plain(kwargs))

    return hiding


def _drawing(base: Any) -> Any:
    """Return a class that makes random generators of the class *base*, all of which are instances of it.

    Those that draw are of a subclass whose draws are watched. What they compute besides is their own business.
    """
    draws = {name: _making(f"numpy.random.{name}", getattr(base, name)) for name in _DRAWS if hasattr(base, name)}
    seeds = {name: _hiding(getattr(base, name)) for name in _SEEDS if hasattr(base, name)}

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
        is_seen = any(watch.everything for watch in _open[-1:])
        return generator(made.bit_generator) if is_seen and not is_given else made

    return seeding
