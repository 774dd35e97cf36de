"""Count the calls of Python functions in a stretch of code: exactly, and without a trace afterwards."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Collection, Mapping
from types import CodeType, TracebackType
from typing import final

from ..machine.garbage import FULL
from ..sites.shown import Shown
from .counted import PythonCalls
from .functions import is_left_out
from .tally import Snapshot, Tally

if sys.version_info >= (3, 12):
    from .monitored import TELLS_LOOPS as TELLS_LOOPS
    from .monitored import Observer
else:
    from .profiled import TELLS_LOOPS as TELLS_LOOPS
    from .profiled import Observer


# The most time for counting a body of unknown time.
LIMIT_S = 20.0


@final
class Counter:
    """A context that counts: ``with Counter(shown) as counter: ...; counter.result()``.

    Garbage is collected only if the code requests it. The calls of this plugin, of pytest and of other test tools do
    not count, nor do threads that one of these runs. Whatever the code raises, everything is restored afterwards.
    """

    def __init__(
        self,
        shown: Shown,
        lines: bool = False,
        only: Collection[str] | None = None,
        target: CodeType | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        """*lines*: whether to find the calling lines, of the functions *only* or of all: 1 to 3 us more a call.

        *target* is the code of the test function: the work of pytest and plugins before and after it does not count.
        None: everything does. Counting ends after *limit_s*, if Python is as slow as that.
        """
        self._limit_s = limit_s
        self._tally = Tally(shown, lines, only, target)
        self._observer: Observer | None = None
        self._collects = False
        self._began: Snapshot | None = None
        self._ended: Snapshot | None = None
        self.uncounted = ""
        """The reason why nothing was counted."""

    def __enter__(self) -> Counter:
        self.uncounted = Observer.conflict()
        if not self.uncounted:
            # Unreferenced objects would be freed inside, by whichever call the collector runs in.
            gc.collect(1)
            self._collects = gc.isenabled()
            self._began = self._tally.snapshot()
            self._observer = Observer(self._tally, _tools_threads(), self._limit_s)
            gc.disable()
            gc.callbacks.append(self._collected)
            try:
                self._observer.on()
            except BaseException:
                self._end()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self._observer:
                self.uncounted = self._observer.off()
        finally:
            if self._observer:
                self._end()

    def _end(self) -> None:
        self._ended = self._tally.ended or self._tally.snapshot()
        gc.callbacks.remove(self._collected)
        if self._collects:
            gc.enable()

    def _collected(self, phase: str, told: Mapping[str, int]) -> None:
        # If the code turned the collector on, a collection is nobody's request.
        if phase == "start" and told.get("generation") == FULL and not gc.isenabled():
            self._tally.collections += 1

    def snapshot(self) -> Snapshot:
        """Return the counts so far, for `result`."""
        return self._tally.snapshot()

    def result(self, before: Snapshot | None = None, after: Snapshot | None = None) -> PythonCalls:
        """Return the counts, or the counts between two snapshots."""
        before, after = before or self._began, after or self._ended
        if not self._tally.has_begun:
            return PythonCalls(uncounted=self.uncounted or "opprof did not see the test function run")
        if self.uncounted and self._observer:
            return self._tally.of_first_calls(self.uncounted)
        if self.uncounted or before is None or after is None:
            return PythonCalls(uncounted=self.uncounted or "counting did not begin")
        return self._tally.counted(before, after, TELLS_LOOPS)


def _tools_threads() -> set[int]:
    """Return the threads of a test tool or of this plugin: pytest-xdist's, that of a time-out."""
    found = set()
    for thread, frame in sys._current_frames().items():
        while frame is not None and not is_left_out(frame.f_code.co_filename):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None and thread != threading.get_ident():
            found.add(thread)
    return found
