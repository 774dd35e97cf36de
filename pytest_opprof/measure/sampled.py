"""Sample the lines of the program that take a body's time, every millisecond. Only for explanations."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from types import FrameType, TracebackType
from typing import final

from ..sites.chains import Frame
from ..sites.code import Kind, kinds
from ..sites.shown import Shown
from ..units import format_share

_EACH_S = 0.001
# A line with less than this share of the time is not reported.
_NOTABLE = 0.2
# The most lines that are reported.
_LINES = 2


@final
class Sampler:
    """A context in which another thread samples this one. A sample counts for the time since the one before.

    Code that holds the interpreter's lock stops the sampling thread; the time still counts for its line, since the
    program is still there when it releases the lock.
    """

    def __init__(self, shown: Shown, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.looks = 0
        """The number of samples so far."""
        self._shown = shown
        self._clock_ns = clock_ns
        self._over = threading.Event()
        self._of = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="opprof-sampler", daemon=True)
        self._at = Counter[Frame | None]()
        self._inside: dict[Frame, Counter[Frame]] = {}
        """By line of the program: the innermost lines of packages that it called, which are not shown as its own."""

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        last_ns = self._clock_ns()
        while not self._over.wait(_EACH_S):
            frame: FrameType | None = sys._current_frames().get(self._of)
            inside = None
            while frame is not None and not self._is_own(frame.f_code.co_filename):
                if inside is None and kinds[frame.f_code.co_filename] is Kind.TRACED:
                    inside = _line(frame)
                frame = frame.f_back
            now_ns = self._clock_ns()
            line = None if frame is None else _line(frame)
            self._at[line] += now_ns - last_ns
            if line and inside:
                self._inside.setdefault(line, Counter())[inside] += now_ns - last_ns
            last_ns, frame = now_ns, None
            self.looks += 1

    def _is_own(self, file: str) -> bool:
        return kinds[file] is Kind.TRACED and self._shown.is_shown(file)

    def lines(self) -> Iterator[str]:
        """Yield in words the lines that took most of the time, with their share of it."""
        total = sum(self._at.values())
        for frame, ns in self._at.most_common(_LINES):
            if frame is not None and ns >= _NOTABLE * total:
                site = self._shown.site([frame])
                inside = self._inside.get(frame, Counter()).most_common(1)
                most = [self._shown.site([line]) for line, of_line in inside if of_line >= _NOTABLE * total]
                of_package = "".join(f", most at {each} `{each.text}`" for each in most)
                yield f"{format_share(ns / total, 2)} of the time is at {site} `{site.text}`{of_package}"


def _line(frame: FrameType) -> Frame:
    return Frame(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
