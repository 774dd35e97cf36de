"""What observers tell: the calls of one window, which become the events of its log."""

from __future__ import annotations

import inspect
import sys
import threading
from _thread import get_ident
from array import array
from functools import lru_cache
from time import perf_counter_ns
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from ...ops.numpy_work import NO_ATTRIBUTES, work
from ...ops.signature import Signature
from ...profile.columns import ABSENT
from ...profile.event_log import EventLog
from ...sites.chains import Chains
from .arguments import dtype_name, letter_of, tensors_in
from .callers import BETWEEN, HIDDEN, NOBODY, NUMPY, PROGRAM, SCIPY, Lines, function_name, learn, whose
from .casts import casts_of
from .function_names import CONVERSIONS

NUMBER, FRAME, KEY, GIVEN, ATTRIBUTES, ABOUT, STACK, ENDS = range(8)
"""What a row has while its call runs: a list, which the machine code empties where the call raises.

FRAME is the `id` of the frame that called. KEY is raw name, dtypes and op, as for `EventLog.name`, then what `casts_of`
needs; nothing where the call is no op. ABOUT is what the observer of the end needs."""
Row = list[Any]
Key = tuple[Any, ...]
QUIET: Key = ()
CONVERTS: Key = ("a function that converts: no op itself, but the conversion inside may be one",)
FUNCTION: Any = "a function of Python, of which only the calls inside are observed"
NOT_AN_OP: Any = object()
_NO_OP = -1
"""In the place of a case."""


