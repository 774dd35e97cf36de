"""Count by `sys.monitoring`, from Python 3.12 on: in all threads, beside coverage and debuggers."""

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
# Unreserved sys.monitoring tool ids; Hypothesis takes 3.
_IDS = (4, 3)
_monitoring = sys.monitoring
_events = sys.monitoring.events
_DISABLE = sys.monitoring.DISABLE
TELLS_LOOPS = True


class _Called:
    """A builtin that an instruction calls, and its calls since these were last added to the others."""

    __slots__ = ("called", "calls", "key")

    def __init__(self, called: Any, key: Key) -> None:
        self.called = called
        self.key = key
        self.calls = 1


class Observer:
    """Fills a `Tally` while it is on."""

    def __init__(self, tally: Tally, others: Collection[int], limit_s: float) -> None:
        """*others* are the threads that do not count; *limit_s* is of the other way to count, which can be slow."""
        self._tally = tally
        self._others = others
        self._id = 0
        self._called: dict[int, _Called] = {}
        """By instruction, the builtin that it called last."""
        self._rounds: dict[int, int] = {}
        """By backward jump, the number of times it was taken."""
        self._jumps: dict[int, int] = {}
        """The id of the code of each."""
        self._headers: dict[int, int] = {}
        """By backward jump, the line where its loop begins."""
        tally.settle = self._settle
        self.error: Exception | None = None
        callbacks: dict[int, Callable[..., object]] = {
            _events.PY_START: self._counts_starts(),
            _events.CALL: self._counts_builtins(),
            _events.JUMP: self._counts_jumps(),
        }
        if tally.lines:
            callbacks = {
                _events.PY_START: self._start_with_line,
                _events.CALL: self._call_with_line,
                _events.JUMP: self._jump_with_line,
            }
        self._callbacks = callbacks

    @classmethod
    def conflict(cls) -> str:
        """Return the tool that holds the required ids; empty if one is free."""
        tools = [_monitoring.get_tool(each) for each in sorted(_IDS)]
        if None in tools:
            return ""
        return f"ids 3 and 4 of sys.monitoring are in use, by {tools[0]} and {tools[1]}; counting needs one of them"

    def on(self) -> None:
        """Start counting."""
        self._id = next(each for each in _IDS if _monitoring.get_tool(each) is None)
        _monitoring.use_tool_id(self._id, _NAME)
        for event, callback in self._callbacks.items():
            _monitoring.register_callback(self._id, event, callback)
        # earlier disabled events stay disabled: by opprof, or by the earlier owner of the id
        _monitoring.restart_events()
        if self._tally.target is None:
            _monitoring.set_events(self._id, sum(self._callbacks))
            return
        _monitoring.register_callback(self._id, _events.PY_START, self._wait)
        _monitoring.register_callback(self._id, _events.PY_RETURN, self._tally.returns)
        _monitoring.set_local_events(self._id, self._tally.target, _events.PY_START | _events.PY_RETURN)

    def _wait(self, code: CodeType, offset: int) -> object:
        """Start counting when the target begins, which has events of its own."""
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
        for event in (*self._callbacks, _events.PY_RETURN):  # freeing the id does not remove them
            _monitoring.register_callback(self._id, event, None)
        _monitoring.free_tool_id(self._id)
        _monitoring.restart_events()
        return f"counting failed: {type(self.error).__name__}: {self.error}" if self.error else ""

    # The callbacks run once for each call of the program. They repeat no known question, and are closures: looking up
    # an attribute of `self` takes as long as counting. In a thread that does not count they disable nothing: a thread
    # that counts may run the same instruction.

    def _counts_starts(self) -> Callable[..., object]:
        calls, begins, others = self._tally.calls, self._first, self._others

        def start(code: CodeType, offset: int) -> object:
            if others and get_ident() in others:
                return None
            try:
                calls[id(code)] += 1
            except KeyError:
                return begins(code)
            return None

        return start

    def _first(self, code: CodeType) -> object:
        try:
            if not self._tally.begin(_frame_of(code)):
                return _DISABLE
            self._tally.calls[id(code)] += 1
        except Exception as error:
            self.error = error
        return None

    def _counts_builtins(self) -> Callable[..., object]:
        known_at, counts_other, others = self._called, self._other, self._others

        def call(code: CodeType, offset: int, called: Any, first: object) -> object:
            if type(called) is FunctionType or (others and get_ident() in others):
                return None
            known = known_at.get(id(code) + offset)  # a code object holds its instructions, so that is one alone
            if known is not None and known.called is called:
                known.calls += 1
                return None
            return counts_other(code, offset, called)

        return call

    def _other(self, code: CodeType, offset: int, called: Any) -> object:
        """Count a call of something else than the instruction called last."""
        try:
            if is_left_out(code.co_filename):
                return _DISABLE
            key = self._tally.key(called)
            if key is None:
                return None
            if key.__class__ is not int:
                self._tally.builtins[key] += 1
                return None
            self._tally.know(_frame_of(code))
            if before := self._called.get(id(code) + offset):
                self._tally.builtins[before.key] += before.calls
            self._called[id(code) + offset] = _Called(called, key)
        except Exception as error:
            self.error = error
        return None

    def _counts_jumps(self) -> Callable[..., object]:
        rounds, first, others = self._rounds, self._first_jump, self._others

        def jump(code: CodeType, offset: int, to: int) -> object:
            if others and get_ident() in others:
                return None
            if to > offset:
                return _DISABLE
            try:
                rounds[id(code) + offset] += 1
            except KeyError:
                return first(code, offset)
            return None

        return jump

    def _first_jump(self, code: CodeType, offset: int) -> object:
        try:
            if is_left_out(code.co_filename):
                return _DISABLE
            self._jumps[id(code) + offset] = self._tally.know(_frame_of(code))
            self._rounds[id(code) + offset] = 1
        except Exception as error:
            self.error = error
        return None

    def _settle(self) -> None:
        """Add the counts by instruction to the tally."""
        for known in list(self._called.values()):
            calls, known.calls = known.calls, 0
            self._tally.builtins[known.key] += calls
        for at, rounds in list(self._rounds.items()):
            self._tally.loops[self._jumps[at]] = self._tally.loops.get(self._jumps[at], 0) + rounds
            self._rounds[at] -= rounds

    def _start_with_line(self, code: CodeType, offset: int) -> object:
        if get_ident() in self._others:
            return None
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
        if type(called) is FunctionType or get_ident() in self._others:
            return None
        try:
            if is_left_out(code.co_filename):
                return _DISABLE
            key: Key = self._tally.key(called)
            if key is None:
                return None
            self._tally.builtins[key] += 1
            self._tally.walk(_frame_of(code), key)
        except Exception as error:
            self.error = error
        return None

    def _jump_with_line(self, code: CodeType, offset: int, to: int) -> object:
        if get_ident() in self._others:
            return None
        if to > offset or not self._tally.is_own(code.co_filename):
            return _DISABLE
        try:
            if (header := self._headers.get(id(code) + offset)) is None:
                header = self._headers[id(code) + offset] = _header(code, offset, to)
            self._tally.goes_round(_frame_of(code), header)
        except Exception as error:
            self.error = error
        return None


def _header(code: CodeType, offset: int, to: int) -> int:
    """Return the line where the loop of a backward jump begins.

    A `for` jumps to its own line, from the line that ends a round: an `elif`, for example. A `while` tests at its end
    again, at its own line, and jumps into its body.
    """
    return min(line for begin, end, line in code.co_lines() if line and (begin <= offset < end or begin <= to < end))


def _frame_of(code: CodeType) -> FrameType:
    """Return the innermost frame that runs *code*: that of the event, below those of its callbacks."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    assert frame is not None
    return frame
