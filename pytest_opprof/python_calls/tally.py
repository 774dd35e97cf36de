"""The counts so far of each function and its calling lines, which both ways of counting fill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from types import WrapperDescriptorType as SlotType
from typing import Any, NamedTuple, TypeVar

from ..profile.site_calls import SourceLine
from ..sites.chains import Frame, line_number
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

# The most frames that are asked for the lines of all calls, at up to 3 us each. The project's own calls take one each,
# so that a test of 1.9 million calls keeps all its lines (13 s instead of 7). Beyond, only every seventh call of a
# function is asked for its line, after a quarter of as many frames every 49th, after half of that every 343rd, and so
# on: pyparsing's changed function ran last, and the lines of the first calls alone blamed others. Seven, since few
# loops have a period of it.
MOST_FRAMES = 2_000_000
_SPARSER = 7
# The first calls of each function are asked all the same.
_RARE = 100
# Objects that may be kept for their name, beside types and functions of modules: a bound method keeps its object alive.
_KEPT = (MethodDescriptorType, SlotType)
# Counted where their code begins.
_PYTHON = (FunctionType, MethodType)
# The id of a code object, or of a kept builtin; else the type and name of a builtin method, or a name.
Key = Any


# The code and line of the project, the called function, and whether the line itself called it.
_CalledAt = tuple[int, int, Key, bool]
_Counted = TypeVar("_Counted")


class Snapshot(NamedTuple):
    """The calls of each function, and loop iterations, up to one moment."""

    calls: Mapping[int, int]
    builtins: Mapping[Key, int]
    loops: Mapping[int, int]
    collections: int
    called_at: Mapping[_CalledAt, int]
    """Only with lines."""


class Tally:
    """The counts of one counting round. Functions are distinguished by ids; names are found when it is over."""

    def __init__(self, shown: Shown, lines: bool, only: Collection[str] | None, target: CodeType | None = None) -> None:
        """*lines*: whether to find the calling line, of the functions *only*, or of all.

        *target* is the code that counts, with its calls; None: everything does.
        """
        self.target = target
        self.has_begun = target is None
        self.settle: Callable[[], None] | None = None
        """Adds counts from elsewhere."""
        self.ended: Snapshot | None = None
        """The counts when the target returned."""
        self.shown = shown
        self.lines = lines
        self.calls: dict[int, int] = {}
        """By the id of the code of a Python function."""
        self.builtins = Counter[Key]()
        self.loops: dict[int, int] = {}
        """By the id of the code that contains the loop."""
        self.collections = 0
        self._only = only
        self._walks = 0
        """The calls whose line was looked up."""
        self._frames = 0
        self._stride = 1
        """A look-up stands for as many calls of a function: those since its last one."""
        self._until = self._frames_more = MOST_FRAMES
        """The frames after which it becomes larger, and how many more these were than those before."""
        self._seen: dict[Key, int] = {}
        """The calls of each function since it first did."""
        self._asked: dict[Key, tuple[int, _CalledAt]] = {}
        """The calls of each function up to the last that was looked up, and its line."""
        self._called_at = Counter[_CalledAt]()
        self._codes: dict[int, tuple[CodeType, str]] = {}
        """With the name of its module."""
        self._kept: dict[int, Any] = {}
        self._own: dict[str, bool] = {}
        self._wanted: dict[Key, bool] = {}

    def begin(self, frame: FrameType) -> bool:
        """Register the code of *frame*; return False if its calls do not count."""
        if is_left_out(frame.f_code.co_filename):
            return False
        self.calls.setdefault(self.know(frame), 0)
        return True

    def know(self, frame: FrameType) -> int:
        """Keep the code of *frame*, so that its id stays valid; return the id."""
        code = id(frame.f_code)
        if code not in self._codes:
            self._codes[code] = frame.f_code, str(frame.f_globals.get("__name__", "?"))
        return code

    def key(self, called: Any) -> Key:
        """Return the key of a called builtin; None for a Python function."""
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

    def _wants(self, key: Key) -> bool:
        known = self._wanted.get(key)
        if known is None:
            known = self._wanted[key] = self._only is None or self._name(key) in self._only
        return known

    def walk(self, frame: FrameType | None, key: Key) -> None:
        """Count a call for the innermost line of the project that runs in *frame* or around it.

        For a function that is not requested, only if a line of the project calls it itself.
        """
        innermost, direct, calls, seen = frame, True, 1, 0
        if self._stride > 1:
            seen = self._seen[key] = self._seen.get(key, 0) + 1
            asked = self._asked.get(key)
            calls = seen - asked[0] if asked else seen
            if seen > _RARE and calls < self._stride:
                return
        if self._wants(key):
            self._walks += 1
        elif frame is None or not self.is_own(frame.f_code.co_filename):
            return
        self._frames += 1
        while frame is not None and not self.is_own(frame.f_code.co_filename):
            frame, direct = frame.f_back, False
            self._frames += 1
        frame = frame or innermost
        if frame is not None:
            place = self.know(frame), frame.f_lineno or line_number(frame), key, direct
            self._called_at[place] += calls
            if self._stride > 1:
                self._asked[key] = seen, place
        if self._frames >= self._until:
            self._stride *= _SPARSER
            self._frames_more = max(self._frames_more // (4 if self._stride == _SPARSER else 2), 1)
            self._until += self._frames_more

    def goes_round(self, frame: FrameType, line: int) -> None:
        """Count an iteration of a loop of the project in *frame*, at the *line* where the loop begins."""
        self._called_at[self.know(frame), line, LOOP, True] += 1

    def is_own(self, file: str) -> bool:
        """Return True if a file is the project's, or one that is shown as if it were."""
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
        """Keep the counts when the target returns."""
        self.ended = self.snapshot()

    def snapshot(self) -> Snapshot:
        """Return the counts so far."""
        if self.settle:
            self.settle()
        for key, (asked, place) in self._asked.items():  # the calls since then are taken for ones from the same line
            self._called_at[place] += self._seen[key] - asked
            self._asked[key] = self._seen[key], place
        return Snapshot(
            dict(self.calls), dict(self.builtins), dict(self.loops), self.collections, dict(self._called_at)
        )

    def counted(self, before: Snapshot, after: Snapshot, tells_loops: bool) -> PythonCalls:
        """Return the counts between two moments."""
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
            lines=tuple(self._lines(_more(before.called_at, after.called_at))),
            looked_up=self._walks if self._stride > 1 else 0,
        )

    def of_first_calls(self, why: str) -> PythonCalls:
        """Return the lines of the calls so far, if these were looked up; *why* the rest was not counted."""
        return PythonCalls(uncounted=why, lines=tuple(self._lines(self._called_at.items())), looked_up=self._walks)

    def _is_tested(self, package: str) -> bool:
        return self.shown.shows(package) or package == tested_distribution(self.shown.root)

    def _lines(self, called_at: Iterable[tuple[_CalledAt, int]]) -> Iterator[CallingLine]:
        for (caller, line, key, direct), calls in called_at:
            code, _ = self._codes[caller]
            site = self.shown.site([Frame(code.co_filename, code.co_name, line)])
            source = SourceLine(site.file, line, code.co_name, site.text)
            yield CallingLine(source, self._name(key), calls, self._name(caller), direct)


def _more(before: Mapping[_Counted, int], after: Mapping[_Counted, int]) -> Iterator[tuple[_Counted, int]]:
    return ((key, more) for key, calls in after.items() if (more := calls - before.get(key, 0)))
