from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend
from pytest_opprof.frameworks.numpy.work import Attributes, einsum_flops
from pytest_opprof.profile.op_profile import OpProfile


def measured(program: Callable[..., Any], *arrays: Any) -> OpProfile:
    backend = NumpyBackend()
    with backend.collect(Options()) as log:
        program(*arrays)
    return log.freeze()


A, B, V = np.ones((4, 6)), np.ones((6, 5)), np.ones(6)
SQUARE = np.eye(8) * 3


@pytest.mark.parametrize(
    ("program", "arrays", "op", "flops"),
    [
        (lambda a, b: a @ b, (A, B), "MatMul", 2 * 4 * 6 * 5),
        (lambda a, v: a.dot(v), (A, V), "MatMul", 2 * 4 * 6),
        (np.vdot, (V, V), "MatMul", 2 * 6),
        (np.inner, (A, A), "MatMul", 2 * 4 * 6 * 4),
        (lambda a, b: np.tensordot(a, b, 1), (A, B), "MatMul", 2 * 4 * 6 * 5),
        (np.matmul, (np.ones((3, 4, 6)), B), "MatMul", 2 * 3 * 4 * 6 * 5),
        (np.linalg.inv, (SQUARE,), "Inverse", 2 * 8**3),
        (np.linalg.solve, (SQUARE, np.ones((8, 2))), "Solve", round(2 * 8**3 / 3 + 2 * 64 * 2)),
        (lambda a, b: np.linalg.lstsq(a, b, None), (np.ones((50, 4)), np.ones(50)), "Solve", 2 * 50 * 16),
        (lambda a: np.linalg.svd(a, full_matrices=False), (np.ones((50, 4)),), "SVD", 6 * 50 * 16 + 20 * 64),
        (np.linalg.cholesky, (SQUARE,), "Cholesky", round(8**3 / 3)),
        (np.fft.fft, (np.ones(16),), "FFT", 5 * 16 * 4),
        (np.fft.rfft, (np.ones((3, 16)),), "FFT", round(2.5 * 3 * 16 * 4)),
        (lambda x: np.fft.fft(x, axis=0), (np.ones((4, 3)),), "FFT", 5 * 12 * 2),
        (np.fft.fft2, (np.ones((4, 4)),), "FFT", 5 * 16 * 4),
        (lambda x: np.fft.fft2(x, axes=(0, 1)), (np.ones((4, 4, 2)),), "FFT", None),
        (lambda a: a + a, (A,), "Add", 24),
        (lambda a: a.sum(axis=0), (A,), "ReduceSum", 24),
        (lambda a: a > 0, (A,), "Greater", None),
        (lambda a: a.copy(), (A,), "Copy", None),
        (lambda a: a + a, (np.ones((4, 6), int),), "Add", None),
    ],
)
def test_flops_are_those_of_the_textbook(
    program: Callable[..., Any], arrays: tuple[Any, ...], op: str, flops: int | None
) -> None:
    assert measured(program, *arrays).stats(op).flops == (None if flops is None else (flops,))


@pytest.mark.parametrize("optimize", [False, True, "greedy", "optimal"])
@pytest.mark.parametrize(
    "subscripts", ["ij,jk,kl->il", "ij,jk,kl", "bij,bjk->bik", "ii", "ij->", "i,j->ij", "ij,ij,ij->i"]
)
def test_flops_of_einsum_are_those_that_numpy_says_its_path_has(subscripts: str, optimize: Any) -> None:
    size = {"b": 3, "i": 4, "j": 5, "k": 6, "l": 7}
    arrays = [np.ones([size[index] for index in term]) for term in subscripts.partition("->")[0].split(",")]
    path = np.einsum_path(subscripts, *arrays, optimize=optimize)[1]
    expected = re.search(r"Optimized FLOP count:\s*([\d.e+]+)", path)
    assert expected is not None
    found = measured(lambda *given: np.einsum(subscripts, *given, optimize=optimize), *arrays).stats("Einsum").flops
    assert found == (pytest.approx(float(expected[1]), rel=1e-3, abs=1),)  # it begins with 1, and rounds


def test_what_does_not_follow_from_subscripts_is_not_known() -> None:
    assert einsum_flops([(3, 4)], Attributes(("...j->j", None))) is None
    assert einsum_flops([(3, 4)], Attributes((None, "[0, 1]"))) is None
    assert einsum_flops([(3, 4)], Attributes(("ij,jk->ik", None))) is None


def test_dtypes_and_bytes_are_those_of_all_arrays() -> None:
    single = np.ones((4, 6), "f4")
    profile = measured(lambda x: (x * 2.0, x.astype("f8"), x > 0, x.sum(), x[[0, 1]]), single)
    assert profile.calls_by_dtype == {
        "Mul": {"float32": (1,)},
        "Cast": {"float32->float64": (1,)},
        "Greater": {"float32->bool": (1,)},
        "ReduceSum": {"float32": (1,)},
        "Gather": {"float32": (1,)},
    }
    assert profile.stats("Mul").bytes == (2 * 96,)
    assert profile.stats("Cast").bytes == (96 + 192,)
    assert profile.stats("Greater").bytes == (96 + 24,)
    assert profile.stats("Gather").bytes == (2 * 2 * 24,)
    assert profile.stats("*[float64]").calls == (1,)


def test_an_array_that_is_only_allocated_moves_no_bytes() -> None:
    profile = measured(lambda x: (np.empty(1000), np.empty_like(x)), np.ones(3))
    assert profile.stats("numpy.empty*").bytes == (0,)


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a", "bc"]),
        np.array([1, None], object),
        np.array(["2024-01-01"], "datetime64[D]"),
        np.array(["2024-01"], "datetime64[M]"),
        np.array([(1, 2.0)], "i4,f8"),
        np.empty((0, 3)),
        np.ones(3, "g"),
        np.ones(3, "c16"),
        np.array(5),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_of_any_dtype_are_recorded(array: Any) -> None:
    profile = measured(lambda x: (x.copy(), x == x), array)
    assert profile.stats("Copy").calls == (1,)
    assert profile.stats("Copy").bytes is not None
