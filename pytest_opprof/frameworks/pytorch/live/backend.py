"""The backend for PyTorch, by the session inside the public torch.profiler.

On a CPU it reads the event tree (`event_tree`). With a GPU, the activities of CUDA are recorded as well and all events
are read one by one (`cuda`).

One session of the profiler runs from the first open window to the last close: starting one takes 0.3 ms. It is a
`torch.autograd.profiler.profile`, since `torch.profiler.profile` imports torch._inductor when it first starts, 2.5 s of
CPU time, only to read a setting of CUDA graphs. It records dtypes, without which a cast looks like a copy. Reading the
tree directly takes 2 us an event, 5 if the tensors of an op are needed; `prof.events()` and `key_averages()` take 40 to
100 us. Measured with PyTorch 2.13.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from itertools import pairwise
from time import monotonic
from typing import TYPE_CHECKING, Any

from ....errors import BackendError
from ....machine.garbage import uncollected
from ....machine.other_threads import OtherThreads
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ....units import plural
from ...live.contract import Backend, KnownWork, Options
from ...live.lines import traced
from . import allocations as list_of_allocations
from .event_tree import TreeReader
from .marks import LOST, check_all, mark
from .older import Older
from .recompiled import failed as failed_guards
from .recompiled import reasons as recompiled
from .sites import marker

if TYPE_CHECKING:
    from ...nvidia.live.nvml import Look

_NO_KERNELS = (
    "torch uses a GPU that its profiler does not record here (ROCm, a build without CUPTI, a version before 2.10): its"
    " ops are counted as the host calls them and timed on the host; kernels, copies and waits (MemcpyHtoD, Synchronize,"
    " launches) are not recorded. Where CuPy, Numba or the like is imported too, the cuda backend counts the kernels of"
    " torch as well, as ops beside those of torch"
)
_BESIDE_NPU = (
    "torch uses an NPU: the torch backend counts its ops as the host calls them, with the host's times, and the ascend"
    " backend counts the kernels beside them. For the kernels alone: --opprof-backend=ascend,numpy"
)
# Extra kernels to launch beyond the known loss of a session, since the program may have had sessions of its own.
_SPARE = 8
# The most kernels to launch before a window: 5 ms. Losing more than these is an error.
_MOST_SPARED = 1000
# The versions of CUPTI that lose kernels: 12.6 (from Update 2 on) to 13.0.
_LOSES_FROM, _LOSES_UNTIL = 24, 130100
# The idle time after which they do. Reported after 15 s; on an H200 (CUPTI 13.0 Update 1) 60 sessions lost none after 0
# to 20 s. So consecutive windows need no spare kernels, which cost 20 ms a window after 500 of them.
_IDLE_S = 1.0
_UNKNOWN_SIZE = b"Memory block of unknown size was allocated before the profiling started"
ON_META = "{} ran on fake or meta tensors: nothing was computed, so their times and the window's memory are unknown"
OTHER_THREADS = "this window ran other Python threads; opprof does not see PyTorch ops in them"
# PyTorch's error for a program that starts a profiler while opprof lists allocations.
_TAKEN = "Profiler is already enabled on this thread"
_INSTALL = "torch is not installed; see https://pytorch.org/get-started/locally"


class TorchBackend(Backend):
    """Collects ops of aten, autograd and torch.compile, in all threads if this PyTorch can (`_sees_all_threads`).

    It does not override `settle`. On a CPU an op returns when it is done. Work of a GPU is timed by the GPU and belongs
    to the step that launched it, however late it runs. A wait in each step would prevent the overlap of steps, so there
    is one wait before the window and one after it.
    """

    name = "torch"
    memory_by_default = True
    tells_sites = True

    def __init__(self) -> None:
        self._sessions = 0
        """How many sessions of this process were to record a GPU, whether CUDA was initialised or not."""
        self._ended_at = 0.0
        """When the last of them ended."""
        self._has_freed = False
        """Whether `_free_unheard` was called in this process."""

    @property
    def hint(self) -> str:
        """The user's remedy if nothing was recorded."""
        return "" if self.in_use() else "torch must be imported at the top of the module"

    def unavailable(self) -> str | None:
        """Return an error if torch is missing, else None."""
        from importlib.util import find_spec

        return None if find_spec("torch") else _INSTALL

    def in_use(self) -> bool:
        """Return True if torch is imported."""
        return "torch" in sys.modules

    @contextmanager
    def threads_limited(self, threads: int) -> Iterator[None]:
        """Limit ops to this many threads. PyTorch has a separate limit in the thread that runs backward passes."""
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError if another profiler runs in this thread, if one started inside took the session away, or if
        a kernel was launched but not recorded.
        """
        import torch
        from torch.autograd import _profiler_enabled

        if _profiler_enabled():
            raise BackendError(
                "a torch profiler is already running in this thread; PyTorch has one at a time."
                " Stop it before this test, or leave the test out of opprof"
            )

        on_gpu = _records_gpu()
        asked_for_memory = options.memory
        if options.memory is None:
            options = replace(options, memory=not on_gpu)
        knows = _is_known_on_gpu if on_gpu else _is_registered
        number = getattr(torch.autograd, "_get_sequence_nr", None)
        numbers: list[int] = []
        """The number of autograd's next node in this thread, at each mark and at the end."""

        older_memory = Older() if options.held and options.memory and not on_gpu else None
        replaced: list[tuple[int, int]] = []
        """Of each interval the bytes of older memory that it freed."""

        def on_mark() -> None:
            if older_memory is not None and (size := older_memory.freed()):
                replaced.append((log.interval - 1, size))
            if number is not None:
                numbers.append(number())
            mark()

        log = EventLog(_environment(), on_mark=on_mark, knows=knows, chains=options.chains)
        allocations: list[list[Any]] = []
        all_threads = _records_all_threads(options, on_gpu)
        lists_allocations = bool(options.memory) and all_threads
        session = _session(options, on_gpu, all_threads)
        if on_gpu:
            _wait()
        looks = [_look()] if on_gpu else []
        older = [torch.empty(1)] if options.memory and not self._has_freed else []
        session.__enter__()
        contexts = 0
        threads, guards = OtherThreads(), failed_guards()
        try:
            if lists_allocations:
                list_of_allocations.start()
            if older:
                self._has_freed = True
                _free_unheard(older)
            if on_gpu:
                self._spare_the_head()
                mark()
            lines = nullcontext() if options.chains is None else traced(options.chains, log, marker())
            with nullcontext() if all_threads else threads.noticed(), lines:
                try:
                    yield log
                except RuntimeError as error:
                    if _TAKEN in str(error):
                        raise BackendError(LOST) from None  # becomes a note on the error of the program
                    raise
            if number is not None:
                numbers.append(number())
            if on_gpu:
                mark()
                contexts = _wait()
                looks.append(_look())
        finally:
            if lists_allocations:
                allocations = list_of_allocations.stop()
            if not contexts:
                # Otherwise it would wait for the GPU, and initialise CUDA if the program has not.
                session.use_device = None
            # Also after an exception or Ctrl-C, since a running profiler would slow and break later code.
            _stop(session)
            self._ended_at = monotonic()
        if numbers:
            nodes = {mark: after - before for mark, (before, after) in enumerate(pairwise(numbers), start=1)}
            log.counts["grad_nodes"] = nodes
        results = session.kineto_results
        if threads.started or threads.worked:
            log.remark(OTHER_THREADS)
        for why in recompiled(guards):
            log.remark(why, about="compilations")
        if on_gpu:
            from ...nvidia.live import driver as cuda_driver
            from . import cuda  # only here: it imports the backend of CUDA

            made = (numbers[0], numbers[-1]) if numbers else (0, 0)
            with uncollected():
                cuda.read(results.events() if results else [], log, options, contexts, looks, made)
            if (driver := cuda_driver.opened()) and (ignored := driver.ignored_devices()):
                log.remark(ignored)
            return
        if torch.cuda.is_initialized():
            log.remark(_NO_KERNELS)
        if "torch_npu" in sys.modules and torch.npu.is_initialized():
            log.remark(_BESIDE_NPU)
        with uncollected():  # of the many objects for events none refers to another
            _read(results, log, options, numbers, allocations)
        for interval, size in replaced:  # after the allocations of the interval: this changes no peak
            log.allocated(-size, interval)
        if log.communication_ns is not None and not asked_for_memory:
            log.forget_sizes()

    def device_bytes(self) -> int:
        """Return the bytes of tensors on GPUs and NPUs; 0 if the program has an allocator of its own there."""
        torch: Any = sys.modules.get("torch")
        devices = [getattr(torch, name, None) for name in ("cuda", "npu")]
        started = [each for each in devices if each is not None and each.is_initialized()]
        found = 0
        for device in started:
            with suppress(RuntimeError):  # of a CUDAPluggableAllocator, which has no statistics
                found += sum(device.memory_allocated(number) for number in range(device.device_count()))
        return found

    def rank(self) -> tuple[int, int] | None:
        """Return rank and size from torch.distributed, if it is initialised."""
        import torch.distributed as distributed

        if not distributed.is_available() or not distributed.is_initialized():
            return None
        return distributed.get_rank(), distributed.get_world_size()

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast on the CPU."""
        import torch
        from torch.profiler import profile

        matrix = torch.ones(8, 8)
        ops = {"MatMul": 1, "Cast": 1}
        return KnownWork(
            lambda: (matrix @ matrix).to(torch.float64),
            ops,
            profile,
            in_threads=_sees_all_threads(),
            first_use="import torch",
        )

    def _spare_the_head(self) -> None:
        """Launch kernels for the session to lose: after idle time it loses as many as there were sessions before it.

        https://github.com/pytorch/pytorch/issues/192021. Raises BackendError if the GPU has failed.
        """
        import torch

        before, self._sessions = self._sessions, self._sessions + 1
        may_launch = torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing()
        if monotonic() - self._ended_at >= _IDLE_S and may_launch and _loses_kernels():
            _launch(min(before + _SPARE, _MOST_SPARED))
            _wait()


_BACKEND = TorchBackend()


def backend() -> TorchBackend:
    """Return the backend (for the entry point). There is one, as PyTorch has one profiler."""
    return _BACKEND


def _environment() -> Environment:
    import torch

    return Environment((("torch", torch.__version__.split("+")[0]),))


def _is_registered(name: str) -> bool:
    import torch

    namespace, _, op = name.partition("::")
    return bool(op) and hasattr(getattr(torch.ops, namespace), op)


def _is_known_on_gpu(name: str) -> bool:
    from ...nvidia.live import events as cuda_events

    return cuda_events.is_known(name) or _is_registered(name)


def _records_gpu() -> bool:
    from ...nvidia.live.backend import torch_records

    return torch_records()


@cache
def _loses_kernels() -> bool:
    """Return True if sessions may lose their first kernels; also for an unknown CUPTI inside PyTorch."""
    from ...nvidia.live import libcupti

    version = libcupti.loaded_version()
    return version is None or _LOSES_FROM <= version < _LOSES_UNTIL


@cache
def _sees_all_threads() -> bool:
    """Return True if the profiler of this PyTorch can record threads that it was not passed to."""
    from torch._C._profiler import _ExperimentalConfig

    return "profile_all_threads" in (_ExperimentalConfig.__init__.__doc__ or "")


def _records_all_threads(options: Options, on_gpu: bool) -> bool:
    # A session of all threads receives no allocations.
    may_have_memory = not options.memory or (not on_gpu and list_of_allocations.can_be_listed())
    return _sees_all_threads() and may_have_memory


def _session(options: Options, on_gpu: bool, all_threads: bool = False) -> Any:
    from torch._C._profiler import _ExperimentalConfig
    from torch.autograd.profiler import profile

    wanted: dict[str, Any] = {"profile_all_threads": True} if all_threads else {}
    if on_gpu:
        wanted["expose_kineto_event_metadata"] = True  # the only source of a memcpy's bytes

    # Kineto reads this when its first session starts. Without it each session prints two lines to stderr; 6 is the only
    # value that stops it in 2.13.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    return profile(
        use_device="cuda" if on_gpu else None,
        record_shapes=True,
        profile_memory=bool(options.memory),
        use_kineto=True,
        experimental_config=_ExperimentalConfig(**wanted) if wanted else None,
    )


def _free_unheard(blocks: list[Any]) -> None:
    """Free *blocks* of memory that are older than the session, and suppress PyTorch's remarks on them.

    PyTorch prints to stderr that their size is unknown, once for each thousand in a process. This changes no result,
    and would appear in the output of an unrelated test. C++ writes it, so the file descriptor has to be replaced.
    """
    try:
        with tempfile.TemporaryFile() as written:
            stderr = os.dup(2)
            try:
                os.dup2(written.fileno(), 2)
                blocks.clear()
            finally:
                os.dup2(stderr, 2)
                os.close(stderr)
            written.seek(0)
            # Other threads may have written meanwhile.
            for line in written:
                if _UNKNOWN_SIZE not in line:
                    os.write(2, line)
    except OSError:
        return  # without stderr, or without room for a file, the remark is printed


def _stop(session: Any) -> None:
    """Stop the session. Raises BackendError if another profiler has ended it."""
    try:
        session.__exit__(None, None, None)
    except RuntimeError as error:
        if "it's not running" not in str(error):
            raise
        # Only up to PyTorch 2.11; later versions lose the marks instead.
        raise BackendError(LOST) from None


def _launch(kernels: int, device: str = "cuda") -> None:
    import torch

    try:
        scratch = torch.empty(1, device=device)
        for _ in range(kernels):
            scratch.fill_(0)  # zero_ would launch no kernel
    except RuntimeError as error:
        raise BackendError(f"the GPU reports an error: {error}") from None


def _wait() -> int:
    """Wait until the GPUs are done; return the number of contexts.

    Raises BackendError if a kernel failed, or if the GPUs do not finish in time.
    """
    import torch

    from ...nvidia.live import driver as cuda_driver

    driver = cuda_driver.opened()
    if driver and driver.is_initialised():
        return driver.synchronize()  # waits for all GPUs, initialises none, and gives up after some time
    if not torch.cuda.is_initialized():
        return 0
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise BackendError(f"the GPU reports an error: {error}") from None
    return 1


def _look() -> dict[int, Look]:
    from ...nvidia.live import driver as cuda_driver
    from ...nvidia.live import nvml

    return nvml.look(cuda_driver.opened())


def _read(
    results: Any,
    log: EventLog,
    options: Options,
    numbers: Sequence[int] = (),
    allocations: Sequence[Sequence[Any]] = (),
) -> None:
    tree = results.experimental_event_tree() if results else []
    reader = TreeReader(log, options, results.events if results else tuple)
    if numbers:
        reader.grad_numbers = numbers[0], numbers[-1]
    reader.find_marks(tree)
    if log.range_marks and len(reader.marks) != log.interval:
        reader.find_marks_inside_ops(tree)
    check_all(len(reader.marks), log.interval)
    log.marked_ns = reader.marks
    reader.walk(tree)
    log.knows_flops, log.knows_memory = True, bool(options.memory)
    if reader.on_meta:
        log.knows_memory = False
        log.computed_nothing(reader.on_meta)
        log.disturbed.append("ops ran on fake or meta tensors")
        log.remark(ON_META.format(plural(len(reader.on_meta), "op")))
    if allocations:
        list_of_allocations.read(allocations, log, reader.is_left_out)
