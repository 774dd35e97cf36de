"""The work of an Ascend kernel: bytes and FLOPs, as far as its row in a table of CANN tells.

Bytes are those of the tensors as laid out: NC1HWC0 and FRACTAL_Z are padded, and the kernel reads the padding. FLOPs
follow from shapes if these are the program's: of products in plain formats, of convolutions in NCHW. A padded layout
has more channels than the program, and does not tell the number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ops import flops as products
from ...ops.dtypes import dtype, item_bytes
from ...ops.names import meaning
from ...ops.signature import Shape

_PLAIN = frozenset(["", "ND", "FORMAT_ND", "NCHW"])


def nbytes(shapes: Sequence[Shape], dtypes: Sequence[str]) -> int | None:
    """Return the bytes of all tensors, inputs and outputs; None if one is not fully known.

    >>> nbytes([(4, 1025), (4, 1025)], ["INT64", "INT32"])
    49200
    """
    sizes = [item_bytes(dtype(each)) for each in dtypes]
    if not shapes or len(sizes) != len(shapes):
        return None
    known = [size for size in sizes if size is not None]
    return sum(map(int.__mul__, map(prod, shapes), known)) if len(known) == len(sizes) else None


def flops(type_: str, inputs: Sequence[Shape], outputs: Sequence[Shape], formats: Sequence[str]) -> int | None:
    """Return the FLOPs of a kernel of a *type_*; *formats* are those of its inputs and outputs.

    A multiplication and an addition are two. None for anything but a product or a convolution, and if its row does not
    tell.

    >>> flops("MatMulV3", [(32, 4096), (32, 9216)], [(4096, 9216)], ["ND"] * 3)
    2415919104
    """
    if len(inputs) < 2 or not outputs or not _PLAIN.issuperset(formats):
        return None
    return products.of_op(meaning(type_).op, inputs[0], inputs[1], outputs[0]) if "Depthwise" not in type_ else None
