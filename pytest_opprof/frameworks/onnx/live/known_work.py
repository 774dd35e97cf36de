"""Work with known nodes, for `opprof selfcheck`: a model made by hand, without the package ``onnx``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....machine.scratch import scratch
from ...live.contract import KnownWork

_FLOAT, _DOUBLE = 1, 11


def known_work() -> KnownWork:
    """Return a product and a cast on the CPU."""
    import numpy as np
    import onnxruntime

    matrix = np.ones((8, 8), np.float32)
    model = _model()
    sessions: list[Any] = [onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])]

    @contextmanager
    def profiled() -> Iterator[None]:
        """Run a session that ONNX Runtime profiles anyway."""
        with scratch() as folder:
            options = onnxruntime.SessionOptions()
            options.enable_profiling, options.profile_file_prefix = True, f"{folder}/mine"
            sessions.append(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
            try:
                yield
            finally:
                sessions.pop().end_profiling()

    return KnownWork(
        lambda: sessions[-1].run(None, {"x": matrix}),
        {"MatMul": 1, "Cast": 1},
        profiled,
        first_use="import onnxruntime",
    )


def _model() -> bytes:
    """Return a `ModelProto`: y = double(x @ x), of 8 rows and columns. `saved.model` has the numbers."""
    product = _field(1, "x") + _field(1, "x") + _field(2, "product") + _field(4, "MatMul")
    to = _field(1, "to") + _field(3, _DOUBLE) + _field(20, 2)
    cast = _field(1, "product") + _field(2, "y") + _field(4, "Cast") + _field(5, to)
    graph = _field(1, product) + _field(1, cast) + _field(2, "opprof")
    graph += _field(11, _matrix("x", _FLOAT)) + _field(12, _matrix("y", _DOUBLE))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 17))


def _matrix(name: str, dtype: int) -> bytes:
    side = _field(1, _field(1, 8))
    return _field(1, name) + _field(2, _field(1, _field(1, dtype) + _field(2, side + side)))


def _field(number: int, content: bytes | str | int) -> bytes:
    """Return a field of a protobuf message, of less than 16 KB; tags and lengths have two bytes."""
    if isinstance(content, int):
        return bytes([number << 3 & 0x7F | 0x80, number >> 4, content])
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 & 0x7F | 0x82, number >> 4, len(data) & 0x7F | 0x80, len(data) >> 7]) + data
