"""What can be asked of a saved profile, `Question`, and a row of the answer, `Line`."""

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
    """What is asked of a profile; the defaults ask for everything, the most expensive first."""

    side: Side = "device"
    time: End = "end"
    """``kern``: only up to the first kernel of each op, where the source tells."""
    name: re.Pattern[str] | None = None
    """Searched for in the name, anywhere; ``^`` and ``$`` anchor it."""
    types: tuple[str, ...] = ()
    """Any of these, canonical or raw."""
    input_dtype: str = ""
    """One input at least has this dtype."""
    least_ns: float | None = None
    most_ns: float | None = None
    aggregate_by: AggregateBy = ""
    """``dtype``: by canonical op and what it reads and writes, called as budgets call it, ``MatMul[float32]``.
    ``place``: by where it ran. ``site``: by canonical op and the line that asked for it. ``dtype,site``: by both."""
    shown: Shown = field(default_factory=lambda: Shown(os.curdir), compare=False)
    """Chooses the line of a call chain."""
    aggregate: How = "sum"
    order_by: str = "time"
    ascending: bool = False
    top: int = 0
    """0 is all; a negative number leaves out so many of the last."""

    @property
    def by_site(self) -> bool:
        """Whether lines tell rows apart."""
        return self.aggregate_by in ("site", "dtype,site")

    @property
    def by_dtype(self) -> bool:
        """Whether dtypes do."""
        return self.aggregate_by in ("dtype", "dtype,site")


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the answer. None: the source does not know."""

    name: str | None
    op: str | None
    type: str | None
    id: str | None
    calls: int
    """Of what is asked for: 0 for what is only a part of a canonical op that is."""
    time_ns: float | None
    share: float | None
    """Of the total time of its side."""
    cumulative_ns: float | None
    computation: float | None
    """Floating-point operations."""
    flops: float | None
    """The same a second; infinite where no time passed."""
    memory: float | None
    """Bytes read and written."""
    bandwidth: float | None
    """The same a second."""
    input_shapes: tuple[Shape, ...] | None
    output_shapes: tuple[Shape, ...] | None
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]
    place: str | None
    communication: bool
    """Whether it moves data between devices: no part of the total, so without a share, and behind the others."""
    site: str | None = None
    """The line that asked for it, where rows are of lines."""


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
"""What rows can be ordered by."""


def ordering(text: str) -> tuple[str, bool]:
    """Read ``[+]COLUMN`` and return the column and whether it ascends. Raises UsageError."""
    column = text.removeprefix("+").removesuffix("_ns")
    if column not in COLUMNS:
        raise UsageError(
            f"--order-by {text!r} is no column{errors.suggestion(column, COLUMNS) or '.'} Known: {', '.join(COLUMNS)};"
            " a + before one orders from the smallest"
        )
    return column, text.startswith("+")


def _id_key(text: str | None) -> tuple[int, str] | None:
    """Order ids as numbers where they are numbers."""
    if text is None:
        return None
    return (int(text), "") if text.isdecimal() and len(text) < 20 else (1 << 70, text)


def in_steps(saved: SavedProfile, text: str) -> SavedProfile:
    """Return *saved* with only the steps that ``2-4`` or ``2,3,4`` names. Raises UsageError for a step it lacks."""
    labels = _labels(saved, text)
    return in_step_numbers(saved, [index for index, label in enumerate(saved.steps) if label in labels])


def in_step_numbers(saved: SavedProfile, chosen: Sequence[int]) -> SavedProfile:
    """Return *saved* with only these steps, by their index."""
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
                " Write some as 2-4 or 2,3,4"
            )
        labels |= named
    return labels
