from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.pytorch.work import Tensor, arguments_of, called_again, recorded_work, work

F32 = Tensor("float32", (4, 6))


def test_bytes_are_of_what_is_read_and_of_what_follows_from_it() -> None:
    assert work("aten::add", [F32, Tensor("float64", ())]).nbytes == 96 + 8 + 96
    assert work("aten::gt", [F32, None]).nbytes == 96 + 24
    assert work("aten::mm", [F32, Tensor("float32", (6, 5))]).nbytes == 96 + 120 + 80
    assert work("aten::sum", [F32]).nbytes == 96
    assert work("aten::cat", [(F32, F32)]).nbytes == 2 * 96
    assert work("aten::t", [F32]).nbytes == 0
    assert work("aten::arange", [None, None, None, Tensor("int64", (0,))], [0, 10, 1, None]).nbytes == 80
    assert work("aten::arange", [None, Tensor("int64", (10,))], [10, None]).nbytes == 80
    assert work("aten::embedding", [F32, Tensor("int64", (2,))]).nbytes == 96 + 16 + 2 * 24


def test_bytes_of_a_list_are_known_where_its_dtypes_are_and_else_unknown_never_none() -> None:
    live = work("aten::cat", [(F32, Tensor("float64", (4, 6)))])
    assert (live.nbytes, live.signature.dtypes) == (96 + 192, "float32,float64")
    shapes = [[[8, 1024, 1024, 1], [8, 1024, 1024, 1]], []]
    for raw in ("aten::cat", "aten::stack", "aten::_foreach_add_"):
        assert recorded_work(raw, ["TensorList", "Scalar"], shapes, []).nbytes is None
    assert recorded_work("aten::index", ["float", "TensorList"], [[8, 4], [[8]]], []).nbytes is None
    assert recorded_work("aten::add", ["float", "float"], [[8, 4], [8, 4]], []).nbytes == 3 * 128
    assert Tensor("string", (3,)).nbytes is None
    assert Tensor("float32", (0,)).nbytes == 0


def test_a_copy_reads_its_second_argument_and_writes_its_first() -> None:
    done = work("aten::copy_", [Tensor("bfloat16", (4, 6)), F32])
    assert (done.dtypes, done.nbytes) == (("float32", "bfloat16"), 96 + 48)
    assert (done.signature.input_dtypes, done.signature.output_dtypes) == (("float32",), ("bfloat16",))
    assert not done.signature.is_scalar
    assert work("aten::copy_", [Tensor("float32", ()), Tensor("float64", ())]).signature.is_scalar
    assert not work("aten::copy_", [Tensor("float32", (3,)), Tensor("float64", ())]).signature.is_scalar


def test_the_last_call_of_the_same_op_does_the_work_but_a_copy_is_of_its_own_dtypes() -> None:
    mm, view = "aten::mm", "aten::t"
    assert called_again([-1, 0, 0, 0], [mm, mm, view, mm]) == {0: 3}
    assert [*called_again([-1, 0, 1], [mm, mm, mm]).items()] == [(0, 1), (1, 2)]
    assert [*called_again([-1, 0, 1, 0], [mm, mm, mm, mm]).items()] == [(0, 3), (1, 2)]
    assert called_again([-1, 0, 1], [mm, view, mm]) == {}
    assert called_again([-1, 0], ["aten::copy_"] * 2) == {}


def test_a_comparison_returns_bools() -> None:
    assert work("aten::gt", [F32, None]).signature.output_dtypes == ("bool",)
    assert work("aten::add", [F32, F32]).signature.output_dtypes is None


JSON = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4))


@given(st.lists(st.sampled_from(["float", "Scalar", "TensorList", "c10::Half"]) | JSON), st.lists(JSON))
def test_whatever_a_file_says_of_arguments_is_read(types: list[object], shapes: list[object]) -> None:
    for raw in ("aten::mm", "aten::add", "aten::copy_", "aten::conv2d", "aten::bmm", "aten::embedding"):
        work(raw, arguments_of(types, shapes))
    for raw in ("aten::zeros_like", "aten::new_full"):
        for values in ([], shapes):
            recorded_work(raw, types, shapes, values)
