"""The backend for NumPy: the ops that a program calls while a window is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ....errors import BackendError
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ...live.contract import Backend, KnownWork, Options
from . import hook, selftest
from .known_work import known_work
from .numba_compilations import NumbaCompilations
from .recording import Recording


class NumpyBackend(Backend):
    """Records the calls of NumPy's functions, and the functions of SciPy."""

    name = "numpy"
    tells_sites = True

    def __init__(self) -> None:
        self._is_recording = False
        self._numba = NumbaCompilations()

    def unavailable(self) -> str | None:
        """Return why calls of NumPy cannot be observed here."""
        return selftest.problem() or None

    def in_use(self) -> bool:
        """Return True if calls can be observed, since opprof itself has imported NumPy."""
        return not selftest.problem()

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends. Raises BackendError if it records already."""
        if self._is_recording:
            raise BackendError("the numpy backend is already recording, and recordings cannot be nested")
        if reason := self.unavailable():
            raise BackendError(f"calls of NumPy cannot be observed: {reason}")
        open_: list[Recording] = []
        environment = Environment((("numpy", np.__version__),))
        log = EventLog(environment, lambda: open_[0].mark() if open_ else None, chains=options.chains)
        recording = Recording(log, options.moments, memory=options.memory is not False)
        open_.append(recording)
        self._is_recording = True
        try:
            with hook.observed(recording), self._numba.counted(log):
                yield log
            recording.fill()
        finally:
            self._is_recording = False
            open_.clear()  # otherwise the log and the recording would keep each other alive
            recording.stop()
        if late := hook.late_modules():
            log.unseen.extend(f"{calls}, first imported in the window" for calls in late)
            log.remark(f"not seen: {', '.join(log.unseen[:3])}{' ...' if len(late) > 3 else ''}")

    def begin_test(self) -> None:
        """Forget the functions that Numba compiled in an earlier test."""
        self._numba.forget()

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast."""
        return known_work()


def backend() -> NumpyBackend:
    """Return the backend (for the entry point)."""
    return NumpyBackend()
