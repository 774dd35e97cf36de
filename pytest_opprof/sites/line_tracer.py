"""Shared by both line tracers: report the program's line, and give up if that takes too long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

from ..errors import BackendError
from .chains import UNKNOWN, Chains

# The most calls of a tracer's `on_site`: 0.2 s with marks. Pure Python takes 20 to 45 times as long while it is traced.
MOST_MARKS = 200_000


class LineTracer(ABC):
    """Follows one thread from line to line while a window is open.

    While code runs that cannot be a site, the program is at the line that called it.
    """

    _running: LineTracer | None = None
    """The tracer that runs in this process."""

    def __init__(self, chains: Chains, on_site: Callable[[int], None]) -> None:
        """*on_site* is called with a node of *chains* whenever the program comes to another one.

        That is at each line that differs from the one before, and when a function returns into its caller's line.
        """
        self.follows: Callable[[CodeType], bool] | None = None
        """Whether lines of a code are followed: in others the program stays at the line where they began or went on.

        None: all are.
        """
        self.most_marks = MOST_MARKS
        """The most calls of *on_site*."""
        self.now = UNKNOWN
        """The node at which the program is."""
        self.capped = False
        """Whether there were more than `most_marks`: later lines are unknown, as `on_site` was told, too."""
        self.replaced = False
        """Whether the program, or an exception in *on_site*, ended the tracing before `stop`: nodes may be wrong."""
        self.chains = chains
        self._importing: object = None
        """The outermost installed module that is being imported: meanwhile the program stays at the import."""
        self._on_site = on_site
        self._marks = 0

    def start(self, frame: FrameType) -> None:
        """Begin in *frame*, which opened the window, and in the frames around it, to which the program may return.

        Raises BackendError if lines cannot be traced now.
        """
        reason = self.unavailable()
        if reason:
            raise BackendError(reason)
        LineTracer._running = self
        try:
            self._begin(frame)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End, and restore the earlier tracer; nothing happens if it has ended."""
        if LineTracer._running is not self:
            return
        LineTracer._running = None
        self._end()
        self.now = UNKNOWN

    @classmethod
    @contextmanager
    def joined(cls, chains: Chains, on_site: Callable[[int], None]) -> Iterator[bool]:
        """Call *on_site*, too, in the context, if a tracer runs for the same *chains*; yield whether one does."""
        running = LineTracer._running
        if running is None or running.chains is not chains:
            yield False
            return
        first = running._on_site

        def both(node: int) -> None:  # pragma: no cover  # see _moved
            first(node)
            on_site(node)

        running._on_site = both
        on_site(running.now)
        try:
            yield True
        finally:
            running._on_site = first

    @classmethod
    def unavailable(cls) -> str | None:
        """Return why no tracer can start now, or None if one can."""
        if LineTracer._running is not None:
            return "call sites are being traced already; one window at a time can do so, in one thread"
        return cls._conflict()

    @classmethod
    @abstractmethod
    def _conflict(cls) -> str | None:
        """Return the name of a conflicting tool."""

    @abstractmethod
    def _begin(self, frame: FrameType) -> None:
        """Trace *frame*, the frames around it, and their calls."""

    @abstractmethod
    def _pause(self) -> None:
        """Stop tracing, at a call of `_moved`."""

    @abstractmethod
    def _end(self) -> None:
        """Leave the interpreter as it was before `_begin`."""

    def _is_followed(self, code: CodeType) -> bool:
        """Return True if lines of *code* are followed; ask once for each code."""
        return self.follows is None or self.follows(code)

    def _moved(self, node: int) -> None:  # pragma: no cover  # called by trace functions, where coverage is put aside
        """The program has come to *node*, which is not `now`."""
        self._marks += 1
        if self._marks <= self.most_marks:
            self.now = node
            self._on_site(node)
        elif not self.capped:
            self.capped = True
            self._pause()
            self.now = UNKNOWN
            self._on_site(UNKNOWN)
