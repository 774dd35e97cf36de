"""The backend for ONNX Runtime, by its own profiler: the nodes that its sessions run, optimised for their provider.

A session is profiled only if it was made for that, and its profile can be read only once. A session that a window runs
is therefore run by a copy, made at its first use and dropped with the window (`copies`, `runs`). If RunOptions can
profile a run, they do instead. docs/onnxruntime.md explains the counts and the costs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import time_ns
from typing import Any
from weakref import WeakKeyDictionary

from ....errors import BackendError
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ...live.contract import Backend, KnownWork, Options
from ..events import ASYNCHRONOUS, INSERTED_CAST, device
from .runs import Runs

# A package that runs sessions of its own, in C++.
_UNSEEN = "onnxruntime_genai"
_INSTALL = 'onnxruntime is not installed: pip install "pytest-opprof[onnx]"'


class OnnxRuntimeBackend(Backend):
    """Collects the nodes of all sessions that are run through `onnxruntime.InferenceSession`, in all threads."""

    name = "onnxruntime"
    tells_sites = True

    def __init__(self) -> None:
        self._runs: Runs | None = None
        self._threads = 0
        self._compared: WeakKeyDictionary[Any, object] = WeakKeyDictionary()

    def unavailable(self) -> str | None:
        """Return an error if onnxruntime is missing, else None."""
        from importlib.util import find_spec

        return None if find_spec("onnxruntime") else _INSTALL

    def in_use(self) -> bool:
        """Return True if onnxruntime is imported."""
        return "onnxruntime" in sys.modules

    def blind(self) -> str | None:
        """Return an error if an imported package runs sessions in C++, else None."""
        return f"what {_UNSEEN} runs is not seen by opprof" if _UNSEEN in sys.modules else None

    def settle(self) -> None:
        """Wait for runs of other threads, and for those of `run_async`."""
        if self._runs:
            self._runs.settle()

    @contextmanager
    def threads_limited(self, threads: int) -> Iterator[None]:
        """Limit copies made in the context to this many threads."""
        before, self._threads = self._threads, threads
        try:
            yield
        finally:
            self._threads = before

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError if it records already, or if the nodes of a run could not be recorded.
        """
        import onnxruntime

        from .recordings import fill

        if self._runs is not None:
            raise BackendError("the onnxruntime backend is already recording, and recordings cannot be nested")
        marks: list[int] = []
        log = EventLog(
            Environment((("onnxruntime", onnxruntime.__version__.split("+")[0]),)),
            on_mark=lambda: marks.append(time_ns()),
            knows=_is_registered,
            chains=options.chains,
        )
        log.knows_flops = True
        runs = self._runs = Runs(log, self._threads, self._compared)
        try:
            with runs.replaced():
                yield log
            recordings = runs.recordings()
        finally:
            self._runs = None
            runs.drop()
        providers = fill(log, recordings, marks, options.moments)
        launching = providers & ASYNCHRONOUS
        timing = options.timing if launching else ""
        log.environment = replace(log.environment, device=device(providers), timing=timing)
        if launching:
            log.remark(f"nodes of {', '.join(sorted(launching))} are counted; they launch kernels, and have no times")

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast on the CPU."""
        from .known_work import known_work

        return known_work()


_BACKEND = OnnxRuntimeBackend()


def backend() -> OnnxRuntimeBackend:
    """Return the backend (for the entry point). There is one, as its methods are replaced once."""
    return _BACKEND


def _is_registered(name: str) -> bool:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return name == INSERTED_CAST or name in {schema.name for schema in state.get_all_operator_schema()}
