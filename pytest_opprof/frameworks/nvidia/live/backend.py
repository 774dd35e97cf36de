"""The backend for CUDA: the work of this process on NVIDIA GPUs, by CuPy, Numba, Triton or directly, through CUPTI.

There is no wait inside a window, as the GPU times its work itself. There is one before the window, to keep older work
out of it, and one after it, so that all of its work is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ....errors import BackendError
from ....machine.nsight import NSYS
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ...live.contract import Backend, KnownWork, Options

if TYPE_CHECKING:
    from .activity import Work
    from .calls import Calls
    from .cupti import Cupti
    from .cupti_records import Table
    from .driver import Driver

_JAX_PLUGINS = ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13")
# A process that imported one of these is going to use a GPU. JAX imports its plugin with the first array.
_USERS = (
    "cupy",
    "numba.cuda",
    "triton",
    "pycuda.driver",
    "cuda.bindings",
    "cuda.core",
    *_JAX_PLUGINS,
)
_VERSIONS = ("cupy", "jax", "numba", "triton", "pycuda")
# The version of CUPTI, 13.4 Update 1, from which on kernels keep their names when another module replaces theirs.
_KEEPS_NAMES = 130401
_STALE_NAMES = (
    "code was unloaded from the GPU: CUPTI before 13.4 Update 1 may give later kernels wrong names. Use a newer CUPTI"
)


class CudaBackend(Backend):
    """Collects kernels, copies, sets, launches and synchronisations of all GPUs and threads of this process.

    It does not override `settle`: work belongs to the step whose call started it, however late it runs, and the GPU
    times it. `collect` waits once before a window and once after it.
    """

    name = "cuda"
    tells_sites = True

    def __init__(self) -> None:
        self._problem: dict[int, str | None] = {}
        self._fits = False
        self._collecting = False

    def unavailable(self) -> str | None:
        """Return the missing part, or the profiler that uses CUPTI already; None if the backend can run here."""
        return _occupied() or self._device_problem() or self._library_problem()

    def in_use(self) -> bool:
        """Return True if this process imported a user of GPUs, has a GPU, and torch's profiler does not record it."""
        # In this order, so that processes without these modules pay only for the first check.
        uses = any(user in sys.modules for user in _USERS) or _mindspore_is_on_gpu() or jax_is_to_use_gpu()
        return uses and not torch_records() and self._device_problem() is None

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError if `unavailable` has a reason, if the clock cannot be trusted, if a record or a kernel was
        lost, or if another profiler took CUPTI over.
        """
        from . import nvml
        from .events import Span, busy_ns, check_last_call, devices, fill, is_known
        from .memory import Memory
        from .sites import Pushed, sites_of

        driver, cupti = self._start(options)
        marks: list[int] = []
        chains, pushed = options.chains, Pushed(cupti)
        log = EventLog(_environment(driver, [0], options), lambda: marks.append(cupti.timestamp()), is_known, chains)
        memory = Memory(log) if options.memory else None
        driver.synchronize()
        before = nvml.look(driver)
        cupti.enable(pushed=chains is not None)
        self._collecting = True
        try:
            begin = cupti.timestamp()
            with memory.hook() if memory else nullcontext(), pushed.lines(chains, log) if chains else nullcontext():
                yield log
            end = cupti.timestamp()
            contexts = driver.synchronize()
        finally:
            # Also after an exception or Ctrl-C, since recording would slow later code.
            self._collecting = False
            cupti.disable()
        after = nvml.look(driver)
        span, (calls, work, external) = Span(begin, end, marks, waited=end), _recorded(cupti, options)
        sites = sites_of(calls, external) if chains and not pushed.problem else None
        if ignored := driver.ignored_devices():
            log.remark(ignored)
        if cupti.version < _KEEPS_NAMES and (calls.of(_unloads) & span.has(calls.start)).any():
            log.remark(_STALE_NAMES)
        if contexts:
            # Without a context nothing could run, and no wait could be recorded.
            check_last_call(calls, span)
        if options.timing == "async":
            log.busy_ns = busy_ns(calls, work, span)
        log.marked_ns = marks
        if used := devices(
            work, fill(log, calls, work, span, sites=sites, moments=options.moments, graphs_hold=_graphs_hold(cupti))
        ):
            log.environment = _environment(driver, used, options)
            nvml.tell(log, before, after, used)
        if memory:
            memory.finish(calls, span)

    def device_bytes(self) -> int:
        """Return the bytes of CuPy's arrays in its default pool."""
        cupy: Any = sys.modules.get("cupy")
        return int(cupy.get_default_memory_pool().used_bytes()) if hasattr(cupy, "get_default_memory_pool") else 0

    def selfcheck_work(self) -> KnownWork | None:
        """Return a sum and a cast in CuPy, or None without CuPy."""
        if not find_spec("cupy"):
            return None
        cupy: Any = import_module("cupy")
        array = cupy.ones(1024, cupy.float32)
        return KnownWork(lambda: (array + array).astype(cupy.float64), {"Add": 1, "Cast": 1}, first_use="import cupy")

    def _start(self, options: Options) -> tuple[Driver, Cupti]:
        from . import driver as cuda_driver
        from . import libcupti
        from .sync_timing import check_blocking

        if self._collecting:
            raise BackendError("the cuda backend is already recording, and recordings cannot be nested")
        if reason := self.unavailable():
            raise BackendError(
                f"the cuda backend cannot record: {reason}. To run without it: --opprof-backend=numpy,torch"
            )
        if options.timing == "sync":
            check_blocking()
        driver = cuda_driver.opened()
        assert driver is not None  # otherwise it would be unavailable
        return driver, libcupti.opened()

    def _device_problem(self) -> str | None:
        # Asked once a process, as it initialises CUDA, which takes 0.1 s. After a fork the answer may differ.
        process = os.getpid()
        if process not in self._problem:
            from . import driver as cuda_driver

            self._problem[process] = cuda_driver.problem()
        return self._problem[process]

    def _library_problem(self) -> str | None:
        # Repeated until it fits, because reading the list of loaded libraries takes a millisecond.
        if self._fits:
            return None
        from . import driver as cuda_driver
        from . import libcupti

        driver = cuda_driver.opened()
        try:
            library = libcupti.opened()
            major = library.major()
        except BackendError as error:
            return str(error)
        newest, runtime = driver.version() if driver else (0, 0), libcupti.cuda_major(libcupti.mapped())
        if major > newest[0]:
            return (
                f"{library.path} is of CUDA {major}, the driver supports {newest[0]}.{newest[1]}. Install"
                f" nvidia-cuda-cupti-cu{newest[0]}, or a newer driver"
            )
        if runtime not in (None, major):
            return (
                f"{library.path} is of CUDA {major}, this process runs CUDA {runtime}. Install libcupti for"
                f" CUDA {runtime}, or set {libcupti.VARIABLE} to its file"
            )
        self._fits = True
        return None


