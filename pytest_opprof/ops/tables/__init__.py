"""Tables from raw names to canonical ops, one module a framework. Data only; `ops.names` holds the rules.

A module holds `NAMES`: the raw names of each canonical op, separated by blanks. Whole names match, never parts of them.
Canonical names are ONNX operator names if ONNX 1.23 has the op (`Gelu`, `ReduceSum`), and stand for themselves;
gradients add ``Grad`` like ONNX Runtime's training ops; the others describe the op (`Copy`, `Item`). A new framework is
a module here and a line in `TABLES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import ascend, cuda_calls, jax_xla, megengine, mindspore, numpy, onnxruntime, pytorch, pytorch_cuda

# By the framework in ``opprof ops``.
TABLES: Mapping[str, Mapping[str, str]] = {
    "numpy": numpy.NAMES,
    "torch": pytorch.NAMES,
    "ascend": ascend.NAMES,
    "cuda": pytorch_cuda.NAMES,
    "hlo": jax_xla.NAMES,
    "megengine": megengine.NAMES,
    "mindspore": mindspore.NAMES,
    "nsys": cuda_calls.NAMES,
    "onnxruntime": onnxruntime.NAMES,
}
