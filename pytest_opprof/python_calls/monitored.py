"""Counts by `sys.monitoring`, from Python 3.12 on: in all threads, beside coverage and debuggers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any

from .functions import is_left_out
from .tally import Key, Tally

assert sys.version_info >= (3, 12)  # tells type checkers, too
_NAME = "pytest-opprof"
_IDS = (4, 3)
"""The tool ids that Python reserves for nobody; Hypothesis takes 3."""
_monitoring = sys.monitoring
_events = sys.monitoring.events
_DISABLE = sys.monitoring.DISABLE
TELLS_LOOPS = True


class Observer:
    """Fills a `Tally` while it is on."""

    def __init__(self, tally: Tally, others: Collection[int]) -> None:
        """*others* are the threads that do not count."""
        self._tally = tally
        self._others = others
        self._id = 0
        self._called: dict[int, list[Any]] = {}
        """What each instruction called last, and its key."""
        self._in: dict[int, int] = {}
        """The id of the code of each jump that goes back."""
        self.error: Exception | None = None
        callbacks = {_events.PY_START: self._start, _events.CALL: self._call, _events.JUMP: self._jump}
        if tally.lines:
            callbacks = {
                _events.PY_START: self._start_with_line,
                _events.CALL: self._call_with_line,
                _events.JUMP: self._jump_with_line,
            }
        self._callbacks: dict[int, Callable[..., object]] = {
            event: self._of_threads(callback) if others else callback for event, callback in callbacks.items()
        }

    @classmethod
    def conflict(cls) -> str:
        """Return who holds what this needs; empty where it is free."""
        tools = [_monitoring.get_tool(each) for each in sorted(_IDS)]
        if None in tools:
            return ""
        return f"ids 3 and 4 of sys.monitoring are in use, by {tools[0]} and {tools[1]}; counting needs one of them"

    def on(self) -> None:
        """Begin to count."""
        self._id = next(each for each in _IDS if _monitoring.get_tool(each) is None)
        _monitoring.use_tool_id(self._id, _NAME)
        for event, callback in self._callbacks.items():
            _monitoring.register_callback(self._id, event, callback)
        _monitoring.restart_events()  # what was disabled before stays so: by us, or by who had the id before
        if self._tally.target is None:
            _monitoring.set_events(self._id, sum(self._callbacks))
            return
        _monitoring.register_callback(self._id, _events.PY_START, self._wait)
        _monitoring.register_callback(self._id, _events.PY_RETURN, self._tally.returns)
        _monitoring.set_local_events(self._id, self._tally.target, _events.PY_START | _events.PY_RETURN)

    def _wait(self, code: CodeType, offset: int) -> object:
        """Begin to count: the target begins, which has events of its own."""
        self._tally.has_begun = True
        start = self._callbacks[_events.PY_START]
        _monitoring.register_callback(self._id, _events.PY_START, start)
        _monitoring.set_events(self._id, sum(self._callbacks))
        return start(code, offset)

    def off(self) -> str:
        """Stop; return why not all was counted, empty if it was."""
        if _monitoring.get_tool(self._id) != _NAME:
            return f"the test took id {self._id} of sys.monitoring"
        _monitoring.set_events(self._id, 0)
        if self._tally.target is not None:
            _monitoring.set_local_events(self._id, self._tally.target, 0)
        for event in (*self._callbacks, _events.PY_RETURN):  # to free the id does not remove them
            _monitoring.register_callback(self._id, event, None)
        _monitoring.free_tool_id(self._id)
        _monitoring.restart_events()
        return f"counting failed: {type(self.error).__name__}: {self.error}" if self.error else ""

    def _of_threads(self, callback: Callable[..., object]) -> Callable[..., object]:
        others = self._others

        def counts(*event: Any) -> object:
            if get_ident() in others:
                return None
            # An instruction that another thread runs, too, must stay watched there.
            return callback(*event)

        return counts

    # The callbacks run once for each call of the program: they ask for nothing that is known already.

    def _start(self, code: CodeType, offset: int) -> object:
        try:
            self._tally.calls[id(code)] += 1
        except KeyError:
            return self._first(code)
        return None

    def _first(self, code: CodeType) -> object:
        try:
            if not self._tally.begin(_frame_of(code)):
                return _DISABLE
            self._tally.calls[id(code)] += 1
        except Exception as error:
            self.error = error
        return None

    def _call(self, code: CodeType, offset: int, called: Any, first: object) -> object:
        if type(called) is FunctionType:
            return None
        try:
            known = self._called[id(code) + offset]  # a code object holds its instructions, so that is one alone
            if known[0] is called:
                self._tally.builtins[known[1]] += 1
                return None
        except KeyError:
            pass
        return self._other(code, offset, called)

    def _other(self, code: CodeType, offset: int, called: Any) -> object:
        """Count a call of something else than the instruction called last."""
        try:
            if is_left_out(code.co_filename):
                return _DISABLE
            key = self._tally.key(called)
            if key is None:
                return None
            builtins = self._tally.builtins
            builtins[key] = builtins.get(key, 0) + 1
            if key.__class__ is int:
                self._tally.know(_frame_of(code))
                self._called[id(code) + offset] = [called, key]
        except Exception as error:
            self.error = error
        return None

    def _jump(self, code: CodeType, offset: int, to: int) -> object:
        if to > offset:
            return _DISABLE
        try:
            self._tally.loops[self._in[id(code) + offset]] += 1
        except KeyError:
            return self._first_jump(code, offset)
        return None

    def _first_jump(self, code: CodeType, offset: int) -> object:
        try:
            if is_left_out(code.co_filename):
                return _DISABLE
            loops = self._tally.loops
            self._in[id(code) + offset] = of = self._tally.know(_frame_of(code))
            loops[of] = loops.get(of, 0) + 1
        except Exception as error:
            self.error = error
        return None

    def _start_with_line(self, code: CodeType, offset: int) -> object:
        try:
            frame = _frame_of(code)
            if id(code) not in self._tally.calls and not self._tally.begin(frame):
                return _DISABLE
            self._tally.calls[id(code)] += 1
            self._tally.walk(frame.f_back, id(code))
        except Exception as error:
            self.error = error
        return None

    def _call_with_line(self, code: CodeType, offset: int, called: Any, first: object) -> object:
        if type(called) is FunctionType:
            return None
        try:
            if is_left_out(code.co_filename):
                return _DISABLE
            key: Key = self._tally.key(called)
            if key is None or not self._tally.wants(key):
                return None
            self._tally.builtins[key] = self._tally.builtins.get(key, 0) + 1
            self._tally.walk(_frame_of(code), key)
        except Exception as error:
            self.error = error
        return None

    def _jump_with_line(self, code: CodeType, offset: int, to: int) -> object:
        if to > offset or not self._tally.is_own(code.co_filename):
            return _DISABLE
        try:
            self._tally.goes_round(_frame_of(code))
        except Exception as error:
            self.error = error
        return None


def _frame_of(code: CodeType) -> FrameType:
    """Return the innermost frame that runs *code*: that of the event, below those of its callbacks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    assert frame is not None
    return frame
