from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof import op
from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend, backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window

from ... import watch as watching

SQUARE = np.arange(1.0, 17.0).reshape(4, 4)


class Watch(watching.Watch):
    def __init__(self, given: NumpyBackend | None = None, options: Options | None = None) -> None:
        self.backend = given or backend()
        super().__init__(self.backend, options)

    def array(self, array: Any = SQUARE) -> Any:
        return np.array(array)


@pytest.fixture
def watch() -> Watch:
    return Watch()


CASES: list[tuple[Callable[[Any], Any], dict[str, int]]] = [
    (lambda x: x @ x, {"MatMul": 1}),
    (lambda x: x + 1, {"Add": 1}),
    (lambda x: 1 - x, {"Sub": 1}),
    (lambda x: (x @ x).astype("float32").sum(), {"MatMul": 1, "Cast": 1, "ReduceSum": 1}),
    (lambda x: x.astype(np.float64), {"Copy": 1}),
    (lambda x: x.astype(np.float64, copy=False), {}),
    (lambda x: x.astype(dtype=np.float32, copy=False), {"Cast": 1}),
    (lambda x: np.add(x, x, dtype=np.float32, casting="unsafe"), {"Add": 1, "Cast": 2}),
    (lambda x: np.add(x, x, dtype=np.float64), {"Add": 1}),
    (lambda x: x.sum(dtype="float32"), {"ReduceSum": 1, "Cast": 1}),
    (lambda x: np.sum(x, axis=0), {"ReduceSum": 1}),
    (lambda x: np.add.reduce(x), {"ReduceSum": 1}),
    (lambda x: np.zeros_like(x, dtype=np.float32), {"ConstantOfShape": 1}),
    (lambda x: np.concatenate([x, x]), {"Concat": 1}),
    (lambda x: np.linalg.inv(x + np.eye(4)), {"ConstantOfShape": 1, "Add": 1, "Inverse": 1}),
    (lambda x: np.linalg.svd(x)[0] + 1, {"SVD": 1, "Add": 1}),
    (lambda x: np.einsum("ij,jk", x, x), {"Einsum": 1}),
    (lambda x: x.mean() + x.max() + x.std(), {"ReduceMean": 1, "ReduceMax": 1, "ReduceStd": 1, "Add": 2}),
    (lambda x: x.dot(x), {"MatMul": 1}),
    (lambda x: x.copy(), {"Copy": 1}),
    (lambda x: copy.copy(x), {"Copy": 1}),
    (lambda x: x.flatten(), {"Copy": 1}),
    (lambda x: np.where(x > 2, x, 0), {"Greater": 1, "Where": 1}),
    (lambda x: x[[0, 1]], {"Gather": 1}),
    (lambda x: x[x > 3], {"Greater": 1, "Gather": 1}),
    (lambda x: np.sort(x), {"Sort": 1}),
    (lambda x: np.modf(x)[0], {"numpy.modf": 1}),
    # Views move nothing.
    (lambda x: x.T, {}),
    (lambda x: x[1:3], {}),
    (lambda x: x.reshape(-1), {}),
    (lambda x: x.T.reshape(-1), {"Copy": 1}),
    (lambda x: x.ravel(), {}),
    (lambda x: np.transpose(x), {}),
    (lambda x: np.squeeze(x), {}),
    (lambda x: np.broadcast_to(x, (2, 4, 4)), {}),
    (lambda x: np.split(x, 2), {}),
    (lambda x: np.reshape(x.T, -1), {"Copy": 1}),
    (lambda x: np.shape(x), {}),
]


@pytest.mark.parametrize(("use", "counts"), CASES, ids=[str(number) for number in range(len(CASES))])
def test_an_op_is_counted_and_gives_what_it_gives_on_a_plain_array(
    watch: Watch, use: Callable[[Any], Any], counts: dict[str, int]
) -> None:
    x = watch.array()
    with watch.ops():
        result = use(x)
    assert watch.counts == counts
    expected = use(np.array(SQUARE))
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))
    assert np.asarray(result).dtype == np.asarray(expected).dtype


@pytest.mark.skipif(not hasattr(np, "astype"), reason="NumPy 2.1 brought numpy.astype")
def test_the_function_astype_is_the_method(watch: Watch) -> None:
    x = watch.array()
    with watch.ops():
        np.astype(x, np.float32)
    assert watch.counts == {"Cast": 1}


def test_in_place_ops_change_the_array_and_return_it(watch: Watch) -> None:
    x = watch.array()
    same = x
    with watch.ops():
        x += 1
        np.multiply(x, 2, out=x)
        x.sort()
        x.fill(3)
        x[0] = np.ones(4, np.float32)
        x[1] = 5
        np.copyto(x, np.ones((4, 4), np.float32))
        np.add.at(x, (0, 0), 1)
    assert x is same
    assert watch.counts == {"Add": 1, "Mul": 1, "Sort": 1, "ConstantOfShape": 3, "Cast": 2, "Copy": 1, "ScatterND": 1}
    assert np.asarray(x)[0].tolist() == [2.0, 1.0, 1.0, 1.0]


