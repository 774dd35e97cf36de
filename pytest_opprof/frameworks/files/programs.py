"""Shared by readers of programs: count ops without running them, each as often as its function is called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...errors import TraceError
from ...ops import flops
from ...ops.signature import Shape
from ...profile.saved import SavedOp
from .place import Place

# Ops of one program, 0.5 KB each: the largest models have some 10**5.
MOST_OPS = 500_000
# Characters of all kept lines: 256 MiB.
MOST_TEXT = 1 << 28
# Patterns for lines take linear time: with quadratic time, a line of 4 MiB would take hours. A text without a closing
# quote ends with the line.
# A quoted text.
STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?')
ONCE = "the body of {} is counted once: how often it runs is not in the file"
_MOST_CALLS = 10**15
_PIECE = 1 << 20
# Kept bytes of a line, 4 MiB. Longer lines are constants, which are no ops.
_MOST_LINE = 1 << 22


@dataclass
class Function:
    """The ops of a function, and its calls of each other function."""

    records: list[SavedOp] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)


@dataclass
class Size:
    """The size of a program so far; its bounds limit the memory for reading."""

    ops: int = 0
    text: int = 0

    def exceeded(self, line: str, is_op: bool = True) -> str:
        """Add a kept line; return the exceeded bound, "" for none."""
        self.ops += is_op
        self.text += len(line)
        if self.ops > MOST_OPS:
            return f"more than {MOST_OPS} ops, which no program has"
        return f"more than {MOST_TEXT >> 20} MiB of ops, which no program has" if self.text > MOST_TEXT else ""


@dataclass(frozen=True)
class Types:
    """Dtypes and shapes of some tensors; no shapes if a dimension is unknown."""

    dtypes: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] | None = None


def op_record(name: str, opcode: str, inputs: Types, outputs: Types) -> SavedOp:
    """Return the record of one op."""
    return SavedOp(
        name,
        opcode,
        input_shapes=inputs.shapes,
        output_shapes=outputs.shapes,
        input_dtypes=inputs.dtypes,
        output_dtypes=outputs.dtypes,
    )


def dot_operations(record: SavedOp, contracted: str) -> float | None:
    """Return the FLOPs of a dot product that sums over the *contracted* dimensions (``0, 2``) of its left side."""
    if not record.input_shapes or not record.output_shapes:
        return None
    left, names = record.input_shapes[0], contracted.replace(" ", "").split(",")
    return flops.dot(record.output_shapes[0], left, [each for each in range(len(left)) if str(each) in names])


def executed(place: Place, functions: Mapping[str, Function], entry: str) -> tuple[SavedOp, ...]:
    """Return the ops of *entry* and of all functions that it calls, each with the number of its runs.

    Raises TraceError if there are no ops, if a function is missing, or if one calls itself.
    """
    times = _times(place, functions, entry)
    records = tuple(
        record._replace(
            calls=times[name], computation=None if record.computation is None else record.computation * times[name]
        )
        for name, function in functions.items()
        if times.get(name)
        for record in function.records
    )
    if not records:
        raise TraceError(f"{place}: has no ops: {entry!r} and what it calls are empty")
    return records


def _times(place: Place, functions: Mapping[str, Function], entry: str) -> dict[str, int]:
    """Return the number of runs of each function when *entry* runs once."""
    times = {entry: 1}
    for name in reversed(_callees_first(place, functions, entry)):
        for callee, number in functions[name].called.items():
            times[callee] = times.get(callee, 0) + times[name] * number
            if times[callee] > _MOST_CALLS:
                raise TraceError(f"{place}: calls {callee!r} more than {_MOST_CALLS:.0e} times, which no program does")
    return times


def _callees_first(place: Place, functions: Mapping[str, Function], entry: str) -> list[str]:
    order: list[str] = []
    done = {entry: False}
    stack = [(entry, iter(functions[entry].called))]
    while stack:
        name, callees = stack[-1]
        callee = next(callees, None)
        if callee is None:
            stack.pop()
            done[name] = True
            order.append(name)
        elif callee not in functions:
            raise TraceError(f"{place}: {name!r} calls {callee!r}, which is not in the file. Was it copied whole?")
        elif callee not in done:
            done[callee] = False
            stack.append((callee, iter(functions[callee].called)))
        elif not done[callee]:
            raise TraceError(f"{place}: {callee!r} calls itself, which no such program may")
    return order


def lines(place: Place) -> Iterator[str]:
    """Yield the lines of a text; of a line that is longer than 4 MiB, about the first 4 MiB."""
    rest = b""
    with place.open() as file:
        while piece := file.read(_PIECE):
            *whole, last = piece.split(b"\n")
            for line in whole:
                yield (rest + line).decode("utf-8", "replace")
                rest = b""
            if len(rest) < _MOST_LINE:
                rest += last
    if rest:
        yield rest.decode("utf-8", "replace")
