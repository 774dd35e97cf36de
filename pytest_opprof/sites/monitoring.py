"""The line tracer of Python 3.12 and later, by `sys.monitoring`: works beside coverage and debuggers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType

from .chains import UNKNOWN, Chains, line_number
from .code import Kind, is_import, kinds
from .line_tracer import LineTracer
from .stack import here, running

assert sys.version_info >= (3, 12)  # tells type checkers, too
_TRACED = Kind.TRACED
_NAME = "pytest-opprof"
# Unreserved sys.monitoring tool ids; the first free one is used. Hypothesis takes 3.
_IDS = (4, 3)
_monitoring = sys.monitoring
_events = sys.monitoring.events
_DISABLE = sys.monitoring.DISABLE
# The last two can only be requested for all code; the others are, once, to decide whether code is traced.
_EVERYWHERE = _events.PY_START | _events.PY_RESUME | _events.PY_THROW | _events.PY_UNWIND
_ENDS = _events.PY_RETURN | _events.PY_YIELD


class _Call:
    """A running function: the node that called it, and the node to which it returns."""

    __slots__ = ("back", "code", "nodes", "parent")

    def __init__(self, parent: int, back: int, code: CodeType | None) -> None:
        self.parent = parent
        self.back = back
        self.code = code
        self.nodes: dict[int, int] = {}
        """By line."""


class MonitoringTracer(LineTracer):
    """Follows calls and returns on a stack; reads frames if the stack cannot be right."""

    def __init__(self, chains: Chains, on_site: Callable[[int], None]) -> None:
        super().__init__(chains, on_site)
        self._id = 0
        self._thread = 0
        self._until: CodeType | None = None
        self._stack: list[_Call] = []
        self._calls: dict[tuple[int, int, int], _Call] = {}
        """By parent, the node to go back to, and the id of the code, which `_watched` keeps."""
        self._watched: dict[int, CodeType] = {}
        self._callbacks: dict[int, Callable[..., object]] = {
            _events.PY_START: self._start,
            _events.PY_RESUME: self._resume,
            _events.PY_THROW: self._throw,
            _events.PY_UNWIND: self._leave,
            _events.PY_RETURN: self._leave,
            _events.PY_YIELD: self._leave,
            _events.LINE: self._line,
        }

    @classmethod
    def _conflict(cls) -> str | None:
        tools = [_monitoring.get_tool(each) for each in sorted(_IDS)]
        if None in tools:
            return None
        return f"ids 3 and 4 of sys.monitoring are in use, by {tools[0]} and {tools[1]}; call sites need one of them"

    def _begin(self, frame: FrameType) -> None:
        self._id = next(each for each in _IDS if _monitoring.get_tool(each) is None)
        _monitoring.use_tool_id(self._id, _NAME)
        self._thread, self._until = get_ident(), frame.f_code
        node = self._follow(frame)
        if node != self.now:
            self._moved(node)
        for event, callback in self._callbacks.items():
            _monitoring.register_callback(self._id, event, callback)
        # earlier disabled events stay disabled: by opprof, or by the earlier owner of the id
        _monitoring.restart_events()
        _monitoring.set_events(self._id, _EVERYWHERE)

    def _pause(self) -> None:
        _monitoring.set_events(self._id, 0)
        for code in self._watched.values():
            _monitoring.set_local_events(self._id, code, 0)
        self._watched.clear()
        self._calls.clear()

    def _end(self) -> None:
        self._pause()
        for event in self._callbacks:  # freeing the id does not remove them
            _monitoring.register_callback(self._id, event, None)
        _monitoring.free_tool_id(self._id)
        _monitoring.restart_events()

    def _follow(self, frame: FrameType) -> int:
        """Rebuild the stack from *frame* and the frames around it; return the node of *frame*."""
        self._stack = [_Call(UNKNOWN, UNKNOWN, None)]
        node = UNKNOWN
        for each in reversed(running(frame, self._until)):
            self._enter(each.f_code, node, node)
            node = self.chains.node(node, each.f_code, line_number(each))
        return node

    def _enter(self, code: CodeType, parent: int, back: int) -> None:
        key = parent, back, id(code)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = _Call(parent, back, code)
            if id(code) not in self._watched:
                self._watched[id(code)] = code
                lines = _events.LINE if self._is_followed(code) else 0
                _monitoring.set_local_events(self._id, code, _ENDS | lines)
        self._stack.append(call)

    def _start(self, code: CodeType, offset: int) -> object:
        if is_import(code) and self._importing is None and get_ident() == self._thread:
            self._importing = code
            _monitoring.set_local_events(self._id, code, _events.PY_RETURN)
            return None
        if kinds[code.co_filename] is not _TRACED:
            return _DISABLE
        if get_ident() == self._thread and self._importing is None:
            self._enter(code, self.now, self.now)
            if self.follows is not None and not self.follows(code):
                self._moved(self.chains.node(self.now, code, code.co_firstlineno))
        return None

    def _resume(self, code: CodeType, offset: int) -> object:
        if kinds[code.co_filename] is not _TRACED:
            return _DISABLE
        if get_ident() == self._thread and self._importing is None:
            self._go_on(code, sys._getframe(1), self.now)
        return None

    def _throw(self, code: CodeType, offset: int, error: BaseException) -> None:
        if kinds[code.co_filename] is _TRACED and get_ident() == self._thread and self._importing is None:
            frame = sys._getframe(1)
            # throw() goes past the coroutines that wait for this one.
            self._go_on(code, frame, here(self.chains, frame.f_back, self._until))

    def _go_on(self, code: CodeType, frame: FrameType, parent: int) -> None:
        """Resume a generator or coroutine in the middle of a line, called from *parent*."""
        self._enter(code, parent, self.now)
        self._moved(self.chains.node(parent, code, line_number(frame)))

    def _line(self, code: CodeType, line: int) -> None:
        if get_ident() != self._thread or self._importing is not None:
            return
        call = self._stack[-1]
        if call.code is not code:
            # It began unseen: in another greenlet, or outside of the test tool at which the chain began.
            self._follow(sys._getframe(1))
            call = self._stack[-1]
        node = call.nodes.get(line)
        if node is None:
            node = call.nodes[line] = self.chains.node(call.parent, code, line)
        if node != self.now:
            self._moved(node)

    def _leave(self, code: CodeType, offset: int, value: object) -> None:
        if self._importing is not None:
            if code is self._importing and get_ident() == self._thread:
                self._importing = None
        elif self._stack[-1].code is code and get_ident() == self._thread:
            node = self._stack.pop().back
            if node != self.now:
                self._moved(node)
