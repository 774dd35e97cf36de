"""A saved profile as tables: the rows of an answer, names alone, and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..ops.signature import Shape
from ..profile.saved import SavedKernel
from ..questions.question import AggregateBy, Line
from .escaping import terminal
from .tables import (
    BYTE_RATE,
    BYTES,
    COUNT,
    FLOP_RATE,
    FLOPS,
    NAME,
    OP,
    SHARE,
    TIME,
    Column,
    Style,
    Table,
    shapes_text,
)

FORMATS = ("table", "markdown", "json", "csv")
_ELSEWHERE = "--format csv has all columns"
_FOR_PEOPLE: Mapping[Column, Callable[[Line], Any]] = {
    Column("self time", TIME): lambda line: line.time_ns,
    Column("share", SHARE): lambda line: line.share,
    Column("cumulative", TIME, spare=9): lambda line: line.cumulative_ns,
    Column("name", NAME): lambda line: line.name or None,
    Column("op", NAME): lambda line: line.op or None,
    Column("type", NAME): lambda line: line.type or None,
    Column("site"): lambda line: line.site or None,
    Column("id", NAME, spare=8): lambda line: line.id or None,
    Column("calls", COUNT): lambda line: line.calls,
    Column("computation", FLOPS, spare=5): lambda line: line.computation,
    Column("FLOPS", FLOP_RATE, spare=3): lambda line: line.flops,
    Column("memory", BYTES, spare=2): lambda line: line.memory,
    Column("bandwidth", BYTE_RATE, spare=4): lambda line: line.bandwidth,
    Column("inputs", NAME, spare=1): lambda line: _signed(line.input_dtypes, line.input_shapes),
    Column("outputs", NAME, spare=7): lambda line: _signed(line.output_dtypes, line.output_shapes),
    Column("place", NAME, spare=6): lambda line: line.place or None,
}
_FOR_PROGRAMS = [Column(None, key=name) for name in Line.__dataclass_fields__]
_KERNEL_COLUMNS = (
    Column("kernel", NAME, "kernel"),
    Column("launched by", NAME, "launched_by"),
    Column("calls", COUNT, "calls"),
    Column("total", TIME, "total_ns"),
    Column("average", TIME, "average_ns"),
    Column(None, key="place"),
)


def rows(lines: Sequence[Line], by: AggregateBy = "") -> Table:
    """Return the rows of an answer: for people without the columns that no row knows, or that repeat another.

    The column that tells rows *by* something apart is never left out.
    """
    columns = {replace(each, spare=0) if each.title == by else each: value for each, value in _FOR_PEOPLE.items()}
    values = {column: [value(line) for line in lines] for column, value in columns.items()}
    by_title = {column.title: cells for column, cells in values.items()}
    repeated = [title for title in ("op", "name") if by_title[title] == by_title["type"]]
    known = {
        column: cells
        for column, cells in values.items()
        if column.title not in repeated and any(cell is not None for cell in cells)
    }
    cells = [
        [number, *(column[number] for column in known.values()), *(getattr(line, each.key) for each in _FOR_PROGRAMS)]
        for number, line in enumerate(lines)
    ]
    return Table([Column("#", COUNT), *known, *_FOR_PROGRAMS], cells, elsewhere=_ELSEWHERE)


def names(lines: Sequence[Line]) -> Table:
    """Return name, type and id alone."""
    columns = [Column(key, OP, key) for key in ("name", "type", "id")]
    return Table(columns, [[line.name, line.type, line.id] for line in lines])


def names_text(lines: Sequence[Line], style: Style) -> str:
    """Return the list of ops alone: three words a line, or a table in Markdown."""
    found = names(lines)
    if style.is_markdown:
        return style.text(found)
    return "\n".join(" ".join(terminal(cell or "-") for cell in row) for row in found.rows)


def kernels(found: Sequence[SavedKernel]) -> Table:
    """Return the list of kernels: the op that launched each, its calls, total and average time."""
    cells = [
        [
            kernel.name,
            kernel.launched_by,
            kernel.calls,
            float(kernel.device_ns),
            kernel.device_ns / kernel.calls,
            kernel.place,
        ]
        for kernel in found
    ]
    return Table(_KERNEL_COLUMNS, cells)


def _signed(dtypes: Sequence[str], shapes: Sequence[Shape] | None) -> str | None:
    known = ",".join(dict.fromkeys(dtype or "?" for dtype in dtypes))
    return " ".join(filter(None, [known, shapes_text(shapes)])) or None
