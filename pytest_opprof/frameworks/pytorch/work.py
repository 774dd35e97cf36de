"""The work of a PyTorch op: from its arguments in the profiler to signature, bytes and FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ...ops.dtypes import item_bytes, of_pytorch_event
from ...ops.names import Kind, meaning
from ...ops.signature import Shape, Signature
from ...ops.vocabulary import CASTS
from . import formulas

_MOST_WORKS = 10_000

# Ops that are casts if their two dtypes differ.
COPIES = frozenset(CASTS["torch"].split())


# Collectives that take a rank's input as the second argument and its output as the first; all others the reverse.
_GIVEN = frozenset(
    """c10d::_allgather_base_ c10d::allgather_ c10d::allgather_coalesced_ c10d::allgather_into_tensor_coalesced_
    c10d::_reduce_scatter_base_ c10d::reduce_scatter_tensor_coalesced_ c10d::alltoall_ c10d::alltoall_base_
    c10d::gather_""".split()
)
_EMPTY = frozenset(["c10d::barrier", "c10d::monitored_barrier_"])
# Collectives whose inputs are lists of lists, which the profiler does not record.
_LISTS = frozenset(["c10d::reduce_scatter_"])


class Tensor(NamedTuple):
    """A tensor among the arguments."""

    dtype: str
    shape: Shape
    strides: Shape | None = None
    """None if unknown."""

    @property
    def nbytes(self) -> int | None:
        """The bytes of its elements, each once; None if the dtype is unknown, never 0, which would be a measurement."""
        item = item_bytes(self.dtype)
        return None if item is None else prod(self.shape) * item

    @property
    def layout(self) -> str:
        """``channels_last`` if the channels of a place are adjacent: several channels, several places."""
        if self.strides is None or not 3 < len(self.shape) < 6 or self.shape[1] == 1 or prod(self.shape[2:]) == 1:
            return ""
        dense = [self.shape[1] * prod(self.shape[place + 1 :]) for place in range(2, len(self.shape))]
        if self.strides[1] != 1 or [*self.strides[2:]] != dense:
            return ""
        return "channels_last" if len(self.shape) == 4 else "channels_last_3d"


# A tensor, a list of them, or something else.
Argument = Tensor | tuple[Tensor, ...] | None


class Work(NamedTuple):
    """The arguments of an op and its amount of work."""

    signature: Signature
    dtypes: tuple[str, ...]
    """The dtypes of the source and the destination of a copy."""
    nbytes: int | None
    """The bytes read and written, as far as the arguments tell."""
    flops: int | None


class Works(dict[tuple[object, ...], Work]):
    """The work of earlier ops of this process, by whatever it depends on: that of one op takes 0.1 ms."""

    def keep(self, case: tuple[object, ...], work: Work) -> Work:
        """Keep the *work*, and return it. All is forgotten when it becomes much."""
        if len(self) >= _MOST_WORKS:
            self.clear()
        self[case] = work
        return work


def called_again(parents: Sequence[int], raws: Sequence[str]) -> dict[int, int]:
    """Return the events that call the same op once more, outer ones first, each with the inner call that does the work.

    Autocast casts and then calls the op again; the last call inside computes. Deeper calls do not count: an op that
    makes its result and then fills it (``aten::eye``) gives the innermost call an empty tensor to write to. A copy
    keeps its own dtypes, which the program requested: between devices it casts first and then copies.

    >>> called_again([-1, 0, 0, 0], ["aten::linear", "aten::to", "aten::to", "aten::linear"])
    {0: 3}
    """
    return {
        parent: event
        for event, (parent, raw) in enumerate(zip(parents, raws))
        if parent >= 0 and raws[parent] == raw and raw not in COPIES
    }


def work(raw: str, arguments: Sequence[Argument], attributes: Sequence[object] = ()) -> Work:
    """Return the work of the op *raw*; *attributes* are the non-tensor arguments, if they are needed.

    Its bytes omit the result of an index, of a reduction without *attributes*, and of any op unknown to `formulas`.
    """
    tensors = [tensor for each in arguments for tensor in ([each] if isinstance(each, Tensor) else each or ())]
    if raw in COPIES:
        return _copy(tensors)
    kind = meaning(raw).kind
    if kind is Kind.COMMUNICATION:
        return _collective(raw, arguments)
    if raw in formulas.SEQUENCES and tensors and (shape := formulas.sequence(raw, tensors[-1].dtype, attributes)):
        arguments = tensors = [Tensor(tensors[-1].dtype, shape)]
    shapes = [each.shape if isinstance(each, Tensor) else None for each in arguments]
    result, flops = formulas.result_of(raw, shapes, attributes)
    nbytes = _together(tensors)
    outputs: tuple[str, ...] | None = None
    if result is not None and tensors:
        large = [tensor for tensor in tensors if tensor.shape] or tensors
        outputs = ("bool",) if formulas.is_comparison(raw) else None
        # With mixed dtypes PyTorch computes in the widest float, if there is one (the others are indices or masks).
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
    """Return the work of an event by the dtypes and shapes of its own arguments, not of the events inside."""
    arguments = arguments_of(dtypes, shapes)
    if raw not in formulas.FACTORIES:
        return work(raw, arguments, attributes)
    like = arguments[0] if arguments else None
    # Files of PyTorch before 2.1 record only whether there was an argument.
    attributes = attributes or [kind or None for kind in dtypes]
    made = formulas.made(raw, like.shape, like.dtype, attributes) if isinstance(like, Tensor) else None
    return work(raw, [Tensor(made[1], made[0]) if made else None])


def _collective(raw: str, arguments: Sequence[Argument]) -> Work:
    """Return the work of a collective: its bytes are this rank's input."""
    given = arguments[1:2] if raw in _GIVEN else arguments[:1]
    tensors = [tensor for each in given for tensor in ([each] if isinstance(each, Tensor) else each or ())]
    if raw in _EMPTY or raw in _LISTS or not tensors or not all(tensor.dtype for tensor in tensors):
        return Work(Signature(), (), 0 if raw in _EMPTY else None, None)
    signature = Signature(tuple(tensor.dtype for tensor in tensors), None, tuple(tensor.shape for tensor in tensors))
    return Work(signature, (), _together(tensors), None)


def _copy(tensors: Sequence[Tensor]) -> Work:
    """Return the work of a copy, whose first argument is the destination."""
    pair = tensors[:2]
    if not pair:
        return Work(Signature(), (), None, None)
    dtypes, shapes = (tuple(reversed(each)) for each in zip(*((tensor.dtype, tensor.shape) for tensor in pair)))
    signature = Signature(dtypes[:1], dtypes[1:] or None, shapes[:1], shapes[1:] or None)
    return Work(signature, dtypes, _together(pair) if len(pair) == 2 else None, None)


def _together(tensors: Sequence[Tensor]) -> int | None:
    """Return the bytes of all *tensors*; None if one does not know its own, as in lists of saved profiles."""
    sizes = [tensor.nbytes for tensor in tensors]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def arguments_of(dtypes: Sequence[object], shapes: Sequence[object]) -> list[Argument]:
    """Return the arguments of an event by their dtypes and shapes; tensors in lists have no dtype.

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
