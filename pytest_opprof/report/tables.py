"""The one table: values stay numbers until a renderer writes them, for people or for programs.

`text` fits a terminal and gives each line the sense of its row; `markdown`, `csv` and `json` take the same table.
"""

from __future__ import annotations

import io
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from csv import writer as csv_writer
from dataclasses import dataclass, replace
from json import dumps
from textwrap import TextWrapper, wrap
from typing import Any, Literal

from ..units import format_bytes, format_change, format_flops, format_ns, format_share, plural
from ..verdict.verdicts import Sense
from .colours import TextLine
from .escaping import csv_cell, terminal
from .escaping import markdown as escaped

CUT = "…"
_GAP = 2
"""Spaces between columns; tabulate also keeps a column so much wider than its heading."""
_LEAST, _LEAST_OF_ALL = 24, 8
"""Characters that a column keeps before columns are left out, and after all that can be spared are."""
_PIECES = re.compile(r"(\s+|(?<=,)(?=\S)|(?<=->)(?=\S))")
"""Where words are folded: after a comma and an arrow too, as "int32,int64->float32" has no space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How people read the values of a column, and how it becomes narrower in a terminal without room."""

    write: Callable[[Any], str] = str
    narrows: Literal["", "cut", "fold"] = ""
    most: int = 0
    """Characters to show where the width is not known; 0 is all."""
    least: int = _LEAST
    """Characters that it keeps before columns are left out, where it narrows."""
    none: str = "-"
    """The text for an unknown value."""
    in_markdown: Callable[[Any], str] | None = None
    """How Markdown has it, where it is more than the same text: escapes names itself."""


def shapes_text(shapes: Sequence[Sequence[int]] | None) -> str:
    """Return shapes as people write them: ``[2,3,64,64] [16,3,3,3]``."""
    return " ".join(f"[{','.join(map(str, shape))}]" for shape in shapes or ())


def short(name: str) -> str:
    """Return a name as tables have it, safe to print."""
    return _cut(terminal(name), NAME.most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}{CUT}"


def change_of(write: Callable[[Any], str], none: str = "-") -> Kind:
    """Return the kind of a pair, before and now, that *write* writes: ``3 -> 4``; one value if both are the same."""

    def arrow(pair: tuple[Any, Any]) -> str:
        before, now = (none if value is None else write(value) for value in pair)
        return now if before == now else f"{before} -> {now}"

    return Kind(write=arrow)


def _rate(write: Callable[[float], str]) -> Kind:
    return Kind(write=lambda rate: "inf" if math.isinf(rate) else f"{write(rate)}/s")


WORDS = Kind(narrows="fold")
SHORT_WORDS = Kind(narrows="fold", least=8)
"""Of words that can stand below each other, as dtypes and verdicts can."""
OP = Kind(write=lambda name: str(name) or "-", narrows="cut", least=30)
NAME = Kind(write=OP.write, narrows="cut", most=48)
"""Of a kernel, a file or a function: often far too long."""
COUNT = Kind()
TIME = Kind(write=format_ns)
EXACT_TIME = Kind(write=lambda ns: format_ns(ns, 4))
SHARE = Kind(write=format_share)
BYTES, FLOPS = Kind(write=format_bytes), Kind(write=format_flops)
BYTE_RATE, FLOP_RATE = _rate(format_bytes), _rate(format_flops)
CALLS_CHANGE = change_of(str, "0")
TIME_CHANGE = change_of(format_ns)
RELATIVE = Kind(write=lambda pair: format_change(*pair))
"""Of a pair, before and now: ``+12%``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str | None
    """Its heading; None for one that only programs read."""
    kind: Kind = WORDS
    key: str = ""
    """Its name in CSV and JSON, with the unit of the number; empty for one that only people read."""
    right: bool = False
    """Whether Markdown aligns it to the right."""
    spare: int = 0
    """Left out where there is no room for all, the largest number first; 0: never."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values, and the columns that they are in."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    senses: Sequence[Sense] = ()
    """Of each row; without any, no row is worse or better."""
    elsewhere: str = ""
    """Where the columns are that a narrow terminal has no room for."""
    is_headed: bool = True
    """Whether a terminal shows the headings."""
    keys: int | None = None
    """How many of the first columns stand again in a second table below, which has the columns that a narrow terminal
    has no room for; None: these are left out."""

    def of(self, whose: Mapping[str, object]) -> Table:
        """Return the table with columns before its own, the same in each row: which profile and rank the rows are of.

        Only programs read them: people have a title above the table.
        """
        return replace(
            self,
            columns=[*(Column(None, key=key) for key in whose), *self.columns],
            rows=[[*whose.values(), *row] for row in self.rows],
        )


