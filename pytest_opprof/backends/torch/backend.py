"""PyTorch: the public torch.profiler.

On the CPU it is read through its event tree; where there is a GPU, CUDA's activities are recorded too, and `cuda`
makes events of them.

One profiler session a stretch of windows (starting one costs 0.3 ms, the first 0.8 s; a mark 15 us), recorded with
dtypes, without which a cast cannot be told from a copy. The tree is read as it comes (2 us an event), not through
`prof.events()` or `key_averages()` (40 to 100 us). Measured with PyTorch 2.13; facts that only hold for it are in
the functions below.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

from ...errors import BackendError
from ...ops.pytorch_events import KINDS, Role, logged, role
from ...profile.columns import ABSENT
from ...profile.environment import Environment
from ...profile.event_log import EventLog
from ..contract import Backend, KnownWork, Options

if TYPE_CHECKING:
    from ..cuda.nvml import Look

_MARK = "opprof::mark"
_COPIES = frozenset(["aten::copy_", "aten::copy", "aten::_copy_from"])
_NO_KERNELS = (
    "torch uses a GPU that its profiler does not record here (ROCm, a build without CUPTI, a version before 2.13): its"
    " ops are counted as the host calls them and timed on the host; kernels, copies and waits (MemcpyHtoD, Synchronize,"
    " launches) are not recorded"
)
_LOST = (
    "the torch profiler lost this window: another torch.profiler (or autograd.profiler) ran inside the test,"
    " and PyTorch has one session at a time, or a window was opened inside an op (an autograd hook or Function)"
    ". Remove it, or leave the test out of opprof"
)
_SPARE = 8
"""Kernels of ours at the head of a session beyond those it is known to lose: for sessions of the program's own."""
_INSTALL = "torch is not installed; see https://pytorch.org/get-started/locally"


class TorchBackend(Backend):
    """Collects aten ops, autograd's and torch.compile's kernels of the thread that opened the window.

    It has nothing to settle. On a CPU an op returns when it is done. What a GPU does is timed by the GPU and belongs to
    the step that asked for it, however late it runs; a wait in each step would end the overlap of steps that a program
    has. One wait before the window and one after it are enough for that.
    """

    name = "torch"
    hint = "torch must be imported at the top of the module"

    def __init__(self) -> None:
        self._sessions = 0
        """How many of this process recorded a GPU."""

    def unavailable(self) -> str | None:
        """Say that torch is missing, or return None."""
        from importlib.util import find_spec

        return None if find_spec("torch") else _INSTALL

    def in_use(self) -> bool:
        """Tell whether something imported torch."""
        return "torch" in sys.modules

    @contextmanager
    def threads_limited(self, threads: int) -> Iterator[None]:
        """Let ops use so many threads; PyTorch has a number of its own for the thread that runs backward passes."""
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

        Raises BackendError when another profiler runs in this thread, when one that was started inside took the
        session away, and when a kernel was launched and not recorded.
        """
        import torch
        from torch.autograd import _profiler_enabled
        from torch.profiler import record_function

        if _profiler_enabled():
            raise BackendError(
                "a torch profiler is already running in this thread; PyTorch has one at a time."
                " Stop it before this test, or leave the test out of opprof"
            )

        def mark() -> None:
            with record_function(_MARK):
                pass

        on_gpu = _records_gpu()
        log = EventLog(_environment(), on_mark=mark, knows=_is_known_on_gpu if on_gpu else _is_registered)
        session = _session(options, on_gpu)
        if on_gpu:
            _wait()
        looks = [_look()] if on_gpu else []
        session.start()
        contexts = 0
        try:
            if on_gpu:
                self._spare_the_head()
                mark()
            yield log
            if on_gpu:
                mark()
                contexts = _wait()
                looks.append(_look())
        finally:
            if not contexts and session.profiler:
                # It would wait for the GPU, and set one up for that where nobody has.
                session.profiler.use_device = None
            # Also after an exception or Ctrl-C: a profiler left on would slow and break what follows.
            session.stop()
        results = session.profiler.kineto_results if session.profiler else None
        session.profiler = None  # breaks the session's reference cycle, which keeps 2 KB an event until the next gc
        if on_gpu:
            _read_gpu(results.events() if results else [], log, options, contexts, looks)
            return
        if torch.cuda.is_initialized():
            log.remark(_NO_KERNELS)
        _read(results, log, options)

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast on the CPU."""
        import torch
        from torch.profiler import profile

        matrix = torch.ones(8, 8)
        ops = {"MatMul": 1, "Cast": 1}
        return KnownWork(
            lambda: (matrix @ matrix).to(torch.float64), ops, profile, in_threads=False, first_use="import torch"
        )

    def _spare_the_head(self) -> None:
        """Let a session lose kernels of ours: of n after idle time each lost its first n.

        https://github.com/pytorch/pytorch/issues/192021. Raises BackendError when the GPU has failed.
        """
        import torch

        if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
            if self._sessions:
                _launch(self._sessions + _SPARE)
                _wait()
            self._sessions += 1


