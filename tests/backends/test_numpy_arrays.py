"""A watched array does what a plain one does: results, identities, views, shows and pickles."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.backends.numpy.arrays import WatchedArray
from pytest_opprof.backends.numpy.backend import NumpyBackend

from .test_numpy_backend import Watch

X = np.arange(6.0).reshape(2, 3)
OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, divmod, operator.pow,
    operator.matmul, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


class Tagged(np.ndarray[Any, Any]):
    """A subclass that keeps the operators of ndarray."""


class Eager(np.ndarray[Any, Any]):
    """A subclass with operators of its own, which Python asks before those of ndarray."""

    def __add__(self, other: Any) -> Any:
        return "left"

    def __radd__(self, other: Any) -> Any:
        return "right"

    def __lt__(self, other: Any) -> Any:
        return "less"

    def __gt__(self, other: Any) -> Any:
        return "greater"


class Refuses:
    __array_ufunc__ = None

    def __radd__(self, other: Any) -> Any:
        return type(other)


def same(watched: Any, plain: Any) -> None:
    """Fail unless both are the same value of the same kind, bit for bit."""
    if isinstance(plain, (tuple, list)):
        assert type(watched) is type(plain)
        assert len(watched) == len(plain)
        for one, other in zip(watched, plain):
            same(one, other)
        return
    assert type(watched) == type(plain)  # noqa: E721  # as a program asks that does not know of the watch
    if isinstance(plain, np.ndarray):
        assert (watched.dtype, watched.shape, watched.strides) == (plain.dtype, plain.shape, plain.strides)
        assert watched.tobytes() == plain.tobytes()
    else:
        assert watched is plain or watched == plain or repr(watched) == repr(plain)


OTHERS: list[Any] = [2, 2.5, 3j, True, np.float32(2), X[0], X.astype("f4"), X > 2, [1, 2, 3], "text", None]


@pytest.mark.parametrize("other", OTHERS, ids=[str(number) for number in range(len(OTHERS))])
@pytest.mark.parametrize("use", OPERATORS, ids=lambda use: use.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:elementwise comparison")
def test_an_operator_does_what_it_does_on_a_plain_array(use: Callable[[Any, Any], Any], other: Any) -> None:
    x = Watch().array(X)
    same(_result(use, x, other), _result(use, X, other))
    same(_result(use, other, x), _result(use, other, X))


@pytest.mark.parametrize("cls", [Tagged, Eager, np.matrix, np.ma.MaskedArray])
@pytest.mark.parametrize("use", OPERATORS, ids=lambda use: use.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:the matrix subclass")
def test_the_operators_of_a_subclass_go_first_as_they_do_on_a_plain_array(
    cls: Any, use: Callable[[Any, Any], Any]
) -> None:
    square = np.arange(4.0).reshape(2, 2) + 1
    x, other = Watch().array(square), (square * 2).view(cls)
    for swapped in (False, True):
        result, expected = (_result(use, *((other, each) if swapped else (each, other))) for each in (x, square))
        assert type(result) is type(expected)
        np.testing.assert_array_equal(result, expected)


def _result(use: Callable[[Any, Any], Any], *operands: Any) -> Any:
    try:
        return use(*operands)
    except (TypeError, ValueError) as error:
        return type(error)


def test_an_operand_that_refuses_ufuncs_is_asked(watch: Watch) -> None:
    assert issubclass(watch.array(X) + Refuses(), WatchedArray)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_program_may_ask_for_the_type_by_value_but_not_by_identity(watch: Watch) -> None:
    x = watch.array(X)
    assert type(x) == np.ndarray  # noqa: E721
    assert {np.ndarray: "found"}[type(x)] == "found"
    assert type(x) is not np.ndarray


def test_it_shows_and_pickles_as_a_plain_array(watch: Watch) -> None:
    x = watch.array(X)
    assert (repr(x), str(x), f"{x}", f"{x[0, 0]:.2f}") == (repr(X), str(X), f"{X}", f"{X[0, 0]:.2f}")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copied = pickle.loads(pickle.dumps(x, protocol))
        assert type(copied) is np.ndarray
        same(copied, X)
        assert pickle.dumps(x, protocol) == pickle.dumps(np.array(X), protocol)


def test_a_view_knows_whose_memory_it_has_and_a_result_has_its_own(watch: Watch) -> None:
    x = watch.array(X)
    copied, part, flat = x + 1, x[1:], np.ravel(x)
    assert copied.base is None
    assert part.base is x
    assert flat.base is not None
    assert np.shares_memory(flat, x)
    assert watch.backend.watch(X).base is not None


def test_a_view_as_ndarray_stays_watched_and_one_of_another_class_is_what_it_is(watch: Watch) -> None:
    x = watch.array(X)
    assert isinstance(x.view(np.ndarray), WatchedArray)
    assert isinstance(x.view("i8"), WatchedArray)
    assert type(x.view(Tagged)) is Tagged
    assert x.__array__() is x


def test_an_array_of_objects_keeps_the_very_objects(watch: Watch) -> None:
    x, objects = watch.array(X), watch.array(np.empty(2, object))
    objects[0] = x
    assert objects[0] is x


def test_a_result_that_is_an_argument_is_that_very_object(watch: Watch) -> None:
    x, out = watch.array(np.eye(3)), watch.array(np.eye(3))
    assert np.dot(x, x, out) is out
    assert np.atleast_1d(x) is x
    assert np.nan_to_num(x, copy=False) is x
    assert np.add(x, x, out=(out,)) is out


def test_what_an_operand_answers_instead_of_an_output_is_the_result(watch: Watch) -> None:
    class Answers:
        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> str:
            return "answer"

    x = watch.array(X)
    x += Answers()
    assert x == "answer"


def test_functions_that_call_back_show_what_the_program_does_inside(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        result = np.apply_along_axis(lambda row: row.astype("f4") + 1, 1, x)
    same(result, np.apply_along_axis(lambda row: row.astype("f4") + 1, 1, X))
    assert watch.counts["Cast"] == watch.counts["Add"] == 2
    assert watch.counts["numpy.apply_along_axis"] == 1


def test_arrays_of_an_earlier_test_are_as_plain_ones() -> None:
    backend = NumpyBackend()
    old = backend.watch(X)
    backend.begin_test()
    x = backend.watch(X)
    watch = Watch(backend)
    with watch.ops():
        assert type(old + 1) is type(old.sum(axis=0)) is type(np.exp(old)) is np.ndarray
        assert type(old.astype("f4")) is np.ndarray
    assert watch.counts == {}
    with watch.ops():
        for result in (old + x, x + old, np.concatenate([old, x]), np.add(old, x)):
            assert isinstance(result, WatchedArray)
    assert watch.counts == {"Add": 3, "Concat": 1}


NUMBERS = st.floats(width=32, allow_nan=True) | st.integers(-(2**31), 2**31)


@given(st.lists(NUMBERS, min_size=1, max_size=8), st.sampled_from(["f2", "f4", "f8", "i4", "c8", "?"]), st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_results_are_equal_bit_for_bit(numbers: list[Any], dtype: str, data: st.DataObject) -> None:
    with np.errstate(all="ignore"):
        array = np.array(numbers).astype(dtype)
        uses: list[Callable[[Any], Any]] = [
            lambda x: x + x, lambda x: x * 1.5, lambda x: x.sum(), lambda x: x.mean(), lambda x: x @ x,
            lambda x: np.sort(x), lambda x: x.astype("f4"), lambda x: x[::-1].cumsum(), lambda x: x[x == x],
            lambda x: np.linalg.norm(x), lambda x: np.exp(x), lambda x: abs(x), lambda x: x**2,
        ]  # fmt: skip
        use = data.draw(st.sampled_from(uses))
        same(use(Watch().array(array)), use(array))
