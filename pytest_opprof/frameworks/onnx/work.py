"""The work of an ONNX Runtime node: from the tensors in its event to signature, bytes and FLOPs.

Events have the dtypes and shapes of all tensors except weights that the kernel packed for itself when the model was
loaded. The packed weights of a matrix product and of an LSTM follow from the other tensors; otherwise bytes and FLOPs
are unknown. FLOPs are those of products, convolutions, attention and recurrent layers, a multiplication and an addition
being two; other nodes have none by convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ...ops import flops as products
from ...ops.dtypes import dtype, item_bytes
from ...ops.names import meaning
from ...ops.signature import Shape, Signature

# Nodes that run other nodes, whose events are beside theirs.
WITH_BODIES = frozenset("If Loop Scan BeamSearch GreedySearch Sampling WhisperBeamSearch".split())


class Tensors(NamedTuple):
    """The inputs or the outputs of a node, without omitted ones and packed weights."""

    dtypes: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] | None = None
    """None if unknown."""


class Work(NamedTuple):
    """The signature of a node and its amount of work; None if unknown."""

    signature: Signature
    nbytes: int | None
    flops: int | None


# Their weights have the dtype of the data.
_FLOAT_PRODUCTS = frozenset("MatMul Gemm FusedMatMul FusedGemm TransposeMatMul FusedMatMulActivation".split())
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Their weights may be packed, and cannot be derived.
_PACKED = frozenset("Attention QAttention DynamicQuantizeLSTM MoE QMoE".split())
# They read as much of the data as they write.
_PART_READ = frozenset("Gather GatherElements GatherND Slice".split())
_NOT_READ = frozenset("Shape Size".split())


def work(op: str, inputs: Tensors, outputs: Tensors, nbytes: int | None) -> Work:
    """Return the work of a node of the type *op*; *nbytes* are the bytes of all its tensors in the event."""
    signature = Signature(inputs.dtypes, outputs.dtypes, inputs.shapes, outputs.shapes)
    if op in WITH_BODIES:
        return Work(signature, 0, None)  # the nodes inside read and write
    if "string" in (*inputs.dtypes, *outputs.dtypes):
        return Work(signature, None, None)
    if not inputs.shapes or not outputs.shapes:
        return Work(signature, nbytes, None)
    canonical = meaning(op).op
    if canonical == "MatMul":
        return Work(signature, *_product(op, inputs, inputs.shapes, outputs.shapes[0], nbytes))
    if canonical in ("Conv", "ConvTranspose"):
        return Work(signature, *_convolution(canonical, inputs.shapes, outputs.shapes[0], nbytes))
    if op in _GATES:
        return Work(signature, *_recurrent(op, inputs, inputs.shapes, outputs.shapes[0], nbytes))
    if op in _NOT_READ or op in _PART_READ:
        item = item_bytes(dtype(inputs.dtypes[0]))
        nbytes = _without_data(op, inputs.shapes[0], outputs.shapes[0], item, nbytes)
    flops = _attention(inputs.shapes, outputs.shapes) if canonical == "Attention" else None
    return Work(signature, None if op in _PACKED and flops is None else nbytes, flops)


def _product(
    op: str, inputs: Tensors, shapes: Sequence[Shape], result: Shape, nbytes: int | None
) -> tuple[int | None, int | None]:
    """Return the bytes and FLOPs of a matrix product, whose right side may be missing: packed."""
    left, *others = shapes
    if not left or op == "SparseToDenseMatMul":
        return None, None
    # The left side is transposed if its last but one dimension is not the result's.
    is_transposed = len(left) > 1 < len(result) and left[-2] != result[-2] and left[-1] == result[-2]
    summed = left[-2] if is_transposed else left[-1]
    columns = result[-1:] if len(result) >= len(left) else ()
    flops = 2 * prod(result) * summed
    if any(sorted(other[-2:]) == sorted((summed, *columns)) for other in others):
        return nbytes, flops
    item = item_bytes(dtype(inputs.dtypes[0])) if op in _FLOAT_PRODUCTS else None
    return None if nbytes is None or item is None else nbytes + summed * prod(columns) * item, flops


def _convolution(op: str, shapes: Sequence[Shape], result: Shape, nbytes: int | None) -> tuple[int | None, int | None]:
    """Return the bytes and FLOPs of a convolution; both are unknown if its weights are packed."""
    # A quantised one has scales before its weights; one fused with an addition has a tensor like its result.
    weights = next((shape for shape in shapes[1:] if len(shape) > 2 and shape != result), None)
    if weights is None:
        return None, None
    return nbytes, products.convolution(weights, shapes[0] if op == "ConvTranspose" else result)


def _recurrent(
    op: str, inputs: Tensors, shapes: Sequence[Shape], result: Shape, nbytes: int | None
) -> tuple[int | None, int | None]:
    """Return the bytes and FLOPs of an LSTM, GRU or RNN, all of its steps and directions."""
    if len(shapes[0]) != 3 or len(result) not in (3, 4):
        return None, None
    steps, batch, size = shapes[0]
    directions, hidden = result[-3] if len(result) == 4 else result[0], result[-1]
    weights = directions * _GATES[op] * hidden * (size + hidden)
    flops = 2 * steps * batch * weights
    has_weights = (directions, _GATES[op] * hidden, hidden) in shapes[1:]
    item = item_bytes(dtype(inputs.dtypes[0]))
    if nbytes is None or item is None:
        return None, flops
    return nbytes if has_weights else nbytes + weights * item, flops


def _attention(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """Return the FLOPs if query, key and value are separate tensors: neither packed nor in a cache."""
    if len(inputs) < 3 or not all(len(shape) == len(inputs[0]) > 2 for shape in inputs[:3]) or len(outputs) > 1:
        return None
    query, key = inputs[:2]
    return 2 * key[-2] * (prod(query) + prod(outputs[0]))


def _without_data(op: str, data: Shape, result: Shape, item: int | None, nbytes: int | None) -> int | None:
    """Return *nbytes* with only the read part of the data."""
    if nbytes is None or item is None:
        return None
    return nbytes - prod(data) * item + (0 if op in _NOT_READ else prod(result) * item)
