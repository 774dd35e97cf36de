"""A format of saved profiles, and the options for reading one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .place import Place

if TYPE_CHECKING:
    from ...profile.saved import SavedProfile
    from ...timeline.spans import Timeline


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


@dataclass(frozen=True)
class Format:
    """A format of saved profiles."""

    title: str
    """The program that writes it, as people call it."""
    recognises: Callable[[Place], bool]
    """Whether a file, or a folder for formats of several files, has the format. Decides by the content, of which it
    reads no more than the head of a file."""
    read: Callable[[Place, Options], SavedProfile]
    """Returns the profile in a place. Raises TraceError, and nothing else, for a broken file."""
    timeline: Callable[[Place, Options], Timeline | None] | None = None
    """Returns the timeline, if there are times of events. Raises TraceError."""
    ranks: Callable[[Place], Sequence[int | None]] | None = None
    """Returns the ranks in a place that can hold several, or names its rank."""
    stages: Callable[[Place, str | None], Sequence[tuple[Place, ...]]] | None = None
    """Returns the files of each program in a folder at the requested stage of its compiler: `Options.files`."""
    repeats: Callable[[Place], bool] | None = None
    """Whether another file of the folder already has the data of this one."""
    explains: Callable[[Place], str] | None = None
    """Describes a file of the profiler without ops, and names the file to give instead."""
    as_documented: bool = False
    """Whether its reader was written without a recording to test it."""
    takes_model: bool = False
    """Whether it reads `Options.model`."""


def as_number(value: object) -> int | None:
    """Return the number of a rank or a device, which profilers write as a number or as text; None for other values.

    >>> as_number(2), as_number("2"), as_number(-1), as_number(True)
    (2, 2, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if type(value) is int and 0 <= value < 10**9 else None
