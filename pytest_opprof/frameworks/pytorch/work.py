"""What an op of PyTorch works on: its arguments as its profiler has them -> signature, bytes and FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ...ops.dtypes import item_bytes, of_pytorch_event
from ...ops.names import Kind, meaning
from ...ops.signature import Shape, Signature
from ...ops.vocabulary import CASTS
from . import formulas

COPIES = frozenset(CASTS["torch"].split())
"""Ops that are casts where their two dtypes differ."""


_GIVEN = frozenset(
    """c10d::_allgather_base_ c10d::allgather_ c10d::allgather_coalesced_ c10d::allgather_into_tensor_coalesced_
    c10d::_reduce_scatter_base_ c10d::reduce_scatter_tensor_coalesced_ c10d::alltoall_ c10d::alltoall_base_
    c10d::gather_""".split()
)
"""Collectives whose second argument is what a rank gives, the first what it gets; of all others it is the first."""
_EMPTY = frozenset(["c10d::barrier", "c10d::monitored_barrier_"])
_LISTS = frozenset(["c10d::reduce_scatter_"])
"""Collectives whose lists of lists, which are what a rank gives, the profiler does not tell."""


class Tensor(NamedTuple):
    """A tensor among the arguments."""

    dtype: str
    shape: Shape
    strides: Shape | None = None
    """None where they are not known."""

    @property
    def nbytes(self) -> int | None:
        """The bytes of its elements, each once; None where the dtype does not tell: never 0, which is a measurement."""
        item = item_bytes(self.dtype)
        return None if item is None else prod(self.shape) * item

    @property
    def layout(self) -> str:
        """``channels_last`` where the channels of a place lie together: several channels, of several places."""
        if self.strides is None or not 3 < len(self.shape) < 6 or self.shape[1] == 1 or prod(self.shape[2:]) == 1:
            return ""
        dense = [self.shape[1] * prod(self.shape[place + 1 :]) for place in range(2, len(self.shape))]
        if self.strides[1] != 1 or [*self.strides[2:]] != dense:
            return ""
        return "channels_last" if len(self.shape) == 4 else "channels_last_3d"


Argument = Tensor | tuple[Tensor, ...] | None
"""A tensor, a list of them, or something else."""


class Work(NamedTuple):
    """What an op works on, and how much it does."""

    signature: Signature
    dtypes: tuple[str, ...]
    """Those of the source and the destination of a copy."""
    nbytes: int | None
    """What it reads and writes, as far as that follows from its arguments."""
    flops: int | None


def called_again(parents: Sequence[int], raws: Sequence[str]) -> dict[int, int]:
    """Return the events that call the same op once more, outer ones first, and for each the call that does the work.

    Autocast casts, and then calls the op again: the last call inside is the one that computes. No deeper call is: where
    an op makes its result and then fills that (``aten::eye``), the innermost one is given an empty tensor to write to.
    A copy keeps its own dtypes, which the program asked for: between devices it casts first and then copies.

    >>> called_again([-1, 0, 0, 0], ["aten::linear", "aten::to", "aten::to", "aten::linear"])
    {0: 3}
    """
    return {
        parent: event
        for event, (parent, raw) in enumerate(zip(parents, raws))
        if parent >= 0 and raws[parent] == raw and raw not in COPIES
    }


def work(raw: str, arguments: Sequence[Argument], attributes: Sequence[object] = ()) -> Work:
    """Return the work of the op *raw*; *attributes* are the arguments that are no tensors, where those are needed.

    The result of an index, of a reduction without its *attributes* and of whatever `formulas` does not know is left out
    of its bytes.
    """
    tensors = [tensor for each in arguments for tensor in ([each] if isinstance(each, Tensor) else each or ())]
    if raw in COPIES:
        return _copy(tensors)
    kind = meaning(raw).kind
    if kind is Kind.COMMUNICATION:
        return _collective(raw, arguments)
    shapes = [each.shape if isinstance(each, Tensor) else None for each in arguments]
    result, flops = formulas.result_of(raw, shapes, attributes)
    nbytes = _together(tensors)
    outputs: tuple[str, ...] | None = None
    if result is not None and tensors:
        large = [tensor for tensor in tensors if tensor.shape] or tensors
        outputs = ("bool",) if formulas.is_comparison(raw) else None
        # Of mixed dtypes PyTorch computes in the widest, in floats if there are some (the others are indices or masks).
        floats = [tensor for tensor in large if tensor.dtype.startswith(("float", "bfloat", "complex"))]
        reduced = formulas.reduced_dtype(raw, tensors[0].dtype, attributes)
        widest = max(item_bytes(tensor.dtype) or 0 for tensor in floats or large)
        written = prod(result) * (1 if outputs else item_bytes(reduced) or widest)
        nbytes = None if nbytes is None else nbytes + written
    if kind in (Kind.VIEW, Kind.ALLOCATION):
        nbytes = 0
    if not tensors:
        return Work(Signature(), (), 0 if kind in (Kind.VIEW, Kind.ALLOCATION) else None, flops)
    signature = Signature(
        tuple(tensor.dtype for tensor in tensors),
        outputs,
        tuple(tensor.shape for tensor in tensors),
        None if result is None else (result,),
        tuple(tensor.layout for tensor in tensors) if any(tensor.layout for tensor in tensors) else None,
    )
    return Work(signature, (), nbytes, flops)


def recorded_work(raw: str, dtypes: Sequence[object], shapes: Sequence[object], attributes: Sequence[object]) -> Work:
    """Return the work of an event that tells dtypes and shapes of each argument, and what is inside of it does not."""
    arguments = arguments_of(dtypes, shapes)
    if raw not in formulas.FACTORIES:
        return work(raw, arguments, attributes)
    like = arguments[0] if arguments else None
    # Files of PyTorch before 2.1 tell only whether there was an argument.
    attributes = attributes or [kind or None for kind in dtypes]
    made = formulas.made(raw, like.shape, like.dtype, attributes) if isinstance(like, Tensor) else None
    return work(raw, [Tensor(made[1], made[0]) if made else None])


def _collective(raw: str, arguments: Sequence[Argument]) -> Work:
    """Return the work of a collective: its bytes are those that this rank gives."""
    given = arguments[1:2] if raw in _GIVEN else arguments[:1]
    tensors = [tensor for each in given for tensor in ([each] if isinstance(each, Tensor) else each or ())]
    if raw in _EMPTY or raw in _LISTS or not tensors or not all(tensor.dtype for tensor in tensors):
        return Work(Signature(), (), 0 if raw in _EMPTY else None, None)
    signature = Signature(tuple(tensor.dtype for tensor in tensors), None, tuple(tensor.shape for tensor in tensors))
    return Work(signature, (), _together(tensors), None)


def _copy(tensors: Sequence[Tensor]) -> Work:
    """Return the work of a copy, whose first argument is where it goes."""
    pair = tensors[:2]
    if not pair:
        return Work(Signature(), (), None, None)
    dtypes, shapes = (tuple(reversed(each)) for each in zip(*((tensor.dtype, tensor.shape) for tensor in pair)))
    signature = Signature(dtypes[:1], dtypes[1:] or None, shapes[:1], shapes[1:] or None)
    return Work(signature, dtypes, _together(pair) if len(pair) == 2 else None, None)


def _together(tensors: Sequence[Tensor]) -> int | None:
    """Return the bytes of all *tensors*; None where one does not tell its own, as in lists of saved profiles."""
    sizes = [tensor.nbytes for tensor in tensors]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def arguments_of(dtypes: Sequence[object], shapes: Sequence[object]) -> list[Argument]:
    """Return the arguments of an event that tells dtypes and shapes of each; those of lists have no dtype.

    >>> arguments_of(["float", "Scalar", "TensorList"], [[2, 3], [], [[4], [5]]])[0]
    Tensor(dtype='float32', shape=(2, 3), strides=None)
    """
    found: list[Argument] = []
    for kind, shape in zip(dtypes, shapes):
        if kind == "TensorList" and isinstance(shape, list):
            found.append(tuple(Tensor("", sizes) for each in shape if (sizes := shape_of(each)) is not None))
        else:
            dtype, sizes = of_pytorch_event(kind) if isinstance(kind, str) else "", shape_of(shape)
            found.append(Tensor(dtype, sizes) if dtype and sizes is not None else None)
    return found


def shape_of(sizes: object) -> Shape | None:
    """Return the shape, or None where it is not one (symbolic dimensions)."""
    return tuple(sizes) if isinstance(sizes, list) and all(type(size) is int for size in sizes) else None
