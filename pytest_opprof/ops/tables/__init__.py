"""Which raw names mean which canonical op, one module a framework. Data only; `ops.names` holds the rules.

A module holds `NAMES`: by canonical op the raw names that mean it, separated by blanks. Whole names match, never parts
of them. Canonical names are ONNX operator names where ONNX 1.23 has the op (`Gelu`, `ReduceSum`), and stand for
themselves; gradients add ``Grad`` as ONNX Runtime's training ops do; the others say what they are (`Copy`, `Item`). A
new framework is a module here and a line in `TABLES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import ascend, cuda_calls, jax_xla, megengine, mindspore, numpy, onnxruntime, pytorch, pytorch_cuda

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
"""By the framework as ``opprof ops`` shows it."""
