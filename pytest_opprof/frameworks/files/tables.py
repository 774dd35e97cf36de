"""Read the csv tables of CANN, MindSpore and torch_npu: cells are looked up by the names of columns.

A column is known by its header, in lower case, with single spaces for underscores and without a unit in parentheses:
``Task Duration(us)`` is ``task duration``. Files may begin with a byte order mark, end lines with CRLF or LF, hold
newlines in quoted cells (call stacks), have a tab after timestamps, and write ``N/A`` for unknown values.

100 000 rows of 46 columns take half the time of csv.reader. A line without quotes is only split, and no further than
the last wanted column. Of a line with quotes, the part from the first to the last quote is parsed by the csv module,
once for all rows with the same part (the shapes); the parts before and after it are split.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import nan
from operator import itemgetter

from ...errors import TraceError
from .durations import Untimed
from .place import Place

# Bytes of one row, 1 MiB: a call stack takes some 10 KiB.
MOST_ROW = 1 << 20
MOST_COLUMNS = 4096
_MOST_LINES_BEFORE = 100
_BLOCK = 1 << 20
_MISSING = frozenset(["", "N/A", "NA", "NULL", "NONE", "-"])
_UNIT = re.compile(r"\s*\(([A-Za-z%/]{1,5})\)\s*$")


@dataclass(frozen=True)
class Table:
    """A csv file with its header read."""

    place: Place
    header: tuple[str, ...]
    """As written."""
    columns: Mapping[str, int]
    """The index of each column, by its alias."""

    def unit(self, column: str) -> str:
        """Return the parenthesised part of the header of *column* (``us``); "" if there is none."""
        match = _UNIT.search(self.header[self.columns[column]])
        return match[1] if match else ""

    def require(self, *columns: str) -> None:
        """Raise TraceError, with a list of the headers, if one of *columns* is missing."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise TraceError(
                f"{self.place}: has no column for {', '.join(missing)}; its columns are {_listed(self.header)}"
            )

    def rows(self, *columns: str, remarks: list[str] | None = None) -> Iterator[tuple[str, ...]]:
        """Yield the cells of *columns* of each row as they are written; "" for a missing column.

        `known` makes text of a cell. Raises TraceError for a broken row. The last row of a cut file is left out with a
        remark, given *remarks*; otherwise it is an error too.
        """
        indices = [self.columns.get(column, -1) for column in columns]
        last = max(1, *indices)  # so that an empty line, which has one cell, is no row
        pick = itemgetter(*indices) if len(indices) > 1 else lambda cells: tuple(cells[index] for index in indices)
        quoted = lru_cache(1 << 14)(_quoted)
        begin = 1
        for lines, whole in _lines(self.place):
            for number, line in enumerate(lines if whole else self._uncut(lines, last, begin, remarks), begin):
                if number == 1:
                    continue
                try:
                    cells = _cells(line, last, quoted)
                except csv.Error as error:
                    raise TraceError(f"{self.place}: row {number} is no csv ({error}): {line[:80]!r}") from None
                if len(cells) > last:
                    cells.append("")
                    yield pick(cells)
                elif line.strip():
                    raise TraceError(
                        f"{self.place}: row {number} has {len(cells)} cells, expected {len(self.header)} as the header"
                        f" has: {line[:80]!r}"
                    )
            begin += len(lines)

    def _uncut(self, lines: list[str], last: int, begin: int, remarks: list[str] | None) -> list[str]:
        """Return *lines* without the last one, which has no line end, if wanted cells of it may be cut."""
        line, columns = lines[-1] if lines else "", len(self.header)
        # A number at the very end of the file may have lost digits.
        if not line.strip() or (line.count('"') % 2 == 0 and len(_parsed(line)) >= columns > last + 1):
            return lines
        number = begin + len(lines) - 1
        if remarks is None:
            whole = line.count('"') % 2 == 0 and len(_parsed(line)) >= columns
            add = ". If only the line end is missing, add it" if whole else ""
            raise TraceError(f"{self.place}: is cut in row {number}; was it copied whole? {_PARTIAL}{add}")
        remarks.append(f"{self.place.path.name} is cut in row {number}, which is left out")
        return lines[:-1]


