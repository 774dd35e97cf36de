"""Pair each kernel with the op that PyNative mode dispatched, to know its reads and writes.

Both come in the same order. But some kernels have no call: a kernel of the CPU that has no float16 casts its
inputs to float32, and its output back; and some ops cast an input to the dtype of their result::

    dispatched                                     kernels
    Cast(float32) -> float16                       Cast
    MatMul(float16, float16) -> float16            Cast Cast MatMul Cast
    Cast(float16) -> float32                       Cast

So the ops that are no casts are paired first, the first with the first. Between two of them there must be as many casts
as were dispatched there and as these two make: each makes the casts before and after it, or none. If the numbers allow
one way only, it is taken; else the dtypes of these casts are unknown. (MindSpore's source: pyboost's templates for the
CPU call ``PyBoostUtils::CastTensor`` on inputs and outputs of a kernel that was chosen for other dtypes.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise, product
from typing import NamedTuple

from ....ops.names import meaning
from ....ops.signature import UNKNOWN, Shape, Signature
from ....ops.vocabulary import CAST
from ..file_lines import op_type
from .dispatched import Dispatched, Tensors
from .profiler import Call

_HALF = frozenset(["float16", "bfloat16"])
_WIDE = "float32"
# Ops that may cast an input to the dtype of their result. In mixed precision any op with a float16 result may.
_CAST_INPUTS = frozenset("Add Sub Mul Div Pow Mod Max Min ReduceSum ReduceMean ReduceProd".split())
# Ops with the vocabulary's name of other ops, and their kernels.
_KERNELS = {"Max": "ReduceMax", "Min": "ReduceMin"}


class Pair(NamedTuple):
    """The op and the signature of a kernel."""

    place: int
    """The index of its op among the dispatched ones."""
    signature: Signature
    """UNKNOWN if the op has kernels for several dtypes and it is unclear which ran."""


class _Way(NamedTuple):
    """One possible kernel sequence for an op."""

    before: tuple[Signature, ...]
    """The casts that it makes first."""
    own: Signature
    after: tuple[Signature, ...]


@dataclass
class _Gap:
    """The casts between two paired ops."""

    casts: list[int]
    """Kernels, by index."""
    dispatched: list[Pair]
    is_open: bool
    """Whether its casts may belong to other ops, whose kernels have other names than the dispatched op."""

    @cached_property
    def more(self) -> int:
        """The number of casts that the program did not call."""
        return len(self.casts) - len(self.dispatched)


def paired(calls: Mapping[int, Call], ops: Sequence[Dispatched]) -> dict[int, Pair]:
    """Return the pairs of *calls* (by index, in the order in which they began) with the dispatched *ops*."""
    kernels = {index: _meant(op_type(call.name)) for index, call in calls.items()}
    meanings = [_KERNELS.get(op.op) or _meant(op.op) for op in ops]
    pairs = sorted(_pairs(kernels, meanings))
    in_order = all(before[1] < after[1] for before, after in pairwise(pairs))
    if not in_order or any(calls[index].start < ops[place].at for index, place in pairs):
        return {}  # threads of the program called them
    ends = [(-1, -1), *pairs, (max(kernels, default=0) + 1, len(ops))]
    nothing = [_Way((), UNKNOWN, ())]
    ways = [nothing, *(_ways(meanings[place], ops[place].inputs, ops[place].outputs) for _, place in pairs), nothing]
    gaps = [*_gaps(kernels, ops, meanings, ends)]
    _leave_possible(ways, gaps)
    known = {}
    for (index, place), possible in zip(pairs, ways[1:]):
        own = {way.own for way in possible}
        known[index] = Pair(place, own.pop() if len(own) == 1 else UNKNOWN)
    for gap, (_, begin), (_, end), before, after in zip(gaps, ends, ends[1:], ways, ways[1:]):
        fitting = {(one.after, other.before) for one, other in _fitting(gap, before, after)}
        if gap.more == 0:
            known.update(zip(gap.casts, gap.dispatched))
        elif not gap.is_open and len(fitting) == 1:
            ((last, first),) = fitting
            made = [*(Pair(begin, each) for each in last), *gap.dispatched, *(Pair(end, each) for each in first)]
            known.update(zip(gap.casts, made))
    return known


def _pairs(kernels: Mapping[int, str], meanings: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield each kernel that is no cast and the index of its op, if all kernels of this op were dispatched."""
    by_op = defaultdict[str, tuple[list[int], list[int]]](lambda: ([], []))
    for index, op in kernels.items():
        by_op[op][0].append(index)
    for place, op in enumerate(meanings):
        by_op[op][1].append(place)
    for op, (indices, places) in by_op.items():
        if op != CAST and len(indices) == len(places):
            yield from zip(indices, places)


