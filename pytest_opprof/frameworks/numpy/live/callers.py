"""Find the caller of an op: the calling frame decides, or the frames around it if NumPy or SciPy called itself."""

from __future__ import annotations

import inspect
import os
import sys
import threading
from _thread import get_ident
from itertools import cycle
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from ....sites.chains import UNKNOWN, Chains, line_number, qualified_name
from ....sites.code import HERE, Kind, kinds
from .function_names import FUNCTIONS_OF_VIEWS, QUERIES, SCIPY_QUERIES
from .function_names import SCIPY as SCIPY_MODULES
from .machine_code.layout import MEMORY, TRACE_LINES

# In place of a node: the code is no part of the program.
HIDDEN = -1


# The owner of the calling code. A call of the program is an op. A call of NumPy is a part of NumPy's own function; so
# is a call of SciPy, but casts count there. The standard library, and code run by exec, are BETWEEN: their caller
# decides. Calls of test tools, other frameworks and opprof are no ops of the program: NOBODY.
PROGRAM, NUMPY, SCIPY, BETWEEN, NOBODY = range(1, 6)
# By the `id` of a code object, since a look-up by file, or by an object that compares, takes twice as long.
whose: dict[int, int] = {}
_kinds: dict[int, int] = {}
_TRACED, _HIDDEN, _TEST_TOOL, _IMPORTS = range(1, 5)
# Keeps every code with a known `id` alive, so that the id stays valid.
_codes: list[CodeType] = []


def _kind_of(code: CodeType) -> int:
    learn(code)
    return _kinds[id(code)]


def learn(code: CodeType) -> int:
    """Find the owner of *code*."""
    file = code.co_filename
    _codes.append(code)
    if file.startswith("<frozen importlib"):
        kind = _IMPORTS
    else:
        kind = {Kind.TRACED: _TRACED, Kind.HIDDEN: _HIDDEN, Kind.TEST_TOOL: _TEST_TOOL}[kinds[file]]
    _kinds[id(code)] = kind
    whose[id(code)] = found = _whose(file)
    return found


_NUMPY = os.path.join(os.path.dirname(os.path.abspath(np.__file__)), "")
_TESTS = os.sep + "tests" + os.sep
_SCIPY = tuple(os.path.join("scipy", *name.split(".")[1:], "") for name in SCIPY_MODULES)
_OURS = os.path.join(HERE, "")
# Files of opprof with measured work.
WORK = [os.path.join(_OURS, *each.split("/")) for each in ("cli/selfcheck/", "frameworks/numpy/live/known_work.py")]
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")


def _whose(file: str) -> int:
    path = os.path.abspath(file)
    is_test = _TESTS in path
    if path.startswith(_NUMPY):
        return PROGRAM if is_test else NUMPY
    scipy = getattr(sys.modules.get("scipy"), "__file__", None)
    if scipy and not is_test:
        root = os.path.dirname(os.path.dirname(os.path.abspath(scipy)))
        if path.startswith(tuple(os.path.join(root, each) for each in _SCIPY)):
            return SCIPY
        if path.startswith(os.path.join(root, "scipy", "_lib", "")):
            return BETWEEN
    kind = kinds[file]
    if kind is Kind.TRACED or path.startswith(tuple(WORK)):
        return PROGRAM
    if kind is Kind.TEST_TOOL or path.startswith(_OURS):
        return NOBODY
    is_standard = path.startswith(_STANDARD_LIBRARY) and f"{os.sep}site-packages{os.sep}" not in path
    return BETWEEN if file.startswith("<") or is_standard else NOBODY


class Stack(list[Any]):
    """The running rows of a thread, the innermost last."""

    __slots__ = ("thread",)

    def __init__(self, thread: int) -> None:
        """*thread* is the number of the thread."""
        super().__init__()
        self.thread = thread


class Table(dict[int, Any]):
    """The places of a function that was called from one place, by its instruction."""

    __slots__ = ("called", "code", "is_site", "node", "stack", "thread")

    def __init__(self, code: int, node: int, is_site: bool, stack: Stack | None, thread: int) -> None:
        """*code* is the `id` of the code, *node* that of its caller, *is_site* whether its lines have nodes.

        *stack* is that of its *thread*; None if its calls are not ops at once.
        """
        super().__init__()
        self.code, self.node, self.is_site, self.stack, self.thread = code, node, is_site, stack, thread
        self.called: dict[int, Table] = {}
        """The table of the function that it called last, by its instruction."""

    def __missing__(self, instruction: int) -> int | None:
        """Return the place of a function without lines of its own, which is its caller's; None if it has some."""
        if self.is_site:
            return None
        place = self[instruction] = self.node if self.node == HIDDEN else self.node | self.thread << SHIFT
        return place


