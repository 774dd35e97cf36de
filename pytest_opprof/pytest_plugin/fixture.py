"""The ``opprof`` fixture: windows inside a test, measured with or without ``--opprof``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ..errors import BackendError, UsageError
from ..frameworks.live.contract import Backend
from ..frameworks.live.failures import failures_of
from ..frameworks.live.registry import load_all
from ..machine.atomic_write import write_atomically
from ..measure.counting import Counting
from ..measure.measurement import Measurement
from ..measure.user_ops import op
from ..measure.window import LEFT, Window
from ..processes.request import request_of
from ..processes.this_run import CORE
from ..profile.saved import SavedProfile
from ..results.window_result import BODY
from ..sites.chains import Chains
from ..sites.shown import Shown
from .options import default_warmup, settings_of
from .test_run import TestRun

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

BACKENDS = pytest.StashKey[dict[tuple[str, ...] | None, list[Backend]]]()
# Waits for this version's turn to run a round, if two versions take turns.
TURN = pytest.StashKey[Callable[[], None]]()
# The plugin name of the hooks that measure and judge.
MEASURING = "opprof-measuring"


def compiling(test: TestRun) -> list[Backend]:
    """Return the backends in use of which *test* may compile functions again, and that can forget these."""
    return [each for each in _backends_of(test) if each.forgets_compiled and each.in_use()]


def _backends_of(test: TestRun) -> list[Backend]:
    cache, named = test.item.config.stash.setdefault(BACKENDS, {}), test.plan.backends
    if named not in cache:
        cache[named] = load_all(named)
    return cache[named]


def measurement_of(test: TestRun) -> Measurement:
    """Return the measurement of *test*, made at the first call. Raises UsageError and BackendError."""
    if test.measurement is None:
        config, plan = test.item.config, test.plan
        settings, backends = settings_of(config), _backends_of(test)
        for backend in backends:
            with failures_of(backend):
                backend.begin_test()
        if request_of(config).anew:
            for backend in compiling(test):
                backend.forget_compiled()
        judges = config.pluginmanager.hasplugin(MEASURING)
        shown = Shown(config.rootpath, settings.sites_show, settings.sites_hide)
        shown.test = test.file
        test.measurement = Measurement(plan, backends, settings.aliases, judges, shown)
        # A rank's tests are not re-run in another process, and their times are not judged, so the one run records
        # source lines.
        on_ranks = not settings.rank.is_alone and not plan.budget.limits_time
        if settings.sites or on_ranks or request_of(config).sites:
            test.measurement.recorder.chains = Chains()
        test.measurement.recorder.records = test.has_fixture or not request_of(config).unrecorded
        test.measurement.recorder.turn = config.stash.get(TURN, None)
        test.measurement.core = config.stash.get(CORE, None)
    return test.measurement


class Opprof:
    """Measures parts of a test.

    with opprof("prefill") as prefill: ...     a window; numbers when it closed
    for _ in opprof.rounds(20, warmup=3): ...  a window with a step per iteration
    with opprof.op("my_attention"): ...        code that counts as one op
    opprof.save(prefill, "prefill.json")       a profile that opprof show, check, diff and convert read
    """

    op = op

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement

    def __call__(self, name: str | None = None) -> AbstractContextManager[Window]:
        """Return a context that measures its block as the window *name*."""
        __tracebackhide__ = True
        window = Window(_checked(name) or self._measurement.next_name(), self._measurement.aliases)
        self._measurement.unused.append(window)
        return self._measured(window)

    @contextmanager
    def _measured(self, window: Window) -> Iterator[Window]:
        __tracebackhide__ = True
        self._measurement.unused.remove(window)
        if self._measurement.counting is not None:
            with self._measurement.counting.window(window.name) as measured:
                yield measured or window
            return
        recorder = self._measurement.recorder
        self._measurement.opened(window)
        try:
            with recorder.open(window), recorder.step(window):
                yield window
        except BackendError as error:
            raise type(error)(str(error)) from None  # ends the traceback at the user's line

    def rounds(self, rounds: int = 30, warmup: int | None = None, name: str | None = None) -> Rounds:
        """Return an iterable that runs a loop body *warmup* + *rounds* times and measures the rounds, one step each.

        The body has to be repeatable: warm-up rounds must not change the work of later ones.
        """
        __tracebackhide__ = True
        given = {"rounds": (rounds, 1), "warmup": (0 if warmup is None else warmup, 0)}
        for what, (value, least) in given.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"opprof.rounds({what}={value!r}): write an int of {least} or more")
        warmup = default_warmup(rounds) if warmup is None else warmup
        return Rounds(self._measurement, _checked(name) or self._measurement.next_name("rounds"), rounds, warmup)

    def array(self, array: ArrayLike) -> np.ndarray[Any, Any]:
        """Return *array* as a NumPy array. Warns that it is deprecated, since opprof sees each op of NumPy."""
        warnings.warn(
            "opprof.array(x) is deprecated: opprof sees each op of NumPy; write x", DeprecationWarning, stacklevel=2
        )
        return array if isinstance(array, np.ndarray) else np.asarray(array)

    def save(self, window: Window, path: str | Path) -> None:
        """Write the numbers of *window* to the file *path*, as a profile that ``opprof`` reads.

        Raises UsageError while the window is open, and if the file cannot be written.
        """
        # Imported here, since only users who save should pay its 20 ms.
        from ..frameworks.files.own_format import dump

        __tracebackhide__ = True
        profile = SavedProfile.of(window.profile, f"pytest-opprof window {window.name}")
        try:
            write_atomically(Path(path), dump(profile).encode())
        except OSError as error:
            raise UsageError(f"opprof.save: {path} cannot be written: {error.strerror or error}") from None


def _checked(name: str | None) -> str | None:
    __tracebackhide__ = True
    if not isinstance(name, str | None):  # pytest-benchmark calls benchmark(function)
        raise UsageError(
            f"opprof({name!r}) measures nothing, its argument is the name of a window. Write `with opprof():` or"
            " `for _ in opprof.rounds(20):` before the code"
        )
    if name == BODY:
        raise UsageError(f"a window cannot be called {BODY!r}: that is the whole body of a marked test")
    if name and name.isdecimal():
        raise UsageError(f"a window cannot be called {name!r}: windows without a name are numbered")
    return name


class Rounds(Window):
    """A window with a step per iteration. Iterate over it once, to the end; then read its numbers."""

    def __init__(self, measurement: Measurement, name: str, rounds: int, warmup: int) -> None:
        super().__init__(name, measurement.aliases)
        self._measurement = measurement
        self._rounds = rounds
        self._warmup = warmup
        self._iterated = False
        measurement.unused.append(self)

    def __iter__(self) -> Iterator[int]:
        """Yield the number of each round; negative numbers are warm-up. Raises UsageError the second time."""
        __tracebackhide__ = True
        if self._iterated:
            raise UsageError("these rounds were run already; write opprof.rounds(...) again for more")
        self._iterated = True
        self._measurement.unused.remove(self)
        if self._measurement.counting is not None:
            yield from self._count(self._measurement.counting)
            return
        try:
            with self._measurement.threads_for(self._rounds):
                yield from self._run()
        except BackendError as error:
            raise type(error)(str(error)) from None  # ends the traceback at the user's line

    def _count(self, counting: Counting) -> Iterator[int]:
        """Count one round, after one warm-up round."""
        yield -1
        with counting.window(self.name) as measured:
            yield 0
        if measured is not None:
            self._profile, self.unfinished = measured._profile, measured.unfinished

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
