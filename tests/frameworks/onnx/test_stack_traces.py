"""Lines of Python in models: in one that PyTorch exported, and in messages made by hand."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.onnx.stack_traces import of_node, stack_traces

from ...protobuf_messages import field

EXPORTED = (Path(__file__).parents[2] / "data" / "onnxruntime-cpu" / "exported.onnx").read_bytes()
CAST = ("/home/me/project/network.py", "forward", 13)
CALLER = ("/home/me/project/network.py", "forward", 23)


def node(name: str, *lines: str) -> bytes:
    trace = field(1, "pkg.torch.onnx.stack_trace") + field(2, "\n".join(lines))
    return field(3, name) + field(4, "Add") + field(9, field(1, "other") + field(2, "text")) + field(9, trace)


def test_a_cast_knows_its_line_and_that_of_its_caller() -> None:
    traces = stack_traces(EXPORTED)
    assert of_node(traces, "node__to_copy_1") == (CAST, CALLER)
    assert len(traces) == 13


def test_a_fused_node_has_the_lines_of_its_first() -> None:
    lines = of_node(stack_traces(EXPORTED), "node_MatMul_1/MatMulAddFusion")
    assert [line for _, _, line in lines] == [134, 12, 23]


def test_what_onnx_runtime_inserts_has_none() -> None:
    traces = stack_traces(EXPORTED)
    assert of_node(traces, "InsertedPrecisionFreeCast_x") == of_node(traces, "gemm_input_reshape") == ()


def test_names_with_slashes_are_whole() -> None:
    traces = stack_traces(field(7, field(1, node("/layer/MatMul", 'File "m.py", line 3, in <lambda>', "    x @ y"))))
    assert of_node(traces, "/layer/MatMul/MatMulAddFusion") == (("m.py", "<lambda>", 3),)
    assert of_node(traces, "/layer/Add") == ()


def test_the_nodes_of_a_branch_are_found() -> None:
    branch = field(6, field(1, node("inner", 'File "m.py", line 3, in f')))
    assert set(stack_traces(field(7, field(1, node("outer", 'File "m.py", line 9, in g') + field(5, branch))))) == {
        "inner",
        "outer",
    }


def test_a_model_without_them_is_not_read() -> None:
    assert stack_traces(b"") == stack_traces(b"\x00" * 1000) == {}


@given(st.binary())
def test_another_format_with_the_words_in_it_is_none(content: bytes) -> None:
    stack_traces(content + b"pkg.torch.onnx.stack_trace" + content)


@given(st.integers(0, len(EXPORTED)))
def test_a_model_that_is_cut_gives_what_there_is(size: int) -> None:
    assert set(stack_traces(EXPORTED[:size])) <= set(stack_traces(EXPORTED))
