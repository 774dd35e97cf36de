"""Functions that see watched arrays while a window is open: counts, results, and that all is put back."""

from __future__ import annotations

import inspect
import io
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.sparse.linalg
import scipy.special
from numpy import asarray as from_import

from pytest_opprof.backends.contract import Options
from pytest_opprof.backends.numpy.arrays import WatchedArray
from pytest_opprof.backends.numpy.backend import NumpyBackend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpProfile

from .test_numpy_backend import Watch

X = np.arange(1.0, 17.0).reshape(4, 4) + 9 * np.eye(4)
ALL = Options(numpy="all")


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def everything() -> Watch:
    return Watch(options=ALL)


@pytest.fixture(autouse=True)
def _all_is_put_back() -> Iterator[None]:
    """Nothing that a module has is ours outside of windows."""
    before = _attributes()
    yield
    after = _attributes()
    assert [key for key, value in before.items() if after.get(key) is not value] == []


def _attributes() -> dict[tuple[str, str], object]:
    modules = [np, np.random, np.testing, scipy.linalg, scipy.fft, scipy.signal, scipy.special, sys.modules[__name__]]
    return {(module.__name__, name): value for module in modules for name, value in vars(module).items()}


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


def test_a_program_that_only_converts_plain_arrays_gets_plain_ones_and_shows_no_op(watch: Watch) -> None:
    watch.array()
    with watch.ops():
        assert np.asarray(X) is X
        assert type(np.array(X, "f4")) is type(np.zeros(3)) is type(np.array([1, 2])) is np.ndarray
        assert type(scipy.linalg.inv(X)) is np.ndarray
    assert watch.counts == {}


def test_outside_of_windows_a_conversion_gives_a_plain_array(watch: Watch) -> None:
    assert type(np.asarray(watch.array())) is np.ndarray


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
def test_with_all_what_a_window_makes_is_watched(everything: Watch, name: str) -> None:
    use, counts = CREATIONS[name]
    with everything.ops():
        result = use()
    assert everything.counts == counts
    expected = use()
    assert result.tobytes() == expected.tobytes()
    assert result.dtype == expected.dtype


def test_with_all_empty_arrays_are_watched(everything: Watch) -> None:
    with everything.ops():
        np.empty(3).fill(1)
    assert everything.counts == {"numpy.empty": 1, "ConstantOfShape": 1}


def test_with_all_the_legacy_functions_of_random_are_watched(everything: Watch) -> None:
    with everything.ops():
        np.random.seed(5)
        result = np.random.rand(3) + np.random.normal(size=3)
    assert everything.counts == {"RandomUniform": 1, "RandomNormal": 1, "Add": 1}
    np.random.seed(5)
    assert result.tobytes() == (np.random.rand(3) + np.random.normal(size=3)).tobytes()


def test_with_all_files_are_loaded_watched(everything: Watch, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X)
    with everything.ops():
        assert isinstance(np.load(tmp_path / "x.npy"), WatchedArray)
        with np.load(tmp_path / "x.npz") as archive:
            assert isinstance(archive["x"], WatchedArray)
    assert everything.counts == {"numpy.load": 3}


def test_generators_are_of_their_classes_and_stay_what_they_are_when_given(everything: Watch) -> None:
    plain = np.random.default_rng(1), np.random.RandomState(1)
    with everything.ops():
        made = np.random.default_rng(1), np.random.RandomState(1)
        for one, other, cls in zip(made, plain, (np.random.Generator, np.random.RandomState)):
            assert isinstance(one, cls)
            assert isinstance(other, cls)
            assert str(one) == str(other)
            assert issubclass(type(other), cls)
            assert type(pickle.loads(pickle.dumps(one))) is type(other)
        assert np.random.default_rng(plain[0]) is plain[0]
        assert made[0].shuffle(items := np.arange(5)) is None
    plain[0].shuffle(expected := np.arange(5))
    assert items.tolist() == expected.tolist()