def test_an_output_given_to_a_function_is_what_it_returns(watch: Watch) -> None:
    x, out = watch.array(), watch.array()
    with watch.ops():
        assert np.sum(x, axis=0, out=out[0]) is not None
        assert np.exp(x, out=out) is out
    assert watch.counts == {"ReduceSum": 1, "Exp": 1}


def test_bytes_are_those_of_inputs_and_outputs(watch: Watch) -> None:
    x = watch.array()
    with watch.ops():
        x.astype(np.float32)
        np.concatenate([x, x])
    assert watch.profile.stats("Cast").bytes == (16 * 8 + 16 * 4,)
    assert watch.profile.stats("Concat").bytes == (4 * 16 * 8,)


def test_the_time_of_a_cast_inside_a_ufunc_is_not_known(watch: Watch) -> None:
    x = watch.array()
    with watch.ops():
        np.add(x, x, dtype=np.float32, casting="unsafe")
    assert watch.profile.stats("Cast").device_ns is None
    assert (watch.profile.total.device_ns or (0,))[0] > 0


def test_an_error_is_numpys_own_and_leaves_nothing_recorded(watch: Watch) -> None:
    x, wrong = watch.array(), np.ones(5)
    with watch.ops(), pytest.raises(ValueError, match="mismatch"):
        x @ wrong
    assert watch.counts == {}


def test_outside_a_window_nothing_is_recorded(watch: Watch) -> None:
    x = watch.array()
    x + 1
    with watch.ops():
        pass
    assert watch.counts == {}


def test_it_cannot_be_nested(watch: Watch) -> None:
    with watch.ops(), pytest.raises(BackendError, match="already recording"):
        with watch.ops():
            pass


@given(st.lists(st.sampled_from(["add", "mul", "cast", "sum", "matmul"]), max_size=20))
def test_any_sequence_of_ops_is_counted_op_by_op(sequence: list[str]) -> None:
    watch = Watch()
    x = watch.array(np.eye(3))
    uses: dict[str, Callable[[], object]] = {
        "add": lambda: x + 1,
        "mul": lambda: x * x,
        "cast": lambda: x.astype("f4"),
        "sum": lambda: x.sum(),
        "matmul": lambda: x @ x,
    }
    with watch.ops():
        for use in sequence:
            uses[use]()
    names = {"add": "Add", "mul": "Mul", "cast": "Cast", "sum": "ReduceSum", "matmul": "MatMul"}
    assert watch.counts == {names[use]: sequence.count(use) for use in set(sequence)}


OUT = {
    "numpy.dot": lambda a, o: np.dot(a, a, o),
    "numpy.clip": lambda a, o: np.clip(a, 0, 1, o),
    "numpy.sum": lambda a, o: np.sum(a, 0, None, o[0]),
    "numpy.take": lambda a, o: np.take(a, [0, 1], 0, o[:2]),
    "numpy.nan_to_num": lambda a, o: np.nan_to_num(a, copy=False),
}


@pytest.mark.parametrize("name", OUT)
def test_a_result_written_into_an_argument_is_an_op_not_a_view(name: str) -> None:
    backend = NumpyBackend()
    a, o = np.eye(3), np.empty((3, 3))
    with backend.collect(Options()) as log:
        OUT[name](a, o)
    assert name in log.freeze().raw_names


def test_what_indexing_moves_is_what_it_returns_and_of_an_assignment_unknown() -> None:
    backend = NumpyBackend()
    a = np.zeros(1_000_000)
    with backend.collect(Options()) as log:
        a[0] = 1
        a[[0]]
    assert log.freeze().stats("ndarray.__setitem__").bytes is None
    assert log.freeze().stats("Gather").bytes == (2 * 8,)


def test_a_range_has_the_time_that_no_op_inside_explains_so_that_times_add_up() -> None:
    numpy = backend()
    x = SQUARE.copy()
    window = Window("w")
    recorder = Recorder([numpy], Options())
    with recorder.open(window), recorder.step(window):
        with op("my_step"):
            y = x @ x
            with op("my_loop"):
                sum(range(10_000))  # no op: only the range knows of it
            y.astype("float32")
    times = {stats.op: (stats.calls, stats.device_ns or (0,)) for stats in window.ops}
    assert {name: calls for name, (calls, _) in times.items()} == dict.fromkeys(
        ("my_step", "my_loop", "MatMul", "Cast"), (1,)
    )
    assert min(ns for _, (ns,) in times.values()) > 0
    assert window.device_ns == sum(ns for _, (ns,) in times.values()) <= window.host_ns
