"""Reads what MegEngine's profile_analyze prints, and says the same question in opprof's options."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_UNITS = {
    **{f"{prefix}{unit}": 1000.0**power for unit in ("FLO", "FLOPS") for power, prefix in enumerate(" KMGTP")},
    **{f"{prefix}iB{per}": 1024.0**power for per in ("", "/s") for power, prefix in enumerate("KMGTP", 1)},
    "FLO": 1.0,
    "FLOPS": 1.0,
    "byte": 1.0,
    "byte/s": 1.0,
}


class Shown(NamedTuple):
    """A number as it was printed, and by how much the true one may differ from it."""

    value: float
    slack: float

    def is_of(self, true: float | None) -> bool:
        if true is None:
            return not math.isfinite(self.value)
        return abs(self.value - true) <= self.slack * (1 + 1e-6) + 1e-9 * abs(true)


class Printed(NamedTuple):
    """What one run printed."""

    summary: dict[str, str]
    tables: list[list[dict[str, Any]]]
    lines: list[str]
    """What is in neither."""


def options(arguments: list[str]) -> argparse.Namespace:
    """Read the options of profile_analyze."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("-t", "--top", type=int, default=3)
    add("--type", action="append", default=[])
    add("--opr-name")
    add("--top-end-key", default="end")
    add("--order-by", default="time")
    for name in ("--input-dtype", "--aggregate-by", "--aggregate", "--min-time", "--max-time", "--print-only"):
        add(name)
    for name in ("--copy-time", "--show-host", "--dump-only-opr"):
        add(name, action="store_true")
    add("--confluence", "--wiki", action="store_true")
    return parser.parse_args(arguments)


def translated(asked: argparse.Namespace) -> list[str]:
    """Return the same options of ``opprof show``, without the side and the number of rows."""
    order = asked.order_by.replace("opr_id", "id").replace("in_shapes", "input_shapes").replace("count", "calls")
    arguments = ["--time", asked.top_end_key, "--order-by", order]
    for raw in asked.type:
        arguments += ["--type", raw]
    if asked.opr_name is not None:
        arguments += ["--name", f"^(?:{asked.opr_name})"]
    for flag in ("input_dtype", "aggregate_by", "aggregate"):
        if getattr(asked, flag):
            arguments += [f"--{flag.replace('_', '-')}", getattr(asked, flag)]
    for flag in ("min_time", "max_time"):
        if getattr(asked, flag):
            arguments += [f"--{flag.replace('_', '-')}", f"{float(getattr(asked, flag)) * 1e6:f}us"]
    return arguments + ["--copy-time"] * asked.copy_time


def printed(stdout: str) -> Printed:
    """Read what profile_analyze printed."""
    summary: dict[str, str] = {}
    tables: list[list[dict[str, Any]]] = []
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", stdout.strip("\n")):
        rows = block.splitlines()
        if rows and re.match(r"-+  -+$|\| name +\|", rows[0]):
            summary.update(_summary(rows))
        elif block.startswith("╒"):
            tables.append([_boxed(cells) for cells in _boxes(rows)])
        elif re.match(r"\| +# \|", block):
            tables.append([_piped(cells) for cells in _pipes(rows)])
        else:
            lines += rows
    return Printed(summary, tables, lines)


def _summary(rows: list[str]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if match := re.match(r"\|? *((?:total|copy)[a-z ]*?time) +\|? *(\S.*?) *\|?$", row):
            yield match[1], match[2]


def _boxes(rows: list[str]) -> Iterator[list[list[str]]]:
    """Yield the cells of each row of a fancy_grid table, a cell as its lines."""
    lines: list[list[str]] = []
    for row in rows[rows.index(next(row for row in rows if row.startswith("╞"))) + 1 :]:
        if row.startswith("│"):
            lines.append([cell.strip() for cell in row.strip("│").split("│")])
        elif lines:
            yield [[text for text in cell if text] for cell in zip(*lines)]
            lines = []


def _boxed(cells: list[list[str]]) -> dict[str, Any]:
    time, cumulative, info, computation, flops, memory, bandwidth, inputs, outputs = cells
    return {
        **_identity(info),
        "time": three_digits(time[1]),
        "share": _percent(time[2]),
        "cumulative": three_digits(cumulative[0]),
        "cumulative_share": _percent(cumulative[1]),
        "computation": _scaled(*computation),
        "flops": _scaled(*flops),
        "memory": _scaled(*memory),
        "bandwidth": _scaled(*bandwidth),
        "input_shapes": _shapes(inputs),
        "output_shapes": _shapes(outputs),
    }


def _identity(info: list[str]) -> dict[str, Any]:
    """Return name, type and id of an operator, or type and number of an aggregate."""
    if info[-1] == "N/A":
        return {"type": "".join(info[:-2]).replace("-  ", ""), "calls": int(info[-2])}
    name = info[0] + "".join(line.removeprefix("-").lstrip() for line in info[1:-2])
    return {"name": name, "type": info[-2], "id": info[-1]}


def _pipes(rows: list[str]) -> Iterator[dict[str, str]]:
    header, _, *body = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    # A row without a number goes on with the row before: the strides of an input.
    yield from (dict(zip(header, cells)) for cells in body if cells[0])


def _piped(cells: dict[str, str]) -> dict[str, Any]:
    one = "opr name" in cells
    return {
        "type": cells["opr type"],
        **({"name": cells["opr name"], "id": cells["opr id"]} if one else {"calls": int(cells["opr count"])}),
        "time": three_digits(cells["time"]),
        "share": _percent(cells["ratio"]),
        "cumulative": _six_digits(cells["cum-time"]),
        "cumulative_share": _six_digits(cells["cum-time ratio"]),
        "computation": _tenths(cells["computation (MFLO)"], 1e6),
        "flops": _tenths(cells["MFLOPS"], 1e6),
        "memory": _tenths(cells["memory (MB)"], 2.0**20),
        "bandwidth": _tenths(cells["bandwidth (MiB/s)"], 2.0**20),
        "input_shapes": _shapes(cells["in_shapes"].split(", ")),
        "output_shapes": _shapes(cells["out_shapes"].split(", ")),
    }


def _shapes(texts: list[str]) -> list[str]:
    """Leave out the strides, which follow a shape that is not contiguous."""
    return [text.strip() for text in texts if text.strip() and not text.strip().startswith("-[")]


def three_digits(text: str) -> Shown:
    """Read ``{:.3}`` of a float."""
    value = float(text)
    return Shown(value, 0.5 * 10 ** (math.floor(math.log10(abs(value))) - 2) if value else 0.0)


def _six_digits(text: str) -> Shown:
    return Shown(float(text), abs(float(text)) * 5e-6)


def _percent(text: str) -> Shown:
    return Shown(float(text.removesuffix("%")) / 100, 0.0005)


def _scaled(number: str, unit: str) -> Shown:
    return _number(number, 0.005, _UNITS[unit])


def _tenths(number: str, scale: float) -> Shown:
    return _number(number, 0.05, scale)


def _number(text: str, slack: float, scale: float) -> Shown:
    value = math.nan if text == "N/A" else float(text)
    return Shown(value * scale, max(slack, abs(value) * 5e-6) * scale)  # tabulate cuts to six digits
