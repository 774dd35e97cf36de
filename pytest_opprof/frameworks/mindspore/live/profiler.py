"""Drive MindSpore's profiler in C++, one for the process; `ms.Profiler` and `mindspore.profiler.profile` drive it too.

It is driven directly: no settings of these classes are changed, no process is started to analyse, nothing is printed.
Each call of an op is in the files that it writes when it stops (`file_lines`). Starting takes 0.1 ms, stopping 0.2 ms;
MindSpore 2.7 and 2.10.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ....errors import BackendError
from ....ops.signature import Shape
from ..file_lines import launch, starts_and_times
from . import scratch

_CALLS = "cpu_op_execute_timestamp_*.txt"
_LAUNCHES = "cpu_framework_*.txt"
_RUNNING = (
    "a MindSpore profiler is already running in this process, or was not analysed yet; MindSpore has one at a time."
    " Stop and analyse it before this test, or leave the test out of opprof"
)
_TAKEN = (
    "MindSpore's profiler lost this window: another one (ms.Profiler, mindspore.profiler.profile) was started or"
    " stopped inside the test, and MindSpore has one at a time. Remove it, or leave the test out of opprof"
)


class Call(NamedTuple):
    """One call of an op on the CPU."""

    start: int
    """The start in ns since the epoch: the clock of `time.time_ns`."""
    duration_ns: int
    name: str
    """``Default/fc-Dense/Cast-op0``, the name of a node; ``Cast`` on PyNative's short path."""
    input_shapes: tuple[Shape, ...] | None
    """The shapes of the tensor inputs; None if they are missing or dynamic."""


def wait() -> None:
    """Wait for all work of PyNative mode. Raises BackendError if it failed."""
    try:
        from mindspore.graph.api import _pynative_executor  # 2.9 and later
    except ImportError:
        from mindspore.common.api import _pynative_executor
    try:
        _pynative_executor.sync()
    except RuntimeError as error:
        raise BackendError(f"an op of MindSpore failed after it was called: {error}") from error


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Record until the context ends; only then the list has the calls, in the order in which they began.

    Raises BackendError if another profiler of MindSpore runs, or took this one over.
    """
    import mindspore

    if _is_running():
        raise BackendError(_RUNNING)
    try:
        kind = mindspore._c_expression.Profiler
        profiler, begin, end = kind.get_instance("CPU"), kind.init, kind.stop
    except (AttributeError, RuntimeError) as error:
        raise BackendError(f"MindSpore {mindspore.__version__} has no profiler as 2.7 to 2.10 do: {error}") from error
    calls: list[Call] = []
    folder = scratch.folder("calls")
    wait()  # otherwise queued ops would be recorded, too
    try:
        with _watched(kind, "init", "stop") as others, _ctrl_c_kept():
            begin(profiler, str(folder))
            profiler.step_profiling_enable(True)
            profiler.enable_op_time()
            try:
                yield calls
                wait()
            finally:
                if not others:  # otherwise this would end the profiler that took over
                    end(profiler)
        if others:
            raise BackendError(_TAKEN)
        calls += _read(folder)
    finally:
        for path in folder.iterdir():  # a window without ops would leave the last window's files
            path.unlink()


@contextmanager
def _ctrl_c_kept() -> Iterator[None]:
    """Keep Python's handler of Ctrl-C: MindSpore's first ops replace it in C, by one that sends SIGTERM.

    They do so from a thread, some time after the op was called, so inside the context SIGTERM acts like Ctrl-C.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handler)
    ends = callable(handler) and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ends:
        signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if ends:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _is_running() -> bool:
    module = sys.modules.get("mindspore.profiler.profiler_interface")
    return bool(getattr(getattr(module, "ProfilerInterface", None), "is_initialized", False))


@contextmanager
def _watched(kind: Any, *methods: str) -> Iterator[list[str]]:
    """Yield a list of the *methods* of the class that other code has called."""
    called: list[str] = []
    originals = {name: getattr(kind, name) for name in methods}

    def watched(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            called.append(name)
            return originals[name](*arguments, **keywords)

        return call

    for name in methods:
        setattr(kind, name, watched(name))
    try:
        yield called
    finally:
        for name, original in originals.items():
            setattr(kind, name, original)


def _read(folder: Path) -> list[Call]:
    """Return the calls in the files; MindSpore writes none if nothing ran."""
    calls: list[Call] = []
    for line in _lines(folder, _CALLS):
        name, _, rest = line.split(b";", 2)
        calls += [Call(*call, name.decode(), None) for call in zip(*starts_and_times(rest.split()))]
    return _with_shapes(sorted(calls), map(launch, _lines(folder, _LAUNCHES)))


def _lines(folder: Path, pattern: str) -> list[bytes]:
    return b"".join(path.read_bytes() for path in folder.glob(pattern)).splitlines()


def _with_shapes(calls: list[Call], launches: Iterable[tuple[bytes, tuple[Shape, ...]]]) -> list[Call]:
    """Return *calls* with the input shapes of their launches; calls and launches of one name are in the same order."""
    shapes: defaultdict[str, list[tuple[Shape, ...] | None]] = defaultdict(list)
    for name, inputs in launches:
        is_dynamic = any(size < 0 for shape in inputs for size in shape)
        shapes[name.decode()].append(None if is_dynamic else inputs)
    names = [call.name.rpartition("/")[2] for call in calls]
    told = {name: iter(shapes[name]) for name, times in Counter(names).items() if times == len(shapes[name])}
    return [call._replace(input_shapes=next(told[name])) if name in told else call for call, name in zip(calls, names)]
