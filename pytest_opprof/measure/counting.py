"""Run a test's body once more to count calls of Python functions, without measuring anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType

from ..python_calls.counted import PythonCalls
from ..python_calls.counter import LIMIT_S, Counter
from ..python_calls.tally import Snapshot
from ..sites.shown import Shown
from .window import Window

# Counting takes 3 to 10 times a body of plain Python, and may take this many times, or seconds.
_SLOWER, _LEAST_S = 20, 5.0


class Counting:
    """Counts in the windows that the body opens, given the windows that were measured before."""

    def __init__(
        self,
        shown: Shown,
        measured: Sequence[Window],
        lines: bool = False,
        only: Collection[str] | None = None,
        target: CodeType | None = None,
    ) -> None:
        """*lines*: whether to find the calling lines, of the functions *only* or of all; *target*: the body."""
        took_ns = [max(each.profile.wall_ns or (0,)) for each in measured if not each.unfinished]
        limit_s = max(_SLOWER * max(took_ns) / 1e9, _LEAST_S) if took_ns else LIMIT_S
        limit_s *= 2 if lines else 1  # a line is up to 3 us more a call
        self.counter = Counter(shown, lines, only, target, limit_s)
        self._measured = defaultdict[str, list[Window]](list)
        for window in measured:
            self._measured[window.name].append(window)
        self._counted = defaultdict[str, list[tuple[Snapshot, Snapshot]]](list)

    @contextmanager
    def window(self, name: str) -> Iterator[Window | None]:
        """Count the code inside; yield the measured window of that name, the next of several."""
        windows = self._measured[name]
        before = self.counter.snapshot()
        yield windows[min(len(self._counted[name]), len(windows) - 1)] if windows else None
        self._counted[name].append((before, self.counter.snapshot()))

    def results(self) -> dict[str, PythonCalls]:
        """Return the calls of each window: of several with the same name, the one with most calls."""
        found = {}
        for name, steps in self._counted.items():
            every = [self.counter.result(*step) for step in steps]
            found[name] = max(every, key=lambda each: each.total)
        return found
