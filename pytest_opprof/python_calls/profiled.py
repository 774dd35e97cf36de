"""Count by `sys.setprofile`, before Python 3.12: in this thread, and in threads that begin meanwhile."""

from __future__ import annotations

import _thread
import ctypes
import dis
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from .functions import is_left_out
from .tally import Tally

TELLS_LOOPS = False
# CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR: resuming them sends the event of a call, too.
_RESUMED = 0x20 | 0x80 | 0x200


def _unset(_: object) -> int:
    """Unset the profiler of this thread if it is that of an observer that gave up."""
    of = getattr(sys.getprofile(), "__self__", None)
    if isinstance(of, Observer) and of.has_given_up:
        with suppress(RuntimeError):  # the observer is just unsetting it
            sys.setprofile(None)
    return 0


# Python may call it late, so it has to stay alive.
_UNSET = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_unset)


class Observer:
    """Fills a `Tally` while it is on."""

    def __init__(self, tally: Tally, others: Collection[int], limit_s: float) -> None:
        """*others* are the threads that do not count: they began before, and this sees only later ones.

        Counting ends after *limit_s*. While a profiler is set, Python 3.11 copies a string that `+=` makes longer:
        200,000 additions of a number take 12 s instead of 0.04 s. 3.10 and 3.12 do not.
        """
        self._tally = tally
        self._limit_s = limit_s
        self._over = _thread.allocate_lock()
        self.has_given_up = False
        self._is_on = False
        self._left_out: dict[int, CodeType] = {}
        self._starts: dict[int, int] = {}
        """The instruction at which a generator begins, by the id of its code."""
        self._around: Any = None
        self._counts = self._with_line if tally.lines else self._count
        self._profile = self._counts if tally.target is None else self._until_target
        self.error: Exception | None = None

    @classmethod
    def conflict(cls) -> str:
        """Return the tool that holds the profiler; empty if it is free."""
        if (found := sys.getprofile()) is None:
            return ""
        of = found if hasattr(found, "__qualname__") else type(found)
        return f"sys.setprofile is in use, by {of.__module__}.{of.__qualname__}"

    def on(self) -> None:
        """Start counting."""
        if sys.version_info >= (3, 11):
            self._over.acquire()
            _thread.start_new_thread(self._wait, ())  # a test that looks for threads left behind sees no such one
        self._is_on, self._around = True, getattr(threading, "_profile_hook", None)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def off(self) -> str:
        """Stop; return why not all was counted, empty if it was."""
        is_ours = sys.getprofile() in (self._profile, self._counts)
        if is_ours:
            sys.setprofile(None)
        if self._over.locked():
            self._over.release()
        self._is_on = False
        threading.setprofile(self._around)
        if self.has_given_up:
            return (
                f"it took more than {self._limit_s:.0f} s, perhaps since Python 3.11 copies a text at each += meanwhile"
                " (3.12 does not)"
            )
        if not is_ours:
            return "the test set another function by sys.setprofile"
        return f"counting failed: {type(self.error).__name__}: {self.error}" if self.error else ""

    def _wait(self) -> None:
        if self._over.acquire(timeout=self._limit_s):
            return
        self.has_given_up = True
        self._is_on = False  # the next return in each thread unsets its profiler
        ctypes.pythonapi.Py_AddPendingCall(_UNSET, None)  # so does the main thread in a loop that calls nothing

    def _until_target(self, frame: FrameType, event: str, called: Any) -> None:
        """Start counting when the target begins."""
        if not self._tally.has_begun:
            self._tally.has_begun = event == "call" and frame.f_code is self._tally.target
        if self._tally.has_begun:
            sys.setprofile(self._counts)  # of this thread
            self._counts(frame, event, called)

    # Called for each call and return of the program, so it repeats no known question.

    def _count(self, frame: FrameType, event: str, called: Any) -> None:
        try:
            code = frame.f_code
            if event == "call":
                if code.co_flags & _RESUMED and not self._starts_here(frame):
                    return
                try:
                    self._tally.calls[id(code)] += 1
                except KeyError:
                    if id(code) not in self._left_out:
                        self._first(frame)
            elif event == "c_call":
                if id(code) not in self._tally.calls and self._is_tool(code):
                    return
                key = self._tally.key(called)
                if key is not None:
                    self._tally.builtins[key] += 1
            else:
                if event == "return" and code is self._tally.target:
                    self._tally.returns()
                if not self._is_on:
                    sys.setprofile(None)  # a thread that continues after counting
        except Exception as error:
            self.error = error

    def _first(self, frame: FrameType) -> None:
        if self._is_on and self._tally.begin(frame):
            self._tally.calls[id(frame.f_code)] += 1
        else:
            self._left_out[id(frame.f_code)] = frame.f_code

    def _is_tool(self, code: CodeType) -> bool:
        if id(code) not in self._left_out and is_left_out(code.co_filename):
            self._left_out[id(code)] = code
        return id(code) in self._left_out

    def _starts_here(self, frame: FrameType) -> bool:
        """Return True if a generator begins, instead of resuming."""
        start = self._starts.get(id(frame.f_code))
        if start is None:
            self._tally.know(frame)
            resumes = (each.offset for each in dis.get_instructions(frame.f_code) if each.opname == "RESUME")
            start = self._starts[id(frame.f_code)] = next(resumes, -1)  # -1: Python 3.10 has no such instruction
        return frame.f_lasti == start

    def _with_line(self, frame: FrameType, event: str, called: Any) -> None:
        try:
            code = frame.f_code
            if event == "call":
                if id(code) in self._left_out or (code.co_flags & _RESUMED and not self._starts_here(frame)):
                    return
                if id(code) not in self._tally.calls:
                    self._first(frame)
                else:
                    self._tally.calls[id(code)] += 1
                if id(code) in self._tally.calls:
                    self._tally.walk(frame.f_back, id(code))
            elif event == "c_call" and not is_left_out(code.co_filename):
                key = self._tally.key(called)
                if key is not None:
                    self._tally.builtins[key] += 1
                    self._tally.walk(frame, key)
            else:
                if event == "return" and code is self._tally.target:
                    self._tally.returns()
                if not self._is_on:
                    sys.setprofile(None)
        except Exception as error:
            self.error = error
