"""The options for reading a saved profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .place import Place


@dataclass(frozen=True)
class Options:
    """The user's options."""

    partial: bool = False
    """Read the complete part of a cut file, and describe the missing part in `SavedProfile.remarks`."""
    rank: int | None = None
    """The rank to read, if a place has several."""
    sites: bool = False
    """Read source lines of ops, too, which takes longer."""
    model: Path | None = None
    """The ONNX model of the run, which knows the lines."""
    files: tuple[Place, ...] = ()
    """The files to read from a folder of which these are parts: of a graph's stage."""


def as_number(value: object) -> int | None:
    """Return the number of a rank or a device, which profilers write as a number or as text; None for other values.

    >>> as_number(2), as_number("2"), as_number(-1), as_number(True)
    (2, 2, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if type(value) is int and 0 <= value < 10**9 else None
