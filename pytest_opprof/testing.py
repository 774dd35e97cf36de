"""Check that a backend keeps the contract of docs/backends.md, in its author's own tests.

    from pytest_opprof.backends import KnownWork
    from pytest_opprof.testing import check_backend

    def test_contract():
        check_backend(MyBackend(), KnownWork(run=lambda: relu(x), ops={"Relu": 1}))

A new promise is a function here and a line in `_PROMISES`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from threading import Thread

from .errors import BackendError, NothingMeasured, UsageError
from .frameworks.live.contract import Backend, KnownWork, Options
from .frameworks.live.failures import entered, failures_of
from .frameworks.live.registry import ensure_available, threads_limited
from .measure.recorder import Recorder
from .measure.window import Window
from .profile.op_profile import OpProfile

__all__ = ["KnownWork", "check_backend", "promises"]
WINDOWS = 200
# The tolerance for the time of ops beyond their step, since clocks differ.
CLOCK = 1.01
# The same for short steps: some profilers round to a microsecond an op.
CLOCK_NS = 20_000


@dataclass(frozen=True, slots=True)
class Promise:
    """The result of one promise: no text if it is kept."""

    name: str
    broken: str = ""
    """How the backend breaks it."""
    left_out: str = ""
    """Why it was not checked."""


def check_backend(backend: Backend, work: KnownWork) -> list[str]:
    """Measure known *work* in all ways that tests do; return the promises left out, and why.

    Raises BackendError for the first promise that *backend* breaks, or if it cannot run here; UsageError for *work*
    without known ops.
    """
    __tracebackhide__ = True
    left_out = []
    for promise in promises(backend, work):
        if promise.broken:
            raise BackendError(
                f"backend {backend.name!r} breaks its contract (docs/backends.md), {promise.name}: {promise.broken}"
            )
        if promise.left_out:
            left_out.append(f"{promise.name}: {promise.left_out}")
    return left_out


def promises(backend: Backend, work: KnownWork) -> Iterator[Promise]:
    """Yield the result of each promise. Raises the errors of `check_backend` if none can be checked."""
    if not work.ops or any(calls < 1 for calls in work.ops.values()):
        raise UsageError(f"KnownWork(ops={dict(work.ops)!r}): name at least one op, and how often one run shows it")
    ensure_available(backend)
    with failures_of(backend):
        backend.begin_test()
    subject = _Subject(backend, work)
    work.run()  # one-time work of a framework is not checked here
    for name, keeps in _PROMISES.items():
        try:
            yield Promise(name, broken=keeps(subject))
        except _LeftOutError as error:
            yield Promise(name, left_out=str(error))
        except Exception as error:  # of a backend, or of the work
            yield Promise(name, broken=f"it raises {type(error).__name__}: {error}")


class _LeftOutError(Exception):
    """The reason why a promise cannot be checked."""


class _MineError(Exception):
    """The exception of a test's body."""


class _Subject:
    """A backend, and how to measure its work."""

    def __init__(self, backend: Backend, work: KnownWork) -> None:
        self.backend = backend
        self.work = work

    def run(self, times: int = 1) -> None:
        """Do the work *times* times, without waiting for it, and drop the results."""
        for _ in range(times):
            self.work.run()

    def recorder(self) -> Recorder:
        """Return a recorder like the plugin's for a chosen backend."""
        return Recorder([self.backend], Options(), explicit=True)

    def measured(self, body: Callable[[], object]) -> OpProfile:
        """Return the profile of a window with this *body*."""
        recorder, window = self.recorder(), Window("check")
        with recorder.open(window), recorder.step(window):
            body()
        return window.profile

    def wrong(self, profile: OpProfile, *runs: int) -> str:
        """Return the error of a profile whose steps did the work *runs* times; empty if there is none."""
        found = {stats.op: stats.calls for stats in profile.ops}
        expected = {op: tuple(calls * each for each in runs) for op, calls in self.work.ops.items() if any(runs)}
        return "" if found == expected else f"expected {_shown(expected)}; found {_shown(found)}"

    def wrong_after(self, runs: int = 1) -> str:
        """Return the error of the next window; empty if there is none."""
        wrong = self.wrong(self.measured(lambda: self.run(runs)), runs)
        return wrong and f"in the next window, {wrong}"


