"""FLOPs of products and convolutions, by the shapes that every framework has: a multiplication and an addition are two.

Facts of one framework only (strides, HLO's windows, packed weights) are in the module ``work`` of that framework.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from .signature import Shape


def dot(result: Shape, left: Shape, contracted: Collection[int]) -> int:
    """Return the FLOPs of a dot product that sums over the *contracted* dimensions of its left side.

    >>> dot((4, 2), (4, 3), [1])
    48
    """
    return 2 * prod(result) * prod(size for dimension, size in enumerate(left) if dimension in contracted)


def product(left: Shape, right: Shape, result: Shape) -> int | None:
    """Return the FLOPs of a matrix product either side of which may be transposed; None if the shapes do not fit.

    >>> product((32, 4096), (32, 9216), (4096, 9216))
    2415919104
    """
    rows, columns = result[-2:]
    inner = prod(left[-2:]) // rows if rows else 0
    fits = inner * rows == prod(left[-2:]) and inner * columns == prod(right[-2:])
    return 2 * prod(result) * inner if fits else None


def convolution(weight: Shape, result: Shape) -> int:
    """Return the FLOPs of a convolution with a *weight* of (features of the result, features of a group, *kernel).

    >>> convolution((8, 3, 5, 5), (1, 8, 28, 28))
    940800
    """
    return 2 * prod(result) * prod(weight[1:])


def of_op(op: str, left: Shape, right: Shape, result: Shape) -> int | None:
    """Return the FLOPs of a canonical *op* on two tensors; None for anything but a product or a convolution in NCHW.

    >>> of_op("Conv", (1, 3, 32, 32), (8, 3, 5, 5), (1, 8, 28, 28))
    940800
    """
    if op == "MatMul" and len(left) > 1 and len(right) > 1 and len(result) > 1:
        return product(left, right, result)
    if op == "Conv" and len(left) == len(right) == len(result) > 2 and right[0] == result[1]:
        return convolution(right, result)
    return None
