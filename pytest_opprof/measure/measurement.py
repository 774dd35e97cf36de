"""The measurement of one test: its windows, their rounds, and the threads and the core for timing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ..errors import UsageError
from ..frameworks.live.contract import Backend
from ..frameworks.live.registry import threads_limited
from ..machine.cpu_core import Core
from ..python_calls.counted import PythonCalls
from ..sites.chains import Chains
from ..sites.shown import Shown
from ..verdict.tolerances import LEAST_ROUNDS
from .counting import Counting
from .plan import TestPlan
from .recorder import Recorder, is_in_use
from .sampled import Sampler
from .window import OPEN, Window


class Measurement:
    """The measurement of one test: its recorder and its windows."""

    def __init__(
        self,
        plan: TestPlan,
        backends: list[Backend],
        aliases: Mapping[str, str],
        judges: bool,
        shown: Shown | None = None,
    ) -> None:
        """*judges*: whether this run compares its results; *shown* chooses the lines in `Window.sites`."""
        self.plan = plan
        self.judges = judges
        self.core: Core | None = None
        self.threads = 0
        """The number of threads for an op now; 0: no limit."""
        self.backends = backends
        self.aliases = aliases
        self.shown = shown
        # A run that does not judge fails no test, and writes no trace.
        options = replace(plan.options, moments=plan.options.moments and judges)
        self.recorder = Recorder(backends, options, aliases, explicit=plan.backends is not None)
        if not judges:
            self.recorder.memory = bool(plan.options.memory)
        self.windows: list[Window] = []
        """The opened windows, in order."""
        self.unused: list[Window] = []
        """The windows that the test made and has not entered yet."""
        self.is_over = False
        """Whether the test was judged, so that nobody would judge later windows."""
        self.rounds: list[Window] = []
        """The windows of `Opprof.rounds`: in a marked test the marks limit these."""
        self._unnamed = Counter[str]()
        self.python: dict[str, PythonCalls] = {}
        """By window, the calls of Python functions."""
        self.counting: Counting | None = None
        """Counts them while the body runs once more; nothing is measured meanwhile."""
        self.sampler: Sampler | None = None
        """Of the measured run, if it was sampled."""

    def next_name(self, kind: str = "") -> str:
        """Return the name of the next unnamed window: ``1``, ``2``; ``rounds 1``, ``rounds 2``."""
        self._unnamed[kind] += 1
        return f"{kind} {self._unnamed[kind]}".strip()

    def begin_round(self) -> None:
        """Number the unnamed windows from the start, because the body runs again."""
        self._unnamed.clear()

    @contextmanager
    def threads_for(self, rounds: int) -> Iterator[None]:
        """Limit the threads inside, and wait for the core, if *rounds* are enough for judging."""
        if not self.judges or rounds < LEAST_ROUNDS:
            yield
            return
        threads, core, memory = self.threads, self.recorder.core, self.recorder.memory
        self.recorder.core, self.recorder.memory = self.core, bool(memory)
        try:
            if threads or not self.plan.threads:
                yield
                return
            with threads_limited([*filter(is_in_use, self.backends)], self.plan.threads):
                self.threads = self.plan.threads
                yield
        finally:
            self.threads, self.recorder.core, self.recorder.memory = threads, core, memory

    @contextmanager
    def in_one_thread(self) -> Iterator[None]:
        """Limit everything inside to one thread, and wait for the core.

        Threads that wait for each other take CPU time, too, and so does a shared core.
        """
        before = self.threads, self.recorder.core
        self.threads, self.recorder.core = 1, self.core
        try:
            with threads_limited([*filter(is_in_use, self.backends)], 1):
                yield
        finally:
            self.threads, self.recorder.core = before

    def opened(self, window: Window) -> None:
        """Remember a new window. Raises UsageError if nobody would judge its numbers."""
        __tracebackhide__ = True
        if self.is_over:
            raise UsageError(
                f"window {window.name!r} was opened after the test; open it in the test, where it is judged"
            )
        if any(other.name == window.name and other.unfinished == OPEN for other in self.windows):
            raise UsageError(f"window {window.name!r} is already open; give the inner window another name")
        window.threads, window.shown = self.threads, self.shown
        self.windows.append(window)

    def forget(self, kept: int = 0) -> None:
        """Drop the windows after the first *kept*, which were warm-up."""
        del self.windows[kept:]
        self.rounds = [window for window in self.rounds if window in self.windows]

    @contextmanager
    def with_sites(self) -> Iterator[None]:
        """Record source lines in the context."""
        before, self.recorder.chains = self.recorder.chains, Chains()
        try:
            yield
        finally:
            self.recorder.chains = before

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Measure times alone in the context."""
        before, self.recorder.records = self.recorder.records, False
        try:
            yield
        finally:
            self.recorder.records = before

    @contextmanager
    def repeated(self) -> Iterator[list[Window]]:
        """Set the measurement so far aside; yield the list of windows that are opened until the context ends."""
        kept = self.windows, self.rounds
        self.windows, self.rounds = [], []
        try:
            yield self.windows
        finally:
            self.windows, self.rounds = kept