def _shown(calls: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{'+'.join(map(str, each))} {op}" for op, each in sorted(calls.items())) or "nothing"


def _counts(subject: _Subject) -> str:
    return subject.wrong(subject.measured(subject.run), 1)


def _empty_window(subject: _Subject) -> str:
    subject.run()  # before the window: not in it
    try:
        return subject.wrong(subject.measured(lambda: None), 0)
    except NothingMeasured:
        return ""  # it declares itself blind


def _many_windows(subject: _Subject) -> str:
    for number in range(WINDOWS):
        try:
            wrong = subject.wrong(subject.measured(lambda: subject.run(number % 3)), number % 3)  # noqa: B023  # at once
        except NothingMeasured:
            wrong = "" if number % 3 == 0 else "it says that it is blind"
        if wrong:
            return f"window {number + 1} of {WINDOWS}: {wrong}"
    return ""


def _steps(subject: _Subject) -> str:
    recorder, window, runs = subject.recorder(), Window("check"), (1, 3, 0, 2)
    with recorder.open(window):
        for times in runs:
            subject.run()  # between steps: in none
            with recorder.step(window):
                subject.run(times)
    profile = window.profile
    if wrong := subject.wrong(profile, *runs):
        return f"of steps with work between them: {wrong}"
    if profile.environment.device == "cpu" and not subject.work.overlaps:
        for ops_ns, step_ns in zip(profile.total.device_ns or (), profile.host_ns):
            if ops_ns > CLOCK * step_ns + CLOCK_NS:
                return f"ops took {ops_ns:,} ns in a step of {step_ns:,} ns: settle() has to wait until they are done"
    return ""


def _moments(subject: _Subject) -> str:
    window = Window("check")
    recorder = Recorder([subject.backend], Options(moments=True), explicit=True)
    with recorder.open(window), recorder.step(window):
        subject.run()
    profile, moments = window.profile, window.profile.moments
    if wrong := subject.wrong(profile, 1):
        return wrong
    if moments is None:
        raise _LeftOutError("its log does not say when ops ran (EventLog.ran)")
    begin, end = profile.ran_ns[0]
    for start, stop, lane in zip(*(each.tolist() for each in (moments.start_ns, moments.end_ns, moments.lane))):
        # A device may work on after the step; a CPU thread does not once results are waited for.
        is_late = profile.environment.device == "cpu" and stop > end + CLOCK_NS
        if start < begin - CLOCK_NS or stop < start or is_late:
            ran = f"{start - begin:,} to {stop - begin:,} ns after the begin of a step of {end - begin:,} ns"
            return f"something ran {ran}, on {' '.join(moments.lanes[lane][:2])}: does marked_ns have the same clock?"
    return ""


def _dropped_results(subject: _Subject) -> str:
    wrong = subject.wrong(subject.measured(lambda: subject.run(5)), 5)
    gc.collect()
    try:
        return wrong or subject.wrong_after(0)
    except NothingMeasured:
        return ""


def _exception(subject: _Subject) -> str:
    for error in (_MineError("mine"), KeyboardInterrupt("mine")):
        try:
            with subject.backend.collect(Options()) as log:
                log.mark()
                subject.run()
                raise error
        except type(error) as caught:
            if caught is not error:
                raise  # Ctrl-C of the user
        else:
            return f"collect() swallows the {type(error).__name__} of a body"
        if wrong := subject.wrong_after():
            return wrong
    return ""


def _profiler_around(subject: _Subject) -> str:
    with _profiler(subject):
        try:
            wrong = subject.wrong(subject.measured(subject.run), 1)
        except BackendError:
            wrong = ""
    return wrong or subject.wrong_after()


def _profiler_inside(subject: _Subject) -> str:
    def body() -> None:
        with profiler:
            subject.run()

    profiler = _profiler(subject)
    try:
        wrong = subject.wrong(subject.measured(body), 1)
    except BackendError:
        wrong = ""
    return wrong or subject.wrong_after()


def _profiler(subject: _Subject) -> AbstractContextManager[object]:
    if subject.work.profiler is None:
        raise _LeftOutError("the work names no other profiler")
    return subject.work.profiler()


def _window_in_a_thread(subject: _Subject) -> str:
    found: list[str] = []
    _in_threads(lambda: found.append(_counts(subject)))
    return "".join(found)


def _threads_inside(subject: _Subject) -> str:
    if not subject.work.in_threads:
        raise _LeftOutError("the work says that other threads are not recorded")
    body = subject.measured(lambda: _in_threads(*[lambda: subject.run(10)] * 2))
    return subject.wrong(body, 20)


def _in_threads(*bodies: Callable[[], object]) -> None:
    errors: list[Exception] = []

    def run(body: Callable[[], object]) -> None:
        try:
            body()
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=run, args=[body]) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error


