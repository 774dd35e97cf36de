"""What instructions of HLO mean: which are no ops, what a reduce and a compare compute, how many FLOPs products do."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from math import prod

from ..ops.signature import Shape

NO_OPS = frozenset(
    """parameter constant tuple get-tuple-element bitcast fusion call while conditional after-all opt-barrier
    add-dependency domain async-start async-update async-done""".split()
)
"""Opcodes of what only names, groups or calls others."""
REDUCTIONS: Mapping[str, str] = {
    "add": "ReduceSum",
    "multiply": "ReduceProd",
    "maximum": "ReduceMax",
    "minimum": "ReduceMin",
}
"""The canonical op of a reduce, by the op that it applies."""
COMPARISONS: Mapping[str, str] = {
    "EQ": "Equal",
    "NE": "NotEqual",
    "LT": "Less",
    "LE": "LessOrEqual",
    "GT": "Greater",
    "GE": "GreaterOrEqual",
}
"""The canonical op of a compare, by its direction."""
OTHERS = frozenset(
    """all-gather all-reduce all-to-all bitcast-convert cbrt collective-broadcast collective-permute compare complex
    count-leading-zeros custom-call dynamic-update-slice get-dimension-size imag infeed is-finite map outfeed
    partition-id popcnt ragged-all-to-all real recv reduce reduce-precision reduce-scatter reduce-window replica-id
    rng rng-bit-generator rng-get-and-update-state select-and-scatter send set-dimension-size stochastic-convert
    triangular-solve""".split()
)
"""Opcodes that have no canonical op, or one that depends on more than the opcode."""
CAST, SORT = "convert", "sort"
_IN_REGIONS = frozenset(["parameter", "constant", "convert", "bitcast", "tuple", "get-tuple-element"])
_NUMBERS = re.compile(r"(?:\.\d+|\.clone|\.remat\d*)+$")


def is_op(opcode: str) -> bool:
    """Tell whether an instruction is an op. What is done in two halves (``all-reduce-start``) is the first of them."""
    return opcode not in NO_OPS and not opcode.endswith("-done")


def reduction(opcodes: Iterable[str]) -> str:
    """Return the canonical op of a reduce that applies a region of these *opcodes*; empty where it does several ops."""
    applied = frozenset(opcodes) - _IN_REGIONS
    return REDUCTIONS.get(next(iter(applied)), "") if len(applied) == 1 else ""


def plain_name(name: str) -> str:
    """Return the name of an instruction without the numbers that make it unique.

    >>> plain_name("convert_convert_fusion.3.clone")
    'convert_convert_fusion'
    """
    return _NUMBERS.sub("", name)


def dot_flops(output: Shape, left: Shape, contracted: Collection[int]) -> int:
    """Return the FLOPs of a dot product that sums over the *contracted* dimensions of its left side.

    Two for each pair of elements: a multiplication and an addition.
    """
    return 2 * prod(output) * prod(size for dimension, size in enumerate(left) if dimension in contracted)


def convolution_flops(output: Shape, kernel: Shape, output_features: int) -> int:
    """Return the FLOPs of a convolution, padding included; *output_features* is a dimension of the *kernel*."""
    return 2 * prod(output) * prod(size for dimension, size in enumerate(kernel) if dimension != output_features)
