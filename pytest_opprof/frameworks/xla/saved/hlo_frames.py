"""Find the source lines of instructions in HLO text.

The tables ``FileNames``, ``FunctionNames``, ``FileLocations`` and ``StackFrames`` stand before the computations, a row
a line, counted from 1: ``2 {file_location_id=2 parent_frame_id=2}``. An instruction has
``metadata={op_name="jit(f)/transpose(jvp())/mul" stack_frame_id=2}``; older ones ``source_file="f.py" source_line=7``.
A ``parent_frame_id`` is one more than the number of the calling frame, so that none is 1, since some version of 2025.
"""

from __future__ import annotations

import re
from collections import defaultdict

from ....profile.op_key import CallSite
from ....sites.chains import Frame
from ....sites.recorded import recorded
from ...files.programs import STRING

_TABLES = frozenset(["FileNames", "FunctionNames", "FileLocations", "StackFrames"])
_ROW = re.compile(r"(\d{1,9}) (.*)")
_NUMBER = re.compile(r"(\w+)=(\d{1,9})")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_METADATA = re.compile(r'\bmetadata=\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\}')
_SOURCE = re.compile(r'\bsource_file="((?:[^"\\]|\\.)*)"(?: source_line=(\d{1,9}))?')
_FRAME = re.compile(r"\bstack_frame_id=(\d{1,9})")
# In the names of ops of JAX's gradient, which have the lines of the differentiated ops.
_BACKWARD = "transpose(jvp("
_MOST_FRAMES = 1000


class FrameTables:
    """The tables of a text; `take` reads them."""

    def __init__(self) -> None:
        self._table = ""
        self._rows: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self._sites: dict[tuple[str, bool], CallSite | None] = {}
        self._shift: int | None = None

    def take(self, line: str) -> None:
        """Read a line outside of computations."""
        line = line.strip()
        if line in _TABLES:
            self._table = line
        elif self._table and (match := _ROW.fullmatch(line)):
            self._rows[self._table][int(match[1])] = match[2]
        else:
            self._table = ""

    def site(self, attributes: str) -> CallSite | None:
        """Return the source line of an instruction with these *attributes*; None if they have none."""
        metadata = _METADATA.search(attributes)
        found = metadata and (_FRAME.search(STRING.sub("", metadata[1])) or _SOURCE.search(metadata[1]))
        if not metadata or not found:
            return None
        key = found[0], _BACKWARD in metadata[1]
        if key not in self._sites:
            frames = self._frames(int(found[1])) if found.re is _FRAME else [Frame(found[1], "?", int(found[2] or 0))]
            self._sites[key] = CallSite(recorded(frames), key[1]) if frames else None
        return self._sites[key]

    def _frames(self, number: int) -> list[Frame]:
        frames = self._rows["StackFrames"]
        if self._shift is None:
            self._shift = min((_numbers(row).get("parent_frame_id", 0) for row in frames.values()), default=0)
        found: list[Frame] = []
        while number in frames and len(found) < _MOST_FRAMES:
            row = _numbers(frames[number])
            place = _numbers(self._rows["FileLocations"].get(row.get("file_location_id", 0), ""))
            file, function = (
                _text(self._rows[table].get(place.get(column, 0), ""))
                for table, column in (("FileNames", "file_name_id"), ("FunctionNames", "function_name_id"))
            )
            found.append(Frame(file, function, place.get("line", 0)))
            number = row.get("parent_frame_id", 0) - self._shift
        return found


def _numbers(row: str) -> dict[str, int]:
    return {name: int(number) for name, number in _NUMBER.findall(row)}


def _text(row: str) -> str:
    match = _TEXT.fullmatch(row)
    return match[1] if match else ""
