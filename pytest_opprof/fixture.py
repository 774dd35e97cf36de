"""The ``opprof`` fixture: windows inside a test, measured with or without ``--opprof``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from .backends import Backend, load_all, threads_limited
from .conditions import Core
from .errors import BackendError, UsageError
from .judge import LEAST_ROUNDS
from .own import op
from .processes.this_run import CORE
from .recorder import LEFT, OPEN, Recorder, Window
from .reports import BODY
from .settings import Plan, Settings, default_warmup

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .backends.numpy_arrays import WatchedArray

SETTINGS = pytest.StashKey[Settings]()
BACKENDS = pytest.StashKey[dict[tuple[str, ...] | None, list[Backend]]]()
MEASUREMENT = pytest.StashKey["Measurement"]()
TURN = pytest.StashKey[Callable[[], None]]()
"""Where two versions take turns: what waits for this one's turn to run a round."""
SESSION = "opprof-session"
"""The name under which the plugin that judges is registered."""


class Measurement:
    """What one test measures: its recorder and its windows."""

    def __init__(self, plan: Plan, backends: list[Backend], aliases: Mapping[str, str], judges: bool) -> None:
        """*judges*: whether this run compares what it measures."""
        self.plan = plan
        self.judges = judges
        self.core: Core | None = None
        self.threads = 0
        """How many an op may use now; 0: as many as it likes."""
        self.backends = backends
        self.aliases = aliases
        self.recorder = Recorder(backends, plan.options, aliases, explicit=plan.backends is not None)
        self.windows: list[Window] = []
        """Those that were opened, in order."""
        self.is_over = False
        """Whether the test was judged: what is opened later would be by nobody."""
        self.rounds: list[Window] = []
        """The windows that `Opprof.rounds` made: in a marked test they are what the marks limit."""
        self._unnamed = Counter[str]()

    @classmethod
    def of(cls, item: pytest.Item) -> Measurement:
        """Return the measurement of *item*, made at the first call. Raises UsageError and BackendError."""
        if MEASUREMENT not in item.stash:
            settings = settings_of(item.config)
            plan = Plan.of(item, settings)
            cache = item.config.stash.setdefault(BACKENDS, {})
            if plan.backends not in cache:
                cache[plan.backends] = load_all(plan.backends)
            for backend in cache[plan.backends]:
                if begin_test := getattr(backend, "begin_test", None):
                    begin_test()
            judges = item.config.pluginmanager.hasplugin(SESSION)
            measurement = item.stash[MEASUREMENT] = cls(plan, cache[plan.backends], settings.aliases, judges)
            measurement.recorder.turn = item.config.stash.get(TURN, None)
            measurement.core = item.config.stash.get(CORE, None)
        return item.stash[MEASUREMENT]

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
        threads, core = self.threads, self.recorder.core
        self.recorder.core = self.core
        try:
            if threads or not self.plan.threads:
                yield
                return
            with threads_limited([backend for backend in self.backends if backend.in_use()], self.plan.threads):
                self.threads = self.plan.threads
                yield
        finally:
            self.threads, self.recorder.core = threads, core

    def opened(self, window: Window) -> None:
        """Remember a window that is being opened. Raises UsageError where its numbers would be nobody's."""
        __tracebackhide__ = True
        if self.is_over:
            raise UsageError(f"window {window.name!r} was opened after the test, where nothing is judged any more")
        if any(other.name == window.name and other.unfinished == OPEN for other in self.windows):
            raise UsageError(f"window {window.name!r} is open already; give the one inside another name")
        window.threads = self.threads
        self.windows.append(window)

    def forget(self, kept: int = 0) -> None:
        """Drop the windows but for the first *kept*: they were warm-up."""
        del self.windows[kept:]
        self.rounds = [window for window in self.rounds if window in self.windows]


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of *config*, read at the first call."""
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = Settings.of(config)
    return config.stash[SETTINGS]


class Opprof:
    """Measures parts of a test.

    with opprof("prefill") as prefill: ...     a window; numbers when it closed
    for _ in opprof.rounds(20, warmup=3): ...  a window with a step per iteration
    opprof.array(x)                            a NumPy array whose ops are seen
    with opprof.op("my_attention"): ...        code that counts as one op
    """

    op = op

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement

    @contextmanager
    def __call__(self, name: str | None = None) -> Iterator[Window]:
        """Measure what runs inside as the window *name*; one that is entered again is another step of it."""
        __tracebackhide__ = True
        window = Window(_checked(name) or self._measurement.next_name(), self._measurement.aliases)
        recorder = self._measurement.recorder
        self._measurement.opened(window)
        try:
            with recorder.open(window), recorder.step(window):
                yield window
        except BackendError as error:
            raise type(error)(str(error)) from None  # ends the traceback at the user's line

    def rounds(self, rounds: int = 30, warmup: int | None = None, name: str | None = None) -> Rounds:
        """Return an iterable that runs a loop body *warmup* + *rounds* times and measures the latter, a step each.

        What runs before the first measured round must not change what the others do: the body has to be repeatable.
        """
        __tracebackhide__ = True
        given = {"rounds": (rounds, 1), "warmup": (0 if warmup is None else warmup, 0)}
        for what, (value, least) in given.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"opprof.rounds({what}={value!r}): write an int of {least} or more")
        warmup = default_warmup(rounds) if warmup is None else warmup
        return Rounds(self._measurement, _checked(name) or self._measurement.next_name("rounds"), rounds, warmup)

    def array(self, array: ArrayLike) -> WatchedArray:
        """Return a view of *array* whose NumPy ops are recorded, as are those on what comes of it.

        Raises UsageError where the numpy backend was left out, or *array* is a subclass of ndarray.
        """
        __tracebackhide__ = True
        for backend in self._measurement.backends:
            if backend.name == "numpy":
                return backend.watch(array)  # type: ignore[attr-defined, no-any-return]  # only this backend has it
        chosen = ", ".join(backend.name for backend in self._measurement.backends)
        raise UsageError(f"opprof.array() needs the numpy backend; this test runs with {chosen}")


def _checked(name: str | None) -> str | None:
    __tracebackhide__ = True
    if name == BODY:
        raise UsageError(f"a window cannot be called {BODY!r}: that is the whole body of a marked test")
    if name and name.isdecimal():
        raise UsageError(f"a window cannot be called {name!r}: windows without a name are numbered")
    return name


class Rounds(Window):
    """A window with a step per iteration. Iterate over it once, to the end; then ask for its numbers."""

    def __init__(self, measurement: Measurement, name: str, rounds: int, warmup: int) -> None:
        super().__init__(name, measurement.aliases)
        self._measurement = measurement
        self._rounds = rounds
        self._warmup = warmup
        self._iterated = False

    def __iter__(self) -> Iterator[int]:
        """Yield the number of each round: negative ones are warm-up. Raises UsageError the second time."""
        __tracebackhide__ = True
        if self._iterated:
            raise UsageError("these rounds were run already; write opprof.rounds(...) again for more")
        self._iterated = True
        with self._measurement.threads_for(self._rounds):
            yield from self._run()

    def _run(self) -> Iterator[int]:
        __tracebackhide__ = True
        self._measurement.opened(self)
        self._measurement.rounds.append(self)
        opened = len(self._measurement.windows)
        self.unfinished = LEFT
        yield from range(-self._warmup, 0)
        self._measurement.forget(opened)
        recorder = self._measurement.recorder
        with recorder.open(self):
            for number in range(self._rounds):
                with recorder.step(self):
                    yield number
