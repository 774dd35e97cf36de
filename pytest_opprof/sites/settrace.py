"""The line tracer of Python 3.10 and 3.11, by `sys.settrace`: a thread has room for one tracer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FrameType
from typing import Any

from .chains import UNKNOWN, Chains, line_number
from .code import Kind, is_import, kinds
from .line_tracer import LineTracer
from .stack import here, running

Trace = Callable[[FrameType, str, Any], Any]
_TRACED = Kind.TRACED
# Flags of code that resumes where it stopped.
_CAN_WAIT = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


class SettraceTracer(LineTracer):
    """Replaces coverage's tracer while it runs: lines of the window are not covered then.

    Python 3.10 does not trace ``__del__``. If a generator swallows a throw() while others wait for it with ``yield
    from``, they resume unnoticed; the rest of that line, and of the line with the throw(), may be assigned to another.
    """

    def __init__(self, chains: Chains, on_site: Callable[[int], None]) -> None:
        super().__init__(chains, on_site)
        self._locals: dict[tuple[int, int], Trace] = {}
        """By parent and the id of the code, which they keep."""
        self._before: Any = None
        self._outer: dict[Trace, Any] = {}
        """The earlier tracer of each frame that ran when the window was opened, by the present one."""
        self._until: CodeType | None = None

    @classmethod
    def _conflict(cls) -> str | None:
        """Only coverage's tracer may be put aside: a debugger would lose the program."""
        tracer = sys.gettrace()
        kind = type(tracer)
        module = getattr(tracer, "__module__", kind.__module__)  # instances of types written in C have none
        if tracer is None or module.split(".")[0] == "coverage":
            return None
        name = f"{module}.{getattr(tracer, '__qualname__', kind.__qualname__)}"
        return f"{name} traces this thread, as a debugger does; call sites beside it need Python 3.12 or newer"

    def _begin(self, frame: FrameType) -> None:
        self._before, self._until = sys.gettrace(), frame.f_code
        node = UNKNOWN
        for each in reversed(running(frame, self._until)):
            local = self._local(node, each.f_code)
            self._outer[local] = each.f_trace
            each.f_trace = local
            node = self.chains.node(node, each.f_code, line_number(each))
        if node != self.now:
            self._moved(node)
        sys.settrace(self._call)

    def _pause(self) -> None:
        sys.settrace(None)

    def _end(self) -> None:
        tracer = sys.gettrace()
        self.replaced = tracer != (None if self.capped else self._call)
        frame: FrameType | None = sys._getframe()  # others wait: when they resume, their tracer is asked first
        while frame is not None:
            local = frame.f_trace
            if local is not None and getattr(local, "__module__", "") == __name__:
                frame.f_trace = self._outer.get(local)
            frame = frame.f_back
        if tracer in (None, self._call):
            sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Trace | None:  # pragma: no cover  # see _moved
        """Trace each called function whose lines can be sites."""
        code = frame.f_code
        if self._importing is not None:
            return None
        if is_import(code):
            self._importing, frame.f_trace_lines = code, False
            return self._imported
        if kinds[code.co_filename] is not _TRACED:
            return None
        waits = code.co_flags & _CAN_WAIT
        # throw() and close() go past the coroutines that wait for this one, so only frames show the caller.
        parent = here(self.chains, frame.f_back, self._until) if waits else self.now
        local = self._locals.get((parent, id(code)))
        if local is None:
            local = self._locals[parent, id(code)] = self._local(parent, code)
        if waits:  # it resumes in the middle of a line
            node = self.chains.node(parent, code, line_number(frame))
            if node != self.now:
                self._moved(node)
        elif self.follows is not None and not self.follows(code):
            frame.f_trace_lines = False  # a generator, which may outlive the tracer, ignores its lines
            self._moved(self.chains.node(parent, code, code.co_firstlineno))
        return local

    def _imported(self, frame: FrameType, event: str, argument: Any) -> Trace:  # pragma: no cover  # see _moved
        if event == "return":
            self._importing = None
        return self._imported

    def _local(self, parent: int, code: CodeType) -> Trace:
        """Return the tracer of the lines of *code* called from *parent*, to which it returns."""
        node = self.chains.node
        known: dict[int, int] = {}
        is_followed = self._is_followed(code)

        def local(frame: FrameType, event: str, argument: Any) -> Trace:  # pragma: no cover  # see _moved
            if event == "line":
                if not is_followed:
                    return local
                line = frame.f_lineno
                found = known.get(line)
                if found is None:
                    found = known[line] = node(parent, code, line)
            elif event == "return":
                found = parent
            else:
                return local
            if found != self.now and self._importing is None:
                self._moved(found)
            return local

        return local
