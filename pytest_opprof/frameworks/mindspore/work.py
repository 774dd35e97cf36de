"""The FLOPs of a MindSpore op, as far as the shapes of its inputs and outputs determine them."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops import flops as products
from ...ops.names import meaning
from ...ops.signature import Shape


def flops(type_: str, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """Return the FLOPs of an op; None for anything but a product or a convolution, and for unknown shapes.

    A multiplication and an addition are two. The gradients of a convolution take as many as itself.

    >>> flops("MatMul", [(2, 400), (120, 400)], [(2, 120)])
    192000
    """
    if len(inputs) < 2 or not outputs:
        return None
    if type_ in ("Conv2DBackpropFilter", "Conv2DBackpropInput"):
        weight = outputs[0] if type_ == "Conv2DBackpropFilter" else inputs[1]
        of_result = inputs[0]
        fits = len(of_result) == len(weight) == 4 and of_result[1] == weight[0]
        return products.convolution(weight, of_result) if fits else None
    return products.of_op(meaning(type_).op, inputs[0], inputs[1], outputs[0]) if "Depthwise" not in type_ else None
