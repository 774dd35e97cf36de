"""The backend for JAX on the CPU, by an in-memory session of XLA's profiler, and the programs that XLA compiled.

XLA's profiler of a GPU needs CUPTI for itself. There the backend of CUDA records JAX's kernels, and this one
compilations alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version

from ....errors import BackendError, LateImport
from ....machine.garbage import uncollected
from ....machine.scratch import scratch
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ....sites.chains import UNKNOWN
from ....sites.stack import here
from ...live.contract import Backend, KnownWork, Options
from ...live.lines import traced
from ...nvidia.live.backend import backend as cuda_backend
from ...nvidia.live.backend import environment_here, jax_is_to_use_gpu
from .fence import FUNCTION, Fence
from .misses import Misses
from .programs import Programs, compiling, is_started
from .traced import Traced

_INSTALL = 'jax is not installed: pip install "pytest-opprof[jax]"'
_FIRST = (0, 7, 2)
_TOO_OLD = (
    "jax {installed} is installed, and opprof records jax 0.7.2 or newer. Run pip install -U jax, or leave jax out of"
    " --opprof-backend"
)
_ON_CPU = "cpu"
_ON_GPU = frozenset(["gpu", "cuda", "rocm"])


class JaxBackend(Backend):
    """Collects the kernels that XLA runs on the CPU, the ops in them, and compilations; of all threads.

    It starts no client of JAX, which would take memory of a GPU. A test may be the first to use JAX.
    """

    name = "jax"
    tells_sites = True
    forgets_compiled = True

    def __init__(self) -> None:
        self._fence: Fence | None = None
        self._programs = Programs()
        self._recording = False
        self._misses = Misses()
        self._traced = Traced()
        self._only_compilations = False
        """Whether the recording is that of a GPU."""

    @property
    def hint(self) -> str:
        """Where JAX is recorded, if it runs elsewhere."""
        elsewhere = is_started() and _platform() != _ON_CPU
        return "JAX is recorded on the CPU (JAX_PLATFORMS=cpu)" if elsewhere else ""

    def unavailable(self) -> str | None:
        """Return an error if JAX is missing or too old, else None."""
        from importlib.util import find_spec

        return self.unsupported() if find_spec("jax") else _INSTALL

    def unsupported(self) -> str | None:
        """Return an error if JAX is too old: 0.7.2 is the first with a known profiler."""
        try:
            installed = version("jax")
        except PackageNotFoundError:  # a checkout, of whatever version
            return None
        numbers = tuple(int(each) for each in re.findall(r"\d+", installed)[:3])
        return _TOO_OLD.format(installed=installed) if numbers < _FIRST else None

    def in_use(self) -> bool:
        """Return True if JAX is imported, and runs on the CPU or on a GPU that the cuda backend records."""
        return "jax._src.xla_bridge" in sys.modules and (not _is_on_gpu() or cuda_backend().in_use())

    def blind(self) -> str | None:
        """Return why the kernels of a GPU are missing, since only the cuda backend records them."""
        return _elsewhere(_platform()) if _is_on_gpu() and is_started() else None

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError if JAX does not run on the CPU, if another session of its profiler runs, or if a program
        that ran was lost.
        """
        import jax
        import jaxlib

        from .events import COMPILE, NAMES, Compiled, add_compiled, fill
        from .recording import LINE, MARK, Recording
        from .session import Session, others_refused

        if self._recording:
            raise BackendError("the jax backend is already recording, and recordings cannot be nested")

        def mark() -> None:
            if log.interval in log.range_marks:  # a step begins and ends after `settle`
                self.settle()
            with jax.profiler.TraceAnnotation(MARK):
                pass

        def comes_to(node: int) -> None:
            with jax.profiler.TraceAnnotation(f"{LINE}{node}"):
                pass

        def made(ns: int, function: str) -> None:
            if function != FUNCTION:
                site = UNKNOWN if log.chains is None else here(log.chains, sys._getframe(1))
                compiled.append(Compiled(log.interval, ns, function, site))

        versions = ("jax", jax.__version__), ("jaxlib", jaxlib.__version__)
        compiled: list[Compiled] = []
        self._misses.listen()
        if _is_on_gpu() and cuda_backend().in_use():
            log = EventLog(environment_here(options), lambda: None, COMPILE.__eq__, options.chains)
            self._only_compilations = True
            try:
                with compiling(made), self._misses_counted(log):
                    yield log
            finally:
                self._only_compilations = False
            if not _is_on_gpu():
                raise LateImport(
                    f"JAX found no GPU that it can use and started on {_platform()} inside the measured window, so its"
                    " ops were missed. Set JAX_PLATFORMS=cpu, or compute something at the top of the test module"
                )
            add_compiled(log, compiled)
            return
        log = EventLog(Environment(versions), mark, NAMES.__contains__, options.chains)
        self._traced.listen()
        self.settle()
        with self._programs.held(made), others_refused(), self._misses_counted(log):
            session = Session()
            self._recording = True
            try:
                with traced(options.chains, log, comes_to) if options.chains else nullcontext():
                    yield log
                self.settle()
                self.settle()
            finally:
                # Also after an exception or Ctrl-C, since a running profiler would slow and break later code.
                self._recording = False
                data = session.stop()
            if self._fence:
                with uncollected():  # a third of the time: 400,000 events of a loop are as many objects
                    recording = Recording.of(data)
                    recording.check(log.interval, self._fence)
                    fill(log, recording, self._programs, self._traced, compiled, options.moments)

    @contextmanager
    def _misses_counted(self, log: EventLog) -> Iterator[None]:
        """Record the functions that JAX traces again until the context ends, in each interval of *log*."""

        def missed(function: str, at: str, why: str) -> None:
            log.compiled_again(f"JAX traced {function} again, in the same test: {why}", at)

        with self._misses.told(missed):
            yield
        log.count_compiled_again()

    def begin_run(self) -> None:
        """Count JAX's traced ops from its import on, because test modules compile while they are imported."""
        self._traced.listen()

    def begin_test(self) -> None:
        """Forget the functions that an earlier test traced."""
        self._misses.forget()
        if self.in_use():
            self._misses.listen()

    def forget_compiled(self) -> None:
        """Clear JAX's caches."""
        import jax

        jax.clear_caches()

    def rank(self) -> tuple[int, int] | None:
        """Return rank and size from jax.distributed, if it is initialised."""
        import jax

        # Before initialisation, process_index() would set devices up, and return 0.
        return (jax.process_index(), jax.process_count()) if jax.distributed.is_initialized() else None

    def device_bytes(self) -> int:
        """Return the bytes of JAX's arrays on GPUs; its CPU client does not report any."""
        if not is_started():
            return 0
        import jax

        jax.block_until_ready(jax.live_arrays())  # a call that is still running holds its operands
        return sum((each.memory_stats() or {}).get("bytes_in_use", 0) for each in jax.local_devices())

    def settle(self) -> None:
        """Wait for all work that this thread called. Raises BackendError if JAX does not run on the CPU."""
        if self._only_compilations or not is_started():
            return
        import jax

        devices = jax.local_devices()
        if (platform := _platform()) != _ON_CPU:
            raise BackendError(_elsewhere(platform))
        if self._fence is None or self._fence.devices != devices:
            self._fence = Fence(devices)
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


_BACKEND = JaxBackend()


def backend() -> JaxBackend:
    """Return the backend (for the entry point). There is one, as there is one profiler."""
    return _BACKEND


def _platform() -> str:
    """Return JAX's default platform: ``cpu``, ``gpu``, ``tpu``."""
    import jax

    return str(jax.default_backend())


def _is_on_gpu() -> bool:
    """Return True if JAX runs on a GPU, or is going to."""
    return _platform() in _ON_GPU if is_started() else jax_is_to_use_gpu()


def _elsewhere(platform: str) -> str:
    where = "; the cuda backend records it" if platform in _ON_GPU else ""
    return f"JAX runs on {platform} here, and the jax backend sees its CPU only{where}"


@contextmanager
def _profiler() -> Iterator[None]:
    """Profile into a folder, as users do."""
    import jax

    with scratch() as folder, jax.profiler.trace(str(folder)):
        yield