_BACKEND = TorchBackend()


def backend() -> TorchBackend:
    """Return the backend (the entry point calls this): one, as the profiler is."""
    return _BACKEND


def _environment() -> Environment:
    import torch

    return Environment((("torch", torch.__version__.split("+")[0]),))


def _is_registered(name: str) -> bool:
    import torch

    namespace, _, op = name.partition("::")
    return bool(op) and hasattr(getattr(torch.ops, namespace), op)


def _is_known_on_gpu(name: str) -> bool:
    from ..cuda import events as cuda_events

    return cuda_events.is_known(name) or _is_registered(name)


def _records_gpu() -> bool:
    """Tell whether PyTorch is built for CUDA, says enough of events, and finds a GPU; a build for CPUs is not asked."""
    import torch
    from torch.profiler import ProfilerActivity, supported_activities

    says_enough = hasattr(torch.autograd._KinetoEvent, "metadata_json")
    return torch.version.cuda is not None and says_enough and ProfilerActivity.CUDA in supported_activities()


def _session(options: Options, on_gpu: bool) -> Any:
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile

    # Kineto reads it when its first session starts: without it each prints two lines to stderr (6 is the only value
    # that silences 2.13).
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    return profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])],
        record_shapes=True,
        with_flops=options.flops,
        profile_memory=options.memory,
        # How many bytes a memcpy had stands there alone.
        experimental_config=_ExperimentalConfig(expose_kineto_event_metadata=True) if on_gpu else None,
    )


def _launch(kernels: int, device: str = "cuda") -> None:
    import torch

    try:
        scratch = torch.empty(1, device=device)
        for _ in range(kernels):
            scratch.fill_(0)  # zero_ would be no kernel
    except RuntimeError as error:
        raise BackendError(f"the GPU reports an error: {error}") from None


def _wait() -> int:
    """Wait until the GPUs are done; return how many contexts there were to wait for.

    Raises BackendError when a kernel failed, or when they are not done in time.
    """
    import torch

    from ..cuda import driver as cuda_driver

    driver = cuda_driver.opened()
    if driver and not driver.problem():
        return driver.synchronize()  # of all GPUs, without setting one up, with a limit
    if not torch.cuda.is_initialized():
        return 0
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        raise BackendError(f"the GPU reports an error: {error}") from None
    return 1


def _look() -> dict[int, Look]:
    from ..cuda import driver as cuda_driver
    from ..cuda import nvml

    return nvml.look(cuda_driver.opened())


def _read_gpu(
    events: Iterable[Any], log: EventLog, options: Options, contexts: int, looks: Sequence[Mapping[int, Look]]
) -> None:
    import torch

    from ..cuda import nvml
    from . import cuda

    session = cuda.recorded(events, options.flops)
    marks = sorted(op.start for op in session.ops if op.name == _MARK)
    if len(marks) != log.interval + 2:
        raise BackendError(_LOST)
    begin, *marks, end = marks
    if contexts:
        cuda.check_waited(session, end)
    used = cuda.fill(log, session.between(begin, end), marks, options.timing == "sync")
    if used:
        models = "+".join(sorted({torch.cuda.get_device_name(device) for device in used}))
        frameworks = (("cuda", str(torch.version.cuda)), *log.environment.frameworks)
        log.environment = Environment(frameworks, models, timing=options.timing)
        before, after = looks
        nvml.tell(log, before, after, used)
    log.knows_flops, log.knows_memory = options.flops, options.memory


def _read(results: Any, log: EventLog, options: Options) -> None:
    tree = results.experimental_event_tree() if results else []
    reader = _Reader(log, options)
    reader.find_marks(tree)
    if log.range_marks and len(reader.marks) != log.interval:
        reader.find_marks_inside_ops(tree)
    if len(reader.marks) != log.interval:
        raise BackendError(_LOST)
    reader.walk(tree)
    if options.flops and results:
        flops = {event.correlation_id(): event.flops() for event in results.events()}
        for correlation, event in reader.correlations.items():
            if flops.get(correlation):
                log.computed(event, flops[correlation])
    log.knows_flops, log.knows_memory = options.flops, options.memory


