"""How often each function was called so far, and from which lines: what both ways of counting fill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from types import WrapperDescriptorType as SlotType
from typing import Any, NamedTuple

from ..profile.site_calls import SourceLine
from ..sites.chains import Frame
from ..sites.shown import Shown
from .counted import CallingLine, PythonCalls
from .functions import (
    is_left_out,
    key_of_bound,
    name_of_bound,
    name_of_callable,
    name_of_code,
    tested_distribution,
    versions,
)
from .names import LOOP

MOST_WALKS = 300_000
"""Of so many calls the line is looked for, which takes 1 to 3 us each: the lines of a loop are known long before."""
_KEPT = (MethodDescriptorType, SlotType)
"""What may be kept for its name, beside types and functions of modules: a bound method keeps its object alive."""
_PYTHON = (FunctionType, MethodType)
"""What is counted where its code begins."""
Key = Any
"""The id of a code object, or of a builtin that is kept; else the type and name of a builtin method, or a name."""


class Snapshot(NamedTuple):
    """How often each function was called, and loops went round, up to one moment."""

    calls: Mapping[int, int]
    builtins: Mapping[Key, int]
    loops: Mapping[int, int]
    collections: int


class Tally:
    """The counts of one counting round. Functions are told by ids; names are found when it is over."""

    def __init__(self, shown: Shown, lines: bool, only: Collection[str] | None, target: CodeType | None = None) -> None:
        """*lines*: whether to look for the line that calls, of the functions *only*, or of all.

        *target* is the code that counts, with what it calls; None: everything does.
        """
        self.target = target
        self.has_begun = target is None
        self.settle: Callable[[], None] | None = None
        """Adds what was counted elsewhere."""
        self.ended: Snapshot | None = None
        """What was counted when the target returned."""
        self.shown = shown
        self.lines = lines
        self.calls: dict[int, int] = {}
        """By the id of the code of a Python function."""
        self.builtins: dict[Key, int] = {}
        self.loops: dict[int, int] = {}
        """By the id of the code that the loop is in."""
        self.collections = 0
        self._only = only
        self._walks = 0
        self._called_at: Counter[tuple[int, int, Key, bool]] = Counter()
        """By the code and line of the project, what was called, and whether the line itself did."""
        self._codes: dict[int, tuple[CodeType, str]] = {}
        """With the name of its module."""
        self._kept: dict[int, Any] = {}
        self._own: dict[str, bool] = {}
        self._wanted: dict[Key, bool] = {}

    def begin(self, frame: FrameType) -> bool:
        """Get to know the code of *frame*; return False if its calls do not count."""
        if is_left_out(frame.f_code.co_filename):
            return False
        self.calls.setdefault(self.know(frame), 0)
        return True

    def know(self, frame: FrameType) -> int:
        """Keep the code of *frame*, so that its id stays its own; return that."""
        code = id(frame.f_code)
        if code not in self._codes:
            self._codes[code] = frame.f_code, str(frame.f_globals.get("__name__", "?"))
        return code

    def key(self, called: Any) -> Key:
        """Return what tells a builtin that is called from others; None for what a Python function does."""
        kind = type(called)
        if kind in _PYTHON:
            return None
        is_builtin = issubclass(kind, BuiltinFunctionType)  # that of re.Pattern.match is a type below it
        if is_builtin and not isinstance(called.__self__, ModuleType):
            return key_of_bound(called)
        if is_builtin or kind in _KEPT or issubclass(kind, type):
            self._kept[id(called)] = called
            return id(called)
        is_python = any(isinstance(each.__dict__.get("__call__"), FunctionType) for each in kind.__mro__)
        return None if is_python else name_of_callable(called)

    def add_builtin(self, key: Key, calls: int) -> None:
        """Count calls of a builtin."""
        self.builtins[key] = self.builtins.get(key, 0) + calls

    def _wants(self, key: Key) -> bool:
        known = self._wanted.get(key)
        if known is None:
            known = self._wanted[key] = self._only is None or self._name(key) in self._only
        return known

    def walk(self, frame: FrameType | None, key: Key) -> None:
        """Count a call for the innermost line of the project that runs in *frame* or around it.

        Of a function that nobody asks for only where a line of the project calls it itself.
        """
        innermost, direct = frame, True
        if not self._wants(key):
            if frame is None or not self.is_own(frame.f_code.co_filename):
                return
        elif self._walks >= MOST_WALKS:
            return
        else:
            self._walks += 1
        while frame is not None and not self.is_own(frame.f_code.co_filename):
            frame, direct = frame.f_back, False
        frame = frame or innermost
        if frame is not None:
            self._called_at[self.know(frame), frame.f_lineno, key, direct] += 1

    def goes_round(self, frame: FrameType) -> None:
        """Count that a loop of the project goes back to its start, from the line that *frame* is at."""
        self._called_at[self.know(frame), frame.f_lineno, LOOP, True] += 1

    def is_own(self, file: str) -> bool:
        """Tell whether a file is the project's, or one that is shown as if it were."""
        known = self._own.get(file)
        if known is None:
            known = self._own[file] = not is_left_out(file) and self.shown.is_shown(file)
        return known

    def _name(self, key: Key) -> str:
        if key in self._codes:
            return name_of_code(*self._codes[key])
        if key in self._kept:
            return name_of_callable(self._kept[key])
        return key if isinstance(key, str) else name_of_bound(*key)

    def returns(self, *_: object) -> None:
        """Keep what was counted when the target returns."""
        self.ended = self.snapshot()

    def snapshot(self) -> Snapshot:
        """Return what was counted so far."""
        if self.settle:
            self.settle()
        return Snapshot(dict(self.calls), dict(self.builtins), dict(self.loops), self.collections)

    def counted(self, before: Snapshot, after: Snapshot, tells_loops: bool) -> PythonCalls:
        """Return what was counted between two moments."""
        functions, loops = Counter[str](), Counter[str]()
        for earlier, later in ((before.calls, after.calls), (before.builtins, after.builtins)):
            for key, calls in _more(earlier, later):
                functions[self._name(key)] += calls
        for key, rounds in _more(before.loops, after.loops):
            loops[self._name(key)] += rounds
        own = {self._name(key) for key, (code, _) in self._codes.items() if self.is_own(code.co_filename)}
        return PythonCalls(
            functions=dict(sorted(functions.items())),
            loops=dict(sorted(loops.items())) if tells_loops else None,
            collections=after.collections - before.collections,
            versions=versions(functions.keys() - own, self._is_tested),
            own=tuple(sorted(own & functions.keys())),
            lines=tuple(self._lines()),
        )

    def _is_tested(self, package: str) -> bool:
        return self.shown.shows(package) or package == tested_distribution(self.shown.root)

    def _lines(self) -> Iterator[CallingLine]:
        for (caller, line, key, direct), calls in self._called_at.items():
            code, _ = self._codes[caller]
            site = self.shown.site([Frame(code.co_filename, code.co_name, line)])
            source = SourceLine(site.file, line, code.co_name, site.text)
            yield CallingLine(source, self._name(key), calls, self._name(caller), direct)


def _more(before: Mapping[Key, int], after: Mapping[Key, int]) -> Iterator[tuple[Key, int]]:
    return ((key, more) for key, calls in after.items() if (more := calls - before.get(key, 0)))
