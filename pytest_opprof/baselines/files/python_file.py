"""The calls of each Python function when a baseline was recorded: ``test_x.py.python.json``.

It judges nothing: the number of all calls is a fact in the file of calls. It is read if a test fails for that number,
to tell which functions grew; its errors are reported there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import BaselineError
from ...machine.atomic_write import write_atomically
from ...python_calls.growth import FLOOR, NOTHING, Before
from ...results.document import laid_out, read_document
from .paths import python_of
from .schemas import PYTHON_SCHEMA, check_version

if TYPE_CHECKING:
    from .file_types import PythonFile


# Up to this number all functions are kept. Half of the tests of pandas' groupby call 500 and more, three quarters of
# which no more than ten times: of these a fourth is kept, 4 KiB a test, and the project's own if there are no more than
# 100, since a new one is the likely cause.
_ALL = 100


@dataclass(frozen=True, slots=True)
class Functions:
    """The calls of one window: by function, and the loop iterations by the function that contains them."""

    calls: Before = NOTHING
    loops: Before = NOTHING

    @classmethod
    def of(cls, calls: Mapping[str, int], loops: Mapping[str, int], own: Collection[str] = ()) -> Functions:
        """Return the functions to keep of a window: all of few, or the most telling of many; *own*: the project's."""
        return cls(_enough(calls, own), _enough(loops))


def _enough(calls: Mapping[str, int], own: Collection[str] | None = None) -> Before:
    if len(calls) <= _ALL:
        return Before(calls)
    has_own = own is not None and len(own) <= _ALL
    kept = {*(own or ())} if has_own else set()
    often = {name: each for name, each in calls.items() if each > FLOOR or name in kept}
    return Before(often, FLOOR, has_own=has_own)


# By test and window.
ModulePython = Mapping[tuple[str, str], Functions]
PythonChange = tuple[str, str, Functions]


def read(path: Path) -> ModulePython | str:
    """Return the content beside the file of calls at *path*, or in words why it is unusable."""
    at = python_of(path)
    if not os.path.exists(at):  # which raises nothing
        return f"there is no {at}; pytest --opprof-update --opprof-python writes it"
    try:
        file = load(at)
    except BaselineError as error:
        return str(error)
    return {
        (test, window): Functions(
            Before(_flat(kept.functions), kept.above, has_own=kept.has_own),
            Before(_flat(kept.loops), kept.loops_above),
        )
        for test, windows in file.tests.items()
        for window, kept in windows.items()
    }


def load(path: Path) -> PythonFile:
    """Read and check a file of Python functions by itself. Raises BaselineError."""
    from ...results.json_schema import decoded
    from .file_types import PythonFile

    document = read_document(path, "file of Python functions")
    check_version(document, path, PYTHON_SCHEMA)
    try:
        return decoded(document, PythonFile)
    except ValueError as error:
        advice = "Restore the file, or delete it and run pytest --opprof-update --opprof-python"
        raise BaselineError(f"{path}: {str(error)[:200]}. {advice}") from None


def save(
    path: Path, changes: Iterable[PythonChange], kept: Mapping[str, Collection[str]], through: Path | None = None
) -> list[Path]:
    """Write the functions of windows beside the file of calls at *path*, and return the files that changed.

    Functions of windows that are not *kept* (by test: windows with calls) are dropped; a file without any is removed,
    an unreadable one is replaced if there is anything to write. Raises BaselineError if it cannot be written.
    """
    from msgspec import to_builtins

    from .file_types import KeptFunctions, PythonFile

    at, before, new = python_of(path), read(path), list(changes)
    if isinstance(before, str) and not new:
        return []
    windows = dict(before) if not isinstance(before, str) else {}
    windows |= {(test, window): functions for test, window, functions in new}
    tests: dict[str, dict[str, KeptFunctions]] = {}
    for (test, window), functions in windows.items():
        if window in kept.get(test, ()):
            calls, loops = functions.calls, functions.loops
            of_window = KeptFunctions(
                _nested(calls.calls), _nested(loops.calls), calls.above, loops.above, calls.has_own
            )
            tests.setdefault(test, {})[window] = of_window
    after = {(test, window): windows[test, window] for test, by_window in tests.items() for window in by_window}
    if after == before or (not tests and not os.path.exists(at)):
        return []
    try:
        if tests:
            write_atomically(at, laid_out(to_builtins(PythonFile(PYTHON_SCHEMA, tests))), through)
        else:
            at.unlink()
    except OSError as error:
        raise BaselineError(f"{at}: cannot be written: {error.strerror or error}") from error
    return [at]


def _nested(calls: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return numbers by module or class, then by name: a line of the file each, a third of the size."""
    found: dict[str, dict[str, int]] = {}
    for name in sorted(calls):
        where, _, function = name.rpartition(".")
        found.setdefault(where, {})[function] = calls[name]
    return found


def _flat(kept: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {f"{where}.{name}" if where else name: calls for where, of in kept.items() for name, calls in of.items()}
