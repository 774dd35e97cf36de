"""What one test measures: its windows, the rounds they have, and the threads and the core they are timed on."""

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
from .window import OPEN, Window


class Measurement:
    """What one test measures: its recorder and its windows."""

    def __init__(
        self,
        plan: TestPlan,
        backends: list[Backend],
        aliases: Mapping[str, str],
        judges: bool,
        shown: Shown | None = None,
    ) -> None:
        """*judges*: whether this run compares what it measures; *shown* chooses the lines that `Window.sites` gives."""
        self.plan = plan
        self.judges = judges
        self.core: Core | None = None
        self.threads = 0
        """How many an op may use now; 0: as many as it likes."""
        self.backends = backends
        self.aliases = aliases
        self.shown = shown
        # What no run judges does not fail for what it spends, and has no trace.
        options = replace(plan.options, moments=plan.options.moments and judges)
        self.recorder = Recorder(backends, options, aliases, explicit=plan.backends is not None)
        if not judges:
            self.recorder.memory = bool(plan.options.memory)
        self.windows: list[Window] = []
        """Those that were opened, in order."""
        self.is_over = False
        """Whether the test was judged: what is opened later would be by nobody."""
        self.rounds: list[Window] = []
        """The windows that `Opprof.rounds` made: in a marked test they are what the marks limit."""
        self._unnamed = Counter[str]()
        self.python: dict[str, PythonCalls] = {}
        """By window, the calls of Python functions."""
        self.counting: Counting | None = None
        """What counts them while the body runs once more; then nothing is measured."""

    def next_name(self, kind: str = "") -> str:
        """Return the name of the next unnamed window: ``1``, ``2``; ``rounds 1``, ``rounds 2``."""
        self._unnamed[kind] += 1
        return f"{kind} {self._unnamed[kind]}".strip()

    def begin_round(self) -> None:
        """Number the unnamed windows from the start: the body runs again."""
        self._unnamed.clear()

    @contextmanager
    def threads_for(self, rounds: int) -> Iterator[None]:
        """Limit the threads of what runs inside, and let it wait for its core, if so many *rounds* are to be judged."""
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
        """Limit all that runs inside to one thread: threads that wait for each other take CPU time, too."""
        before, self.threads = self.threads, 1
        try:
            with threads_limited([*filter(is_in_use, self.backends)], 1):
                yield
        finally:
            self.threads = before

    def opened(self, window: Window) -> None:
        """Remember a window that is being opened. Raises UsageError where its numbers would be nobody's."""
        __tracebackhide__ = True
        if self.is_over:
            raise UsageError(f"window {window.name!r} was opened after the test, where nothing is judged any more")
        if any(other.name == window.name and other.unfinished == OPEN for other in self.windows):
            raise UsageError(f"window {window.name!r} is open already; give the one inside another name")
        window.threads, window.shown = self.threads, self.shown
        self.windows.append(window)

    def forget(self, kept: int = 0) -> None:
        """Drop the windows but for the first *kept*: they were warm-up."""
        del self.windows[kept:]
        self.rounds = [window for window in self.rounds if window in self.windows]

    @contextmanager
    def with_sites(self) -> Iterator[None]:
        """Record in the context which lines ask for ops."""
        before, self.recorder.chains = self.recorder.chains, Chains()
        try:
            yield
        finally:
            self.recorder.chains = before

    @contextmanager
    def repeated(self) -> Iterator[list[Window]]:
        """Keep what was measured so far; yield where the windows are that are opened until the context ends."""
        kept = self.windows, self.rounds
        self.windows, self.rounds = [], []
        try:
            yield self.windows
        finally:
            self.windows, self.rounds = kept
