"""The work of a NumPy or SciPy op: from the arrays it was given and returned to signature, bytes and FLOPs.

Shapes and dtypes of all arrays are known, so bytes are exact. FLOPs are those of the textbook method (LAPACK's; 5 N
log2 N for a complex FFT), not of a library's algorithm. An elementwise op on floats has one for each element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2, prod
from typing import Any, NamedTuple

from ...ops.dtypes import item_bytes
from ...ops.names import meaning
from ...ops.signature import Shape, Signature
from ...ops.vocabulary import ALLOCATIONS

_TRANSFORMS = "fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split()
# The ops whose FLOPs depend on more than shapes.
NEEDS_ATTRIBUTES = frozenset(
    ["numpy.einsum", *(f"{home}.fft.{name}" for home in ("numpy", "scipy") for name in _TRANSFORMS)]
)
# The written part of the array is unknown.
_UNKNOWN_BYTES = frozenset(["ndarray.__setitem__"])
# They read as much of the array as they return.
_PART_READ = frozenset(["ndarray.__getitem__", "ndarray.take", "numpy.take", "numpy.take_along_axis"])
Arrays = Sequence[tuple[str, Shape]]


class Attributes(NamedTuple):
    """The arguments that are no arrays; anything but numbers and text as `repr` shows it."""

    args: tuple[object, ...] = ()
    """In their places; None in place of arrays."""
    kwargs: tuple[tuple[str, object], ...] = ()


NO_ATTRIBUTES = Attributes()


def work(
    raw: str, given: Arrays, returned: Arrays, op: str = "", attributes: Attributes = NO_ATTRIBUTES
) -> tuple[Signature, int | None, int | None]:
    """Return signature, bytes read and written, and FLOPs of the op *raw*; None for unknown amounts.

    *given* and *returned* are dtype and shape of each array, *op* is the op of *raw* if its name does not tell.
    *attributes* are needed by `NEEDS_ATTRIBUTES`.
    """
    signature = Signature(
        tuple(dtype for dtype, _ in given),
        tuple(dtype for dtype, _ in returned),
        tuple(shape for _, shape in given),
        tuple(shape for _, shape in returned),
    )
    read = given[1:] if raw in _PART_READ else given
    sizes = [prod(shape) * (item_bytes(dtype) or 0) for dtype, shape in (*read, *returned)]
    nbytes = sum(sizes) + (sum(sizes[len(read) :]) if raw in _PART_READ else 0)
    nbytes = 0 if raw in ALLOCATIONS else nbytes  # `numpy.empty` writes nothing
    return signature, None if raw in _UNKNOWN_BYTES else nbytes, _flops(raw, op, given, returned, attributes)


def _flops(raw: str, op: str, given: Arrays, returned: Arrays, attributes: Attributes) -> int | None:
    op = op or meaning(raw).op
    dtypes = [dtype for dtype, _ in (*given, *returned)]
    if not returned or not any(dtype.startswith(("float", "complex")) for dtype in dtypes):
        return None
    shapes, result = [shape for _, shape in given], returned[0][1]
    if op == "Einsum":
        return einsum_flops(shapes, attributes)
    if op == "FFT":
        return _fft_flops(raw, shapes, result, attributes)
    if op == "MatMul" and len(shapes) == 2:
        return _product_flops(raw.rpartition(".")[2], shapes[0], shapes[1], result)
    if op in _LINALG and shapes and len(shapes[0]) >= 2:
        n = shapes[0][-1]
        right = prod(shapes[1][-1:]) if len(shapes) > 1 and len(shapes[1]) > 1 else 1
        if raw.endswith("lstsq"):
            return 2 * shapes[0][-2] * n * n
        if raw.endswith(("solve_triangular", "cho_solve")):
            return n * n * right * (2 if raw.endswith("cho_solve") else 1)
        if op == "SVD" and len(result) > 1 and result[-1] < result[-2]:
            m = result[-2]  # only as many columns of U as there are singular values
            return round(prod(shapes[0][:-2]) * (6 * m * n * n + 20 * n**3))
        return round(prod(shapes[0][:-2]) * _LINALG[op](shapes[0][-2], n, right))
    if op not in _ELEMENT_OPS:
        return None
    return max(prod(shape) for _, shape in (*given, *returned))


# FLOPs of a matrix of m rows and n columns; Golub and Van Loan, Matrix Computations, and LAPACK's working note 41.
_LINALG: Mapping[str, Callable[[int, int, int], float]] = {
    "Cholesky": lambda m, n, right: n**3 / 3,
    "Inverse": lambda m, n, right: 2 * n**3,
    "Det": lambda m, n, right: 2 * n**3 / 3,
    "Solve": lambda m, n, right: 2 * n**3 / 3 + 2 * n * n * right,
    "SVD": lambda m, n, right: 4 * max(m, n) ** 2 * min(m, n) + 8 * max(m, n) * min(m, n) ** 2 + 9 * min(m, n) ** 3,
    "Eig": lambda m, n, right: 25 * n**3,
}
# Elementwise ops.
_ELEMENT_OPS = frozenset(
    """Acos Acosh Add Asin Asinh Atan Atan2 Atanh Cos Cosh CumProd CumSum Div Erf Exp Expm1 Log Log1p LogSoftmax Mod Mul
    Pow Reciprocal ReduceL2 ReduceLogSumExp ReduceMean ReduceProd ReduceStd ReduceSum ReduceVar Rsqrt Sigmoid Sin Sinh
    Softmax Softplus Sqrt Sub Tan Tanh""".split()
)


def _product_flops(name: str, left: Shape, right: Shape, result: Shape) -> int:
    if name in ("matmul", "matvec", "vecmat", "dot", "inner", "vecdot"):
        summed = left[-1:] if left and right else ()
    elif name == "vdot":
        summed = (prod(left),)
    else:
        # tensordot: summed dimensions are in both operands, the others in the result.
        summed = (round((prod(left) * prod(right) / max(prod(result), 1)) ** 0.5),)
    return 2 * prod(result) * prod(summed)


def _fft_flops(raw: str, given: Sequence[Shape], result: Shape, attributes: Attributes) -> int | None:
    args, kwargs = attributes.args, dict(attributes.kwargs)
    name = raw.rpartition(".")[2]
    is_real = name.startswith(("rfft", "irfft"))
    whole = given[0] if name.startswith("rfft") and given else result
    if name in ("fft", "ifft", "rfft", "irfft"):
        axis = kwargs.get("axis", args[2] if len(args) > 2 else -1)
        if not isinstance(axis, int) or not whole or not -len(whole) <= axis < len(whole):
            return None
        each = whole[axis]
    elif len(args) > 2 or "axes" in kwargs:
        return None
    else:
        each = prod(whole[-2:]) if name.endswith("2") else prod(whole)
    return round((2.5 if is_real else 5) * prod(whole) * log2(each)) if each > 1 else 0


def einsum_flops(shapes: Sequence[Shape], attributes: Attributes) -> int | None:
    """Return the FLOPs of `numpy.einsum`, all operands at once or in the order that ``optimize`` finds.

    None for subscripts with an ellipsis, and for subscripts in lists.
    """
    import numpy as np

    args, kwargs = attributes.args, dict(attributes.kwargs)
    if not args or not isinstance(args[0], str) or "." in args[0]:
        return None
    subscripts, _, output = args[0].replace(" ", "").partition("->")
    terms = subscripts.split(",")
    if len(shapes) != len(terms) or any(len(term) != len(shape) for term, shape in zip(terms, shapes)):
        return None
    if "->" not in args[0]:
        output = "".join(sorted(each for each in set(subscripts) - {","} if subscripts.count(each) == 1))
    size = {index: n for term, shape in zip(terms, shapes) for index, n in zip(term, shape) if n != 1}
    path: Sequence[Any] = [tuple(range(len(terms)))]
    optimize: Any = kwargs.get("optimize", False)
    if optimize is not False and len(terms) > 2:
        if optimize not in (True, "greedy", "optimal"):
            return None  # a path of the user's own
        operands = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
        path = np.einsum_path(args[0], *operands, optimize=optimize)[0][1:]
    flops = 0
    for pair in path:
        joined = [terms.pop(place) for place in sorted(pair, reverse=True)]
        left = set(output).union(*terms)
        indices = set("".join(joined))
        multiplied, summed = max(len(joined) - 1, 1), bool(indices - left)
        flops += prod(size.get(index, 1) for index in indices) * (multiplied + summed)
        terms.append("".join(sorted(indices & left)))
    return flops
