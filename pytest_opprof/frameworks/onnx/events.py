"""Interpret an event of ONNX Runtime's profile. One rule for live and saved.

The profile is the JSON file of `SessionOptions.enable_profiling`: Chrome trace events in a bare array. Times are whole
us: a node that takes less than one has 0 or 1, so compare counts of small nodes, not their times.

- ``cat`` Node, ``name`` ``<node>_kernel_time``: one execution of a node; ``args``: ``op_name``, ``provider``,
  ``node_index``, ``input_type_shape`` and ``output_type_shape`` (``[{"float": [32, 64]}]``), ``activation_size``,
  ``parameter_size`` and ``output_size`` (bytes, as texts), ``mem_in_use_peak``. Weights that a kernel has packed for
  itself are left out of these. Up to 1.20 there also were ``_fence_before`` and ``_fence_after``: no nodes.
- ``cat`` Session, ``name`` ``model_run``: one call of ``run``. Nodes before the first are run to load the model.
- ``cat`` Kernel (builds with CUDA or ROCm profiling): a kernel of the Node event before it; ``args``: ``op_name``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...ops.signature import Shape

if TYPE_CHECKING:
    from .events_json import Arguments, Event

# Providers that only launch kernels: the time of a node is host time.
ASYNCHRONOUS = frozenset(
    f"{name}ExecutionProvider"
    for name in ("CUDA", "Tensorrt", "NvTensorRTRTX", "ROCM", "MIGraphX", "Dml", "CANN", "Js", "WebGpu")
)
RUN = "model_run"
# The beginning of the name of a Cast that ONNX Runtime inserts if a provider has no kernel for a dtype.
INSERTED_CAST = "InsertedPrecisionFreeCast"
# The number of events at which ONNX Runtime stops recording.
MOST_EVENTS = 1_000_000
_SUFFIX = "_kernel_time"
_NO_NODES = ("_fence_before", "_fence_after")


def node_of(event: Event) -> str | None:
    """Return the name of the node that *event* executes; None for other events."""
    if event.cat != "Node" or event.name.endswith(_NO_NODES):
        return None
    return event.name.removesuffix(_SUFFIX)


def is_run(event: Event) -> bool:
    """Return True if *event* is a call of ``run``."""
    return event.cat == "Session" and event.name == RUN


def described(text: bytes) -> tuple[tuple[str, ...], tuple[Shape, ...] | None]:
    """Return the dtypes and shapes in ``[{"float":[32,64]}]``, without omitted inputs.

    >>> described(b'[{"float":[32,64]},{},{"int64":[]}]')
    (('float', 'int64'), ((32, 64), ()))
    """
    import msgspec

    try:
        tensors = [each for each in msgspec.json.decode(text or b"[]", type=list[dict[str, Shape]]) if each]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return (), None
    pairs = [pair for tensor in tensors for pair in tensor.items()]
    return tuple(dtype for dtype, _ in pairs), tuple(shape for _, shape in pairs) if text else None


def size(written: str | int) -> int | None:
    """Return a number of bytes; None for anything else."""
    text = str(written)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def nbytes(arguments: Arguments) -> int | None:
    """Return the bytes of all tensors that a node reads and writes; None if one is unknown."""
    sizes = [size(each) for each in (arguments.activation_size, arguments.parameter_size, arguments.output_size)]
    return None if None in sizes else sum(filter(None, sizes))


def device(providers: Iterable[str]) -> str:
    """Return the name of the device of nodes that ran on these *providers*.

    >>> device(["CPUExecutionProvider", "CUDAExecutionProvider"]), device([])
    ('cuda', 'cpu')
    """
    names = {provider.removesuffix("ExecutionProvider").lower() for provider in providers}
    return "+".join(sorted(names - {"cpu", ""})) or "cpu"