_PARTIAL = "--partial reads the rows before it"


def table(place: Place, aliases: Mapping[str, str]) -> Table:
    """Return the table in a file. *aliases* are names of columns by header; a header without one is its own name.

    Raises TraceError for a file without a header.
    """
    lines, _ = next(_lines(place), ([""], False))
    header = _header(lines[0]) if lines else ()
    if not any(header):
        raise TraceError(f"{place}: has no header; a table begins with the names of its columns")
    return Table(place, header, columns(header, aliases))


def head(place: Place) -> tuple[str, ...]:
    """Return the header of a file that may be a table, for `recognises`; empty for a folder and for binary data."""
    try:
        line, end, _ = place.head.replace(b"\r", b"\n").partition(b"\n")
    except TraceError:
        return ()
    if not end or b"\0" in line or line.count(b",") >= MOST_COLUMNS:
        return ()
    return _header(line.decode("utf-8", "replace"))


def located(place: Place, aliases: Mapping[str, str], *needed: frozenset[str]) -> Place | None:
    """Return the file from the first line that has all columns of one of *needed*; None if no line has.

    Programs that print their table to the terminal print other lines before it.
    """
    begin = 0
    for line in place.head.splitlines(keepends=True)[:_MOST_LINES_BEFORE]:
        if line.count(b",") < MOST_COLUMNS and b"\0" not in line:
            found = columns(_header(line.decode("utf-8", "replace")), aliases).keys()
            if any(each <= found for each in needed):
                return replace(place, begin=place.begin + begin)
        begin += len(line)
    return None


def columns(header: tuple[str, ...], aliases: Mapping[str, str]) -> dict[str, int]:
    """Return the index of each column; of two with the same name, the first."""
    found: dict[str, int] = {}
    for index, text in enumerate(header):
        name = _folded(text)
        found.setdefault(aliases.get(name, name), index)
    return found


@lru_cache(1 << 14)  # except for names, few cells differ
def known(cell: str) -> str:
    """Return the text of a cell; "" if the cell marks an unknown value.

    >>> known("1736405443881410.320\\t"), known(" N/A")
    ('1736405443881410.320', '')
    """
    text = cell.strip()
    return "" if text.upper() in _MISSING else text


def number(table: Table, row: int, column: str, cell: str) -> float | None:
    """Return the number in a cell of *row* (the header is row 1), or None for N/A. Raises TraceError."""
    text = known(cell)
    try:
        value = float(text) if text else None
    except ValueError:
        value = -1.0
    if value is None or 0 <= value < 1e18:
        return value
    raise TraceError(
        f"{table.place}: row {row} has {cell[:40]!r} in the column {table.header[table.columns[column]]!r};"
        " expected a number that is not negative"
    )


def count(table: Table, row: int, column: str, cell: str) -> int:
    """Return the whole number in a cell of *row*. Raises TraceError."""
    text = known(cell)
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)  # exact: timestamps have more digits than a float holds
    value = number(table, row, column, cell)
    if value is not None and value == int(value):
        return int(value)
    raise TraceError(f"{table.place}: row {row} has {cell[:40]!r} for a count; expected a whole number")


def unit(table: Table, column: str, units: Mapping[str, int]) -> int:
    """Return the value in *units* of the unit in the header of *column*. Raises TraceError for other units."""
    unit = table.unit(column)
    if unit not in units:
        header = table.header[table.columns[column]]
        raise TraceError(f"{table.place}: has no unit in the header {header!r}; expected one of {', '.join(units)}")
    return units[unit]


def duration(table: Table, row: int, column: str, cell: str, untimed: Untimed) -> float:
    """Return the duration in a cell of *row*, NaN if missing (see `durations`). Raises TraceError."""
    if known(cell).lower().lstrip("+-") not in ("", "nan"):
        return number(table, row, column, cell) or 0.0
    untimed.add(table.place, f"row {row} ({table.header[table.columns[column]]!r} is {cell.strip()!r})")
    return nan