def test_the_inside_of_numpy_is_part_of_its_functions(everything: Watch) -> None:
    with everything.ops():
        np.linalg.svd(np.asarray(X))
        np.pad(np.asarray(X), 1)
        np.tril_indices(3)
        np.random.default_rng(3)
    assert everything.counts == {"SVD": 1, "Pad": 1}


def test_what_a_module_makes_when_it_is_imported_is_no_part_of_a_test(
    everything: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opprof_makes_arrays.py").write_text("import numpy as np\nTABLE = np.arange(3) + 1\nmake = np.zeros\n")
    monkeypatch.syspath_prepend(tmp_path)
    with everything.ops():
        import opprof_makes_arrays as module  # type: ignore[import-not-found]

        inside = module.make
    assert everything.counts == {}
    assert type(module.TABLE) is np.ndarray
    assert module.make is np.zeros
    assert inside is not np.zeros
    monkeypatch.delitem(sys.modules, "opprof_makes_arrays")


def test_checks_of_results_are_no_part_of_a_test(everything: Watch) -> None:
    with everything.ops():
        x = np.ones(3)
        np.testing.assert_allclose(x, [1, 1, 1])
        np.testing.assert_array_equal(x, x)
        with pytest.raises(AssertionError, match="Mismatched elements: 3 / 3"):
            np.testing.assert_equal(x, [2, 2, 2])
    assert everything.counts == {"ConstantOfShape": 1}


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
        assert isinstance(result, WatchedArray) or np.ndim(result) == 0
    assert watch.counts[op] == 1
    assert np.asarray(result).tobytes() == np.asarray(use(X)).tobytes()


def test_scipy_can_still_tell_its_own_functions_apart(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        b, a = scipy.signal.butter(2, 0.3)  # looks its prototype up in a table of functions, and compares
        scipy.signal.filtfilt(b, a, x, padlen=2)
    assert watch.counts["scipy.signal.filtfilt"] == 1
    assert "scipy.signal.butter" not in watch.counts  # of no watched array


def test_a_question_to_scipy_is_no_op(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        scipy.linalg.get_lapack_funcs(("gesv",), (x,))
        scipy.fft.next_fast_len(7)
    assert watch.counts == {}


def test_a_module_of_scipy_that_was_imported_in_the_window_is_named(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.array()
    with watch.ops():
        pass
    with watch.ops():
        module = ModuleType("scipy.linalg")
        vars(module).update(vars(scipy.linalg))
        monkeypatch.setitem(sys.modules, "scipy.linalg", module)
        monkeypatch.setitem(sys.modules, "opprof_last", ModuleType("opprof_last"))
    assert watch.profile.unseen == ("scipy.linalg, first imported in the window",)
    monkeypatch.undo()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_where_the_watch_ended_is_said_with_the_function_and_the_line(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        line = inspect.currentframe().f_lineno  # type: ignore[union-attr]
        np.asmatrix(x)
        x.view(np.recarray)
        np.matrix(x)
    here = f"({__name__}:{{}})".format
    unseen = watch.profile.unseen
    assert unseen[0] == f"numpy.asmatrix {here(line + 1)}"
    assert unseen[1] == f"ndarray.view(recarray) {here(line + 2)}"
    assert unseen[2] == f"ndarray.view(matrix) {here(line + 3)}"
    ((_, remark),) = watch.profile.remarks
    assert remark == f"not seen: what became of watched arrays in {', '.join(unseen)}"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python asks a subclass for its buffer from 3.12 on")
def test_compiled_code_that_takes_the_memory_is_noticed(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        assert memoryview(x).tobytes() == X.tobytes()
    assert len(watch.profile.unseen) == 1
    assert watch.profile.unseen[0].startswith(f"compiled code ({__name__}:")


def test_a_window_in_which_the_watch_never_ended_says_nothing(watch: Watch) -> None:
    x = watch.array(X)
    with watch.ops():
        np.asarray(x) + 1
    assert watch.profile.unseen == ()
    assert watch.profile.remarks == ()


def test_a_replaced_function_can_be_asked_what_it_is(everything: Watch) -> None:
    asarray, zeros, solve = np.asarray, np.zeros, scipy.linalg.solve
    with everything.ops():
        assert np.asarray is not asarray
        for ours, original in ((np.asarray, asarray), (np.zeros, zeros), (scipy.linalg.solve, solve)):
            assert (ours.__name__, ours.__doc__) == (original.__name__, original.__doc__)
            assert inspect.unwrap(ours) is inspect.unwrap(original)
            assert pickle.loads(pickle.dumps(ours)) is ours
        assert pickle.loads(pickle.dumps(np.random.rand)) is np.random.rand
        pickled = pickle.dumps(np.zeros)
        assert from_import is np.asarray
    assert pickle.loads(pickled) is zeros
    assert from_import is asarray


def test_all_is_put_back_after_an_error_and_after_the_last_of_windows_that_nest(everything: Watch) -> None:
    before = np.zeros
    outer = Recorder([everything.backend], ALL)
    window, inner = Window("outer"), Window("inner")
    with pytest.raises(KeyboardInterrupt):
        with outer.open(window), outer.step(window):
            raise KeyboardInterrupt
    assert np.zeros is before
    with outer.open(window), outer.step(window):
        with outer.open(inner), outer.step(inner):
            np.zeros(3) + 1
        assert np.zeros is not before
        np.ones(3) * 2
    assert np.zeros is before
    assert (inner.count("Add"), window.count("Mul"), window.count("Add")) == (1, 1, 1)
    context = outer.open(Window("left"))
    context.__enter__()
    assert np.zeros is not before
    outer.abandon()
    assert np.zeros is before


def test_windows_of_two_sessions_in_one_process_do_not_disturb_each_other() -> None:
    before, outer, inner = np.zeros, Watch(options=ALL), Watch()
    x = inner.array(X)
    with outer.ops():
        with inner.ops():
            np.asarray(x) + 1
        assert np.zeros is not before
        np.zeros(3) * 2
    assert np.zeros is before
    assert inner.counts == {"Add": 1}
    assert outer.counts == {"ConstantOfShape": 1, "Mul": 1}


def test_what_the_program_puts_in_the_place_of_a_function_stays(
    everything: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with everything.ops():
        monkeypatch.setattr(np, "zeros", len)
    assert np.zeros is len  # type: ignore[comparison-overlap]
    monkeypatch.undo()  # gives np.zeros ours, as it was inside
    assert np.zeros(3).tolist() == [0, 0, 0]
    assert type(np.zeros(3)) is np.ndarray
    with everything.ops():
        pass


def test_other_threads_get_what_they_would_without_a_window(watch: Watch) -> None:
    found: list[Any] = []

    def work() -> None:
        array = np.asarray(X)
        found.extend([array is X, type(np.array([1.0, 2.0])), np.zeros(2).tolist(), scipy.linalg.inv(X).tobytes()])

    watch.array()
    with watch.ops():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found == [True, np.ndarray, [0.0, 0.0], scipy.linalg.inv(X).tobytes()]
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


def test_arrays_that_live_on_after_their_test_leave_nothing_behind() -> None:
    backend = NumpyBackend()
    watch = Watch(backend, ALL)
    with watch.ops():
        cached = np.zeros(3)
    backend.begin_test()
    assert type(cached + 1) is type(np.asarray(cached)) is np.ndarray
    again = Watch(backend, ALL)
    with again.ops():
        cached + 1
        assert np.asarray(cached) is cached
    assert again.counts == {}
    assert "no array was made" in str(NumpyBackend().blind())


def test_blind_until_an_array_is_watched_and_with_all_until_a_window_makes_one(everything: Watch) -> None:
    with everything.ops():
        pass
    assert everything.backend.blind()
    with everything.ops():
        np.ones(3)
    assert everything.backend.blind() is None


def test_which_arrays_are_watched_decides_what_may_be_compared(watch: Watch, everything: Watch) -> None:
    def environment(each: Watch) -> Any:
        with each.ops():
            pass
        profile: OpProfile = each.profile
        return profile.environment

    assert environment(watch).folder != environment(everything).folder
    assert environment(everything).folder.startswith(f"numpy-{np.__version__}-all-cpu")
