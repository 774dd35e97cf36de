"""JAX on the CPU, by a session of XLA's profiler that is kept in memory, and the programs that XLA compiled.

XLA's profiler of a GPU needs CUPTI for itself. There the backend of CUDA records JAX, and this one is not in use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from ...errors import BackendError
from ...profile.environment import Environment
from ...profile.event_log import EventLog
from ..contract import Backend, KnownWork, Options
from .fence import Fence
from .programs import Programs

_INSTALL = "jax is not installed: pip install jax"
_ON_CPU = "cpu"
_ON_GPU = frozenset(["gpu", "cuda", "rocm"])


class JaxBackend(Backend):
    """Collects the kernels that XLA runs on the CPU, the ops in them, and what it compiles; of all threads."""

    name = "jax"
    hint = "JAX must have made an array or run something before the test: import what does at the top of the module"

    def __init__(self) -> None:
        self._fence: Fence | None = None
        self._programs = Programs(None)
        self._recording = False

    def unavailable(self) -> str | None:
        """Say that JAX is missing, or return None."""
        from importlib.util import find_spec

        return None if find_spec("jax") else _INSTALL

    def in_use(self) -> bool:
        """Tell whether JAX has made arrays in this process, and not on a GPU: importing it starts nothing."""
        bridge: Any = sys.modules.get("jax._src.xla_bridge")
        return bridge is not None and bridge.backends_are_initialized() and _platform() not in _ON_GPU

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError where JAX does not run on the CPU, where another session of its profiler runs, and where a
        program was lost that ran.
        """
        import jax
        import jaxlib

        from . import session
        from .events import COMPILE, KERNEL, PROGRAM, fill
        from .recording import MARK, Recording

        if self._recording:
            raise BackendError("the jax backend is recording already; it cannot be nested")
        if (platform := _platform()) != _ON_CPU:
            where = "; the cuda backend records it" if platform in _ON_GPU else ""
            raise BackendError(f"JAX runs on {platform} here, and the jax backend sees its CPU only{where}")
        fence = self._ready()

        def mark() -> None:
            if log.interval in log.range_marks:  # a step begins and ends after `settle`
                fence.wait()
            with jax.profiler.TraceAnnotation(MARK):
                pass

        versions = ("jax", jax.__version__), ("jaxlib", jaxlib.__version__)
        log = EventLog(Environment(versions), mark, lambda name: name in (COMPILE, KERNEL, PROGRAM))
        compiled: list[tuple[int, int]] = []
        fence.wait()
        with self._programs.held(lambda ns: compiled.append((log.interval, ns))), session.others_refused():
            live = session.Session()
            self._recording = True
            try:
                yield log
                fence.wait()
                fence.wait()
            finally:
                # Also after an exception or Ctrl-C: a running profiler would slow and break what follows.
                self._recording = False
                data = live.stop()
            recording = Recording.of(data)
            recording.check(log.interval, fence)
            fill(log, recording, self._programs, compiled)

    def settle(self) -> None:
        """Wait until all is done that this thread called."""
        if self._fence:
            self._fence.wait()

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast: two programs of one kernel each."""
        import jax

        matrix = jax.numpy.ones((8, 8))
        return KnownWork(
            lambda: (matrix @ matrix).astype("bfloat16"),
            {"MatMul": 1, "Cast": 1, "jax::program": 2, "jax::kernel": 2},
            _profiler,
            first_use="import jax; jax.numpy.zeros(1)",
        )

    def _ready(self) -> Fence:
        """Return the fence of the devices that JAX has now. Raises BackendError where compiling is not seen."""
        import jax

        devices = jax.local_devices()
        client = devices[0].client
        if self._fence is None or self._programs.client is not client:
            self._programs = Programs(client)
            seen: list[int] = []
            with self._programs.held(seen.append):
                self._fence = Fence(devices)
            if len(seen) < self._fence.calls:
                from .recording import KNOWN

                self._fence = None
                raise BackendError(f"jax {jax.__version__} does not tell what it compiles as {KNOWN} do")
        return self._fence


_BACKEND = JaxBackend()


def backend() -> JaxBackend:
    """Return the backend (the entry point calls this). There is one, as there is one profiler."""
    return _BACKEND


def _platform() -> str:
    """Return where JAX runs what names no device: ``cpu``, ``gpu``, ``tpu``."""
    import jax

    return str(jax.default_backend())


@contextmanager
def _profiler() -> Iterator[None]:
    """Profile as users do: into a folder."""
    import jax

    with TemporaryDirectory() as folder, jax.profiler.trace(folder):
        yield