@dataclass(frozen=True, slots=True)
class Style:
    """How a command writes for people: in a terminal of a *width* (None: not known), or as Markdown."""

    is_markdown: bool = False
    width: int | None = None

    def write(self, text: str) -> str:
        """Return *text*, which may hold names, safe in this style."""
        return escaped(text) if self.is_markdown else terminal(text)

    def lines(self, table: Table) -> list[TextLine]:
        """Return the lines of a table."""
        if not self.is_markdown:
            return text(table, self.width)
        return list(map(TextLine, markdown(table, padded=True)))

    def left_out(self, number: int, row: str, how: str) -> list[str]:
        """Return the lines below a table that lacks *number* rows, none for 0; *how* is ``-v shows them``."""
        if number <= 0:
            return []
        # Markdown takes a line right below a table for one more row.
        return [*([""] if self.is_markdown else []), f"... and {plural(number, f'more {row}')} ({how})"]

    def text(self, table: Table) -> str:
        """Return a table as text."""
        return "\n".join(line.text for line in self.lines(table))


PLAIN, MARKDOWN = Style(), Style(is_markdown=True)


def style_of(format: str) -> Style:
    """Return the style of a command's ``--format``: ``markdown``, else that of standard output."""
    return MARKDOWN if format == "markdown" else Style(width=terminal_width())


def terminal_width() -> int | None:
    """Return the columns of the terminal, or as COLUMNS says; None where output goes elsewhere."""
    if os.environ.get("COLUMNS", "").isdecimal() or (sys.stdout is not None and sys.stdout.isatty()):
        return shutil.get_terminal_size().columns or None
    return None


def text(table: Table, width: int | None = None) -> list[TextLine]:
    """Return the lines of a table for a terminal of *width*: of a wider table names are cut, words are folded.

    Columns that still have no room are left out, and named below, or are in another table below (`Table.keys`).
    """
    # Imported here: 20 ms that JSON and CSV do not pay.
    from tabulate import tabulate

    shown = [at for at, column in enumerate(table.columns) if column.title is not None]
    columns = [table.columns[at] for at in shown]
    cells = [[_written(columns[number], row[at], terminal) for number, at in enumerate(shown)] for row in table.rows]
    parts = _parts(
        [_Sized.of(column, [row[at] for row in cells]) for at, column in enumerate(columns)], width, table.keys
    )
    senses = table.senses or ["neither"] * len(table.rows)
    how: dict[str, Any] = {"tablefmt": "simple" if table.is_headed else "plain", "disable_numparse": True}
    lines: list[TextLine] = []
    for widths in parts:
        narrowed = [[_narrowed(row[at], columns[at].kind, size) for at, size in widths.items()] for row in cells]
        if table.is_headed:
            how["headers"] = [
                _folded(terminal(columns[at].title or ""), size - _GAP if width is not None else None)
                for at, size in widths.items()
            ]
        drawn = tabulate(narrowed, **how).splitlines()
        heights = [max((cell.count("\n") for cell in row), default=0) + 1 for row in narrowed]
        of_rows: list[Sense] = [sense for sense, height in zip(senses, heights) for _ in range(height)]
        above = len(drawn) - len(of_rows)
        lines += [TextLine("")] if lines else []
        lines += [*map(TextLine, drawn[:above]), *map(TextLine, drawn[above:], of_rows)]
    drawn_columns = {at for widths in parts for at in widths}
    left_out = [column.title for at, column in enumerate(columns) if at not in drawn_columns and column.title]
    if left_out and width is not None:
        elsewhere = f" ({table.elsewhere})" if table.elsewhere else ""
        lines += map(TextLine, wrap(f"left out to fit in {width} characters: {', '.join(left_out)}{elsewhere}", width))
    return lines


def _written(column: Column, value: Any, escape: Callable[[str], str]) -> str:
    return escape(column.kind.none if value is None else column.kind.write(value))


@dataclass(frozen=True, slots=True)
class _Sized:
    """A column, and how wide its cells are."""

    column: Column
    widest: int
    longest_piece: int
    """The longest word of its cells that is not folded."""

    @classmethod
    def of(cls, column: Column, cells: Sequence[str]) -> _Sized:
        pieces = (piece for cell in cells for piece in _PIECES.split(cell)) if column.kind.narrows == "fold" else cells
        return cls(column, max(map(len, cells), default=0), max(map(len, pieces), default=0))

    @property
    def title(self) -> str:
        return self.column.title or ""

    def floor(self, least: int | None) -> int:
        """Return the narrowest that it may be: *least*, or as its kind says."""
        kind, floor = self.column.kind, self.widest
        if kind.narrows:
            floor = min(floor, kind.least if least is None else least)
        if kind.narrows == "fold" and least is None:
            floor = max(floor, min(self.longest_piece, _LEAST))
        return max(floor, max(map(len, self.title.split()), default=0) + _GAP)