_BACKEND = CudaBackend()


def backend() -> CudaBackend:
    """Return the backend (for the entry point). There is one, as there is one CUPTI."""
    return _BACKEND


def environment_here(options: Options) -> Environment:
    """Return the environment of a window that used no GPU, or only the first."""
    from . import driver as cuda_driver

    driver = cuda_driver.opened()
    assert driver is not None  # otherwise the backend would not be in use
    return _environment(driver, [0], options)


def jax_is_to_use_gpu() -> bool:
    """Return True if JAX is imported, has no client yet, and is going to make one of a GPU that this process has.

    The first test that computes has to be recorded by this backend, and to ask JAX itself would take the GPU's memory.
    """
    config: Any = getattr(sys.modules.get("jax"), "config", None)  # None while it is being imported
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if config is None or bridge is None or bridge.backends_are_initialized():
        return False
    first = (config.jax_platforms or "cuda").split(",")[0]
    return first in ("cuda", "gpu") and _jax_has_plugin() and _BACKEND._device_problem() is None


@cache
def _jax_has_plugin() -> bool:
    return bool(find_spec("jax_plugins")) and any(find_spec(plugin) for plugin in _JAX_PLUGINS)


def torch_records() -> bool:
    """Return True if torch is imported and its profiler records GPUs here: CUPTI serves one profiler a process.

    This holds for a CUDA build with CUPTI that finds a GPU, from PyTorch 2.10 on: earlier versions do not report the
    bytes of a copy.
    """
    torch: Any = sys.modules.get("torch")
    if getattr(getattr(torch, "version", None), "cuda", None) is None:
        return False
    if not hasattr(getattr(getattr(torch, "autograd", None), "_KinetoEvent", None), "metadata_json"):
        return False
    from . import driver as cuda_driver

    if driver := cuda_driver.opened():
        driver.remember_devices()
    return bool(torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities())


def _occupied() -> str | None:
    if torch_records():
        return (
            "torch with CUDA is imported and its profiler owns CUPTI. The torch backend records the kernels of CuPy and"
            " Numba, too"
        )
    if NSYS in os.environ:
        return "Nsight Systems records this process, and CUPTI serves one profiler. Run pytest --opprof without nsys"
    return None


def _mindspore_is_on_gpu() -> bool:
    context: Any = getattr(sys.modules.get("mindspore"), "get_context", None)  # None while it is being imported
    return context is not None and context("device_target") == "GPU"


def _unloads(function: str) -> bool:
    return function.startswith(("cuModuleUnload", "cuLibraryUnload", "cudaLibraryUnload"))


def _environment(driver: Driver, devices: list[int], options: Options) -> Environment:
    names = [*_VERSIONS, *(["mindspore"] if _mindspore_is_on_gpu() else [])]
    imported = [(name, sys.modules[name]) for name in names if name in sys.modules]
    frameworks = [(name, str(getattr(module, "__version__", ""))) for name, module in imported]
    cuda = ".".join(map(str, driver.version()))
    models = "+".join(sorted({driver.model(device) for device in devices}))
    return Environment(tuple(sorted([("cuda", cuda), *frameworks])), models, timing=options.timing)


def _graphs_hold(cupti: Cupti) -> bool:
    from .links import GRAPHS_FROM

    return cupti.version >= GRAPHS_FROM


def _recorded(cupti: Cupti, options: Options) -> tuple[Calls, Work, Table]:
    from . import activity, sync_timing
    from .calls import calls_of
    from .cupti_records import EXTERNAL

    records: Mapping[int, Table] = cupti.records()
    calls = calls_of(records, cupti.function)
    work = activity.work_of(records, calls, cupti.text, _graphs_hold(cupti))
    if options.timing == "sync":
        work = replace(work, duration_ns=sync_timing.waited_ns(calls, work))
    return calls, work, records[EXTERNAL]
