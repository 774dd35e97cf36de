"""Record the observed calls of one window, which become the events of its log."""

from __future__ import annotations

import gc
import inspect
import sys
from array import array
from itertools import count
from time import perf_counter_ns
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....profile.columns import ABSENT, numbered
from ....profile.events.event_log import EventLog
from ....sites.chains import UNKNOWN
from ....units import plural
from .arguments import tensors_in
from .callers import (
    BETWEEN,
    FUNCTION,
    NOBODY,
    NODE,
    NUMPY,
    PROGRAM,
    SCIPY,
    SHIFT,
    Stack,
    function_name,
    give_back,
    learn,
    lines_of,
    whose,
)
from .cases import QUIET, Ask, Case, Key
from .function_names import CONVERSIONS
from .memory import Counted

# The fields of a row while its call runs: a list, which the machine code empties if the call raises. FRAME is the `id`
# of the calling frame, OWNER the recording.
NUMBER, FRAME, ASK, ARGS, STACK, OWNER = range(6)
Row = list[Any]
CONVERSION: Key = ("a function that converts: no op itself, but the conversion inside may be one",)
NOT_AN_OP: Any = object()
# Rows by which columns grow.
_STEP = 1024


class End:
    """Marks a frame of a function in ``f_trace``: it is freed with the frame, and so signals the end."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row

    def __call__(self, *event: object) -> None:
        """Trace nothing, if a tracer starts while the function runs."""

    def __del__(self) -> None:
        row = self.row
        if row and not row[OWNER].ends[row[NUMBER]]:
            row[OWNER].ends[row[NUMBER]] = perf_counter_ns()


class Recording:
    """The calls of one window, in the order in which they began: a number of each in every column."""

    # Numbers in arrays, because a list for each call would take 250 bytes and keep the garbage collector busy.
    __slots__ = (
        *(
            "begins",
            "cases",
            "ends",
            "lines",
            "log",
            "memory",
            "modules",
            "numbers",
            "places",
            "room",
            "runs_numba",
            "unread",
            "wants_memory",
        ),
        *("_functions", "_intervals", "_moments", "_parents"),
    )

    def __init__(self, log: EventLog, moments: bool, memory: bool = False) -> None:
        self.log = log
        self.modules = len(sys.modules)
        """The number of modules when their functions were last examined."""
        self.wants_memory = memory
        self.memory: Counted | None = None
        """Counts the bytes of arrays, if possible."""
        self.runs_numba = False
        """Whether a function that Numba compiled ran."""
        self.unread = 0
        """The number of unreadable calls."""
        self.numbers = count()
        """The numbers of calls: two threads at once get two."""
        self.room = 0
        """The number of calls for which columns have room."""
        self.begins = array("q")
        self.ends = array("q")
        """0 while it runs, or if it raised or was no op."""
        self.cases: list[Case | None] = []
        self.places = array("q")
        self.lines = lines_of(log.chains is not None, is_private=moments)
        self._parents: dict[int, int] = {}
        self._intervals: list[tuple[int, int]] = []
        """The first call number of each interval."""
        self._functions: dict[int, Row] = {}
        """The traced frames, by `id`."""
        self._moments = moments

    def grow(self) -> None:
        """Make room for more calls."""
        step = max(_STEP, self.room // 2)
        for column in (self.begins, self.ends, self.places):
            column.frombytes(bytes(8 * step))
        self.cases.extend([None] * step)
        self.room = min(len(self.begins), len(self.ends), len(self.places), len(self.cases))

    def mark(self) -> None:
        """Begin the next interval of the log."""
        self._intervals.append((next(self.numbers), self.log.interval))
        self._take(self.log.interval - 1)

    def _take(self, interval: int) -> None:
        """Record the memory of an *interval* that has ended."""
        if self.memory is None:
            return
        if self.memory.held > 0 and self.log.interval not in self.log.range_marks:
            # A garbage cycle is no held memory. Only the young generation: 1.2 ms beside pandas.
            gc.collect(1)
        self.log.used(self.memory.taken(), interval)
        self.log.knows_memory = True

    def stop(self) -> None:
        """Let another window use the lines; call it once."""
        give_back(self.lines)

    def asked(self, frame: FrameType, converts: bool = False) -> Stack | None:
        """Return the running rows of this thread, the innermost last, for a call by *frame*; None if it is no op.

        *converts*: it is one of the conversions behind `numpy.require` and the like.
        """
        code = frame.f_code
        by = whose.get(id(code)) or learn(code)
        if by is NOBODY:
            return None
        stack = self.lines.stack()
        while stack and (not stack[-1] or self.ends[stack[-1][NUMBER]]):
            stack.pop()
        if by is PROGRAM:
            if not stack or (stack[-1][FRAME] != id(frame) and stack[-1][ASK].about is not FUNCTION):
                return stack
            return None if self._around(stack, frame) is NOT_AN_OP else stack
        if self._caller(stack, frame, by, converts) is not NOT_AN_OP:
            return stack
        if by is NUMPY and not (stack and stack[-1] and stack[-1][ASK].key is CONVERSION):
            self.lines.is_inside(frame)
        return None

    def begin(self, stack: Stack, frame: FrameType, ask: Ask, args: Any = ()) -> Row | None:
        """Return a row for a call by *frame*, None for code run by an import. An empty key hides the calls inside."""
        place = self.lines.place(frame, stack)
        if place < 0:
            return None
        number = next(self.numbers)
        if number >= self.room:
            self.grow()
        row: Row = [number, id(frame), ask, args, stack, self]
        if stack:
            self._parents[number] = stack[-1][NUMBER]
        self.places[number] = place
        stack.append(row)
        self.begins[number] = perf_counter_ns()
        return row

    def _caller(self, stack: Stack, frame: FrameType, called_by: int, converts: bool) -> Any:
        """Return the row around a call, None if there is none; `NOT_AN_OP` if it is no op."""
        inside = stack[-1][FRAME] if stack and stack[-1][ASK].about is not FUNCTION else 0
        if inside == id(frame):
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
                return stack[-1] if called_by is SCIPY and stack[-1][ASK].key else NOT_AN_OP
        if at is None or by is not PROGRAM:
            return NOT_AN_OP
        if not functions:  # the standard library calls for the program
            return self._around(stack, at)
        row = self._function(stack, functions, at)
        if row and row[ASK].key and (called_by is SCIPY or (converts and row[ASK].key is CONVERSION)):
            return row
        return NOT_AN_OP

    def _around(self, stack: Stack, frame: FrameType) -> Any:
        """Return the row around a call by a *frame* of the program, None for none; `NOT_AN_OP` if no op."""
        while stack and stack[-1]:
            row = stack[-1]
            if row[ASK].about is not FUNCTION:
                return NOT_AN_OP if row[FRAME] == id(frame) else row  # compiled code of the running op
            if _runs(row, frame):
                return row
            stack.pop()  # it has returned, unseen: an exception kept its frame, or a tracer does
            self.ends[row[NUMBER]] = self.ends[row[NUMBER]] or perf_counter_ns()
        return None

    def _function(self, stack: Stack, functions: list[FrameType], program: FrameType) -> Row | None:
        """Return the row of the NumPy or SciPy function that the *program* called, the last of *functions*."""
        outermost = functions[-1]
        trace = outermost.f_trace
        if type(trace) is End:
            return trace.row if trace.row and trace.row[OWNER] is self else None
        top: Row | None = stack[-1] if stack else None
        if (
            top
            and self._functions.get(id(outermost)) is top
            and top[FRAME] == id(program)
            and top[ASK].about is FUNCTION
            and self.lines.is_marked(outermost)
        ):
            return top
        if self._around(stack, program) is NOT_AN_OP:
            return None
        name = function_name(functions[::-1])
        given = _given(outermost) if name else ()
        converts = name.startswith("numpy.") and name.rpartition(".")[2] in CONVERSIONS
        key: Key = CONVERSION if converts else (name, (), "", None, None) if name else QUIET
        row: Row | None = self.begin(stack, program, Ask(key, given, None, FUNCTION))
        if row is None:
            return None
        if name and not converts:
            self.cases[row[NUMBER]] = Case(key, given, ())
        if trace is None and sys.gettrace() is None:
            outermost.f_trace = End(row)
        else:
            self._functions[id(outermost)] = row
            self.lines.mark_only(outermost)  # a tracer owns `f_trace`
        return row

    def fill(self) -> None:
        """Add all finished calls to the log, a column at a time: 0.5 us a call."""
        log, now = self.log, perf_counter_ns()
        log.knows_flops = True
        self._take(log.interval)
        if self.runs_numba:
            log.remark("functions compiled by Numba ran: the ops inside are not seen, only their CPU time is compared")
        if self.unread:
            log.remark(f"not seen: {plural(self.unread, 'call')} of NumPy whose arguments opprof could not read")
        if not (size := min(next(self.numbers), self.room)):
            return  # half of an idle window's time went into empty arrays
        cases, case = numbered(self.cases[:size])
        # The ufunc casts as it computes. A cast is therefore an op inside it, without a time of its own.
        events = [() if each is None else (each.figures, *each.figures.casts) for each in cases]
        figures = [each for of_case in events for each in of_case]
        counts = np.array([len(of_case) for of_case in events], np.int64)
        count = counts[case]
        first = len(log) + np.cumsum(count) - count
        call = np.repeat(np.arange(size), count)
        part = len(log) + np.arange(len(call)) - first[call]
        of = (np.cumsum(counts) - counts)[case[call]] + part
        begins, ends, places = (np.array(column[:size], np.int64) for column in (self.begins, self.ends, self.places))
        ends[ends == 0] = now
        starts, intervals = zip((0, 0), *self._intervals)
        log.extend(
            np.array([each.name(log) for each in figures], np.int64)[of],
            np.where(part == 0, (ends - begins)[call], ABSENT),
            np.where(part == 0, self._events_around(np.where(count > 0, first, -1))[call], first[call]),
            np.array(intervals, np.int64)[np.searchsorted(starts, call, "right") - 1],
            np.array([each.nbytes for each in figures], np.int64)[of],
            np.array([ABSENT if each.flops is None else each.flops for each in figures], np.int64)[of],
            None if log.chains is None else self._nodes(places[call] & NODE),
        )
        for number in np.flatnonzero(count).tolist() if self._moments else ():
            thread = self.lines.thread_names[self.places[number] >> SHIFT]
            log.ran(int(first[number]), int(begins[number]), int(ends[number]), thread)

    def _events_around(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the event around each call, given those of all calls: -1 for none."""
        nearest, around = events.tolist(), [-1] * len(events)
        for number, outer in list(self._parents.items()):  # an outer call comes first
            if number < len(events):
                around[number] = nearest[outer]
                if nearest[number] < 0:
                    nearest[number] = nearest[outer]
        return np.array(around, np.int64)

    def _nodes(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the log's nodes for those of the lines."""
        chains, told = self.lines.chains, self.log.chains
        assert chains is not None  # as the log has some
        assert told is not None
        known = {UNKNOWN: UNKNOWN}
        asked, index = np.unique(nodes, return_inverse=True)
        for node in asked.tolist():
            new: list[int] = []
            while node not in known:
                new.append(node)
                node = chains.caller(node)
            for each in reversed(new):
                known[each] = told.of_lines([chains.line(each)], known[chains.caller(each)])
        return np.array([known[node] for node in asked.tolist()], np.int64)[index]


def _runs(function: Row, frame: FrameType) -> bool:
    """Return True if a function of NumPy or SciPy runs around *frame*, not only its calling frame."""
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
    # Before Python 3.13 this is a snapshot that the frame keeps, and arrays with it; other code may hold it, too.
    if sys.version_info < (3, 13) and sys.getrefcount(values) <= 3:
        values.clear()
    return found