def _parts(columns: Sequence[_Sized], width: int | None, keys: int | None) -> list[dict[int, int]]:
    """Return the widths of the columns of each table that *columns* are split into; the first *keys* are in each."""
    if width is None or keys is None:
        return [_widths(columns, width)]
    parts, begin = [], keys
    while begin < len(columns):
        found: dict[int, int] = {}
        for end in range(len(columns), begin, -1):
            found, fits = _narrowest(columns, width, [*range(keys), *range(begin, end)])
            if fits:
                break
        parts.append(found)
        begin = max(found) + 1
    return parts


def _widths(columns: Sequence[_Sized], width: int | None) -> dict[int, int]:
    """Return the width of each column that has room, by its number."""
    if width is None:
        return {at: min(each.widest, each.column.kind.most or each.widest) for at, each in enumerate(columns)}
    kept = [*range(len(columns))]
    spare = sorted((at for at in kept if columns[at].column.spare), key=lambda at: columns[at].column.spare)
    while not (found := _narrowest(columns, width, kept))[1] and spare:
        kept.remove(spare.pop())
    return found[0] if found[1] else _narrowest(columns, width, kept, _LEAST_OF_ALL)[0]


def _narrowest(
    columns: Sequence[_Sized], width: int, kept: Iterable[int], least: int | None = None
) -> tuple[dict[int, int], bool]:
    """Return the widths of the *kept* columns, the widest narrowed first, and whether they fit."""
    widths = {at: max(columns[at].widest, len(columns[at].title) + _GAP) for at in kept}
    floors = {at: columns[at].floor(least) for at in widths}
    over = sum(widths.values()) + _GAP * (len(widths) - 1) - width
    while over > 0 and (wide := [at for at in widths if widths[at] > floors[at]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        over -= 1
    return widths, over <= 0


def _narrowed(cell: str, kind: Kind, width: int) -> str:
    if kind.narrows == "cut":
        return _cut(cell, width)
    return _folded(cell, width) if kind.narrows and len(cell) > width else cell


def _folded(words: str, width: int | None) -> str:
    if width is None:
        return words
    folds = TextWrapper(max(width, 1), break_on_hyphens=False)
    folds.wordsep_simple_re = _PIECES
    return folds.fill(words)


def markdown(table: Table, *, padded: bool) -> list[str]:
    """Return the lines of a table in Markdown; *padded* for people who read it as text."""
    columns = [(at, column) for at, column in enumerate(table.columns) if column.title is not None]
    rows = [[_in_markdown(column, row[at]) for at, column in columns] for row in table.rows]
    titles = [escaped(column.title or "") if column.title != "#" else "#" for _, column in columns]
    if padded:
        from tabulate import tabulate

        return tabulate(rows, headers=titles, disable_numparse=True, tablefmt="github").splitlines()
    rule = "|".join("--:" if column.right else "---" for _, column in columns)
    return [f"|{rule}|" if cells is None else f"| {' | '.join(cells)} |" for cells in (titles, None, *rows)]


def _in_markdown(column: Column, value: Any) -> str:
    if column.kind.in_markdown is not None and value is not None:
        return column.kind.in_markdown(value)
    cell = _written(column, value, str)
    return escaped(_cut(cell, column.kind.most or len(cell)))


def csv(tables: Sequence[Table]) -> str:
    """Return tables of the same columns as one in CSV, safe to print, in the units of its header.

    Raises ValueError for a table with other columns: its values would stand under the header of the first one.
    """
    lines = io.StringIO()
    write = csv_writer(lines, lineterminator="\n").writerow
    header: list[str] = []
    for table in tables:
        columns = {at: column.key for at, column in enumerate(table.columns) if column.key}
        if not header:
            write(header := [*columns.values()])
        if header != [*columns.values()]:
            raise ValueError(f"CSV has one header, {header}, not {[*columns.values()]}")
        for row in table.rows:
            write([_in_csv(_plain(row[at])) for at in columns])
    return lines.getvalue().rstrip("\n")


def _in_csv(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return shapes_text(value) if value and isinstance(value[0], (list, tuple)) else csv_cell(" ".join(value))
    return csv_cell(value) if isinstance(value, str) else value


def json(table: Table) -> list[dict[str, Any]]:
    """Return the rows for JSON, every number in full precision; an unknown or infinite one is null."""
    columns = [(at, column.key) for at, column in enumerate(table.columns) if column.key]
    return [{key: _plain(row[at]) for at, key in columns} for row in table.rows]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value.is_integer() else value
    return value


def document(content: Mapping[str, Any]) -> str:
    """Return *content* as JSON text, a row a line; ASCII, so that no name moves the terminal's cursor."""
    return "{" + ",\n ".join(f"{dumps(key)}: {_value(value)}" for key, value in content.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(f"\n  {dumps(row, allow_nan=False)}" for row in value) + "]"
    return dumps(value, allow_nan=False)
