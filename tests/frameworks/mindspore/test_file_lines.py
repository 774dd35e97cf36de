"""Lines of MindSpore's files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.mindspore.file_lines import launch, op_type, starts_and_times

SIZES = st.lists(st.integers(-1, 2**40), max_size=5).map(tuple)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Cast", "Cast"),
        ("Default/Cast-op0", "Cast"),
        ("Gradients/Default/network-Block/Grad_Cast/Cast-op12", "Cast"),
        ("Default/relu-ReLU/ReLU-op0", "ReLU"),
        ("a-op1/b", "b"),
    ],
)
def test_the_op_type_is_the_last_part_without_its_number(name: str, expected: str) -> None:
    assert op_type(name) == expected


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 10**9)), min_size=1))
def test_calls_come_back_in_ns(calls: list[tuple[int, int]]) -> None:
    lines = [f"{start},{ns / 1e6!r},0".encode() for start, ns in calls]
    assert starts_and_times(lines) == ([start for start, _ in calls], [ns for _, ns in calls])


@pytest.mark.parametrize("call", [b"1,2", b"1,x,0", b"-1,2,0", b"1,-2,0", b"1,nan,0", b"1,1e10,0", b"1,2,0,0", b""])
def test_what_is_no_call_is_an_error(call: bytes) -> None:
    with pytest.raises((ValueError, OverflowError)):
        starts_and_times([call])


@given(st.lists(st.one_of(SIZES, st.none(), st.lists(st.one_of(SIZES, st.none()), max_size=3))))
def test_a_launch_has_the_shapes_of_its_tensors_also_of_those_in_tuples(inputs: list[object]) -> None:
    expected: list[object] = []

    def cell(value: object) -> str:
        if isinstance(value, list):
            return f"TupleShape({', '.join(map(cell, value))})"
        if value is None:
            return "NoShape"
        expected.append(value)
        return str(list(value))  # type: ignore[call-overload]

    cells = "".join(f"input_{number}:{cell(value)};" for number, value in enumerate(inputs, 1))
    assert launch(f"Stack;Stack-op0;7;{cells}".encode()) == (b"Stack-op0", tuple(expected))


@pytest.mark.parametrize(
    "line", [b"", b"Cast", b"Cast;Cast-op0;x;", b"Cast;Cast-op0;7;input_1:[1,;", b"Cast;Cast-op0;7;input_1:Shape;"]
)
def test_what_is_no_launch_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="op_type;op_name;graph_id"):
        launch(line)
