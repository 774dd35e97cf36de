"""Rows of a saved profile as text: a table, markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..escaping import csv_cell, terminal, writer
from ..ops.signature import Shape
from ..profile.saved import SavedKernel
from ..units import format_bytes, format_flops, format_ns, format_share
from ..verdict.question import Line

FORMATS = ("table", "markdown", "json", "csv")
COLUMNS = tuple(Line.__dataclass_fields__)
NAMES = ("name", "type", "id")
"""The columns of a list of ops alone."""
_WIDEST = 48
"""Characters of a name or of shapes in a table; CSV and JSON have all of them."""


def shapes_text(shapes: Sequence[Shape] | None) -> str:
    """Return shapes as people write them: ``[2,3,64,64] [16,3,3,3]``."""
    return " ".join(f"[{','.join(map(str, shape))}]" for shape in shapes or ())


def rows_json(lines: Sequence[Line], columns: Sequence[str] = COLUMNS) -> list[dict[str, Any]]:
    """Return the rows for JSON, times and rates in full precision; what is unknown or infinite is null."""
    return [{name: _plain(getattr(line, name)) for name in columns} for line in lines]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value.is_integer() else value
    return value


def rows_csv(lines: Sequence[Line], whose: Mapping[str, object], columns: Sequence[str] = COLUMNS) -> str:
    """Return the rows as CSV with a header, in the units of their names: ns, bytes, operations a second.

    *whose* are columns before them, the same in each row: which rank they are of.
    """
    return csv_of([*whose, *columns], [[*whose.values(), *row.values()] for row in rows_json(lines, columns)])


def one_csv(tables: Sequence[str]) -> str:
    """Return tables of the same columns as one. (No header has a newline.)"""
    return "\n".join([*tables[:1], *(rows for table in tables[1:] if (rows := table.partition("\n")[2]))])


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return shapes_text(value) if value and isinstance(value[0], (list, tuple)) else csv_cell(" ".join(value))
    return csv_cell(value) if isinstance(value, str) else value


def csv_of(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV, safe to print."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *(map(_cell, row) for row in rows)])
    return text.getvalue().rstrip("\n")


_TABLE: Mapping[str, Callable[[Line], str]] = {
    "self time": lambda line: _known(line.time_ns, format_ns),
    "share": lambda line: _known(line.share, format_share),
    "cumulative": lambda line: _known(line.cumulative_ns, format_ns),
    "name": lambda line: short(line.name),
    "op": lambda line: short(line.op),
    "type": lambda line: short(line.type),
    "site": lambda line: terminal(line.site or _NOTHING),
    "id": lambda line: short(line.id),
    "calls": lambda line: str(line.calls),
    "computation": lambda line: _known(line.computation, format_flops),
    "FLOPS": lambda line: _known(line.flops, lambda rate: _rate(rate, format_flops)),
    "memory": lambda line: _known(line.memory, format_bytes),
    "bandwidth": lambda line: _known(line.bandwidth, lambda rate: _rate(rate, format_bytes)),
    "inputs": lambda line: short(_signed(line.input_dtypes, line.input_shapes)),
    "outputs": lambda line: short(_signed(line.output_dtypes, line.output_shapes)),
    "place": lambda line: short(line.place),
}
_NOTHING = "-"


def rows_table(lines: Sequence[Line], style: str) -> str:
    """Return the rows as a table (*style* ``table`` or ``markdown``), without the columns that no row knows."""
    columns = {name: [text(line) for line in lines] for name, text in _TABLE.items()}
    if columns["op"] == columns["type"]:
        del columns["op"]
    if columns["name"] == columns["type"]:
        del columns["name"]
    known = {name: cells for name, cells in columns.items() if any(cell != _NOTHING for cell in cells)}
    return tabulated(["#", *known], [[str(n), *cells] for n, cells in enumerate(zip(*known.values()))], style)


def names_text(lines: Sequence[Line], style: str) -> str:
    """Return the list of ops alone: three words a line, or a markdown table."""
    rows = [[terminal(getattr(line, name) or "-") for name in NAMES] for line in lines]
    return tabulated(NAMES, rows, style) if style == "markdown" else "\n".join(map(" ".join, rows))


def kernels_text(kernels: Sequence[SavedKernel], style: str) -> str:
    """Return the kernel list: kernel, the op that launched it, calls, total and average time."""
    rows = [
        [
            short(kernel.name),
            short(kernel.launched_by),
            str(kernel.calls),
            format_ns(kernel.device_ns),
            format_ns(kernel.device_ns / kernel.calls),
        ]
        for kernel in kernels
    ]
    return tabulated(["kernel", "launched by", "calls", "total", "average"], rows, style)


def kernels_csv(kernels: Sequence[SavedKernel], whose: Mapping[str, object]) -> str:
    """Return the kernel list as CSV, after the columns *whose* as in `rows_csv`."""
    rows = [[*whose.values(), *kernel_json(kernel).values()] for kernel in kernels]
    return csv_of([*whose, "kernel", "launched_by", "calls", "total_ns", "average_ns", "place"], rows)


def kernel_json(kernel: SavedKernel) -> dict[str, Any]:
    """Return a kernel for JSON."""
    return {
        "kernel": kernel.name,
        "launched_by": kernel.launched_by,
        "calls": kernel.calls,
        "total_ns": _plain(float(kernel.device_ns)),
        "average_ns": _plain(kernel.device_ns / kernel.calls),
        "place": kernel.place,
    }


def document(content: Mapping[str, Any]) -> str:
    """Return *content* as JSON text, a row a line; ASCII, so that no name moves the terminal's cursor."""
    return "{" + ",\n ".join(f"{json.dumps(key)}: {_value(value)}" for key, value in content.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(f"\n  {json.dumps(row, allow_nan=False)}" for row in value) + "]"
    return json.dumps(value, allow_nan=False)


def tabulated(header: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> str:
    """Return a table in the *style* ``table`` or ``markdown``, its cells as that takes them."""
    # Imported here: 20 ms that JSON and CSV do not pay.
    from tabulate import tabulate

    write = writer(style)
    cells = [[write(cell) for cell in row] for row in rows]
    tablefmt = "github" if style in ("markdown", "github") else "simple"
    return tabulate(
        cells,
        headers=[each if each == "#" else write(each) for each in header],
        tablefmt=tablefmt,
        disable_numparse=True,
    )


def _known(value: float | None, write: Callable[[float], str]) -> str:
    return _NOTHING if value is None else write(value)


def _rate(rate: float, write: Callable[[float], str]) -> str:
    return "inf" if math.isinf(rate) else f"{write(rate)}/s"


def short(text: str | None) -> str:
    """Return a name as a table has it: cut where it is long, safe to print."""
    if not text:
        return _NOTHING
    text = terminal(text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _signed(dtypes: Sequence[str], shapes: Sequence[Shape] | None) -> str:
    return " ".join(filter(None, [",".join(dict.fromkeys(dtype or "?" for dtype in dtypes)), shapes_text(shapes)]))
