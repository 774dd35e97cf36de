"""What a node of ONNX Runtime works on, with weights and without those that its kernel packed."""

from __future__ import annotations

from math import prod

import pytest

from pytest_opprof.frameworks.onnx.work import Tensors, work
from pytest_opprof.ops.signature import Shape, Signature


def tensors(*shapes: Shape, dtype: str = "float") -> Tensors:
    return Tensors((dtype,) * len(shapes), shapes)


def found(op: str, inputs: Tensors, outputs: Tensors, item: int = 4) -> tuple[int | None, int | None]:
    """Return bytes and FLOPs; the event has the bytes of the tensors that it has."""
    assert inputs.shapes is not None
    assert outputs.shapes is not None
    _, nbytes, flops = work(op, inputs, outputs, item * sum(map(prod, (*inputs.shapes, *outputs.shapes))))
    return nbytes, flops


@pytest.mark.parametrize(
    ("op", "left", "right", "result", "flops"),
    [
        ("MatMul", (3, 8), (8, 5), (3, 5), 240),
        ("MatMul", (2, 3, 8), (8, 5), (2, 3, 5), 480),
        ("MatMul", (8,), (8, 5), (5,), 80),
        ("MatMul", (3, 8), (8,), (3,), 48),
        ("MatMul", (8,), (8,), (), 16),
        ("Gemm", (8, 3), (8, 5), (3, 5), 240),
        ("Gemm", (3, 8), (5, 8), (3, 5), 240),
        ("FusedMatMul", (2, 8, 3), (2, 8, 5), (2, 3, 5), 480),
    ],
)
def test_a_product_is_the_same_with_packed_weights(
    op: str, left: Shape, right: Shape, result: Shape, flops: int
) -> None:
    whole = found(op, tensors(left, right), tensors(result))
    assert whole == (4 * (prod(left) + prod(right) + prod(result)), flops)
    if len(right) == 2:  # others are not packed
        assert found(op, tensors(left), tensors(result)) == whole


def test_a_bias_is_no_right_side() -> None:
    assert found("FusedGemm", tensors((3, 8), (16,)), tensors((3, 16))) == (4 * (24 + 128 + 16 + 48), 768)


def test_the_bytes_of_packed_weights_that_are_quantised_are_not_known() -> None:
    assert found("MatMulNBits", tensors((3, 8)), tensors((3, 16))) == (None, 768)


@pytest.mark.parametrize(
    ("op", "inputs", "result", "flops"),
    [
        ("Conv", [(2, 16, 12, 12), (16, 16, 3, 3), (16,)], (2, 16, 12, 12), 2 * 4608 * 16 * 9),
        ("Conv", [(2, 16, 12, 12), (16, 8, 1, 1)], (2, 16, 12, 12), 2 * 4608 * 8),
        ("QLinearConv", [(1, 4, 5, 5), (), (), (6, 4, 3, 3), (6,)], (1, 6, 3, 3), 2 * 54 * 36),
        ("ConvTranspose", [(1, 4, 5, 5), (4, 6, 3, 3)], (1, 6, 11, 11), 2 * 100 * 54),
        ("FusedConv", [(2, 16, 6, 6), (16, 16, 1, 1), (2, 16, 6, 6)], (2, 16, 6, 6), 2 * 1152 * 16),
    ],
)
def test_a_convolution_multiplies_each_result_by_its_window(
    op: str, inputs: list[Shape], result: Shape, flops: int
) -> None:
    assert found(op, tensors(*inputs), tensors(result)) == (4 * sum(map(prod, [*inputs, result])), flops)


@pytest.mark.parametrize("inputs", [[(1, 4, 5, 5)], [(1, 4, 5, 5), (1, 6, 11, 11)]])
def test_a_convolution_whose_weights_are_packed_is_not_known(inputs: list[Shape]) -> None:
    assert found("ConvTranspose", tensors(*inputs), tensors((1, 6, 11, 11))) == (None, None)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("outputs", [[(5, 2, 3, 16), (2, 3, 16)], [(2, 3, 16)]])
def test_a_recurrent_layer_multiplies_in_each_step(op: str, gates: int, outputs: list[Shape]) -> None:
    data, weights = (5, 3, 8), [(2, gates * 16, 8), (2, gates * 16, 16)]
    whole = found(op, tensors(data, *weights), tensors(*outputs))
    assert whole[1] == 2 * 5 * 3 * 2 * gates * 16 * (8 + 16)
    assert found(op, tensors(data), tensors(*outputs)) == whole


def test_attention_has_two_products() -> None:
    query, keys = (1, 4, 8), (1, 6, 8)
    assert found("MultiHeadAttention", tensors(query, keys, keys), tensors(query))[1] == 2 * (4 * 6 * 8) * 2
    with_cache = tensors(query, (1, 2, 12, 4), (1, 2, 12, 4))
    assert found("MultiHeadAttention", tensors(query, keys, keys), with_cache)[1] is None
    assert found("Attention", tensors((1, 4, 8), (24,)), tensors((1, 4, 8))) == (None, None)


def test_of_data_only_what_is_read_counts() -> None:
    ids = Tensors(("float", "int64"), ((1000, 8), (3,)))
    assert work("Gather", ids, tensors((3, 8)), 4 * 8000 + 24 + 96)[1] == 96 + 24 + 96
    assert work("Shape", tensors((1000, 8)), Tensors(("int64",), ((2,),)), 32_000 + 16)[1] == 16


def test_what_runs_other_nodes_moves_nothing_itself() -> None:
    assert found("Loop", tensors((3, 8)), tensors((3, 8))) == (0, None)


def test_what_the_event_does_not_have_is_not_known() -> None:
    assert work("Add", Tensors(), Tensors(), None) == (Signature((), ()), None, None)
    assert work("StringUpper", Tensors(("string",), ((2,),)), Tensors(("string",), ((2,),)), 128)[1] is None
    assert found("Add", tensors((2, 3), (3,)), tensors((2, 3))) == (4 * 15, None)
