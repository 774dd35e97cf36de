"""NumPy: the ops on watched arrays, recorded while a window is open."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from ...errors import BackendError, UsageError
from ...profile.environment import Environment
from ...profile.event_log import EventLog
from ..contract import Backend, KnownWork, Options
from . import modules, operators, scalars  # noqa: F401  # they add to the arrays
from .arrays import WatchedArray, watched_view
from .watch import Watch, hidden

SHOWN = 3
"""How many places a remark names."""


class NumpyBackend(Backend):
    """Records the ops on arrays that `watch` returned, and on the results of these ops."""

    name = "numpy"
    tells_sites = True
    hint = "NumPy arrays come from opprof.array(), or --opprof-numpy=all"

    def __init__(self) -> None:
        self._watch = Watch()

    def in_use(self) -> bool:
        """Return True: it costs nothing while no array is watched."""
        return True

    def blind(self) -> str | None:
        """Say that no array was watched, so that nothing could be seen."""
        if self._watch.has_arrays:
            return None
        return "no array was made by opprof.array(), nor in the window with --opprof-numpy=all; others are not seen"

    def begin_test(self) -> None:
        """Forget the arrays that earlier tests watched: what this test records must not depend on them."""
        self._watch.is_over = True
        self._watch = Watch()
        modules.put_back()

    def watch(self, array: ArrayLike) -> WatchedArray:
        """Return a watched view of *array*, or of a new array made of it if it is a list or number.

        Raises UsageError for a subclass of ndarray: its mask or unit would be lost.
        """
        if isinstance(array, np.ndarray) and type(array) not in (np.ndarray, WatchedArray):
            raise UsageError(
                f"opprof.array() watches plain arrays, not {type(array).__name__}: it would lose its meaning"
            )
        with hidden():
            return watched_view(np.asarray(array), self._watch)

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends. Raises BackendError if it records already."""
        if self._watch.log is not None:
            raise BackendError("the numpy backend is recording already; it cannot be nested")
        everything = options.numpy == "all"
        environment = Environment((("numpy", np.__version__ + ("+all" if everything else "")),))
        log = EventLog(environment, chains=options.chains)
        with self._watch.reporting(log, everything, options.moments), modules.replaced(self._watch):
            yield log
        if self._watch.ended:
            log.unseen.extend(self._watch.ended)
            log.remark(_not_seen(self._watch.ended))

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast of watched arrays."""

        def run() -> object:
            array = self.watch(np.ones((8, 8), np.float32))
            return (array @ array).astype(np.float64)

        return KnownWork(run, {"MatMul": 1, "Cast": 1})


def backend() -> NumpyBackend:
    """Return the backend (the entry point calls this)."""
    return NumpyBackend()


def _not_seen(places: Collection[str]) -> str:
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    return f"not seen: what became of watched arrays in {', '.join(list(places)[:SHOWN])}{more}"
