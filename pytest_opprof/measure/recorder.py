"""One test's live measurement: windows that nest, over backends that do not.

One collection runs at a time, from the first open window to the last close; its recording belongs to every open window.
The recorder marks where steps begin and end, so the profiler is restarted only if an inner window closes (its numbers
are needed at once) while an outer one is open.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from threading import get_ident
from time import perf_counter_ns, process_time_ns, thread_time_ns

from ..errors import BackendError, LateImport, NothingMeasured, OpprofError, UsageError
from ..frameworks.live.contract import Backend, Options
from ..frameworks.live.failures import entered, failure, failures_of, noted_on
from ..machine.children import children, counting, ended_cpu_ns, not_seen, were_only_newer_ended
from ..machine.cpu_core import Core, yardstick_ns
from ..machine.garbage import DueCollection
from ..machine.load import waited_ns
from ..profile.environment import Environment
from ..profile.events.assembly import assemble
from ..profile.events.event_log import EventLog
from ..profile.op_profile import ALWAYS, OpProfile, Remark
from ..sites.chains import Chains
from . import user_ops
from .ranges import Ranges, check_name
from .window import LEFT, Window


class Recorder:
    """Opens windows and collects for them. Not thread-safe."""

    def __init__(
        self,
        backends: Sequence[Backend],
        options: Options,
        aliases: Mapping[str, str] | None = None,
        explicit: bool = False,
        clock_ns: Callable[[], int] = perf_counter_ns,
        waited_ns: Callable[[], int | None] = waited_ns,
        cpu_ns: Callable[[], tuple[int, int]] = lambda: (process_time_ns(), thread_time_ns()),
    ) -> None:
        """Collect from *backends*: all of them if *explicit*, else the ones whose framework this process uses.

        Steps are timed by *clock_ns*, and *waited_ns* is the time that this process's threads waited for a CPU;
        *cpu_ns* gives the CPU time of this process and of this thread.
        """
        self._backends = backends
        self._options = options
        self._aliases = aliases
        self._explicit = explicit
        self._clock_ns = clock_ns
        self._waited_ns = waited_ns
        self._cpu_ns = cpu_ns
        self._started: list[Backend] = []
        self._unsettled: list[Backend] = []
        """The backends that have to wait for their device: the others cost a step nothing."""
        self._open: list[Window] = []
        self._active: dict[Window, int] = {}
        self._live: ExitStack | None = None
        self._recording: list[tuple[Backend, EventLog]] = []
        self._intervals: list[dict[Window, int]] = []
        self._marks_ns: list[int] = []
        """The start of each interval but the first, if requested."""
        self._ranges = Ranges()
        self._range_names: set[str] = set()
        self._thread = 0
        self._around: Recorder | None = None
        self._marked_ns = 0
        self._marked_paused_ns = 0
        self._paused_ns = 0
        self._paused_cpu_ns = 0
        """CPU time of starting and stopping backends inside a window around others."""
        self._yardstick_ns = 0
        self.turn: Callable[[], None] | None = None
        """Called before each outermost step, if this process has to wait for its turn."""
        self.memory = options.memory
        """Whether allocations are recorded, as in `Options`."""
        self.chains: Chains | None = None
        """The call chains for source lines; None: not requested."""
        self.records = True
        """Whether ops are recorded, not only times."""
        self.core: Core | None = None
        """The core for whose speed steps wait."""

    @contextmanager
    def open(self, window: Window) -> Iterator[Window]:
        """Collect for *window* until the context ends; `step` encloses its steps.

        Raises BackendError if no backend can record, or one lost the window. If the body raises, the window has no
        profile, and the windows around it continue.
        """
        self._check_no_range_is_open(window, "begins")
        self._open.append(window)
        try:
            if self._live is None:
                self._start()
            before = children()  # a profiler may start some of its own
            with counting() as started:
                yield window
        except BaseException as error:
            window.unfinished = LEFT if isinstance(error, GeneratorExit) else f"ended in {type(error).__name__}"
            if window in self._open:
                self._open.remove(window)
                if not self._open:
                    self.abandon()
            raise
        if window not in self._open:
            return  # abandoned: the test was over before the window
        self._open.remove(window)
        self._stop()
        if self._open:
            self._start()
        after = children()
        cpu_ns = window._cpu_ns
        if were_only_newer_ended(before, after):
            cpu_ns = [(cpu + ended, thread) for (cpu, thread), ended in zip(cpu_ns, window._ended_ns)]
        window._profile = assemble(
            window._parts, window._host_ns, window._wait_ns, window._yardstick_ns, window._ran_ns, cpu_ns
        )
        if said := not_seen(before, after, started()):
            remark = ALWAYS, Remark(said, "processes")
            window._profile = replace(window._profile, remarks=(*window._profile.remarks, remark))
        window.unfinished = ""
        window._parts.clear()

    @contextmanager
    def step(self, window: Window) -> Iterator[None]:
        """Count the code inside as one step of an open *window*. Raises UsageError if a range is not inside it."""
        self._check_no_range_is_open(window, "begins")
        self._settle()  # earlier work is not the step's, and would slow the yardstick
        if not self._active:
            if self.turn:
                self.turn()
            self._yardstick_ns = self.core.yardstick_ns() if self.core else yardstick_ns()
        self._active[window] = len(window._host_ns)
        self._mark()
        began_ns = self._marks_ns[-1:]
        with DueCollection(self._clocks_ns) as due:
            waited, ended = self._waited_ns(), ended_cpu_ns()
            begin = self._clocks_ns()
            try:
                yield
                self._check_no_range_is_open(window, "ends")
                self._settle()
                times_ns, end = self._clocks_ns(), self._clock_ns()
                cpu, thread, host = (
                    max(now - then - took, 0) for now, then, took in zip(times_ns, begin, due.took_ns, strict=True)
                )
                if self.chains is None and not _is_traced():  # which takes CPU time of its own
                    window._cpu_ns.append((cpu, thread))
                    window._ended_ns.append(ended_cpu_ns() - ended)
                window._host_ns.append(host)
                window._ran_ns += [(ns, end) for ns in began_ns]
                if waited is not None:
                    # The waiting time of a thread that ended is lost.
                    window._wait_ns.append(max((self._waited_ns() or 0) - waited, 0))
                window._yardstick_ns.append(self._yardstick_ns)
                by_default = any(backend.memory_by_default for backend in self._started)
                if self.memory or (by_default and self.memory is None):
                    # A garbage cycle is no held memory. Only the young generation: all objects take 60 ms beside
                    # PyTorch, and the young 1.2 ms beside pandas.
                    gc.collect(1)
            except BaseException as error:
                with noted_on(error):
                    self._end_step(window)
                raise
            self._end_step(window)

    def device_bytes(self) -> int:
        """Return the memory of accelerators that the program holds, by all frameworks."""
        found = 0
        for backend in self._backends:
            with failures_of(backend):
                found += backend.device_bytes()
        return found

    def _end_step(self, window: Window) -> None:
        del self._active[window]
        if self._live is not None:
            self._mark()

    def _clocks_ns(self) -> tuple[int, int, int]:
        """Return CPU time of this process and of this thread, and wall time, each without pauses."""
        (cpu, thread), paused = self._cpu_ns(), self._paused_cpu_ns
        return cpu - paused, thread - paused, self._clock_ns() - self._paused()

    def _paused(self) -> int:
        """Return the time, in ns, that the program waited for the measurement."""
        return self._paused_ns + sum(log.paused_ns for _, log in self._recording)

    def _settle(self) -> None:
        for backend in self._unsettled:
            with failures_of(backend):
                backend.settle()

    def enter(self, name: str) -> None:
        """Begin a range of the user, if this is the recorded thread. Raises UsageError for a bad name."""
        __tracebackhide__ = True
        if get_ident() != self._thread:
            return
        if not isinstance(name, str) or name not in self._range_names:
            check_name(name, [log for _, log in self._recording])
            self._range_names.add(name)
        self._mark(of_range=True)
        self._ranges.enter(name, len(self._intervals) - 1)

    def leave(self, name: str) -> None:
        """End the range, if it is open: it may have begun before the window, or in another thread."""
        if get_ident() == self._thread and (found := self._ranges.find(name)) is not None:
            self._mark(of_range=True)
            self._ranges.leave(found, len(self._intervals) - 1)

    def _check_no_range_is_open(self, window: Window, what_it_does: str) -> None:
        __tracebackhide__ = True
        if self._live is not None and (name := self._ranges.innermost):
            raise UsageError(
                f"window {window.name!r} {what_it_does} inside opprof.op({name!r}); put the range inside the window"
            )

    def _mark(self, of_range: bool = False) -> None:
        self._ranges.interval_ends(self._clock_ns() - self._marked_ns - (self._paused() - self._marked_paused_ns))
        if self._options.moments:
            self._marks_ns.append(self._clock_ns())  # before the marks of the logs: everything after these is later
        try:  # costs nothing, and ranges may be many
            for backend, log in self._recording:  # noqa: B007  # the last one is blamed
                log.mark(of_range)
        except Exception as error:
            self._drop()  # some logs are in the next interval, others are not
            if isinstance(error, OpprofError):
                raise
            raise failure(backend, error) from error
        # A range does not change the active windows.
        self._intervals.append(self._intervals[-1] if of_range else dict(self._active))
        self._marked_ns, self._marked_paused_ns = self._clock_ns(), self._paused()

    def _start(self) -> None:
        begin, cpu = self._clock_ns(), self._cpu_ns()[0]
        with ExitStack() as stack:
            self._started = [backend for backend in self._backends if self._explicit or is_in_use(backend)]
            self._unsettled = [backend for backend in self._started if type(backend).settle is not Backend.settle]
            self._recording = []
            options = replace(self._options, memory=self.memory, chains=self.chains)
            for backend in self._started if self.records else ():
                log = stack.enter_context(entered(backend, partial(backend.collect, options)))
                self._recording.append((backend, _checked(backend, log)))
            self._live = stack.pop_all()
        self._intervals, self._marks_ns, self._ranges, self._thread = [{}], [], Ranges(), get_ident()
        self._around, user_ops.recording = user_ops.recording, self
        self._mark()
        self._paused_ns += self._clock_ns() - begin
        self._paused_cpu_ns += self._cpu_ns()[0] - cpu

    def _stop(self) -> None:
        begin, cpu = self._clock_ns(), self._cpu_ns()[0]
        live, self._live = self._live, None
        if live is None:
            raise BackendError(
                "the profiler failed at the start or end of an inner window, and recorded nothing after it"
            )
        user_ops.recording = self._around
        self._ranges.interval_ends(0)  # the last interval is in no window
        live.close()
        self._check_nothing_was_missed()
        for profile in self._profiles():
            for window in {window: None for interval in self._intervals for window in interval}:
                steps = {index: active[window] for index, active in enumerate(self._intervals) if window in active}
                window._parts.append((profile, steps))
        self._paused_ns, self._recording = self._paused() + self._clock_ns() - begin, []
        self._paused_cpu_ns += self._cpu_ns()[0] - cpu

    def _profiles(self) -> list[OpProfile]:
        profiles = []
        for backend, log in self._recording:
            with failures_of(backend):  # its events may be inside of a missing one
                profiles.append(log.freeze(self._aliases, self._marks_ns))
        inside_ops = set[int]().union(*(log.inside_ops for _, log in self._recording))
        ranges = self._ranges.profile(profiles, inside_ops, self._aliases, self._marks_ns)
        if not self.records:  # its times need a profile, with the intervals of the windows' steps
            log = EventLog(Environment(()))
            for _ in self._intervals[1:]:
                log.mark()
            profiles.append(log.freeze())
        return [*profiles, *([ranges] if ranges else [])]

    def abandon(self) -> None:
        """Stop collecting and drop the recording: the test failed, or left a window open."""
        self._open.clear()
        self._drop()

    def _drop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            user_ops.recording, self._ranges = self._around, Ranges()
            live.__exit__(*sys.exc_info())

    def _check_nothing_was_missed(self) -> None:
        late = [backend.name for backend in self._backends if backend not in self._started and is_in_use(backend)]
        if late:
            raise LateImport(
                f"{late[0]} was first imported inside the measured window, so its ops were missed. Import it at the top"
                f" of the test module, or choose it: --opprof-backend={late[0]}"
            )
        blind = [reason for backend in self._started if (reason := _blind(backend))]
        if len(blind) == len(self._started):
            # Reasons of unused backends are left out: nine backends had 700 characters of them.
            why = "; ".join(blind) or "no framework that opprof records is in use; opprof backends lists them"
            raise NothingMeasured(f"nothing can be measured here: {why}")


def _checked(backend: Backend, log: object) -> EventLog:
    """Return the log of *backend*, and blame the backend for later errors of its functions."""
    if not isinstance(log, EventLog):
        what = f"its collect() gave a {type(log).__name__}, not an EventLog"
        raise BackendError(f"backend {backend.name!r} cannot be used: {what}; see docs/backends.md")
    knows = log.knows

    def asked(name: str) -> bool:
        with failures_of(backend):
            return knows(name)

    log.knows = asked
    return log


def is_in_use(backend: Backend) -> bool:
    """Return True if this process uses the framework of *backend*."""
    with failures_of(backend):
        return backend.in_use()


def _is_traced() -> bool:
    """Return True if a debugger or coverage watches each line of the program."""
    if sys.gettrace() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)
    return monitoring is not None and any(map(monitoring.get_tool, _TRACERS))


# The ids of `sys.monitoring` for debuggers and coverage.
_TRACERS = (0, 1)


def _blind(backend: Backend) -> str | None:
    with failures_of(backend):
        return backend.blind()
