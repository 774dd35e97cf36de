"""Which kernel belongs to which op that PyNative mode dispatched, and so what it read and wrote.

Both come in the same order. But there are kernels that nobody called: a kernel of the CPU that has no float16 casts its
inputs to float32, and back what it wrote; and some ops cast an input to the dtype of their result::

    dispatched                                     kernels
    Cast(float32) -> float16                       Cast
    MatMul(float16, float16) -> float16            Cast Cast MatMul Cast
    Cast(float16) -> float32                       Cast

So the ops that are no casts are paired first, the first with the first. Between two of them there must be as many casts
as were dispatched there and as these two make: each makes those before and after it, or none. Where the numbers allow
one way only, it is taken; else the dtypes of these casts are not known. (MindSpore's source: pyboost's templates for
the CPU call ``PyBoostUtils::CastTensor`` on inputs and outputs of a kernel that was chosen for other dtypes.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

from ...ops.mindspore_files import op_type
from ...ops.names import meaning
from ...ops.signature import Shape, Signature
from ...ops.vocabulary import CAST
from .dispatched import Dispatched, Tensors
from .profiler import Call

_HALF = frozenset(["float16", "bfloat16"])
_WIDE = "float32"
_CAST_INPUTS = frozenset("Add Sub Mul Div Pow Mod Max Min ReduceSum ReduceMean ReduceProd".split())
"""Ops that may cast an input to the dtype of their result. In mixed precision each op may, whose result is float16."""
_KERNELS = {"Max": "ReduceMax", "Min": "ReduceMin"}
"""Ops that are called as others are in the vocabulary, and what their kernels are."""


class _Way(NamedTuple):
    """One of the ways in which a kernel may do what its op asks for."""

    before: tuple[Signature, ...]
    """The casts that it makes first."""
    own: Signature
    after: tuple[Signature, ...]


@dataclass
class _Gap:
    """What is between two ops that are paired."""

    casts: list[int]
    """Kernels, by index."""
    dispatched: list[Signature]
    is_open: bool
    """Whether its casts may be of other ops: of kernels that were not dispatched as what they are."""

    @property
    def more(self) -> int:
        """How many casts nobody called."""
        return len(self.casts) - len(self.dispatched)


def paired(calls: Mapping[int, Call], ops: Sequence[Dispatched]) -> dict[int, Signature]:
    """Return what is known of *calls* (by index, in the order in which they began) from the *ops* dispatched."""
    kernels = {index: meaning(op_type(call.name)).op for index, call in calls.items()}
    meanings = [_KERNELS.get(op.op) or meaning(op.op).op for op in ops]
    pairs = sorted(_pairs(kernels, meanings))
    in_order = all(before[1] < after[1] for before, after in pairwise(pairs))
    if not in_order or any(calls[index].start < ops[place].at for index, place in pairs):
        return {}  # threads of the program called them
    end = [_Way((), Signature(), ())]
    ways = [end, *([*_ways(ops[place], meanings[place])] for _, place in pairs), end]
    gaps = [*_gaps(kernels, ops, meanings, pairs)]
    _leave_possible(ways, gaps)
    known = {}
    for (index, _), each in zip(pairs, ways[1:]):
        if len(own := {way.own for way in each}) == 1:
            known[index] = own.pop()
    for gap, before, after in zip(gaps, ways, ways[1:]):
        casts = {(*one.after, *gap.dispatched, *other.before) for one, other in _fitting(gap, before, after)}
        if gap.more == 0:
            known.update(zip(gap.casts, gap.dispatched))
        elif not gap.is_open and len(casts) == 1:
            known.update(zip(gap.casts, casts.pop()))
    return known


def _pairs(kernels: Mapping[int, str], meanings: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield each kernel that is no cast and the place of its op, where all kernels of this op were dispatched."""
    by_op = defaultdict[str, tuple[list[int], list[int]]](lambda: ([], []))
    for index, op in kernels.items():
        by_op[op][0].append(index)
    for place, op in enumerate(meanings):
        by_op[op][1].append(place)
    for op, (indices, places) in by_op.items():
        if op != CAST and len(indices) == len(places):
            yield from zip(indices, places)


