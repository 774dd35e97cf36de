"""Observers of calls: each reads the arguments of one kind of function, and none raises or changes anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import _getframe, modules
from time import perf_counter_ns
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from ....sites.code import HERE
from .arguments import LASTING, NUMBERS
from .callers import NUMPY, Table, whose
from .cases import CONVERTS, PLAIN, UFUNCS, VIEW, Case, Op, ask_of, key_of, known
from .machine_code.layout import MEMORY, TRACE_LINES
from .recording import Recording, Row

# Redirects calls of new modules to observers, too: `hook` adds it.
look: list[Callable[[], None]] = []
# The recordings of open windows, the innermost last: it gets all calls.
recordings: list[Recording] = []
# The last of them: a look-up takes 5 ns, one in a list 40.
_now: Recording | None = None
_NUMPY = os.path.dirname(os.path.abspath(np.__file__))
_ndarray = np.ndarray


def begin(recording: Recording) -> None:
    """Direct all calls to a *recording*."""
    global _now
    recordings.append(recording)
    _now = recording


def stop(recording: Recording) -> None:
    """Direct all calls to the recording around this one."""
    global _now
    if recording in recordings:  # not in a forked process
        recordings.remove(recording)
    _now = recordings[-1] if recordings else None


def _asked(op: Op, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Row | None:
    """Return a row for a call of *op* by *frame*; None if it is no op."""
    recording = _now
    if recording is None:
        return None  # a subclass of arrays that was made while the window was open
    try:
        # Most calls need only this first part. `Recording` does the same for all others, in up to 5 times the time.
        at = id(frame)
        lines = recording.lines
        table: Table | None = None
        if MEMORY[at + TRACE_LINES] == lines.mark:
            table = lines.tables.get(at)
            if table is None and at in lines.inside:
                return None
        elif whose.get(id(frame.f_code)) is NUMPY:
            if lines.is_within(frame.f_back):
                return None
        else:
            table = lines.entered(frame)
        if table is not None and (stack := table.stack) is not None and not stack:
            place = table[frame.f_lasti]
            if place is not None and (ask := known.get(key_of(op, args, kwargs))):  # type: ignore[arg-type]
                if place < 0:
                    return None
                number = next(recording.numbers)
                if number >= recording.room:
                    recording.grow()
                recording.places[number] = place
                row: Row = [number, at, ask, args or (*kwargs.values(),), stack, recording]
                stack.append(row)
                recording.begins[number] = perf_counter_ns()
                return row
        if recording.modules != len(modules):  # some were imported in the window
            recording.modules = len(modules)
            look[0]()
        stack = recording.asked(frame, op.about is CONVERTS)
        if stack is None:
            return None
        ask = ask_of(op, args, kwargs)
        return recording.begin(stack, frame, ask, args or (*kwargs.values(),)) if ask else None
    except Exception as error:
        if not _is_ours(error.__traceback__):
            raise
        recording.unread += 1
        return None


def end(row: Row, result: object) -> None:
    """Observe the *result* of a call, and its end."""
    now = perf_counter_ns()
    if not row:
        return
    recording: Recording
    number, _, ask, args, stack, recording = row
    if stack and stack[-1] is row:
        stack.pop()
    if _now is not recording:  # a window was opened or closed in the middle of the call
        row.clear()
        return
    try:
        answer: Any = None
        kind, about = type(result), ask.about
        case: Case | None = ask.sole
        if case is not None:
            recording.cases[number] = case
            recording.ends[number] = now
            return
        if kind is _ndarray:
            array: Any = result
            if not about:
                answer = id(array.dtype), array.shape
            else:
                source, base = args[0], array.base
                if array is source or (
                    base is not None and type(source) is _ndarray and (base is source or base is source.base)
                ):  # the argument, or a view of it
                    recording.ends[number] = now
                    return
                if base is None and about is not VIEW and (type(source) is not _ndarray or source.base is not array):
                    answer = id(array.dtype), array.shape
        elif not about and id(kind) in PLAIN:
            answer = id(kind)
        case = ask.cases.get(answer)
        if case is None:
            case = ask.case(args, result)
            if case is not None and answer is not None and (kind is not _ndarray or answer[0] in LASTING):
                ask.keep(answer, case)
        recording.cases[number] = case
    except Exception as error:
        if not _is_ours(error.__traceback__):
            raise
        recording.unread += 1
    recording.ends[number] = now


def _is_ours(trace: TracebackType | None) -> bool:
    """Return True if an exception is a mistake of an observer; otherwise a signal handler raised it inside one."""
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith((HERE, _NUMPY)):
            return False
        trace = trace.tb_next
    return True


_NONE: dict[str, Any] = {}


def of_call(op: Op) -> Callable[..., Any]:
    """Return an observer of calls with these arguments."""

    def observe(*args: Any, **kwargs: Any) -> Row | None:
        return _asked(op, _getframe(1), args, kwargs)

    return observe


def of_function(op: Op) -> Callable[..., Any]:
    """Return an observer of a function of a module: the module comes first."""

    def observe(module: object, /, *args: Any, **kwargs: Any) -> Row | None:
        return _asked(op, _getframe(1), args, kwargs)

    return observe


def of_packed(op: Op, takes_self: bool = True) -> Callable[..., Any]:
    """Return an observer of calls that are given self, a tuple of arguments and a dict of them."""

    def observe(self: Any, args: Any, kwargs: Any) -> Row | None:
        args = () if args is None else args if type(args) is tuple else (args,)
        return _asked(op, _getframe(1), (self, *args) if takes_self else args, kwargs or _NONE)

    return observe


def of_one(op: Op, takes_self: bool = True) -> Callable[..., Any]:
    """Return an observer of calls that are given self and one argument, or None."""

    def observe(self: Any, given: Any, _: None) -> Row | None:
        args = () if given is None else (given,)
        return _asked(op, _getframe(1), (self, *args) if takes_self else args, _NONE)

    return observe


def of_ufunc_method(method: str, name_of: Callable[[Any, str], str]) -> Callable[..., Any]:
    """Return an observer of a method of ufuncs, such as ``reduce``."""

    def observe(self: Any, /, *args: Any, **kwargs: Any) -> Row | None:
        return _asked(_method(name_of, self, method), _getframe(1), args, kwargs)

    return observe


def of_packed_ufunc_method(method: str, name_of: Callable[[Any, str], str]) -> Callable[..., Any]:
    """Return an observer of a method of ufuncs that is given a tuple: ``at``."""

    def observe(self: Any, args: Any, kwargs: Any) -> Row | None:
        return _asked(_method(name_of, self, method), _getframe(1), args, kwargs or _NONE)

    return observe


@lru_cache(maxsize=1024)
def _method(name_of: Callable[[Any, str], str], ufunc: Any, method: str) -> Op:
    return Op(name_of(ufunc, method), protocol=UFUNCS)


def of_scalars(ops: Sequence[Op]) -> Callable[..., Any]:
    """Return an observer of an operator of NumPy's scalars; *ops* are those of each comparison, or one."""
    single = ops[0] if len(ops) == 1 else None

    def observe(left: Any, right: Any, third: Any) -> Row | None:
        # With an array beside it NumPy calls a ufunc, which is observed itself; another class decides itself.
        for value in (left, right):
            kind = type(value)
            if id(kind) not in NUMBERS and not issubclass(kind, np.generic):
                return None
        args = (left,) if right is None else (left, right)
        return _asked(single or ops[third], _getframe(1), args, _NONE)

    return observe


def of_numba(self: Any, args: Any, kwargs: Any) -> None:
    """Observe that a function that Numba compiled runs: no op, since nothing inside it can be seen."""
    if _now is not None:
        _now.runs_numba = True


_BY_INDEX, _ASSIGN = Op("ndarray.__getitem__"), Op("ndarray.__setitem__", moves=(2, 0))


def by_index(self: Any, key: Any, _: None) -> Row | None:
    """Observe indexing: only an index array gathers; any other index returns a view or one item."""
    for each in key if type(key) is tuple else (key,):
        kind = type(each)
        if kind is list or issubclass(kind, np.ndarray):
            return _asked(_BY_INDEX, _getframe(1), (self, key), _NONE)
    return None


def assign(self: Any, key: Any, value: Any) -> Row | None:
    """Observe an assignment by index; an array of objects keeps the object itself."""
    dtype = np.ndarray.dtype.__get__(self)
    if dtype.hasobject:
        return None
    return _asked(_ASSIGN, _getframe(1), (self, key, value), _NONE)
