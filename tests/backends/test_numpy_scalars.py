"""Scalars of watched arrays: what is computed with them is seen, and they are what they stand for."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_opprof.backends.contract import Options
from pytest_opprof.backends.numpy.arrays import WatchedArray

from .test_numpy_backend import Watch

X = np.arange(1.0, 5.0)
NUMBERS = "bhilqBHILQefdgFDG"


@pytest.fixture
def watch() -> Watch:
    return Watch()


USES: list[tuple[Callable[[Any], Any], dict[str, int]]] = [
    (lambda x: x.sum() * 2, {"ReduceSum": 1, "Mul": 1}),
    (lambda x: 1 - x[0], {"Sub": 1}),
    (lambda x: x[0] + x[1], {"Add": 1}),
    (lambda x: sum(x), {"Add": 4}),
    (lambda x: max(x), {"Greater": 3}),
    (lambda x: x[1] ** 2, {"Pow": 1}),
    (lambda x: 2 ** x[1], {"Pow": 1}),
    (lambda x: divmod(x[3], x[1]), {"numpy.divmod": 1}),
    (lambda x: -abs(x[0]), {"Abs": 1, "Neg": 1}),
    (lambda x: x[0] < x[1], {"Less": 1}),
    (lambda x: np.sqrt(x.sum()), {"ReduceSum": 1, "Sqrt": 1}),
    (lambda x: np.ones(3) * x.sum(), {"ReduceSum": 1, "Mul": 1}),
    (lambda x: x.sum() * np.ones(3), {"ReduceSum": 1, "Mul": 1}),
    (lambda x: np.where(np.ones(2) > 0, x[0], 0) + 1, {"Where": 1, "Add": 1}),
    (lambda x: np.array([x.min(), x.max()]) + 1, {"ReduceMin": 1, "ReduceMax": 1, "numpy.array": 1, "Add": 1}),
    (lambda x: np.asarray(x.sum()) + 1, {"ReduceSum": 1, "Add": 1}),
    (lambda x: (x[1:2] @ x[1:2]) * 2, {"MatMul": 1, "Mul": 1}),
]


@pytest.mark.parametrize(("use", "counts"), USES, ids=[str(number) for number in range(len(USES))])
def test_what_is_computed_with_a_scalar_is_seen(
    watch: Watch, use: Callable[[Any], Any], counts: dict[str, int]
) -> None:
    x = watch.array(X)
    with watch.ops():
        result = use(x)
    assert watch.counts == counts
    np.testing.assert_array_equal(result, use(X))


@pytest.mark.parametrize("code", NUMBERS)
def test_a_scalar_is_what_it_stands_for(watch: Watch, code: str) -> None:
    plain = np.array([3, 5], code)
    (scalar, _), expected = watch.array(plain), plain[0]
    assert scalar.watch is not None
    assert type(scalar) == type(expected)  # noqa: E721  # as a program asks that does not know of the watch
    assert {type(expected): "found"}[type(scalar)] == "found"
    assert isinstance(scalar, type(expected))
    assert isinstance(scalar, float) == isinstance(expected, float)
    assert (repr(scalar), str(scalar), f"{scalar}") == (repr(expected), str(expected), f"{expected}")
    assert hash(scalar) == hash(expected)
    assert np.dtype(type(scalar)) == np.array(scalar).dtype == np.array([scalar, scalar]).dtype == plain.dtype
    assert type(scalar.item()) is type(expected.item())
    pickled, pickled_plain = (pickle.loads(pickle.dumps(each)) for each in (scalar, expected))
    assert type(pickled) is type(pickled_plain)
    assert pickled == expected
    assert copy.copy(scalar) == copy.deepcopy(scalar) == expected
    assert pickle.loads(pickle.dumps(type(scalar))) is type(expected)
    assert type(type(scalar)(1) + 1) is type(expected + 1)


def test_it_can_be_used_as_a_number_of_pythons(watch: Watch) -> None:
    x, n = watch.array(X), watch.array(np.arange(3))
    assert json.dumps(x[1]) == "2.0"
    assert [math.sqrt(x[3]), round(x[0]), int(x[2]), float(x[2]), bool(x[0])] == [2.0, 1, 3, 3.0, True]
    assert [10, 20, 30][n[1]] == 20
    assert list(range(n[2])) == [0, 1]


OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, divmod,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip


@pytest.mark.parametrize("use", OPERATORS, ids=lambda use: use.__name__)
@pytest.mark.parametrize("code", "hlBefdFD")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators_give_the_same_bits_and_types(code: str, use: Callable[[Any, Any], Any]) -> None:
    plain = np.array([7, 2], code)
    watched = Watch().array(plain)
    others: list[Any] = [2, 2.5, 1j, True, np.float32(3), np.int8(2), X, [1, 2], "text", None]
    for other in [plain[1], *others]:
        for swapped in (False, True):
            results = []
            for scalar in (watched[0], plain[0]):
                try:
                    results.append(use(other, scalar) if swapped else use(scalar, other))
                except TypeError as error:
                    results.append(str(error))
            assert repr(results[0]) == repr(results[1])
            assert np.asarray(results[0]).dtype == np.asarray(results[1]).dtype


def test_what_another_class_answers_is_no_op_of_numpy(watch: Watch) -> None:
    class Answers:
        def __rmul__(self, other: Any) -> str:
            return type(other).__name__

    x = watch.array(X)
    with watch.ops():
        assert x[0] * Answers() == X[0] * Answers()
    assert watch.counts == {}


def test_truths_and_dates_are_not_watched(watch: Watch) -> None:
    dates = np.array(["2024-01-01", "2024-01-02"], "datetime64[D]")
    x = watch.array(X)
    assert type(x[0] > 0) is np.bool_
    assert type(watch.array(dates)[0]) is np.datetime64


def test_scalars_of_an_earlier_test_are_as_plain_ones(watch: Watch) -> None:
    old = watch.array(X)[0]
    watch.backend.begin_test()
    with watch.ops():
        assert type(old + 1) is np.float64
        assert type(np.exp(old)) is np.float64
        assert type(np.ones(2) * old) is np.ndarray
    assert watch.counts == {}


def test_with_all_scalars_that_are_drawn_are_watched() -> None:
    everything = Watch(options=Options(numpy="all"))
    with everything.ops():
        assert isinstance(np.random.default_rng(0).integers(5) * np.ones(2), WatchedArray)
    assert everything.counts == {"RandomUniform": 1, "ConstantOfShape": 1, "Mul": 1}