def _gaps(
    kernels: Mapping[int, str], ops: Sequence[Dispatched], meanings: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Iterator[_Gap]:
    ends = [(-1, -1), *pairs, (max(kernels, default=0) + 1, len(ops))]
    indices = [*kernels]
    for (first, begin), (last, end) in pairwise(ends):
        between = indices[bisect_right(indices, first) : bisect_left(indices, last)]
        casts = [index for index in between if kernels[index] == CAST]
        asked = [ops[place] for place in range(begin + 1, end) if meanings[place] == CAST]
        called = [*filter(None, map(_cast, asked))]
        yield _Gap(casts, called, len(called) != len(casts) < len(between))


def _cast(op: Dispatched) -> Signature | None:
    """Return what a cast does that was dispatched; None where it has nothing to do."""
    (source, shape), (target, _) = op.inputs[0], op.outputs[0]
    return None if source == target else _of_cast(source, target, shape)


def _of_cast(source: str, target: str, shape: Shape) -> Signature:
    return Signature((source,), (target,), (shape,), (shape,))


def _ways(op: Dispatched, meant: str) -> Iterator[_Way]:
    """Yield the ways to do *op*: as it is, on wider dtypes, on inputs that are all of the dtype of the result."""
    yield from _narrow_and_wide(op.inputs, op.outputs)
    (target, _), *more = op.outputs or (("", ()),)
    if target not in _HALF and (more or meant not in _CAST_INPUTS):
        return
    first = tuple(_of_cast(dtype, target, shape) for dtype, shape in op.inputs if dtype != target)
    if first:
        for way in _narrow_and_wide(tuple((target, shape) for _, shape in op.inputs), op.outputs):
            yield way._replace(before=(*first, *way.before))


def _narrow_and_wide(inputs: Tensors, outputs: Tensors) -> Iterator[_Way]:
    yield _Way((), _signature(inputs, outputs), ())
    before = tuple(_of_cast(dtype, _WIDE, shape) for dtype, shape in inputs if dtype in _HALF)
    after = tuple(_of_cast(_WIDE, dtype, shape) for dtype, shape in outputs if dtype in _HALF)
    if before or after:
        yield _Way(before, _signature(_wide(inputs), _wide(outputs)), after)


def _wide(tensors: Tensors) -> Tensors:
    return tuple((_WIDE if dtype in _HALF else dtype, shape) for dtype, shape in tensors)


def _signature(inputs: Tensors, outputs: Tensors) -> Signature:
    read, written = (
        (tuple(dtype for dtype, _ in side), tuple(shape for _, shape in side)) for side in (inputs, outputs)
    )
    return Signature(read[0], written[0], read[1], written[1])


def _fitting(gap: _Gap, before: Iterable[_Way], after: Iterable[_Way]) -> Iterator[tuple[_Way, _Way]]:
    """Yield the ways of the ops around *gap* that make as many casts as there are."""
    for one, other in product(before, after):
        if gap.is_open or len(one.after) + len(other.before) == gap.more:
            yield one, other


def _leave_possible(ways: list[list[_Way]], gaps: Sequence[_Gap]) -> None:
    """Leave those *ways* of each op that fit everywhere. Where none does, the casts there and beside stay unknown."""
    every = list(ways)
    while (contradiction := _narrow(ways, gaps)) is not None:
        for gap in gaps[max(contradiction - 1, 0) : contradiction + 2]:
            gap.is_open = gap.more != 0
        gaps[contradiction].is_open = True
        ways[:] = every


def _narrow(ways: list[list[_Way]], gaps: Sequence[_Gap]) -> int | None:
    """Leave the *ways* that fit; return the number of a gap where none does."""
    numbers = list(range(len(gaps)))
    plain = [number for number in numbers if gaps[number].more == 0]
    for number in plain + numbers + numbers[::-1]:
        fitting = [*_fitting(gaps[number], ways[number], ways[number + 1])]
        if not fitting:
            return number
        for side in (0, 1):
            ways[number + side] = [way for way in ways[number + side] if any(way is pair[side] for pair in fitting)]
    return None
