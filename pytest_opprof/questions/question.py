"""The question to a saved profile, `Question`, and a row of the answer, `Line`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from .. import errors
from ..errors import UsageError
from ..ops.signature import Shape
from ..profile.saved import Collective, SavedKernel, SavedOp, SavedProfile
from ..sites.shown import Shown

Side = Literal["device", "host"]
End = Literal["end", "kern"]
How = Literal["sum", "max", "min", "mean"]
AggregateBy = Literal["", "type", "op", "dtype", "place", "site", "dtype,site", "all"]
InStep = TypeVar("InStep", SavedOp, SavedKernel, Collective)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a profile; the defaults return everything, the most expensive first."""

    side: Side = "device"
    time: End = "end"
    """``kern``: only up to the first kernel of each op, if the source has it."""
    name: re.Pattern[str] | None = None
    """Searched anywhere in the name; ``^`` and ``$`` anchor it."""
    types: tuple[str, ...] = ()
    """Any of these, canonical or raw."""
    input_dtype: str = ""
    """At least one input has this dtype."""
    least_ns: float | None = None
    most_ns: float | None = None
    aggregate_by: AggregateBy = ""
    """``dtype``: by canonical op and its dtypes, as budgets write it, ``MatMul[float32]``. ``place``: by device and
    stream. ``site``: by canonical op and the source line that called it. ``dtype,site``: by both."""
    shown: Shown = field(default_factory=lambda: Shown(os.curdir), compare=False)
    """Chooses the shown line of a call chain."""
    aggregate: How = "sum"
    order_by: str = "time"
    ascending: bool = False
    top: int = 0
    """0 is all; a negative number leaves out as many at the end."""

    @property
    def by_site(self) -> bool:
        """Whether rows are split by source line."""
        return self.aggregate_by in ("site", "dtype,site")

    @property
    def by_dtype(self) -> bool:
        """Whether rows are split by dtype."""
        return self.aggregate_by in ("dtype", "dtype,site")


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the answer. None: the source does not know."""

    name: str | None
    op: str | None
    type: str | None
    id: str | None
    calls: int
    """Calls of the requested ops: 0 for a row that is only a part of a requested canonical op."""
    time_ns: float | None
    share: float | None
    """Of the total time of its side."""
    cumulative_ns: float | None
    computation: float | None
    """Floating-point operations."""
    flops: float | None
    """FLOPs a second; infinite if no time passed."""
    memory: float | None
    """Bytes read and written."""
    bandwidth: float | None
    """Bytes a second; infinite if no time passed."""
    input_shapes: tuple[Shape, ...] | None
    output_shapes: tuple[Shape, ...] | None
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    place: str | None
    communication: bool
    """Whether it moves data between devices: outside the total, without a share, after the other rows."""
    site: str | None = None
    """The source line of the call, if rows are split by line."""


# The columns that rows can be ordered by.
COLUMNS: Mapping[str, Callable[[Line], object]] = {
    "time": lambda line: line.time_ns,
    "share": lambda line: line.share,
    "cumulative": lambda line: line.time_ns,
    "name": lambda line: line.name,
    "op": lambda line: line.op,
    "type": lambda line: line.type,
    "id": lambda line: _id_key(line.id),
    "calls": lambda line: line.calls,
    "computation": lambda line: line.computation,
    "flops": lambda line: line.flops,
    "memory": lambda line: line.memory,
    "bandwidth": lambda line: line.bandwidth,
    "input_shapes": lambda line: line.input_shapes,
    "output_shapes": lambda line: line.output_shapes,
    "input_dtypes": lambda line: line.input_dtypes or None,
    "output_dtypes": lambda line: line.output_dtypes or None,
    "place": lambda line: line.place,
    "site": lambda line: line.site,
}


def ordering(text: str) -> tuple[str, bool]:
    """Parse ``[+]COLUMN`` into the column and whether it ascends. Raises UsageError."""
    column = text.removeprefix("+").removesuffix("_ns")
    if column not in COLUMNS:
        raise UsageError(
            f"--order-by {text!r} is no column{errors.suggestion(column, COLUMNS) or '.'} Known: {', '.join(COLUMNS)};"
            " write + before a column for ascending order"
        )
    return column, text.startswith("+")


def _id_key(text: str | None) -> tuple[int, str] | None:
    """Order numeric ids as numbers."""
    if text is None:
        return None
    return (int(text), "") if text.isdecimal() and len(text) < 20 else (1 << 70, text)


def in_steps(saved: SavedProfile, text: str) -> SavedProfile:
    """Return *saved* reduced to the steps in ``2-4`` or ``2,3,4``. Raises UsageError for an unknown step."""
    labels = _labels(saved, text)
    return in_step_numbers(saved, [index for index, label in enumerate(saved.steps) if label in labels])


def in_step_numbers(saved: SavedProfile, chosen: Sequence[int]) -> SavedProfile:
    """Return *saved* reduced to the steps with these indices."""
    kept = set(chosen)
    renumbered = {old: new for new, old in enumerate(chosen)}

    def of_them(rows: Iterable[InStep]) -> tuple[InStep, ...]:
        return tuple(row._replace(step=renumbered[row.step]) for row in rows if row.step in kept)

    return replace(
        saved,
        steps=tuple(saved.steps[index] for index in chosen),
        step_ns=saved.step_ns and tuple(saved.step_ns[index] for index in chosen if index < len(saved.step_ns)),
        records=of_them(saved.records),
        kernels=saved.kernels and of_them(saved.kernels),
        launches=of_them(saved.launches),
        collectives=of_them(saved.collectives),
    )


def _labels(saved: SavedProfile, text: str) -> set[str]:
    labels: set[str] = set()
    for part in map(str.strip, text.split(",")):
        first, dash, last = part.partition("-")
        if dash and first.isdecimal() and last.isdecimal() and len(first + last) < 20:
            if int(first) > int(last):
                raise UsageError(f"--steps {text}: the range {part} is empty; write {last}-{first}")
            named = {first, last}
            labels |= {label for label in saved.steps if label.isdecimal() and int(first) <= int(label) <= int(last)}
        else:
            named = {part}
        if missing := sorted(named - set(saved.steps)):
            known = ", ".join(filter(None, saved.steps[:20])) or "none"
            raise UsageError(
                f"--steps {text}: this profile has no step {', '.join(missing)}. Its steps: {known}."
                " Write steps as 2-4 or 2,3,4"
            )
        labels |= named
    return labels
