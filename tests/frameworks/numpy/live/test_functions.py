"""Functions that see watched arrays while a window is open: counts, results, and that all is put back."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.sparse.linalg
import scipy.special
from numpy import asarray as from_import

from .test_backend import Watch

X = np.arange(1.0, 17.0).reshape(4, 4) + 9 * np.eye(4)


@pytest.fixture
def watch() -> Watch:
    return Watch()


CONVERSIONS: list[tuple[Callable[[Any], Any], dict[str, int]]] = [
    (lambda x: np.asarray(x) + 1, {"Add": 1}),
    (lambda x: from_import(x) + 1, {"Add": 1}),
    (lambda x: np.array(x), {"Copy": 1}),
    (lambda x: np.array(x, dtype="f4"), {"Cast": 1}),
    (lambda x: np.asarray(x, "f4") + 1, {"Cast": 1, "Add": 1}),
    (lambda x: np.array(object=x, dtype="f4"), {"Cast": 1}),
    (lambda x: np.asarray(a=x, dtype="f4"), {"Cast": 1}),
    (lambda x: np.asanyarray(x) + 1, {"Add": 1}),
    (lambda x: np.ascontiguousarray(x), {}),
    (lambda x: np.ascontiguousarray(x.T), {"Copy": 1}),
    (lambda x: np.ascontiguousarray(x, "f4"), {"Cast": 1}),
    (lambda x: np.asfortranarray(x), {"Copy": 1}),
    (lambda x: np.require(x, "f4", "C"), {"Cast": 1}),
    (lambda x: np.require(x) * 2, {"Mul": 1}),
    (lambda x: np.asarray_chkfinite(x) * 2, {"Mul": 1}),
    (lambda x: np.array([x, x]) * 2, {"Concat": 1, "Mul": 1}),
    (lambda x: np.array([[x[0], x[1]], [x[2], x[3]]]) * 2, {"numpy.array": 1, "Mul": 1}),
    (lambda x: np.frombuffer(x) * 2, {"Mul": 1}),
    (lambda x: np.lib.stride_tricks.as_strided(x, (2, 2)) * 2, {"Mul": 1}),
    (lambda x: np.atleast_3d(x) * 2, {"Mul": 1}),
    (lambda x: x.view(np.ndarray) * 2, {"Mul": 1}),
    (lambda x: x.__array__("f4"), {}),
    (lambda x: np.asarray(x[0, 0, ...]) * 2, {"Mul": 1}),
]


@pytest.mark.parametrize(("use", "counts"), CONVERSIONS, ids=[str(number) for number in range(len(CONVERSIONS))])
def test_a_conversion_keeps_the_watch_and_is_a_cast_or_a_copy_if_it_moves_data(
    watch: Watch, use: Callable[[Any], Any], counts: dict[str, int]
) -> None:
    x = watch.array(X)
    with watch.ops():
        result = use(x)
    assert watch.counts == counts
    expected = use(X)
    assert result.tobytes() == expected.tobytes()
    assert result.dtype == expected.dtype
    assert result.strides == expected.strides
    assert (result is x) == (expected is X)


CREATIONS: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "zeros": (lambda: np.zeros((2, 2)) + 1, {"ConstantOfShape": 1, "Add": 1}),
    "ones": (lambda: np.ones(3, "f4") + 1, {"ConstantOfShape": 1, "Add": 1}),
    "full": (lambda: np.full(3, 7) + 1, {"ConstantOfShape": 1, "Add": 1}),
    "eye": (lambda: np.eye(3) + 1, {"ConstantOfShape": 1, "Add": 1}),
    "arange": (lambda: np.arange(5) + 1, {"Range": 1, "Add": 1}),
    "array": (lambda: np.array([1.0, 2.0]) + 1, {"numpy.array": 1, "Add": 1}),
    "scalar": (lambda: np.asarray(2.5) + np.array([1.0, 2.0]).sum(), {"numpy.array": 1, "ReduceSum": 1, "Add": 1}),
    "plain": (lambda: np.asarray(X) + 1, {"Add": 1}),
    "plain cast": (lambda: np.asarray(X, "f4") + 1, {"Cast": 1, "Add": 1}),
    "rng": (lambda: np.random.default_rng(0).normal(size=4) + 1, {"RandomNormal": 1, "Add": 1}),
    "Generator": (lambda: np.random.Generator(np.random.PCG64(7)).random(4) + 1, {"RandomUniform": 1, "Add": 1}),
    "RandomState": (lambda: np.random.RandomState(0).rand(4) + 1, {"RandomUniform": 1, "Add": 1}),
    "permutation": (lambda: np.random.default_rng(0).permutation(4) + 1, {"RandomPermutation": 1, "Add": 1}),
    "loadtxt": (lambda: np.loadtxt(io.StringIO("1 2\n3 4")) + 1, {"numpy.loadtxt": 1, "Add": 1}),
}


@pytest.mark.parametrize("name", CREATIONS)
def test_what_a_window_makes_is_watched(watch: Watch, name: str) -> None:
    use, counts = CREATIONS[name]
    with watch.ops():
        result = use()
    assert watch.counts == counts
    expected = use()
    assert result.tobytes() == expected.tobytes()
    assert result.dtype == expected.dtype


def test_empty_arrays_are_watched(watch: Watch) -> None:
    with watch.ops():
        np.empty(3).fill(1)
    assert watch.counts == {"numpy.empty": 1, "ConstantOfShape": 1}


def test_the_legacy_functions_of_random_are_watched(watch: Watch) -> None:
    with watch.ops():
        np.random.seed(5)
        result = np.random.rand(3) + np.random.normal(size=3)
    assert watch.counts == {"RandomUniform": 1, "RandomNormal": 1, "Add": 1}
    np.random.seed(5)
    assert result.tobytes() == (np.random.rand(3) + np.random.normal(size=3)).tobytes()


def test_files_are_loaded_watched(watch: Watch, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X)
    with watch.ops():
        np.load(tmp_path / "x.npy")
        with np.load(tmp_path / "x.npz") as archive:
            archive["x"]
    assert watch.counts == {"numpy.load": 2}


def test_the_inside_of_numpy_is_part_of_its_functions(watch: Watch) -> None:
    with watch.ops():
        np.linalg.svd(np.asarray(X))
        np.pad(np.asarray(X), 1)
        np.random.default_rng(3)
    assert watch.counts == {"SVD": 1, "Pad": 1}


def test_what_a_module_makes_when_it_is_imported_is_no_part_of_a_test(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opprof_makes_arrays.py").write_text("import numpy as np\nTABLE = np.arange(3) + 1\nmake = np.zeros\n")
    monkeypatch.syspath_prepend(tmp_path)
    with watch.ops():
        import opprof_makes_arrays as module  # type: ignore[import-not-found]
    assert watch.counts == {}
    assert type(module.TABLE) is np.ndarray
    assert module.make is np.zeros
    monkeypatch.delitem(sys.modules, "opprof_makes_arrays")


def test_checks_of_results_are_no_part_of_a_test(watch: Watch) -> None:
    with watch.ops():
        x = np.ones(3)
        np.testing.assert_allclose(x, [1, 1, 1])
        np.testing.assert_array_equal(x, x)
        with pytest.raises(AssertionError, match="Mismatched elements: 3 / 3"):
            np.testing.assert_equal(x, [2, 2, 2])
    assert watch.counts == {"ConstantOfShape": 1}


def test_a_function_of_scipy_is_an_op_whose_inside_is_part_of_it_but_for_casts(watch: Watch) -> None:
    a, b = watch.array(X), watch.array(np.ones(4, "f4"))
    with watch.ops():
        solution = scipy.linalg.solve(a, b) + 1
    assert watch.counts["Solve"] == watch.counts["Add"] == 1
    assert set(watch.counts) <= {"Solve", "Add", "Cast"}
    assert "scipy.linalg.solve" in watch.profile.raw_names
    assert np.asarray(solution).tobytes() == (scipy.linalg.solve(X, np.ones(4, "f4")) + 1).tobytes()


SCIPY: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: scipy.fft.rfft(x), "FFT"),
    (lambda x: scipy.linalg.svd(x)[0], "SVD"),
    (lambda x: scipy.linalg.cholesky(x @ x.T), "Cholesky"),
    (lambda x: scipy.linalg.eigh(x @ x.T)[0], "Eig"),
    (lambda x: scipy.signal.lfilter([1.0], [1.0, -0.5], x), "scipy.signal.lfilter"),
    (lambda x: scipy.signal.fftconvolve(x, x), "Conv"),
    (lambda x: scipy.special.softmax(x, axis=1), "Softmax"),
    (lambda x: scipy.special.logsumexp(x), "ReduceLogSumExp"),
    (lambda x: scipy.special.erf(x), "Erf"),
    (lambda x: scipy.special.expit(x), "Sigmoid"),
    (lambda x: scipy.special.j0(x), "scipy.special.j0"),
    (lambda x: scipy.sparse.linalg.cg(x @ x.T, x[0])[0], "scipy.sparse.linalg.cg"),
]


@pytest.mark.parametrize(("use", "op"), SCIPY, ids=[op for _, op in SCIPY])
def test_functions_of_scipy_are_ops_with_the_same_results(watch: Watch, use: Callable[[Any], Any], op: str) -> None:
    x = watch.array(X)
    with watch.ops():
        result = use(x)
    assert watch.counts[op] == 1
    assert np.asarray(result).tobytes() == np.asarray(use(X)).tobytes()


def test_a_question_to_scipy_is_no_op(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        scipy.linalg.get_lapack_funcs(("gesv",), (x,))
        scipy.fft.next_fast_len(7)
    assert watch.counts == {}


def test_ops_of_threads_that_run_at_once_are_all_counted_with_what_is_inside_them(watch: Watch) -> None:
    x = watch.array(X)

    def work() -> None:
        for _ in range(50):
            scipy.linalg.solve(np.asarray(x), x) + 1

    with watch.ops():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert watch.counts["Solve"] == watch.counts["Add"] == 200