class End:
    """Stands in ``f_trace`` of the frame of a function: it goes when the frame goes, and so tells the end."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row

    def __call__(self, *event: object) -> None:
        """Trace nothing, if something begins to trace while the function runs."""

    def __del__(self) -> None:
        row = self.row
        if row and not row[ENDS][row[NUMBER]]:
            row[ENDS][row[NUMBER]] = perf_counter_ns()


class Recording:
    """The calls of one window, in the order in which they began: a number of each in every column."""

    # Numbers in arrays: a list for each call, kept, would take 250 bytes and keep the garbage collector busy.
    def __init__(self, log: EventLog, moments: bool) -> None:
        self.log = log
        self.unread = 0
        """How many calls could not be read."""
        self.begins = array("q")
        self.ends = array("q")
        """0 while it runs, or where it raised or was no op."""
        self.case = array("q")
        self._parents = array("q")
        self._intervals = array("q")
        self._nodes = array("q")
        self._threads = array("q")
        self.cases: dict[tuple[Any, ...], int] = {}
        self._lines = Lines(log.chains or Chains())
        self._stacks: dict[int, list[Row]] = {}
        self._thread_names: dict[int, str] = {get_ident(): ""}
        self._functions: dict[int, Row] = {}
        """By `id` of their frames, those that something traces."""
        self._moments = moments

    def asked(self, frame: FrameType, converts: bool = False) -> list[Row] | None:
        """Return the rows of this thread that run, the innermost last, for a call by *frame*; None if it is no op.

        *converts*: it is one of the conversions that `numpy.require` and the like stand for.
        """
        thread = get_ident()
        stack = self._stacks.get(thread)
        if stack is None:
            stack = self._stacks[thread] = []
            self._thread_names.setdefault(thread, _thread_name(thread))
        while stack and (not stack[-1] or self.ends[stack[-1][NUMBER]]):
            stack.pop()
        code = frame.f_code
        by = whose.get(id(code)) or learn(code)
        if by is PROGRAM:
            if not stack or (stack[-1][FRAME] != id(frame) and stack[-1][ABOUT] is not FUNCTION):
                return stack
            return None if self._around(stack, frame) is NOT_AN_OP else stack
        return None if self._caller(stack, frame, by, converts) is NOT_AN_OP else stack

    def begin(
        self, stack: list[Row], frame: FrameType, key: Key, given: Any = (), attributes: Any = None, about: Any = None
    ) -> Row | None:
        """Return a row for a call by *frame*, None for what an import runs. An empty key hides what is inside."""
        node = self._lines.node(frame)
        if node == HIDDEN:
            return None
        number = len(self.begins)
        row: Row = [number, id(frame), key, given, attributes, about, stack, self.ends]
        self._parents.append(stack[-1][NUMBER] if stack else -1)
        self._intervals.append(self.log.interval)
        self._nodes.append(node)
        self._threads.append(get_ident())
        self.case.append(_NO_OP)
        self.ends.append(0)
        stack.append(row)
        self.begins.append(perf_counter_ns())
        return row

    def _caller(self, stack: list[Row], frame: FrameType, called_by: int, converts: bool) -> Any:
        """Return the row that a call is inside of, None if there is none; `NOT_AN_OP` if it is no op."""
        inside = stack[-1][FRAME] if stack and stack[-1][ABOUT] is not FUNCTION else 0
        if inside == id(frame) or called_by is NOBODY:
            return NOT_AN_OP
        at: FrameType | None = frame
        functions: list[FrameType] = []
        by = called_by
        while at is not None:
            code = at.f_code
            by = whose.get(id(code)) or learn(code)
            if by is NUMPY or by is SCIPY:
                functions.append(at)
            elif by is not BETWEEN:
                break
            at = at.f_back
            if inside == id(at):
                return stack[-1] if called_by is SCIPY and stack[-1][KEY] else NOT_AN_OP
        if at is None or by is not PROGRAM:
            return NOT_AN_OP
        if not functions:  # the standard library calls for the program
            return self._around(stack, at)
        row = self._function(stack, functions, at)
        if row and row[KEY] and (called_by is SCIPY or (converts and row[KEY] is CONVERTS)):
            return row
        return NOT_AN_OP

    def _around(self, stack: list[Row], frame: FrameType) -> Any:
        """Return the row that a call by a *frame* of the program is inside of, None for none; `NOT_AN_OP` if no op."""
        while stack and stack[-1]:
            row = stack[-1]
            if row[ABOUT] is not FUNCTION:
                return NOT_AN_OP if row[FRAME] == id(frame) else row  # compiled code of the op that runs
            if _runs(row, frame):
                return row
            stack.pop()  # it has returned, unseen: an exception kept its frame, or something traces
            self.ends[row[NUMBER]] = self.ends[row[NUMBER]] or perf_counter_ns()
        return None

    def _function(self, stack: list[Row], functions: list[FrameType], program: FrameType) -> Row | None:
        """Return the row of the function of NumPy or SciPy that the *program* called, the last of *functions*."""
        outermost = functions[-1]
        trace = outermost.f_trace
        if type(trace) is End:
            return trace.row if trace.row and trace.row[ENDS] is self.ends else None
        top = stack[-1] if stack else None
        if (
            top
            and self._functions.get(id(outermost)) is top
            and top[FRAME] == id(program)
            and top[ABOUT] is FUNCTION
            and self._lines.is_marked(outermost)
        ):
            return top
        if self._around(stack, program) is NOT_AN_OP:
            return None
        name = function_name(functions[::-1])
        given = _given(outermost) if name else ()
        key: Key = (name, (), "", None, None) if name else QUIET
        if name.startswith("numpy.") and name.rpartition(".")[2] in CONVERSIONS:
            key = CONVERTS
        row = self.begin(stack, program, key, given, None, FUNCTION)
        if row is None:
            return None
        if name and key is not CONVERTS:
            self.case[row[NUMBER]] = self.cases.setdefault((key, given, (), None), len(self.cases))
        if trace is None and sys.gettrace() is None:
            outermost.f_trace = End(row)
        else:
            self._functions[id(outermost)] = row
            self._lines.mark(outermost)  # something traces, and `f_trace` is its
        return row

    def fill(self) -> None:
        """Add all that ended to the log."""
        log = self.log
        log.knows_flops = True
        cases = [_figures(*case) for case in self.cases]
        names = [figures.name(log) for figures in cases]
        numbers: list[int] = []
        last = perf_counter_ns()
        columns = self.begins, self.ends, self.case, self._parents, self._intervals, self._nodes, self._threads
        for begin, end, case, around, interval, node, thread in zip(*columns):
            parent = numbers[around] if around >= 0 else -1
            if case == _NO_OP:
                numbers.append(parent)
                continue
            figures = cases[case]
            duration = (end or last) - begin
            event = log.add(names[case], duration, parent, interval, figures.nbytes)
            numbers.append(event)
            self._say(event, figures, node)
            if self._moments:
                log.ran(event, begin, begin + duration, self._thread_names[thread])
            for cast in figures.casts:
                # The ufunc casts as it computes. So the cast is an op inside it, without a time of its own.
                self._say(log.add(cast.name(log), ABSENT, event, interval, cast.nbytes), cast, node)
        if self.unread:
            calls = "1 call" if self.unread == 1 else f"{self.unread} calls"
            log.remark(f"not seen: {calls} of NumPy whose arguments opprof could not read")

    def _say(self, event: int, figures: _Figures, node: int) -> None:
        if figures.flops is not None:
            self.log.computed(event, figures.flops)
        if self.log.chains is not None:
            self.log.asked_at(event, node)


def _runs(function: Row, frame: FrameType) -> bool:
    """Tell whether a function of NumPy or SciPy runs around *frame*, not only the frame that called it."""
    at: FrameType | None = frame
    called: FrameType | None = None
    while at is not None and id(at) != function[FRAME]:
        called, at = at, at.f_back
    return at is not None and called is not None and whose.get(id(called.f_code)) in (NUMPY, SCIPY, BETWEEN)


def _given(frame: FrameType) -> tuple[Any, ...]:
    """Return dtypes and shapes of the arguments of a function that has just begun."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return ()
    values = frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
    found = tensors_in([values[name] for name in names if name in values])
    # Before Python 3.13 it is a snapshot that the frame keeps, and arrays with it; somebody else may have it, too.
    if sys.version_info < (3, 13) and sys.getrefcount(values) <= 3:
        values.clear()
    return found


