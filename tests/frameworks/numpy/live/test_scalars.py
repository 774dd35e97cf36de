"""Scalars of watched arrays: what is computed with them is seen, and they are what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .test_backend import Watch

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
    (lambda x: X[:3] * x.sum(), {"ReduceSum": 1, "Mul": 1}),
    (lambda x: x.sum() * X[:3], {"ReduceSum": 1, "Mul": 1}),
    (lambda x: np.where(X[:2] > 0, x[0], 0) + 1, {"Greater": 1, "Where": 1, "Add": 1}),
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


def test_what_another_class_answers_is_no_op_of_numpy(watch: Watch) -> None:
    class Answers:
        def __rmul__(self, other: Any) -> str:
            return type(other).__name__

    x = watch.array(X)
    with watch.ops():
        assert x[0] * Answers() == X[0] * Answers()
    # NumPy 1.26 asks its ufunc, which finds that it cannot multiply objects of the class.
    assert watch.counts == ({} if int(np.__version__[0]) > 1 else {"Mul": 2})