class _Reader:
    """Walks Kineto's event tree into an EventLog: the ops, and what stands around them (`pytorch_events.Role`)."""

    def __init__(self, log: EventLog, options: Options) -> None:
        from torch._C._profiler import RecordScope, _EventType

        self.log = log
        self.options = options
        self.marks: list[int] = []
        self.cuts_ops = False
        """Whether marks lie inside ops, so that the ops inside an op may be in other intervals."""
        self.correlations: dict[int, int] = {}
        self._user_scope = RecordScope.USER_SCOPE
        self._allocation = _EventType.Allocation
        self._roles: dict[str, Role] = {_MARK: Role.ANNOTATION}

    def find_marks(self, tree: list[Any]) -> None:
        """Collect the start times of our marks, which may lie inside annotations."""
        for event in tree:
            if event.name == _MARK:
                self.marks.append(event.start_time_ns)
            elif self._role(event) is Role.ANNOTATION:
                self.find_marks(event.children)
        self.marks.sort()

    def find_marks_inside_ops(self, tree: list[Any]) -> None:
        """Collect the marks in autograd's functions and hooks as well: a range may begin and end there, a step not."""
        outside, everywhere, stack = set(self.marks), list[int](), list(tree)
        while stack:
            event = stack.pop()
            if event.name == _MARK:
                everywhere.append(event.start_time_ns)
            stack.extend(event.children)
        everywhere.sort()
        inside = {interval for interval, start in enumerate(everywhere, start=1) if start not in outside}
        if inside <= self.log.range_marks:
            self.marks, self.log.inside_ops, self.cuts_ops = everywhere, inside, True

    def walk(self, tree: list[Any]) -> None:
        """Append every op to the log, each before those inside it, in order of time."""
        log, with_flops, with_memory = self.log, self.options.flops, self.options.memory
        names: dict[str, int] = {}
        stack = [(event, -1, 0) for event in reversed(tree)]
        while stack:
            event, parent, interval = stack.pop()
            if parent < 0 or self.cuts_ops:
                interval = bisect_right(self.marks, event.start_time_ns)
            if with_memory and event.tag == self._allocation:
                log.allocated(event.extra_fields.alloc_size, interval)
                continue
            raw = event.name
            # Only names that need no second look are in here.
            name = names.get(raw)
            if name is not None:
                index = log.add(name, event.duration_time_ns, parent, interval)
            elif raw in _COPIES:
                index = self._add_copy(event, parent, interval)
            else:
                what = self._role(event)
                if what in (Role.COMPILES, Role.FRAME):
                    self._compile(event, parent, interval)
                    continue
                if what is Role.ANNOTATION:
                    index = parent
                else:
                    names[raw] = log.name(raw, kind=KINDS.get(what))
                    index = log.add(names[raw], event.duration_time_ns, parent, interval)
            if with_flops and index != parent:
                self.correlations[event.correlation_id] = index
            children = event.children
            if children:
                stack.extend([(child, index, interval) for child in reversed(children)])

    def _add_copy(self, event: Any, parent: int, interval: int) -> int:
        tensors = [tensor for tensor in event.extra_fields.inputs[:2] if hasattr(tensor, "dtype")]
        dtypes = tuple(str(tensor.dtype).removeprefix("torch.") for tensor in reversed(tensors))
        nbytes = sum(prod(tensor.sizes) * tensor.dtype.itemsize for tensor in tensors) if len(tensors) == 2 else ABSENT
        return self.log.add(self.log.name(event.name, dtypes), event.duration_time_ns, parent, interval, nbytes)

    def _compile(self, compiling: Any, parent: int, interval: int) -> None:
        """Add the frames that were compiled, and take the time from the op around."""
        if parent >= 0:
            self.log.compiling(parent, compiling.duration_time_ns)
        stack = [compiling]
        while stack:
            event = stack.pop()
            if self._role(event) is Role.FRAME:
                self.log.add(self.log.name(event.name), ABSENT, parent, interval)
            else:
                stack.extend(event.children)

    def _role(self, event: Any) -> Role:
        found = self._roles.get(event.name)
        if found is None:
            # What is no op of torch's at all (a call of Python, an allocation) has neither.
            scope = getattr(event.extra_fields, "scope", None)
            numbered = getattr(event.extra_fields, "sequence_number", -1) >= 0
            is_logged = event.name in logged(child.name for child in event.children[:1])
            found = self._roles[event.name] = role(event.name, scope == self._user_scope, numbered, is_logged)
        return found
