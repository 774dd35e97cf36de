"""The backend for MindSpore on a CPU, in graph and PyNative mode, by the profiler in C++ behind MindSpore's own
classes.

Counts are those of kernels that ran, including casts that a CPU kernel needs for itself. The profiler's files lack the
reads and writes of a call. They come from the graphs that MindSpore compiled (`kernel_graphs`) and, in PyNative mode
from 2.10 on, from the ops that it dispatched (`dispatched`, `pairing`).
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from time import time_ns

from ....machine.children import only_python
from ....machine.scratch import scratch
from ....ops.dtypes import item_bytes
from ....ops.names import Kind, meaning
from ....ops.signature import UNKNOWN, Signature
from ....ops.vocabulary import CAST
from ....profile.columns import ABSENT
from ....profile.environment import Environment
from ....profile.events.event_log import EventLog
from ...live.contract import Backend, KnownWork, Options
from ..file_lines import op_type
from .dispatched import Dispatched, dispatched
from .kernel_graphs import KernelGraphs
from .pairing import paired
from .profiler import Call, recorded, wait
from .recompiled import Recompiled

_INSTALL = 'mindspore is not installed: pip install "pytest-opprof[mindspore]", or see https://www.mindspore.cn/install'
_UNKNOWN_CASTS = (
    "the dtypes of some casts are unknown: MindSpore tells those of graphs compiled after the first measured test"
    " began, and of what PyNative mode calls from 2.10 on"
)
_ELSEWHERE = (
    "MindSpore runs on {target}: the mindspore backend records what it runs on the CPU, and the {backend} backend the"
    " kernels, without their dtypes, shapes and lines"
)
_LINES = (
    "MindSpore tells the lines of graphs that it compiled after the first measured test began, and of what PyNative"
    " mode calls from 2.10 on. Compile the graph in the test or in a fixture, not as the module is imported"
)
_KERNELS = {"GPU": "cuda", "Ascend": "ascend"}
_THREADS = (
    "MindSpore's threads cannot be limited in a process that runs: its ops use all {cores} cores. For steadier times"
    " start pytest on one (taskset -c 0), and call mindspore.runtime.launch_blocking() before the first op"
)


class MindSporeBackend(Backend):
    """Collects ops of all threads on the CPU."""

    name = "mindspore"
    tells_sites = True
    sites_hint = _LINES

    def __init__(self) -> None:
        self._graphs = KernelGraphs()
        self._recompiled = Recompiled()
        self._threads: int | None = None
        """The limit of threads for ops; None: no limit."""
        self._said_threads = False

    @property
    def hint(self) -> str:
        """The user's remedy if nothing was recorded."""
        return f"mindspore must {'' if self.in_use() else 'be imported at the top of the module, and '}run on the CPU"

    def unavailable(self) -> str | None:
        """Return an error if MindSpore is missing, else None."""
        from importlib.util import find_spec

        return None if find_spec("mindspore") else _INSTALL

    def in_use(self) -> bool:
        """Return True if MindSpore is imported."""
        return "mindspore" in sys.modules

    def begin_test(self) -> None:
        """Make MindSpore write the graphs that it compiles from now on: in warm-up, and in fixtures of later tests."""
        self._recompiled.forget()
        if self.in_use():
            self._graphs.watch()
            self._recompiled.listen()

    def blind(self) -> str | None:
        """Return an error if MindSpore runs elsewhere than on the CPU."""
        import mindspore

        target = mindspore.get_context("device_target")
        return None if target == "CPU" else _ELSEWHERE.format(target=target, backend=_KERNELS.get(target, "no"))

    def rank(self) -> tuple[int, int] | None:
        """Return rank and size from mindspore.communication, if it is initialised."""
        from mindspore.communication import GlobalComm, get_group_size, get_rank

        return (get_rank(), get_group_size()) if GlobalComm.INITED else None

    def settle(self) -> None:
        """Wait for PyNative mode, which returns before an op is done. Graphs are done when they return."""
        wait()

    @contextmanager
    def threads_limited(self, threads: int) -> Iterator[None]:
        """Remember that times are judged: MindSpore's running threads cannot be limited, which the log then says."""
        before, self._threads = self._threads, threads
        try:
            yield
        finally:
            self._threads = before

    @contextmanager
    def collect(self, options: Options) -> Iterator[EventLog]:
        """Record until the context ends.

        Raises BackendError if another profiler of MindSpore runs, or was started inside and took the session away.
        """
        import mindspore
        import numpy.testing  # noqa: F401  # MindSpore's first graph imports it, and NumPy 1.26 starts lscpu then

        only_python()
        self._graphs.watch()
        marks: list[int] = []

        def mark() -> None:
            wait()  # earlier calls belong to the interval before
            marks.append(time_ns())

        log = EventLog(Environment((("mindspore", mindspore.__version__),)), mark, _is_known, options.chains)
        with recorded() as calls, self._recompiled.told(log.compiled_again) as tells:
            with dispatched(options.chains) as ops:
                yield log
        if tells:
            log.count_compiled_again()
        log.marked_ns = marks
        self._add(calls, ops, marks, log, options.moments)
        if reason := self.blind():
            log.remark(reason)

    def selfcheck_work(self) -> KnownWork:
        """Return a product and a cast, as PyNative mode runs them."""
        import mindspore
        from mindspore import ops, profiler

        matrix = mindspore.Tensor([[1.0] * 8] * 8, mindspore.float32)

        @contextmanager
        def another() -> Iterator[None]:
            with scratch() as folder:
                handler = profiler.tensorboard_trace_handler(str(folder), analyse_flag=False)
                with profiler.profile(activities=[profiler.ProfilerActivity.CPU], on_trace_ready=handler):
                    yield

        def run() -> object:
            return ops.cast(ops.matmul(matrix, matrix), mindspore.float64)

        return KnownWork(run, {"MatMul": 1, "Cast": 1}, another, first_use="import mindspore")

    def _add(
        self,
        calls: Sequence[Call],
        ops: list[Dispatched] | None,
        marks: Sequence[int],
        log: EventLog,
        moments: bool,
    ) -> None:
        compiled = self._graphs.kernels_of(calls)
        eager = paired({index: call for index, call in enumerate(calls) if index not in compiled}, ops or [])
        names: dict[tuple[str, Signature], tuple[int, int]] = {}
        """By type and signature: the number of the name, and the bytes."""
        for index, call in enumerate(calls):
            found = compiled.get(index) or eager.get(index)
            signature = found.signature if found else UNKNOWN
            if signature is UNKNOWN and call.input_shapes is not None:
                signature = Signature(input_shapes=call.input_shapes)
            raw = op_type(call.name)
            if (raw, signature) not in names:
                names[raw, signature] = log.name(raw, signature=signature), _nbytes(raw, signature)
            name, nbytes = names[raw, signature]
            event = log.add(name, call.duration_ns, interval=bisect_right(marks, call.start), nbytes=nbytes)
            if moments:  # MindSpore does not tell the thread
                log.ran(event, call.start, call.start + call.duration_ns, "threads of MindSpore")
            if log.chains and index in compiled:
                log.asked_at(event, log.chains.of_lines(compiled[index].lines))
            elif log.chains and ops and index in eager:
                log.asked_at(event, ops[eager[index].place].site)
        if any(meaning(raw).op == CAST and signature.output_dtypes is None for raw, signature in names):
            log.remark(_UNKNOWN_CASTS)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if calls and self._threads and self._threads < cores and not self._said_threads:
            self._said_threads = True
            log.remark(_THREADS.format(cores=cores))


_BACKEND = MindSporeBackend()


def backend() -> MindSporeBackend:
    """Return the backend (for the entry point). There is one, as there is one profiler."""
    return _BACKEND


def _is_known(name: str) -> bool:
    """Return True if MindSpore has a primitive of this name."""
    from mindspore import ops
    from mindspore.ops import auto_generate

    found = getattr(ops, name, None) or getattr(auto_generate, name, None)
    return isinstance(found, type) and issubclass(found, ops.Primitive)


def _nbytes(raw: str, signature: Signature) -> int:
    """Return the bytes read and written; ABSENT if unknown, and for a view, which may or may not copy."""
    read, written = (signature.input_dtypes, signature.input_shapes), (signature.output_dtypes, signature.output_shapes)
    total = 0
    for dtypes, shapes in (read, written):
        if dtypes is None or shapes is None:
            return ABSENT
        for dtype, shape in zip(dtypes, shapes):
            if (size := item_bytes(dtype)) is None:
                return ABSENT
            total += size * prod(shape)
    return ABSENT if meaning(raw).kind is Kind.VIEW else total
