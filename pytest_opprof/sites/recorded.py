"""Lines in files of other tools: decide which can be sites, by the names of files of any machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import lru_cache

from .chains import Frame
from .code import Kind, first_part, is_test_tool, kinds

# Matches the standard library's folder, of whatever Python.
_LIBRARY = re.compile(
    r".*[\\/]lib(?:64)?[\\/]python3\.\d+[\\/](?!(?:site|dist)-packages[\\/])", re.DOTALL | re.IGNORECASE
)


def recorded(frames: Iterable[Frame]) -> tuple[Frame, ...]:
    """Return the *frames*, the innermost first, whose lines can be sites, up to the test tool that called them.

    A relative file (PyTorch leaves out the folder where Python found it) is one below the current directory, if such a
    file exists.
    """
    found = []
    for frame in frames:
        kind, file = _judged(frame.file)
        if kind is Kind.TEST_TOOL:
            break
        if kind is Kind.TRACED:
            found.append(Frame(file, frame.function, frame.line))
    return tuple(found)


@lru_cache(1 << 12)
def _judged(file: str) -> tuple[Kind, str]:
    """Return the kind of a file, and its path."""
    if os.path.isabs(file) or file.startswith("<"):
        return (Kind.HIDDEN if _LIBRARY.match(file) else kinds[file]), file
    first = first_part(file)
    path = os.path.abspath(file)
    if os.path.exists(path):
        return kinds[path], path
    if is_test_tool(first):
        return Kind.TEST_TOOL, file
    return Kind.HIDDEN if kinds.hides(first) or first in sys.stdlib_module_names else Kind.TRACED, file