# In place of `Ask.about`.
FUNCTION = "a function of Python, of which only the calls inside are observed"
SHIFT = 32
# A place is the node of a chain, and the number of the thread in the bits above; or `HIDDEN`.
NODE = (1 << SHIFT) - 1


class Lines:
    """The nodes of call chains, as `sites.stack.here` finds them; `HIDDEN` for code run by an import.

    A visited frame is marked: its callers stay until it returns, so of a deep stack only new frames are walked. Windows
    share the lines one after the other, because tests of one module take the same paths.
    """

    __slots__ = ("_kept", "chains", "inside", "mark", "stacks", "tables", "thread_names")

    def __init__(self, with_sites: bool, mark: int) -> None:
        self.chains = Chains() if with_sites else None
        """None if all nodes are `UNKNOWN`."""
        self.mark = mark
        """The byte that marks a frame."""
        self.stacks: dict[int, Stack] = {}
        """By thread."""
        self.thread_names: list[str] = []
        """By number of a thread; empty for the first one."""
        self.tables: dict[int, Table] = {}
        """By `id` of a marked frame."""
        self.inside: set[int] = set()
        """The marked frames inside of a function of NumPy: their calls are no ops."""
        self._kept: dict[tuple[int, int, int], Table] = {}

    @property
    def size(self) -> int:
        """The number of tables, and of frames that had some."""
        return len(self._kept) + len(self.tables) + len(self.inside)

    def entered(self, frame: FrameType) -> Table | None:
        """Mark a new *frame* and the frames around it; return its table, None if one of them has none yet."""
        mark, tables = self.mark, self.tables
        around = frame.f_back
        found: Table | None
        if around is not None and MEMORY[id(around) + TRACE_LINES] == mark and id(around) in tables:  # the common case
            found = tables[id(around)].called.get(around.f_lasti)
            if found is None or found.code != id(frame.f_code) or MEMORY[id(frame) + TRACE_LINES] != UNMARKED:
                return None
            MEMORY[id(frame) + TRACE_LINES] = mark
            tables[id(frame)] = found
            return found
        new = [frame]
        while around is not None and MEMORY[id(around) + TRACE_LINES] != mark:
            if len(new) > _DEEP:
                return None
            new.append(around)
            around = around.f_back
        if around is None or (table := tables.get(id(around))) is None:
            return None
        for at in reversed(new):
            found = table.called.get(around.f_lasti)
            if found is None or found.code != id(at.f_code) or MEMORY[id(at) + TRACE_LINES] != UNMARKED:
                return None
            MEMORY[id(at) + TRACE_LINES] = mark
            tables[id(at)] = table = found
            around = at
        return table

    def place(self, frame: FrameType, stack: Stack) -> int:
        """Return the place of a *frame* that runs on the thread of a *stack*."""
        at: FrameType | None = frame
        new: list[FrameType] = []
        node, around, called_at = UNKNOWN, None, 0
        while at is not None:
            if self.is_marked(at) and (around := self.tables.get(id(at))) is not None:
                called_at = at.f_lasti
                found = around[called_at]
                if found is None:
                    found = self._add(around, at)
                node = HIDDEN if found < 0 else found & NODE
                break
            code = at.f_code
            kind = _kinds.get(id(code)) or _kind_of(code)
            if kind == _TEST_TOOL:
                break
            if kind == _IMPORTS:
                node = HIDDEN
                break
            new.append(at)
            at = at.f_back
        for at in reversed(new):
            code = at.f_code
            key = node, id(code), stack.thread
            table = self._kept.get(key)
            if table is None:
                by_program = whose[id(code)] is PROGRAM
                is_site = _kinds[id(code)] == _TRACED and node != HIDDEN and self.chains is not None
                table = Table(id(code), node, is_site, stack if by_program else None, stack.thread)
                self._kept[key] = table
            if not code.co_flags & _MOVES:
                if around is not None:
                    around.called[called_at] = table
                self.mark_only(at)
                if self.is_marked(at):
                    self.tables[id(at)] = table
            around, called_at = table, at.f_lasti
            found = table[called_at]
            if found is None:
                found = self._add(table, at)
            node = HIDDEN if found < 0 else found & NODE
        return node if node == HIDDEN else node | stack.thread << SHIFT

    def is_within(self, frame: FrameType | None) -> bool:
        """Return True if a quick check shows that NumPy's code called by *frame* is inside of an op; False is
        inconclusive.
        """
        for _ in range(4):
            if frame is None:
                break
            if MEMORY[id(frame) + TRACE_LINES] == self.mark:
                table = self.tables.get(id(frame))
                stack = None if table is None else table.stack  # an empty table is False
                if not stack:
                    return table is None and id(frame) in self.inside
                row = stack[-1]
                return bool(row) and row[1] == id(frame) and row[2].about != FUNCTION
            if whose.get(id(frame.f_code)) is not NUMPY:
                break
            frame = frame.f_back
        return False

    def _add(self, table: Table, frame: FrameType) -> int:
        node = table.node
        if table.is_site and self.chains is not None:
            node = self.chains.node(node, frame.f_code, line_number(frame))
        found = table[frame.f_lasti] = node if node == HIDDEN else node | table.thread << SHIFT
        return found

    def stack(self) -> Stack:
        """Return the rows of this thread."""
        thread = get_ident()
        stack = self.stacks.get(thread)
        if stack is None:
            self.thread_names.append(_thread_name(thread) if self.thread_names else "")
            stack = self.stacks[thread] = Stack(len(self.thread_names) - 1)
        return stack

    def mark_only(self, frame: FrameType) -> None:
        """Mark a frame until its function returns."""
        if MEMORY[id(frame) + TRACE_LINES] == UNMARKED:
            MEMORY[id(frame) + TRACE_LINES] = self.mark
            self.inside.discard(id(frame))
            self.tables.pop(id(frame), None)

    def is_marked(self, frame: FrameType) -> bool:
        """Return True if a frame is marked."""
        return MEMORY[id(frame) + TRACE_LINES] == self.mark

    def is_inside(self, frame: FrameType) -> None:
        """Remember that no call of a frame of NumPy is an op."""
        if not frame.f_code.co_flags & _MOVES:
            self.mark_only(frame)
            if self.is_marked(frame):
                self.inside.add(id(frame))