def _nested_windows(subject: _Subject) -> str:
    recorder, outer, inner = subject.recorder(), Window("outer"), Window("inner")
    with recorder.open(outer), recorder.step(outer):
        subject.run()
        with recorder.open(inner), recorder.step(inner):
            subject.run(2)
        subject.run()
    for window, runs in ((outer, 4), (inner, 2)):
        if wrong := subject.wrong(window.profile, runs):
            return f"in the {window.name} window, {wrong}"
    return ""


def _two_collections(subject: _Subject) -> str:
    refused = False
    recorder, window = subject.recorder(), Window("check")
    try:
        with recorder.open(window), recorder.step(window):
            try:
                with entered(subject.backend, lambda: subject.backend.collect(Options())) as log:
                    log.mark()
                    subject.run()
            except BackendError:
                refused = True
    except BackendError:
        refused = True
    wrong = "" if refused else subject.wrong(window.profile, 1)
    return wrong or subject.wrong_after()


def _limited_threads(subject: _Subject) -> str:
    with threads_limited([subject.backend], 1):
        return _counts(subject)


def _first_use(subject: _Subject) -> str:
    kind, code = type(subject.backend), subject.work.first_use
    if not code:
        raise _LeftOutError("the work names no first use")
    if kind.__module__ == "__main__" or "<" in kind.__qualname__:
        raise _LeftOutError(f"no other process can import {kind.__module__}.{kind.__qualname__}")
    done = subprocess.run(
        [sys.executable, "-c", "from pytest_opprof.testing import _in_fresh_process; _in_fresh_process()"],
        input=json.dumps([sys.path, kind.__module__, kind.__qualname__, code]),
        capture_output=True,
        text=True,
        check=False,
    )
    *_, last = done.stdout.splitlines() or [""]
    found: list[str] = json.loads(last) if last.startswith("[") else [f"its process ended: {done.stderr[-500:]}"]
    return found[0]


def _in_fresh_process() -> None:
    """Print the error of a framework's first use inside a window."""
    path, module, name, code = json.load(sys.stdin)
    sys.path[:] = path
    backend: Backend = getattr(import_module(module), name)()
    recorder, window = Recorder([backend], Options()), Window("first use")
    try:
        wrong = "in_use() is true before: loading a backend must not import its framework" if backend.in_use() else ""
        with recorder.open(window), recorder.step(window):
            exec(code, {})
    except NothingMeasured:
        wrong = wrong or f"in_use() is still false after {code!r}"
    except BackendError:
        pass  # first imported inside the window: the user gets a warning
    print(json.dumps([wrong]))


_PROMISES: Mapping[str, Callable[[_Subject], str]] = {
    "counts": _counts,
    "empty window": _empty_window,
    "many windows": _many_windows,
    "steps": _steps,
    "moments": _moments,
    "dropped results": _dropped_results,
    "exception in the body": _exception,
    "another profiler around": _profiler_around,
    "another profiler inside": _profiler_inside,
    "window in a thread": _window_in_a_thread,
    "threads inside": _threads_inside,
    "nested windows": _nested_windows,
    "two collections at once": _two_collections,
    "limited threads": _limited_threads,
    "first use inside the window": _first_use,
}
