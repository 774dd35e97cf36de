"""Coarse times of two versions: re-measure in further pairs of processes whatever is slower in the first pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..baselines.entry import WindowBaseline
from ..python_calls.causes import sleeps_more
from ..results.judged_window import JudgedWindow
from ..verdict.coarse import PROCESSES, Slower, slower, together
from ..verdict.compare import Diff
from .coarse import explained, is_judged

# The measurement of a process, by window.
Windows = Mapping[str, WindowBaseline]


class CoarsePairs:
    """The times of pairs of processes that measured tests in one thread."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[tuple[Windows, Windows]]] = {}
        self._busy = ""

    def add(self, test: str, before: Windows, after: Windows, busy: str) -> None:
        """Add the times of a pair in *test*; *busy*: who else used the machine meanwhile."""
        self._pairs.setdefault(test, []).append((before, after))
        self._busy = self._busy or busy

    def still_slower(self, test: str) -> bool:
        """Return True if a window of a test is slower in all pairs so far."""
        names = {name for before, _ in self._pairs.get(test, []) for name in before}
        return any(self._slower(test, name) is not None for name in names)

    def judged(self, test: str, window: JudgedWindow, diff: Diff) -> JudgedWindow:
        """Return a window with its *diff*, and with its time if all pairs agree that it is slower."""
        window = replace(window, diff=diff, coarsely=window.numbers.coarse is not None)
        if len(self._pairs.get(test, [])) < PROCESSES or not is_judged(diff):
            return window
        is_sure = sleeps_more(window.base_functions, window.numbers.python)
        if found := self._slower(test, window.name, wall=not self._busy or is_sure):
            work = found.work(*explained(window, found))
            confirmed = f"confirmed in {PROCESSES} pairs of processes, in one thread"
            looked = "; ".join(filter(None, [confirmed, window.looked]))
            return replace(window, diff=diff.with_slower(found.name, work), looked=looked)
        if waits := self._slower(test, window.name):
            return replace(window, undecided=f"{waits.line(diff.then)}, unreliable while {self._busy}")
        return window

    def _slower(self, test: str, window: str, wall: bool = True) -> Slower | None:
        pairs = [pair for pair in self._pairs[test] if all(window in side for side in pair)]
        return slower_than([before[window] for before, _ in pairs], [after[window] for _, after in pairs], wall)


def slower_than(before: Sequence[WindowBaseline], after: Sequence[WindowBaseline], wall: bool = True) -> Slower | None:
    """Return the time by which processes of *after* exceed their limit; None if none does or no time is known."""
    base, now = ([each for entry in side for each in entry.coarse.values()] for side in (before, after))
    return slower(together(base), together(now), wall=wall) if base and now else None
