"""The formats of saved profiles: recognise the format of a file or folder, and read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ...errors import TraceError, UsageError, suggestion
from ...profile.saved import SavedProfile
from . import not_profiles
from .format import Format, Options
from .place import Place

if TYPE_CHECKING:
    from ...timeline.spans import Timeline

# The module of each format. A place is offered to them in this order.
FORMATS = {
    "opprof": "files.own_format",
    "megengine": "megengine.saved.graph",
    "megengine_timeline": "megengine.saved.timeline",
    "mindspore": "mindspore.saved.cpu",
    "mindspore_gpu": "mindspore.saved.gpu",
    "mindspore_ascend": "mindspore.saved.ascend",
    "mindspore_graph": "mindspore.saved.graph",
    "mindir": "mindspore.saved.mindir",
    "ascend": "ascend.saved.profile",
    "ascend_timeline": "ascend.saved.timeline",
    "nsys": "nvidia.saved.nsys",
    "nsys_stats": "nvidia.saved.nsys_stats",
    "ncu": "nvidia.saved.ncu",
    "rocprof": "amd.saved.rocprof",
    "torch": "pytorch.saved.kineto",
    "torch_execution": "pytorch.saved.execution",
    "onnxruntime": "onnx.saved.runtime",
    "onnx_model": "onnx.saved.model",
    "jax": "xla.saved.jax_trace",
    "jax_xplane": "xla.saved.xplane",
    "hlo": "xla.saved.hlo",
    "stablehlo": "xla.saved.stablehlo",
}
# The most files to examine below one folder; a profiler writes some hundreds.
MOST_FILES = 20_000
MOST_DEPTH = 12
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Found:
    """A saved profile that was found."""

    format: str
    place: Place
    rank: int | None = None
    files: tuple[Place, ...] = ()
    """The files to read from a folder of several profiles: the parts of a graph at one stage."""

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        rank = f" (rank {self.rank})" if self.rank is not None else ""
        return f"{self.files[0] if self.files else self.place}{more}{rank}"


def format_of(name: str) -> Format:
    """Return the format *name*. Raises UsageError, with the nearest names."""
    if name not in FORMATS:
        raise UsageError(f"unknown format {name!r}{suggestion(name, FORMATS) or '.'} Known: {', '.join(FORMATS)}")
    return cast(Format, import_module(f"..{FORMATS[name]}", __package__).FORMAT)


def find(
    place: Place, source: str | None = None, stage: str | None = None, left_out: list[Place] | None = None
) -> list[Found]:
    """Return every profile in *place*, a file or a folder. *source* is the name of a format: only that one is tried.

    *stage* is the stage of graphs that a compiler saved into a folder; None is the last one. Raises TraceError without
    a profile, listing the formats, and UsageError for an impossible stage. An empty file with a name like the profiles
    beside it goes to *left_out*, if given.
    """
    if wrong := _no_place(place) or not_profiles.explained(place) or _no_utf8(place):
        raise TraceError(f"{place}: {wrong}")
    formats = tuple(FORMATS) if source is None else (source,)
    if source is not None and not place.is_folder:
        return _ranked(source, place)
    seen: list[Place] = []
    found = [part for each in _search(place, formats, seen, 0) for part in _of_stage(each, stage)]
    if not found:
        if not place.is_folder and (explained := _explained(place)):
            raise TraceError(f"{place}: {explained}")
        why = next(filter(None, map(_not_read, seen)), "") if place.is_folder else _why(place)
        raise TraceError(f"{place}: is not a profile that opprof can read (opprof formats lists them){why}")
    unread = _unread(seen, found)
    if left_out is not None:
        left_out += unread
    elif unread:
        raise TraceError(
            f"{unread[0]}: is empty or broken, although its name is that of a profile. Was it copied whole? Remove"
            " it, or name the profile to read"
        )
    return found


def read(found: Found, partial: bool = False, sites: bool = False, model: Path | None = None) -> SavedProfile:
    """Read one profile. With *partial*, read the complete part of a cut file. Raises TraceError.

    For *sites* and *model* see `Options`. Raises UsageError for a model with a format that has none.
    """
    of_format = format_of(found.format)
    options = Options(False, found.rank, sites, model, found.files)
    if model and not of_format.takes_model:
        raise UsageError(f"--model {model}: is for ONNX Runtime's profiles; {found} is a {of_format.title}")
    try:
        return of_format.read(found.place, options)
    except TraceError as error:
        if not partial:
            raise
        why = str(error)
    try:
        return replace(of_format.read(found.place, replace(options, partial=True)), is_cut=True)
    except TraceError as error:
        if str(error) != why:
            raise
        raise TraceError(f"{why} (--partial does not help here)") from None


def timeline(found: Found, partial: bool = False) -> Timeline | None:
    """Return the timeline of a profile; None if its format has no times of events. Raises TraceError."""
    reads = format_of(found.format).timeline
    return reads(found.place, Options(partial, found.rank)) if reads else None


def _search(place: Place, formats: tuple[str, ...], seen: list[Place], depth: int) -> Iterator[Found]:
    seen.append(place)
    if len(seen) > MOST_FILES or depth > MOST_DEPTH:
        raise TraceError(f"{place}: too many files or folders to look through; name the profile's own folder")
    for name in formats:
        of_format = format_of(name)
        if of_format.recognises(place):
            repeats = of_format.repeats
            if not (depth and repeats and repeats(place)):
                yield from _ranked(name, place)
            return
    if place.is_folder:
        for child in place.children():
            yield from _search(child, formats, seen, depth + 1)


def _of_stage(found: Found, stage: str | None) -> list[Found]:
    """Return *found*, or the files of a stage of each graph in its folder. Raises TraceError and UsageError."""
    of_format = format_of(found.format)
    stages = of_format.stages
    if stages is None or not found.place.is_folder:
        if stage is not None:
            raise UsageError(
                f"--stage {stage}: is for a folder of graphs that MindSpore saved (save_graphs); {found} is a"
                f" {'file' if stages else of_format.title}"
            )
        return [found]
    return [replace(found, files=files) for files in stages(found.place, stage)]


def _unread(seen: list[Place], found: list[Found]) -> list[Place]:
    """Return the empty files with a name like a found profile's."""
    empty = [place for place in seen if not place.is_folder and not place.head.strip()]
    return called_like(empty, found)


