"""Profile the runs of sessions while a window is open; their results stay the program's own.

The methods that run a session are replaced in two places: in the class that a program calls, to know the session, and
in ONNX Runtime's handle, to run its copy instead. The methods themselves therefore work on the program's session:
checks of inputs and bindings, falling back to another provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from threading import Condition, RLock, get_ident
from time import perf_counter_ns, time_ns
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ....errors import BackendError
from ....profile.events.event_log import EventLog
from ....units import plural
from .asked import Asked, Call
from .copies import described, profiled_copy, same, version
from .files import Files
from .recordings import Recording, recorded

# The methods that run a session, and the position of their RunOptions.
OPTIONS_OF = {"run": 2, "run_async": 4, "run_with_ort_values": 2, "run_with_iobinding": 1, "run_with_ortvaluevector": 0}
# The methods that return their results and do not change their arguments.
_COMPARED = ("run", "run_with_ort_values")
_CALLBACK = 2
# ONNX Runtime's part of a session: onnxruntime.capi._pybind_state.InferenceSession.
Handle = Any
Method = Callable[..., Any]


class Runs:
    """Profiles the runs of all sessions of this process, from `replaced` on. Thread-safe."""

    def __init__(self, log: EventLog, threads: int, compared: WeakKeyDictionary[Handle, object]) -> None:
        """*log* gets the time that this thread waits for copies; ops of these use at most *threads* threads.

        *compared* has the sessions whose copies gave the same results, each with the version of its model.
        """
        self._log = log
        self._thread = get_ident()
        self._threads = threads
        self._compared = compared
        self._lock = RLock()
        self._sessions: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """By the id of their handles."""
        self._copies: WeakKeyDictionary[Handle, dict[bool, Any]] = WeakKeyDictionary()
        """By whether they are for `run_async`, which needs one more thread; None if no copy is possible."""
        self._made: list[tuple[Any, str, Asked | None]] = []
        """All copies with the name of their session and its calls: they outlive their sessions."""
        self._profiled: dict[Handle, str] = {}
        """The names of the sessions that the program profiles itself."""
        self._asked: WeakKeyDictionary[Handle, Asked] = WeakKeyDictionary()
        """The calls of each session, if lines are requested."""
        self._plain: WeakSet[Handle] = WeakSet()
        """The sessions that the program does not profile, or no longer."""
        self._one_run: dict[str, tuple[str, int, Call, Asked | None]] = {}
        """By the number of its file: the session of a run that was profiled alone, its interval, and its call."""
        self._recordings: list[Recording] = []
        self._problems: list[str] = []
        self._running: dict[Call, int] = {}
        """The running calls: the thread that waits for each, 0 for none."""
        self._ends = Condition()
        self._is_over = False
        self._files = Files()

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Profile all runs until the context ends, in all threads."""
        from onnxruntime.capi import _pybind_state
        from onnxruntime.capi.onnxruntime_inference_collection import Session

        originals: list[tuple[Any, str, Method]] = []
        handles = _pybind_state.InferenceSession
        try:
            for owner, name, make in [
                *((Session, name, self._known) for name in OPTIONS_OF),
                *((handles, name, self._routed) for name in OPTIONS_OF),
                (handles, "end_profiling", self._read_at_end),
            ]:
                original = getattr(owner, name)
                originals.append((owner, name, vars(owner)[name]))
                setattr(owner, name, make(name, original))
            yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)

    def settle(self) -> None:
        """Wait for runs that other threads have begun, and for `run_async` with its callbacks."""
        with self._ends:
            self._ends.wait_for(lambda: all(thread == get_ident() for thread in self._running.values()))

    def recordings(self) -> list[Recording]:
        """Return the profiles of all runs. Raises BackendError if a run was not profiled."""
        with self._ends:
            self._is_over = True
        self.settle()
        for copy, model, asked in self._made:
            began = copy.get_profiling_start_time_ns()
            self._recordings.append(recorded(copy.end_profiling(), model, began, asked))
        self._recordings.extend(self._of_one_run())
        for model in self._profiled.values():
            self._problems.append(
                f"{model} was made with enable_profiling, ran in the window, and did not end its profile there. ONNX"
                " Runtime gives it once, when it ends: call session.end_profiling() in the window, after the runs, or"
                " make the session without enable_profiling"
            )
        if self._problems:
            more = f" (and {len(self._problems) - 1} more)" if len(self._problems) > 1 else ""
            raise BackendError(self._problems[0] + more)
        return self._recordings

    def drop(self) -> None:
        """Free the copies, and delete their files."""
        self._copies.clear()
        self._made.clear()
        self._files.delete()

    def _known(self, name: str, original: Method) -> Method:
        """Return a method of sessions that records the session of its handle."""

        @wraps(original)
        def run(session: Any, *args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self._sessions[id(session._sess)] = session
            return original(session, *args, **kwargs)

        return run

    def _routed(self, name: str, original: Method) -> Method:
        """Return a method of handles that runs a copy."""

        def run(handle: Handle, *args: Any, **kwargs: Any) -> Any:
            is_async = name == "run_async"
            method, call = partial(original, **kwargs), Call.begun(self._log.chains, is_async)
            with self._ends:
                if not self._is_over:
                    self._running[call] = 0 if is_async else get_ident()
            if call not in self._running:
                return method(handle, *args)
            if not is_async:
                try:
                    return self._run(name, method, handle, args, call)
                finally:
                    self._end(call)
            try:
                return self._run(name, method, handle, _with_callback(args, lambda: self._end(call)), call)
            except BaseException:
                self._end(call)
                raise

        return run

    def _end(self, call: Call) -> None:
        with self._ends:
            call.end_ns = time_ns()
            self._running.pop(call, None)
            self._ends.notify_all()

    def _run(self, name: str, original: Method, handle: Handle, args: tuple[Any, ...], call: Call) -> Any:
        session = self._sessions.get(id(handle))
        if session is None or session._sess is not handle:
            self._problem(
                "a session was run past its methods (by its `_sess`, or after it fell back to another provider), so"
                " its nodes were not recorded; call the methods of onnxruntime.InferenceSession"
            )
            return original(handle, *args)
        asked = self._asked_of(handle, session)
        if asked:
            asked.calls.append(call)
        if self._profiles_itself(handle, session):
            return original(handle, *args)
        place = OPTIONS_OF[name]
        if args[place : place + 1] in ((), (None,)) and (options := _profiling_options()):
            prefix, number = self._files.new()
            options.profile_file_prefix = prefix
            self._one_run[number] = described(session), self._log.interval, call, asked
            try:
                return original(handle, *args[:place], options, *args[place + 1 :])
            except BaseException:
                del self._one_run[number]  # its file is empty
                raise
        copy = self._copy(handle, session, name == "run_async")
        if copy is None:
            return original(handle, *args)
        if name in _COMPARED and self._compared.get(handle) != version(session):
            return self._first(original, handle, session, copy, args)
        return original(copy._sess, *args)

    def _asked_of(self, handle: Handle, session: Any) -> Asked | None:
        if self._log.chains is None:
            return None
        with self._lock:
            if handle not in self._asked:
                self._asked[handle] = Asked(session)
            return self._asked[handle]

    def _profiles_itself(self, handle: Handle, session: Any) -> bool:
        if handle in self._plain:
            return False
        if handle.session_options.enable_profiling:
            self._profiled[handle] = described(session)
        else:
            self._plain.add(handle)
        return handle in self._profiled

    def _copy(self, handle: Handle, session: Any, is_async: bool) -> Any:
        """Return the copy of a session, made now if there is none; None if that is impossible."""
        with self._lock:
            copies = self._copies.setdefault(handle, {})
            if is_async not in copies:
                threads = max(self._threads, 2) if is_async and self._threads else self._threads
                try:
                    with self._pausing():
                        copies[is_async] = profiled_copy(session, self._files.new()[0], threads)
                    self._made.append((copies[is_async], described(session), self._asked.get(handle)))
                except BackendError as error:
                    copies[is_async] = None
                    self._problem(str(error))
            return copies[is_async]

    def _first(self, original: Method, handle: Handle, session: Any, copy: Any, args: tuple[Any, ...]) -> Any:
        """Run a session and its copy, once in a process, and compare their results. Return the session's."""
        with self._pausing():
            expected = original(handle, *args)
        try:
            found, why = original(copy._sess, *args), "does not give the same results"
        except Exception as error:
            found, why = None, f"fails where the session does not ({error})"
        # A model that draws random numbers differs from itself, too.
        if not same(expected, found) and same(expected, original(handle, *args)):
            threads = f", or with {plural(self._threads, 'thread')} (opprof(threads=0): all)" if self._threads else ""
            self._problem(
                f"a copy of {described(session)}, made of the same model with the same options, {why}, so its nodes may"
                " be others. Was the model replaced, were tensors given with add_external_initializers, optimizers"
                f" disabled{threads}? Then leave the test out: @pytest.mark.opprof(False)"
            )
        else:
            self._compared[handle] = version(session)
        return expected

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Exclude a wait of the program that only opprof causes from the measured time."""
        begin = perf_counter_ns()
        try:
            yield
        finally:
            if get_ident() == self._thread:
                self._log.paused_ns += perf_counter_ns() - begin

    def _of_one_run(self) -> Iterator[Recording]:
        """Yield the profiles of runs that were profiled alone."""
        files = self._files.by_number() if self._one_run else {}
        for number, (model, interval, call, asked) in self._one_run.items():
            found = files.get(number, [])
            if len(found) == 1:
                yield recorded(found[0], model, None, asked)._replace(interval=interval, call=call)
            else:
                self._problem(f"ONNX Runtime wrote {len(found)} profiles of a run of {model}, not one")

    def _read_at_end(self, name: str, original: Method) -> Method:
        """Return `end_profiling` of handles, which also reads the profile of a session that the program profiles."""

        def end_profiling(handle: Handle) -> Any:
            path = original(handle)
            with self._lock:
                model = self._profiled.get(handle)
                if model is not None and path:
                    del self._profiled[handle]
                    self._plain.add(handle)
                    try:
                        began, asked = handle.get_profiling_start_time_ns, self._asked.get(handle)
                        self._recordings.append(recorded(path, model, began, asked))
                    except BackendError as error:
                        self._problem(str(error))
            return path

        return end_profiling

    def _problem(self, text: str) -> None:
        with self._lock:
            if text not in self._problems:
                self._problems.append(text)


def _with_callback(args: tuple[Any, ...], then: Callable[[], None]) -> tuple[Any, ...]:
    """Return the arguments of `run_async` with a callback after which *then* is called."""
    callback = args[_CALLBACK]

    def call(*results: Any) -> None:
        try:
            callback(*results)
        finally:
            then()

    return (*args[:_CALLBACK], call, *args[_CALLBACK + 1 :])


def _profiling_options() -> Any:
    """Return RunOptions that profile one run, if Python has them: in no version up to 1.32.

    C has them from 1.25 on (``RunOptionsEnableProfiling``). Their fields have the names of SessionOptions' fields.
    """
    import onnxruntime

    if not hasattr(onnxruntime.RunOptions, "enable_profiling"):
        return None
    options = onnxruntime.RunOptions()
    options.enable_profiling = True
    return options
