"""Kernels of PyNative mode, paired with the ops that were dispatched."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.mindspore.live.dispatched import Dispatched, Tensors
from pytest_opprof.frameworks.mindspore.live.pairing import paired
from pytest_opprof.frameworks.mindspore.live.profiler import Call
from pytest_opprof.ops.signature import UNKNOWN, Signature

SHAPE = (2, 3)


def tensors(*dtypes: str) -> Tensors:
    return tuple((dtype, SHAPE) for dtype in dtypes)


def dispatched(op: str, inputs: str, outputs: str, at: int = 0) -> Dispatched:
    return Dispatched(at, op, tensors(*inputs.split()), tensors(*outputs.split()))


def kernels(names: str) -> dict[int, Call]:
    return {index: Call(index, 1, name, None) for index, name in enumerate(names.split())}


def arrows(ops: list[Dispatched], names: str) -> list[str]:
    """Return what is known of each kernel, as text: ``float32>float16``, ``?``."""
    found = paired(kernels(names), ops)
    return [arrow(found[index].signature) if index in found else "?" for index in range(len(names.split()))]


def arrow(known: Signature) -> str:
    return "?" if known is UNKNOWN else f"{','.join(known.input_dtypes or ())}>{','.join(known.output_dtypes or ())}"


IN, OUT = "float16>float32", "float32>float16"
ASKED = [
    dispatched("Cast", "float32", "float16"),
    dispatched("MatMulExt", "float16 float16", "float16"),
    dispatched("Cast", "float16", "float32"),
]


def test_a_kernel_without_float16_casts_what_it_reads_and_writes() -> None:
    assert arrows(ASKED, "Cast Cast Cast MatMul Cast Cast") == [OUT, IN, IN, "float32,float32>float32", OUT, IN]


def test_a_cast_inside_is_of_the_op_that_needs_it() -> None:
    found = paired(kernels("Cast Cast Cast MatMul Cast Cast"), ASKED)
    assert [found[index].place for index in range(6)] == [0, 1, 1, 1, 1, 2]


def test_a_kernel_with_float16_casts_nothing() -> None:
    assert arrows(ASKED, "Cast MatMul Cast") == [OUT, "float16,float16>float16", IN]


def test_an_op_may_cast_an_input_to_the_dtype_of_its_result() -> None:
    assert arrows([dispatched("Muls", "int32", "float32")], "Cast Mul") == ["int32>float32", "float32>float32"]
    mixed = [dispatched("BiasAdd", "float16 float32", "float16")]
    assert arrows(mixed, "Cast Cast Cast BiasAdd Cast")[:3] == [OUT, IN, IN]


def test_views_and_casts_to_the_same_dtype_have_no_kernels() -> None:
    ops = [dispatched("Reshape", "float32", "float32"), dispatched("Cast", "float32", "float32"), *ASKED]
    assert arrows(ops, "Cast MatMul Cast")[0] == OUT


def test_casts_that_nobody_can_have_made_are_not_known() -> None:
    assert arrows(ASKED, "Cast Cast MatMul Cast") == ["?", "?", "float16,float16>float16", IN]
    assert arrows([], "Cast Cast") == ["?", "?"]


def test_casts_beside_a_kernel_that_was_not_dispatched_are_not_known() -> None:
    """As those of the gradients that MindSpore launches by itself."""
    assert arrows(ASKED, "Cast BiasAddGrad Cast MatMul Cast") == ["?", "?", "?", "float16,float16>float16", IN]
    assert arrows(ASKED, "Cast BiasAddGrad MatMul Cast") == [OUT, "?", "float16,float16>float16", IN]


def test_where_casts_contradict_each_other_only_those_around_are_not_known() -> None:
    twice = [*ASKED, *ASKED]
    assert arrows(twice, "Cast MatMul Cast Cast Cast Cast MatMul Cast Cast")[:2] == [OUT, "float16,float16>float16"]


def test_what_ran_before_it_was_called_is_of_another_thread() -> None:
    late = [op._replace(at=9) for op in ASKED]
    assert arrows(late, "Cast MatMul Cast") == ["?", "?", "?"]


def test_ops_in_another_order_are_of_several_threads() -> None:
    ops = [dispatched("ReLU", "float32", "float32"), dispatched("Sin", "float32", "float32")]
    assert arrows(ops, "Sin ReLU") == ["?", "?"]


class Program(NamedTuple):
    """Ops, and the kernels that they ran with what each truly did."""

    ops: list[Dispatched]
    ran: list[tuple[str, str]]


DTYPE = st.sampled_from(["float16", "bfloat16", "float32", "int32"])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    ops: list[Dispatched] = []
    ran: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 12))):
        op = draw(st.sampled_from(["Cast", "MatMulExt", "ReLU", "AddExt"]))
        if op == "Cast":
            source, target = draw(st.lists(DTYPE, min_size=2, max_size=2, unique=True))
            ops.append(dispatched("Cast", source, target))
            ran.append(("Cast", f"{source}>{target}"))
            continue
        dtypes, result = [draw(DTYPE) for _ in range(1 + (op != "ReLU"))], draw(DTYPE)
        ops.append(dispatched(op, " ".join(dtypes), result))
        if op == "AddExt" and draw(st.booleans()):
            ran += [("Cast", f"{dtype}>{result}") for dtype in dtypes if dtype != result]
            dtypes = [result] * 2
        is_wide = draw(st.booleans())
        halves = [dtype for dtype in dtypes if dtype.endswith("16")] if is_wide else []
        ran += [("Cast", f"{dtype}>float32") for dtype in halves]
        wide = {"float16": "float32", "bfloat16": "float32"} if is_wide else {}
        inner = f"{','.join(wide.get(dtype, dtype) for dtype in dtypes)}>{wide.get(result, result)}"
        ran.append((op, inner))
        if result in wide:
            ran.append(("Cast", f"float32>{result}"))
    return Program(ops, ran)


@given(programs())
def test_what_is_told_is_right(program: Program) -> None:
    found = arrows(program.ops, " ".join(name for name, _ in program.ran))
    assert [told for told, (_, true) in zip(found, program.ran) if told not in ("?", true)] == []


@given(programs())
def test_without_casts_of_their_own_all_ops_are_known(program: Program) -> None:
    number = count()
    calls = {next(number): Call(0, 1, op.op, None) for op in program.ops}
    found = paired(calls, program.ops)
    casts = [op for op in program.ops if op.op == "Cast"]
    assert [found[index].signature.output_dtypes for index, call in calls.items() if call.name == "Cast"] == [
        (op.outputs[0][0],) for op in casts
    ]
