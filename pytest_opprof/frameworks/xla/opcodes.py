"""Instructions of HLO: which are no ops, the op of a reduce or a compare, the FLOPs of a convolution."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

from ...ops.signature import Shape

# Opcodes that only name, group or call others.
NO_OPS = frozenset(
    """parameter constant tuple get-tuple-element bitcast fusion call while conditional after-all opt-barrier
    add-dependency domain async-start async-update async-done""".split()
)
# The canonical op of a reduce, by the op that it applies.
REDUCTIONS: Mapping[str, str] = {
    "add": "ReduceSum",
    "multiply": "ReduceProd",
    "maximum": "ReduceMax",
    "minimum": "ReduceMin",
}
# The canonical op of a compare, by its direction.
COMPARISONS: Mapping[str, str] = {
    "EQ": "Equal",
    "NE": "NotEqual",
    "LT": "Less",
    "LE": "LessOrEqual",
    "GT": "Greater",
    "GE": "GreaterOrEqual",
}
# Opcodes that have no canonical op, or one that depends on more than the opcode.
OTHERS = frozenset(
    """all-gather all-reduce all-to-all bitcast-convert cbrt collective-broadcast collective-permute compare complex
    count-leading-zeros custom-call dynamic-update-slice get-dimension-size imag infeed is-finite map outfeed
    partition-id popcnt ragged-all-to-all real recv reduce reduce-precision reduce-scatter reduce-window replica-id
    rng rng-bit-generator rng-get-and-update-state select-and-scatter send set-dimension-size stochastic-convert
    triangular-solve""".split()
)
CAST, SORT = "convert", "sort"
_IN_REGIONS = frozenset(["parameter", "constant", "convert", "bitcast", "tuple", "get-tuple-element"])
_NUMBERS = re.compile(r"(?:\.\d+|\.clone|\.remat\d*)+$")
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w*o\w*)->(\w+)")
_INTEGER = re.compile(r"-?\d{1,18}")
_WINDOW = re.compile(r"\bwindow=\{([^{}]*)\}")
# Elements of the shorter of kernel and result to examine in one dimension: 0.1 s.
MOST_PLACES = 1 << 17


class Window(NamedTuple):
    """The movement of a convolution's kernel over its data, in one dimension."""

    data: int
    """The dimension of the data."""
    kernel: int
    result: int
    stride: int = 1
    low: int = 0
    """Padding before the data; a negative number cuts off."""
    data_dilation: int = 1
    """The distance of the data's elements (``lhs_dilate``)."""
    kernel_dilation: int = 1


class Convolution(NamedTuple):
    """The dimensions of a convolution."""

    features: int
    """The dimension of the kernel that has the features of the result."""
    windows: tuple[Window, ...]

    @classmethod
    def of_text(cls, attributes: str) -> Convolution | None:
        """Parse the *attributes* of an instruction in HLO's text; None if they describe no convolution.

        >>> Convolution.of_text("window={size=3 stride=2 pad=0_1 lhs_dilate=4}, dim_labels=bf0_oi0->bf0")
        Convolution(features=0, windows=(Window(data=2, kernel=2, result=2, stride=2, low=0, data_dilation=4,
        kernel_dilation=1),))
        """
        labels, window = _LABELS.search(attributes), _WINDOW.search(attributes)
        if not labels:
            return None
        written = dict(each.partition("=")[::2] for each in window[1].split()) if window else {}
        data, kernel, result = labels.groups()
        places = [[each.find(label) for each in (data, kernel, result)] for label in sorted(data) if label.isdecimal()]
        columns = []
        for name, default in (("stride", "1"), ("pad", "0"), ("lhs_dilate", "1"), ("rhs_dilate", "1")):
            numbers = [each.partition("_")[0] for each in written.get(name, default).split("x")]
            if not all(map(_INTEGER.fullmatch, numbers)):
                return None
            columns.append([int(each) for each in numbers] * (1 if name in written else len(places)))
        if any(len(column) != len(places) for column in columns):
            return None
        return cls(kernel.index("o"), tuple(Window(*of, *steps) for of, steps in zip(places, zip(*columns))))


def is_op(opcode: str) -> bool:
    """Return True if an instruction is an op. Of two halves (``all-reduce-start``) the first is the op."""
    return opcode not in NO_OPS and not opcode.endswith("-done")


def reduction(opcodes: Iterable[str]) -> str:
    """Return the canonical op of a reduce that applies a region of these *opcodes*; empty for several ops."""
    applied = frozenset(opcodes) - _IN_REGIONS
    return REDUCTIONS.get(next(iter(applied)), "") if len(applied) == 1 else ""


def plain_name(name: str) -> str:
    """Return the name of an instruction without the numbers that make it unique.

    >>> plain_name("convert_convert_fusion.3.clone")
    'convert_convert_fusion'
    """
    return _NUMBERS.sub("", name)


def convolution_flops(data: Shape, kernel: Shape, result: Shape, over: Convolution) -> int | None:
    """Return the FLOPs of a convolution, as XLA's own cost analysis counts them; None if its shapes do not fit.

    Only products with data count: the zeros of padding, and those between elements (``lhs_dilate``), are no work. A
    convolution and both of its gradients therefore have the same FLOPs. (`torch.utils.flop_counter` counts padding,
    too.)
    """
    dimensions = len(over.windows) + 2
    if not len(data) == len(kernel) == len(result) == dimensions or not 0 <= over.features < dimensions:
        return None
    rest, summed = [*result], [*kernel]  # the remaining dimensions are the batch, the features
    summed[over.features], pairs = 1, 1
    for window in over.windows:
        if not all(0 <= place < dimensions for place in window[:3]):
            return None
        found = _touching(data[window.data], kernel[window.kernel], result[window.result], window)
        if found is None:
            return None
        pairs *= found
        rest[window.result] = summed[window.kernel] = 1
    return 2 * pairs * prod(rest) * prod(summed)


@lru_cache(1 << 10)
def _touching(data: int, kernel: int, result: int, window: Window) -> int | None:
    """Return the number of pairs of a result and a kernel element that meet an element of the data, in one dimension.

    None if there are too many to count.
    """
    end, low, holes = (data - 1) * window.data_dilation, window.low, window.data_dilation
    few, many = sorted([(kernel, window.kernel_dilation), (result, window.stride)])
    if min(data, kernel, result, holes, few[1], many[1]) < 1:
        return 0
    if holes == 1 and low <= 0 and (few[0] - 1) * few[1] + (many[0] - 1) * many[1] - low <= end:
        return few[0] * many[0]
    if few[0] > MOST_PLACES:
        return None
    # By a number x of each side: x * step of both, less the padding, is from 0 to the end, and no hole.
    common = gcd(many[1], holes)
    every = holes // common
    inverse = pow(many[1] // common, -1, every)
    pairs = 0
    for place in range(few[0]):
        missing = low - place * few[1]
        if missing % common:
            continue
        first, last = max(-(-missing // many[1]), 0), min((missing + end) // many[1], many[0] - 1)
        first += (missing // common * inverse - first) % every
        pairs += max((last - first) // every + 1, 0)
    return pairs