def _gaps(
    kernels: Mapping[int, str], ops: Sequence[Dispatched], meanings: Sequence[str], ends: Sequence[tuple[int, int]]
) -> Iterator[_Gap]:
    indices = [*kernels]
    for (first, begin), (last, end) in pairwise(ends):
        between = indices[bisect_right(indices, first) : bisect_left(indices, last)]
        casts = [index for index in between if kernels[index] == CAST]
        called = [
            Pair(place, _of_cast(source, target, shape))
            for place in range(begin + 1, end)
            if meanings[place] == CAST
            for (source, shape), (target, _) in zip(ops[place].inputs[:1], ops[place].outputs)
            if source != target
        ]
        yield _Gap(casts, called, len(called) != len(casts) < len(between))


def _of_cast(source: str, target: str, shape: Shape) -> Signature:
    return Signature((source,), (target,), (shape,), (shape,))


@lru_cache(4096)
def _meant(raw: str) -> str:
    return meaning(raw).op


@lru_cache(4096)
def _ways(op: str, inputs: Tensors, outputs: Tensors) -> list[_Way]:
    """Return the ways to run *op*: as it is, on wider dtypes, on inputs that all have the result's dtype."""
    ways = [*_narrow_and_wide(inputs, outputs)]
    (target, _), *others = outputs or (("", ()),)
    first = tuple(_of_cast(dtype, target, shape) for dtype, shape in inputs if dtype != target)
    if first and (target in _HALF or (op in _CAST_INPUTS and not others)):
        cast = tuple((target, shape) for _, shape in inputs)
        ways += [way._replace(before=(*first, *way.before)) for way in _narrow_and_wide(cast, outputs)]
    return ways


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
    """Yield the pairs of ways around *gap* that make the observed number of casts."""
    for one, other in product(before, after):
        if gap.is_open or len(one.after) + len(other.before) == gap.more:
            yield one, other


def _leave_possible(ways: list[list[_Way]], gaps: Sequence[_Gap]) -> None:
    """Keep the *ways* of each op that fit everywhere. If none does, the casts there and beside stay unknown."""
    every = list(ways)
    while (contradiction := _narrow(ways, gaps)) is not None:
        for gap in gaps[max(contradiction - 1, 0) : contradiction + 2]:
            gap.is_open = gap.more != 0
        gaps[contradiction].is_open = True
        ways[:] = every


def _narrow(ways: list[list[_Way]], gaps: Sequence[_Gap]) -> int | None:
    """Keep the *ways* that fit; return the number of a gap without any."""
    numbers = list(range(len(gaps)))
    plain = [number for number in numbers if gaps[number].more == 0]
    for number in plain + numbers + numbers[::-1]:
        before, after = ways[number : number + 2]
        fitting = [*_fitting(gaps[number], before, after)]
        if not fitting:
            return number
        if len(fitting) < len(before) * len(after):
            for side in (0, 1):
                ways[number + side] = [*dict.fromkeys(pair[side] for pair in fitting)]
    return None
