"""Models for the tests of ONNX Runtime, made with `onnx.helper`; `onnx` is imported where one is made.

Each has the input ``x`` of the shape of `BATCH`, but for `pictures`, and the output ``y``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

CPU = ["CPUExecutionProvider"]
BATCH = np.linspace(-1, 1, 4 * 64, dtype=np.float32).reshape(4, 64)
PICTURES = np.linspace(-1, 1, 2 * 16 * 12 * 12, dtype=np.float32).reshape(2, 16, 12, 12)


def weights(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def model(
    nodes: Sequence[Any],
    initializers: Mapping[str, Any] | None = None,
    shape: Sequence[Any] = ("N", 64),
    dtype: str = "FLOAT",
    outputs: Sequence[str] = ("y",),
    domains: Sequence[str] = (),
    name: str = "model",
) -> bytes:
    from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.DataType.Value(dtype), shape)],
        [ValueInfoProto(name=each) for each in outputs],
        [numpy_helper.from_array(array, each) for each, array in (initializers or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), *[helper.make_opsetid(domain, 1) for domain in domains]]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return content


def mlp(name: str = "mlp", exposed: bool = False, double: bool = False) -> bytes:
    """Return two layers. With *exposed* what is between product and Relu is an output, so that they cannot be fused."""
    from onnx import helper as h

    dtype = np.float64 if double else np.float32
    return model(
        [
            h.make_node("Gemm", ["x", "W1", "b1"], ["a"], "first"),
            h.make_node("Relu", ["a"], ["r"], "relu"),
            h.make_node("Gemm", ["r", "W2"], ["c"], "second"),
            h.make_node("Softmax", ["c"], ["y"], "softmax"),
        ],
        {"W1": weights(64, 32, dtype=dtype), "b1": weights(32, dtype=dtype), "W2": weights(32, 8, dtype=dtype)},
        dtype="DOUBLE" if double else "FLOAT",
        outputs=["y", "a"] if exposed else ["y"],
        name=name,
    )


def half() -> bytes:
    """Return a model in float16: casts of its own, and ops for which the CPU has no kernel of that dtype."""
    from onnx import TensorProto
    from onnx import helper as h

    return model(
        [
            h.make_node("Cast", ["x"], ["h"], "to_half", to=TensorProto.FLOAT16),
            h.make_node("Unsqueeze", ["h", "axis"], ["u"], "unsqueeze"),
            h.make_node("MatMul", ["u", "W"], ["a"], "product"),
            h.make_node("Erf", ["a"], ["e"], "erf"),
            h.make_node("Transpose", ["e"], ["t"], "transpose", perm=[0, 2, 1]),
            h.make_node("Cast", ["t"], ["y"], "to_double", to=TensorProto.DOUBLE),
        ],
        {"W": weights(64, 8, dtype=np.float16), "axis": np.array([0])},
    )


def convolutions() -> bytes:
    from onnx import helper as h

    normal = {each: np.abs(weights(16)) for each in ("scale", "shift", "mean", "var")}
    return model(
        [
            h.make_node("Conv", ["x", "W1", "b1"], ["a"], "conv", pads=[1, 1, 1, 1]),
            h.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["n"], "norm"),
            h.make_node("Relu", ["n"], ["r"], "relu"),
            h.make_node("Conv", ["r", "W2"], ["c"], "grouped", group=2),
            h.make_node("GlobalAveragePool", ["c"], ["y"], "pool"),
        ],
        {"W1": weights(16, 16, 3, 3), "b1": weights(16), "W2": weights(16, 8, 1, 1), **normal},
        shape=["N", 16, 12, 12],
    )


def loop(times: int = 7, pairs: int = 1) -> bytes:
    """Return a Loop whose body casts to float16 and back, so many *pairs* each time."""
    from onnx import TensorProto
    from onnx import helper as h

    value = h.make_tensor_value_info
    body = [h.make_node("Identity", ["go_on"], ["goes_on"])]
    for pair in range(pairs):
        body += [
            h.make_node("Cast", [f"s{pair}"], [f"h{pair}"], f"down{pair}", to=TensorProto.FLOAT16),
            h.make_node("Cast", [f"h{pair}"], [f"f{pair}"], f"up{pair}", to=TensorProto.FLOAT),
            h.make_node("Add", [f"f{pair}", f"s{pair}"], [f"s{pair + 1}"], f"add{pair}"),
        ]
    graph = h.make_graph(
        body,
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("go_on", TensorProto.BOOL, []),
            value("s0", TensorProto.FLOAT, ["N", 64]),
        ],
        [value("goes_on", TensorProto.BOOL, []), value(f"s{pairs}", TensorProto.FLOAT, ["N", 64])],
    )
    return model(
        [h.make_node("Loop", ["times", "yes", "x"], ["y"], "loop", body=graph)],
        {"times": np.array(times), "yes": np.array(True)},
        shape=["N", 64],
    )


def branches() -> bytes:
    """Return an If: of what is positive in sum the sine, of the rest the cosine twice."""
    from onnx import TensorProto, ValueInfoProto
    from onnx import helper as h

    sine = h.make_graph([h.make_node("Sin", ["x"], ["s"])], "positive", [], [ValueInfoProto(name="s")])
    cosine = [h.make_node("Cos", ["x"], ["c"]), h.make_node("Cos", ["c"], ["cc"])]
    return model(
        [
            h.make_node("ReduceSum", ["x"], ["sum"], "sum", keepdims=0),
            h.make_node("Cast", ["sum"], ["integer"], "whole", to=TensorProto.INT32),
            h.make_node("Greater", ["integer", "zero"], ["is_positive"], "greater"),
            h.make_node(
                "If",
                ["is_positive"],
                ["y"],
                "if",
                then_branch=sine,
                else_branch=h.make_graph(cosine, "negative", [], [ValueInfoProto(name="cc")]),
            ),
        ],
        {"zero": np.array(0, np.int32)},
    )


def attention(copies: int = 0) -> bytes:
    """Return attention of products; with *copies* of the keys more than it needs."""
    from onnx import helper as h

    nodes = [h.make_node("Transpose", ["x"], ["k0"], "keys")]
    for copy in range(copies):
        nodes.append(h.make_node("Concat", [f"k{copy}", f"k{copy}"], [f"d{copy}"], f"double{copy}", axis=1))
        nodes.append(h.make_node("Slice", [f"d{copy}", "from", "to", "axis"], [f"k{copy + 1}"], f"first{copy}"))
    return model(
        [
            *nodes,
            h.make_node("MatMul", ["x", f"k{copies}"], ["s"], "scores"),
            h.make_node("Mul", ["s", "scale"], ["m"], "scaled"),
            h.make_node("Softmax", ["m"], ["p"], "softmax"),
            h.make_node("MatMul", ["p", "x"], ["y"], "values"),
        ],
        {"scale": np.float32(0.125), "from": np.array([0]), "to": np.array([4]), "axis": np.array([1])},
    )


def constants() -> bytes:
    """Return an addition beside ops on constants, which are run once, to load the model."""
    from onnx import helper as h

    return model(
        [
            h.make_node("Sin", ["W"], ["s"], "sine"),
            h.make_node("Mul", ["s", "W"], ["m"], "product"),
            h.make_node("Add", ["x", "m"], ["y"], "sum"),
        ],
        {"W": weights(64)},
    )


def random() -> bytes:
    from onnx import helper as h

    return model(
        [
            h.make_node("RandomNormalLike", ["x"], ["r"], "draw"),
            h.make_node("Add", ["x", "r"], ["y"], "sum"),
        ]
    )


def upper(beside: bool = False) -> bytes:
    """Return a custom op of onnxruntime_extensions, and an op on floats *beside* it."""
    from onnx import helper as h

    nodes = [
        h.make_node("StringUpper", ["x"], ["u"], "upper", domain="ai.onnx.contrib"),
        h.make_node("Identity", ["u"], ["y"], "same"),
    ]
    if beside:
        nodes.append(h.make_node("Sin", ["W"], ["s"], "sine"))
    return model(
        nodes,
        {"W": weights(64)} if beside else {},
        shape=["N"],
        dtype="STRING",
        outputs=["y", "s"] if beside else ["y"],
        domains=["ai.onnx.contrib"],
    )


MODELS = {
    "mlp": mlp,
    "half": half,
    "convolutions": convolutions,
    "attention": attention,
    "constants": constants,
}
"""Those without nodes in nodes."""