def called_like(places: list[Place], found: list[Found]) -> list[Place]:
    """Return the *places* whose names differ from one of those *found* only in numbers, such as the rank."""
    names = {_NUMBER.sub("", each.place.path.name) for each in found}
    return [place for place in places if _NUMBER.sub("", place.path.name) in names]


def _ranked(name: str, place: Place) -> list[Found]:
    found = Found(name, place)
    ranks = format_of(name).ranks
    return [replace(found, rank=rank) for rank in ranks(place)] if ranks else [found]


def _no_place(place: Place) -> str:
    """Return why the place cannot be read; "" if it can."""
    if str(place) == "-":
        return "opprof reads a file more than once, so it cannot read its standard input; save it to a file first"
    if not place.path.exists():
        return "there is no such file or folder"
    if not place.is_folder and not place.path.is_file():
        return "is a pipe or a device, which opprof would have to read more than once; save it to a file first"
    return ""


def _no_utf8(place: Place) -> str:
    """Return the remedy for a text in UTF-16: it has a byte order mark, or every other byte is zero. "" for others."""
    start = place.head[:64]
    halves = (start[0::2], start[1::2])
    letters = next((half for half, other in (halves, halves[::-1]) if len(half) == 32 and not any(other)), b"\xff")
    is_text = letters.isascii() and "".join(letters.decode().split()).isprintable()
    if not is_text and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ""
    return (
        "is UTF-16, as a spreadsheet or PowerShell's > writes it; expected UTF-8. Convert it:"
        f" iconv -f UTF-16 -t UTF-8 {place.path.name} > utf8-{place.path.name}"
    )


def _not_read(place: Place) -> str:
    """Return why no format recognised a file below a folder, if known; else ""."""
    try:
        if not place.is_folder:
            place.beginning()
    except TraceError as error:
        return f". {error}"
    wrong = not_profiles.explained(place) or _no_utf8(place) or _explained(place)
    return f". {place} {wrong}" if wrong else ""


def _explained(place: Place) -> str:
    """Return a description of a file without ops that a known profiler wrote; "" for other files."""
    explaining = [explains for name in FORMATS if (explains := format_of(name).explains)]
    return next(filter(None, (explains(place) for explains in explaining)), "")


def _why(place: Place) -> str:
    beginning = place.beginning()
    if not beginning:
        return ": it is empty"
    if unknown := not_profiles.unknown_timeline(place):
        return unknown
    return f". It begins with {beginning[:40].decode('utf-8', 'backslashreplace')!r}"