_marks = cycle(range(4, 256))
# The marks of shared lines, by whether they have sites.
_SHARED = {False: 2, True: 3}
# Shared lines that no window uses now; None for new ones.
_free: dict[bool, Lines | None] = dict.fromkeys(_SHARED)
_DEEP = 20
_MOST_THREADS = 100
# The most kept tables: 0.5 KB each.
_MOST_TABLES = 100_000


def lines_of(with_sites: bool, is_private: bool) -> Lines:
    """Return lines for a window: new ones if *is_private*, or if a window around it uses the shared ones."""
    if is_private or with_sites not in _free:
        return Lines(with_sites, next(_marks))
    return _free.pop(with_sites) or Lines(with_sites, _SHARED[with_sites])


def give_back(lines: Lines) -> None:
    """Let a later window use *lines*."""
    for stack in lines.stacks.values():
        stack.clear()
    with_sites = lines.chains is not None
    if lines.mark == _SHARED[with_sites]:
        _free[with_sites] = lines if lines.size < _MOST_TABLES and len(lines.stacks) < _MOST_THREADS else None


def _thread_name(ident: int) -> str:
    # `threading.current_thread` would add a thread that Python did not start to the list that the program sees.
    known = getattr(threading, "_active", {}).get(ident)
    return known.name if known is not None else f"thread {ident}"


UNMARKED = 1
# Flags of a code whose frame continues under another caller.
_MOVES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


_names: dict[int, tuple[CodeType, str]] = {}


def function_name(frames: list[FrameType]) -> str:
    """Return the name of the NumPy or SciPy function around *frames*, the outermost first; empty for no op.

    It is the first public one; functions around it are decorators.
    """
    first = ""
    for frame in frames:
        code = frame.f_code
        known = _names.get(id(code))
        if known is None:
            known = _names[id(code)] = code, _name(code, frame.f_globals.get("__name__") or "")
        name = known[1]
        if name.startswith("?"):
            first = first or name[1:]
        else:
            return name
    return first


def _name(code: CodeType, module: str) -> str:
    """Return the public name of a function, after a ``?`` if it has none; empty if it is no op."""
    if module.startswith(("numpy.testing", "numpy._core.arrayprint", "numpy.core.arrayprint", "numpy._core.getlimits")):
        return ""
    if module.startswith(("numpy.core.getlimits", "numpy._pytesttester", "numpy.f2py")):
        return ""
    public = []
    for part in module.split("."):
        if part.startswith("_"):
            break
        public.append(part)
    qualified = qualified_name(code)
    home = ".".join(public)
    if code is NpzFile.__getitem__.__code__:
        return "numpy.load"
    if code.co_name == "as_strided":
        return ""
    homes = [home, public[0] if public else ""]
    if module.startswith(("numpy.core.", "numpy.lib.")):  # before NumPy 2 these parts had no underscore
        homes.reverse()
    for each in homes:
        function: Any = getattr(sys.modules.get(each), code.co_name, None)
        if callable(function) and "." not in qualified and not isinstance(function, type):
            is_question = code.co_name in (SCIPY_QUERIES if each.startswith("scipy") else QUERIES | FUNCTIONS_OF_VIEWS)
            return "" if is_question else f"{each}.{code.co_name}"
    is_public = "<" not in qualified and not any(
        part.startswith("_") and not part.endswith("__") for part in qualified.split(".")
    )
    return f"{home}.{qualified}" if is_public and "." in qualified else f"?{home}.{qualified}"