def _lines(place: Place) -> Iterator[tuple[list[str], bool]]:
    """Yield batches of records (rows, with the newlines in their quoted cells), and whether the last has a line end."""
    begun: list[str] = []
    for block, whole in _blocks(place):
        lines = block.split("\n")
        if whole:
            lines.pop()
        if begun or any(line.count('"') & 1 for line in lines):
            lines = _joined(begun, lines)
            if sum(map(len, begun)) + len(begun) > MOST_ROW:
                raise TraceError(f"{place}: has a row of more than {MOST_ROW >> 20} MiB; a quote is not closed")
        yield lines, whole
    if begun:
        yield ["\n".join(begun)], False


def _joined(begun: list[str], lines: list[str]) -> list[str]:
    """Return the complete records in *lines*. *begun* holds the lines of an incomplete record from call to call.

    A record is complete when it has an even number of quotes.
    """
    records = []
    for line in lines:
        odd = line.count('"') & 1
        if begun or odd:
            begun.append(line)
            if len(begun) == 1 or not odd:
                continue
            line = "\n".join(begun)
            begun.clear()
        records.append(line)
    return records


def _blocks(place: Place) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces of complete lines, and whether the last line of the piece has a line end."""
    offset, rest = 0, b""
    with place.open() as file:
        while piece := file.read(_BLOCK):
            rest += piece
            if not offset:
                rest = _without_mark(place, rest)
            end = rest.rfind(b"\n") + 1
            if end:
                yield _text(place, rest[:end], offset), True
                offset, rest = offset + end, rest[end:]
            elif len(rest) > MOST_ROW:
                raise TraceError(f"{place}: has a line of more than {MOST_ROW >> 20} MiB; this is no table")
    if rest:
        yield _text(place, rest, offset), rest.endswith(b"\r")


def _without_mark(place: Place, start: bytes) -> bytes:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TraceError(f"{place}: is UTF-16, expected UTF-8; save it again as UTF-8")
    return start.removeprefix(b"\xef\xbb\xbf")


def _text(place: Place, block: bytes, offset: int) -> str:
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        raise TraceError(
            f"{place}: is not UTF-8 at byte {offset + error.start} ({block[error.start]:#04x});"
            " was it saved again by a spreadsheet? Save it as UTF-8"
        ) from None
    # The CR of a CRLF stays at the end of the last cell: replacing it would take as long as all other reading.
    return text if "\n" in text else text.replace("\r", "\n")


def _cells(line: str, last: int, quoted: Callable[[str], list[str]]) -> list[str]:
    """Return the cells of a record up to the index *last*, or more."""
    first, quote, rest = line.partition('"')
    if not quote:
        return line.split(",", last + 1)
    middle, _, tail = rest.rpartition('"')
    cells = first.split(",")
    if cells.pop() or (tail and tail[0] != ","):
        return _parsed(line)
    cells += quoted(middle)
    if len(cells) <= last and tail:
        cells += tail.split(",", last + 2 - len(cells))[1:]
    return cells


def _quoted(middle: str) -> list[str]:
    return _parsed(f'"{middle}"')


def _parsed(text: str) -> list[str]:
    return next(csv.reader([text]), [])


def _header(line: str) -> tuple[str, ...]:
    # JSON on one line has 2,000 cells in 64 KiB: a fifth of the CPU time to read 64 ranks of 900 events went there.
    if line.lstrip().startswith(("{", "[")):
        return ()
    try:
        cells = _parsed(line[: 1 << 16])
    except csv.Error:
        return ()
    return tuple(cell.strip() for cell in cells) if len(cells) <= MOST_COLUMNS else ()


def _folded(header: str) -> str:
    return " ".join(_UNIT.sub("", header).replace("_", " ").lower().split())


def _listed(header: tuple[str, ...]) -> str:
    return ", ".join(repr(text[:40]) for text in header[:60])