def _thread_name(ident: int) -> str:
    # `threading.current_thread` would add a thread that Python did not start to the list that the program sees.
    known = getattr(threading, "_active", {}).get(ident)
    return known.name if known is not None else f"thread {ident}"


class _Figures(NamedTuple):
    """What is known of an op by its name and its arrays."""

    raw: str
    dtypes: tuple[str, ...]
    op: str
    signature: Signature
    nbytes: int
    flops: int | None
    casts: tuple[_Figures, ...] = ()
    """Those that a ufunc makes as it computes."""

    def name(self, log: EventLog) -> int:
        return log.name(self.raw, self.dtypes, self.op, None, self.signature)


def _named(value: Any) -> Any:
    return np.dtype(value) if type(value) is str else value


@lru_cache(maxsize=4096)  # tests of one package call the same ops on the same shapes: 60 us for each case
def _figures(key: Key, given: Any, returned: Any, attributes: Any) -> _Figures:
    given, returned = ([*map(_named, arrays)] for arrays in (given, returned))
    read, written = (
        [(dtype_name(dtype), shape) for dtype, shape in zip(arrays[::2], arrays[1::2])] for arrays in (given, returned)
    )
    raw, dtypes, op, ufunc, asked = key
    signature, nbytes, flops = work(raw, read, written, op, attributes or NO_ATTRIBUTES)
    casts = [
        _figures(
            ("dtype=", (dtype_name(dtype), dtype_name(to)), "", None, None),
            (letter_of(dtype), shape),
            (letter_of(to), shape),
            None,
        )
        for dtype, to, shape in casts_of(given, ufunc, asked)
    ]
    return _Figures(raw, dtypes, op, signature, ABSENT if nbytes is None else nbytes, flops, tuple(casts))
