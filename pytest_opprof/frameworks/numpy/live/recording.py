"""What observers tell: the calls of one window, which become the events of its log."""

from __future__ import annotations

import gc
import inspect
import sys
from array import array
from bisect import bisect_right
from itertools import count
from time import perf_counter_ns
from types import FrameType
from typing import Any

from ....profile.columns import ABSENT
from ....profile.event_log import EventLog
from ....sites.chains import UNKNOWN
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
from .cases import QUIET, Ask, Case, Figures, Key
from .function_names import CONVERSIONS
from .memory import Counted

NUMBER, FRAME, ASK, ARGS, STACK, OWNER = range(6)
"""What a row has while its call runs: a list, which the machine code empties where the call raises.

FRAME is the `id` of the frame that called, OWNER the recording."""
Row = list[Any]
CONVERSION: Key = ("a function that converts: no op itself, but the conversion inside may be one",)
NOT_AN_OP: Any = object()
_STEP = 1024
"""Rows that columns grow by."""


class End:
    """Stands in ``f_trace`` of the frame of a function: it goes when the frame goes, and so tells the end."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row

    def __call__(self, *event: object) -> None:
        """Trace nothing, if something begins to trace while the function runs."""

    def __del__(self) -> None:
        row = self.row
        if row and not row[OWNER].ends[row[NUMBER]]:
            row[OWNER].ends[row[NUMBER]] = perf_counter_ns()


class Recording:
    """The calls of one window, in the order in which they began: a number of each in every column."""

    # Numbers in arrays: a list for each call, kept, would take 250 bytes and keep the garbage collector busy.
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
            "unread",
            "wants_memory",
        ),
        *("_functions", "_intervals", "_moments", "_parents"),
    )

    def __init__(self, log: EventLog, moments: bool, memory: bool = False) -> None:
        self.log = log
        self.modules = len(sys.modules)
        """How many modules there were when it was looked what they have."""
        self.wants_memory = memory
        self.memory: Counted | None = None
        """What counts the bytes of arrays, if anything does."""
        self.unread = 0
        """How many calls could not be read."""
        self.numbers = count()
        """Of calls: two threads that ask at once get two."""
        self.room = 0
        """How many numbers columns have room for."""
        self.begins = array("q")
        self.ends = array("q")
        """0 while it runs, or where it raised or was no op."""
        self.cases: list[Case | None] = []
        self.places = array("q")
        self.lines = lines_of(log.chains is not None, is_private=moments)
        self._parents: dict[int, int] = {}
        self._intervals: list[tuple[int, int]] = []
        """Of each interval the number that it begins with."""
        self._functions: dict[int, Row] = {}
        """By `id` of their frames, those that something traces."""
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
        """Tell the log what memory an *interval* used that has ended."""
        if self.memory is None:
            return
        if self.memory.held > 0 and self.log.interval not in self.log.range_marks:
            # A cycle that nobody holds is no held memory. Only the young: 1.2 ms beside pandas.
            gc.collect(1)
        self.log.used(self.memory.taken(), interval)
        self.log.knows_memory = True

    def stop(self) -> None:
        """Let another window use the lines; call it once."""
        give_back(self.lines)

    def asked(self, frame: FrameType, converts: bool = False) -> Stack | None:
        """Return the rows of this thread that run, the innermost last, for a call by *frame*; None if it is no op.

        *converts*: it is one of the conversions that `numpy.require` and the like stand for.
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
        """Return a row for a call by *frame*, None for what an import runs. An empty key hides what is inside."""
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
        """Return the row that a call is inside of, None if there is none; `NOT_AN_OP` if it is no op."""
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
        """Return the row that a call by a *frame* of the program is inside of, None for none; `NOT_AN_OP` if no op."""
        while stack and stack[-1]:
            row = stack[-1]
            if row[ASK].about is not FUNCTION:
                return NOT_AN_OP if row[FRAME] == id(frame) else row  # compiled code of the op that runs
            if _runs(row, frame):
                return row
            stack.pop()  # it has returned, unseen: an exception kept its frame, or something traces
            self.ends[row[NUMBER]] = self.ends[row[NUMBER]] or perf_counter_ns()
        return None

    def _function(self, stack: Stack, functions: list[FrameType], program: FrameType) -> Row | None:
        """Return the row of the function of NumPy or SciPy that the *program* called, the last of *functions*."""
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
            self.lines.mark_only(outermost)  # something traces, and `f_trace` is its
        return row

    def fill(self) -> None:
        """Add all that ended to the log."""
        log = self.log
        log.knows_flops = True
        self._take(log.interval)
        figures: dict[int, Figures] = {}
        names: dict[int, int] = {}
        numbers: list[int] = []
        firsts = [first for first, _ in self._intervals]
        last = perf_counter_ns()
        nodes: dict[int, int] = {UNKNOWN: UNKNOWN}
        columns = zip(range(next(self.numbers)), self.begins, self.ends, self.cases, self.places)
        for number, begin, end, case, place in columns:
            around = self._parents.get(number)
            parent = -1 if around is None else numbers[around]
            if case is None:
                numbers.append(parent)
                continue
            at = id(case)
            if (known := figures.get(at)) is None:
                known = figures[at] = case.figures
                names[at] = known.name(log)
            duration = (end or last) - begin
            interval = self._intervals[bisect_right(firsts, number) - 1][1] if firsts else 0
            event = log.add(names[at], duration, parent, interval, known.nbytes)
            numbers.append(event)
            node = place & NODE
            if (mine := nodes.get(node)) is None:
                mine = self._node(node, nodes)
            self._say(event, known, mine)
            if self._moments:
                log.ran(event, begin, begin + duration, self.lines.thread_names[place >> SHIFT])
            for cast in known.casts:
                # The ufunc casts as it computes. So the cast is an op inside it, without a time of its own.
                self._say(log.add(cast.name(log), ABSENT, event, interval, cast.nbytes), cast, mine)
        if self.unread:
            calls = "1 call" if self.unread == 1 else f"{self.unread} calls"
            log.remark(f"not seen: {calls} of NumPy whose arguments opprof could not read")

    def _node(self, node: int, nodes: dict[int, int]) -> int:
        """Return the node of the log for one of the lines', with all around it in *nodes*."""
        new: list[int] = []
        chains, told = self.lines.chains, self.log.chains
        assert chains is not None  # or each node is UNKNOWN
        assert told is not None
        while node not in nodes:
            new.append(node)
            node = chains.caller(node)
        found = nodes[node]
        for each in reversed(new):
            found = nodes[each] = told.of_lines([chains.line(each)], found)
        return found

    def _say(self, event: int, figures: Figures, node: int) -> None:
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
