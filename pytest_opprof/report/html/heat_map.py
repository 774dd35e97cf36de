"""A heat map: a row for each step, a column for each rank, each cell as strong as its time is long.

All cells of one strength are one path: 512 ranks of 5 steps are some 30 kB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...units import format_ns

_WIDTH: Final = 1160
"""Of all columns, at most."""
_HEIGHT: Final = 400
_CELL_WIDTH: Final = 40
_CELL_HEIGHT: Final = 16
_LEAST: Final = 2
"""Of a cell: of more ranks or steps several are one, as long as the longest of them."""
_STRENGTHS: Final = 8
_BETWEEN_COLUMNS: Final = 70
_BETWEEN_ROWS: Final = 14
"""From label to label."""


@dataclass(frozen=True, slots=True)
class Label:
    """The name of a column or a row, or what the pointer finds there."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """What is drawn."""

    width: int
    height: int
    """Of the cells, without labels."""
    cell_width: int
    paths: Sequence[tuple[float, str]]
    """The opacity of each strength, and its cells."""
    columns: Sequence[Label]
    rows: Sequence[Label]
    pointed: Sequence[Label]
    """By column, which ranks it is and its times."""


def heat_map(
    times_ns: Sequence[Sequence[float]], ranks: Sequence[str], steps: Sequence[str], scale: tuple[float, float]
) -> HeatMap:
    """Draw times by rank and step; *scale* are the times of the faintest and of the strongest cell."""
    column = math.ceil(len(ranks) * _LEAST / _WIDTH)
    row = math.ceil(len(steps) * _LEAST / _HEIGHT)
    columns = [range(at, min(at + column, len(ranks))) for at in range(0, len(ranks), column)]
    rows = [range(at, min(at + row, len(steps))) for at in range(0, len(steps), row)]
    width, height = min(_CELL_WIDTH, _WIDTH // len(columns)), min(_CELL_HEIGHT, _HEIGHT // len(rows))
    cells = [[max(times_ns[rank][step] for rank in of for step in steps) for of in columns] for steps in rows]
    paths: dict[int, list[str]] = {}
    for y, values in enumerate(cells):
        strengths = [_strength(ns, *scale) for ns in values]
        begin = 0
        for x in range(1, len(strengths) + 1):
            if x == len(strengths) or strengths[x] != strengths[begin]:
                across = (x - begin) * width
                paths.setdefault(strengths[begin], []).append(
                    f"M{begin * width} {y * height}h{across}v{height}h-{across}z"
                )
                begin = x
    # A power of 2, as the sizes of groups are.
    every = 1 << (math.ceil(_BETWEEN_COLUMNS / width) - 1).bit_length()
    other = math.ceil(_BETWEEN_ROWS / height)
    return HeatMap(
        len(columns) * width,
        len(rows) * height,
        width,
        [((strength + 1) / _STRENGTHS, "".join(path)) for strength, path in sorted(paths.items())],
        [Label(at * width, ranks[columns[at][0]]) for at in range(0, max(1, len(columns) - every // 2), every)],
        [Label(at * height, steps[rows[at][0]]) for at in range(0, len(rows), other)],
        [Label(at * width, _pointed(of, times_ns, ranks)) for at, of in enumerate(columns)],
    )


def _strength(ns: float, faintest: float, strongest: float) -> int:
    share = (ns - faintest) / (strongest - faintest)
    return min(int(share * _STRENGTHS), _STRENGTHS - 1)


def _pointed(of: range, times_ns: Sequence[Sequence[float]], ranks: Sequence[str]) -> str:
    least, most = (end(end(times_ns[rank]) for rank in of) for end in (min, max))
    name = ranks[of[0]] if len(of) == 1 else f"{ranks[of[0]]} to {ranks[of[-1]]}"
    return f"{name}: {format_ns(least)}" + (f" to {format_ns(most)}" if most > least else "")
