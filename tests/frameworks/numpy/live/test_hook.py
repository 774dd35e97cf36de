"""Calls are led to observers while a window is open: nothing else changes, whatever happens meanwhile."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live import hook, observers, selftest
from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend
from pytest_opprof.frameworks.numpy.live.machine_code import layout
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window

from ....conftest import remarks_of
from . import assembled
from .test_backend import Watch

X = np.arange(1.0, 17.0).reshape(4, 4) + 9 * np.eye(4)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture(autouse=True)
def _all_is_put_back() -> Iterator[None]:
    yield
    assert hook.changed() == 0


def test_this_build_of_python_and_numpy_passes_the_self_test() -> None:
    assert selftest.problem() == ""


def test_where_the_self_test_fails_the_backend_is_unavailable_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "problem", lambda: "this Python is free-threaded")
    backend = NumpyBackend()
    assert backend.unavailable() == "this Python is free-threaded"
    assert not backend.in_use()
    with pytest.raises(BackendError, match="free-threaded"), backend.collect(Options()):
        pass


def test_results_are_numpys_own_objects_and_no_class_is_new(watch: Watch) -> None:
    out = np.zeros((4, 4))
    with watch.ops():
        made = [X + 1, X.T, X.sum(axis=0), np.asarray(X), np.concatenate([X, X]), np.sqrt(X, out=out)]
        assert all(type(each) is np.ndarray for each in made)
        assert made[3] is X
        assert made[5] is out
        assert type(X[0, 0] * 2) is np.float64
    assert np.add.__class__ is np.ufunc


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: X + np.ones(3), ValueError, "could not be broadcast"),
    (lambda: X.astype("nonsense"), TypeError, "nonsense"),
    (lambda: X[[99]], IndexError, "out of bounds"),
    (lambda: X.__setitem__(99, 1), IndexError, "out of bounds"),
    (lambda: X.reshape(3), ValueError, "cannot reshape"),
    (lambda: np.concatenate([]), ValueError, "need at least one"),
    (lambda: np.linalg.inv(np.zeros((2, 2))), np.linalg.LinAlgError, "Singular"),
    (lambda: np.float64(1) << 1, TypeError, "left_shift"),
    (lambda: np.add.reduce(X, axis=9), ValueError, "out of bounds"),
    (lambda: np.zeros(-1), ValueError, "negative"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=[text for *_, text in ERRORS])
def test_an_error_is_numpys_own_and_no_op(
    watch: Watch, call: Callable[[], Any], error: type[Exception], text: str
) -> None:
    with watch.ops(), pytest.raises(error, match=text):
        call()
    assert set(watch.counts) <= {"ConstantOfShape"}


def test_warnings_and_the_error_state_are_numpys_own(watch: Watch) -> None:
    zeros = np.zeros(2)
    with watch.ops():
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            1 / zeros
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            1 / zeros


def test_functions_are_found_in_tables_that_were_made_before_and_after(watch: Watch) -> None:
    before = {each: each.__name__ for each in (np.zeros, np.asarray, np.concatenate, np.add, X.sum, len)}
    with watch.ops():
        within = {each: each.__name__ for each in before}
        assert [before[each] for each in within] == list(within.values())
        assert np.zeros(2, like=Likes()) == "zeros"
        assert before[X.sum] == "sum"
    assert [within[each] for each in before] == list(before.values())


def test_a_builtin_function_without_code_can_be_hashed(watch: Watch) -> None:
    # As numba makes them before it compiles: PyMethodDef.ml_meth is NULL.
    definition = (ctypes.c_void_p * 4)(ctypes.cast(NAME, ctypes.c_void_p).value, None, 8, None)
    new = ctypes.pythonapi.PyCMethod_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, *[ctypes.c_void_p] * 3]
    function = new(ctypes.addressof(definition), None, None, None)
    with watch.ops():
        assert {function: 1}[function] == 1


NAME = ctypes.c_char_p(b"empty")


class Likes:
    table = {np.zeros: "zeros"}  # noqa: RUF012

    def __array_function__(self, function: Any, *given: Any) -> str:
        return self.table[function]


class Meters:
    """Takes ufuncs over, as units do: it asks for ops itself."""

    __array_ufunc__: Any

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:  # type: ignore[no-redef]
        plain = [each.value if isinstance(each, Meters) else each for each in inputs]
        return Meters(getattr(ufunc, method)(*plain, **kwargs))


def test_an_op_that_another_class_takes_over_counts_once(watch: Watch) -> None:
    with watch.ops():
        result = np.add(Meters(X), X)
        X * Meters(X)
    assert type(result) is Meters
    assert watch.counts == {"Add": 1, "Mul": 1}


class Lies(np.ndarray[Any, Any]):
    @property
    def shape(self) -> Any:  # type: ignore[override]
        raise AssertionError("an observer asked")

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise AssertionError("an observer asked")


def test_observers_run_no_code_of_other_classes(watch: Watch) -> None:
    array = X.view(Lies)
    with watch.ops():
        np.ndarray.sum(array)
        np.ndarray.copy(array)
    assert watch.counts == {"ReduceSum": 1, "Copy": 1}


def test_casts_that_a_ufunc_makes_of_mixed_dtypes_count(watch: Watch) -> None:
    narrow, whole = X.astype(np.float32), np.arange(4)
    with watch.ops():
        X + narrow
    assert watch.counts == {"Add": 1, "Cast": 1}
    assert watch.profile.stats("Cast").bytes == (16 * 4 + 16 * 8,)
    with watch.ops():
        narrow * 2.0
        whole / 2  # computes in another dtype: that is its own work
        narrow += whole  # both become float64
    assert watch.counts == {"Mul": 1, "Div": 1, "Add": 1, "Cast": 2}


def test_what_other_modules_of_scipy_call_counts(watch: Watch) -> None:
    calls = []
    original = scipy.linalg.solve

    with watch.ops():
        for _ in range(2):
            original(X, X[0])
        scipy.optimize.nnls(X, X[0])
        calls.append(scipy.linalg.inv(X))
    assert watch.counts["Solve"] >= 2
    assert watch.counts["Inverse"] == 1


_ONCE = pytest.mark.xfail(sys.version_info < (3, 11), reason="on Python 3.10 a tracer also traces observers")


@pytest.mark.parametrize("tracing", [False, pytest.param(True, marks=_ONCE)], ids=["plain", "traced"])
def test_calls_of_a_function_of_python_on_one_line_count_each(watch: Watch, tracing: bool) -> None:
    before = sys.gettrace()
    with watch.ops():
        if tracing:
            sys.settrace(lambda *event: None)
        try:
            for _ in range(3):
                scipy.linalg.solve(X, X[0])
            [np.ones(2) for _ in range(4)]
        finally:
            sys.settrace(before)
    assert (watch.counts["Solve"], watch.counts["ConstantOfShape"]) == (3, 4)


def test_a_function_of_python_has_a_time_and_leaves_no_array_alive(watch: Watch) -> None:
    array = X.copy()
    alive = weakref.ref(array)
    with watch.ops():
        scipy.linalg.solve(array, array[0])
    del array
    assert alive() is None
    assert (watch.profile.stats("Solve").device_ns or (0,))[0] > 0


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer, as coverage's, holds the array, and NumPy refuses")
def test_an_array_may_still_be_resized_in_a_window(watch: Watch) -> None:
    with watch.ops():
        array = np.zeros(4)
        array.fill(1)
        array.resize(8)
    assert array.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def test_a_signal_that_comes_while_an_observer_runs_is_raised_in_the_program(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Exception):
        pass

    def handler(*given: object) -> None:
        raise Late

    def raising(*given: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        raise AssertionError

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with watch.ops():
            monkeypatch.setattr(observers, "key_of", raising)
            monkeypatch.setattr(observers, "ask_of", raising)
            with pytest.raises(Late):
                X + 1
            monkeypatch.undo()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert watch.counts == {}


def test_what_an_observer_cannot_read_is_said_and_the_program_goes_on(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*given: Any) -> Any:
        return [][1]

    with watch.ops():
        monkeypatch.setattr(observers, "key_of", unreadable)
        monkeypatch.setattr(observers, "ask_of", unreadable)
        monkeypatch.setattr(observers, "_is_ours", lambda trace: True)
        assert (X + 1)[0, 0] == X[0, 0] + 1
        monkeypatch.undo()
    (remark,) = remarks_of(watch.profile)
    assert remark.startswith("not seen: ")


def test_at_the_limit_of_recursion_a_call_still_does_what_it_did(watch: Watch) -> None:
    def deep() -> Any:
        try:
            return deep()
        except RecursionError:
            return X + X

    with watch.ops():
        assert deep()[0, 0] == 2 * X[0, 0]


def test_all_is_put_back_after_an_error_and_after_the_last_of_windows_that_nest() -> None:
    outer = Recorder([NumpyBackend()], Options())
    window, inner = Window("outer"), Window("inner")
    with pytest.raises(KeyboardInterrupt):
        with outer.open(window), outer.step(window):
            raise KeyboardInterrupt
    assert hook.changed() == 0
    with outer.open(window), outer.step(window):
        with outer.open(inner), outer.step(inner):
            np.zeros(3) + 1
        assert hook.changed() > 500
        np.ones(3) * 2
    assert (inner.count("Add"), window.count("Mul"), window.count("Add")) == (1, 1, 1)
    context = outer.open(Window("left"))
    context.__enter__()
    outer.abandon()
    assert hook.changed() == 0


def test_windows_of_two_sessions_in_one_process_do_not_disturb_each_other() -> None:
    outer, inner = Watch(), Watch()
    with outer.ops():
        with inner.ops():
            X + 1
        np.zeros(3) * 2
    assert inner.counts == {"Add": 1}
    assert outer.counts == {"ConstantOfShape": 1, "Mul": 1}


def test_a_class_of_arrays_that_is_made_in_a_window_indexes_as_numpy_does_after_it(watch: Watch) -> None:
    with watch.ops():

        class Made(np.ndarray[Any, Any]):
            pass

        X.view(Made)[[0, 1]]
    assert watch.counts == {"Gather": 1}
    of_arrays, of_made = (
        layout.pointer(layout.pointer(id(kind) + layout.AS_MAPPING) + layout.SUBSCRIPT) for kind in (np.ndarray, Made)
    )
    assert of_made == of_arrays
    assert X.view(Made)[[0, 1]].shape == (2, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_in_a_forked_process_calls_go_where_they_went_before(watch: Watch) -> None:
    with watch.ops():
        child = os.fork()
        if not child:
            os._exit(bool(hook.changed()))
        assert os.waitpid(child, 0)[1] == 0
        assert hook.changed() > 500


def test_ops_of_threads_that_run_at_once_are_all_counted(watch: Watch) -> None:
    def work() -> None:
        for _ in range(50):
            scipy.linalg.solve(X, X[0]) + 1

    before = threading.enumerate()
    with watch.ops():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert watch.counts["Solve"] == watch.counts["Add"] == 200
    assert threading.enumerate() == before


def test_many_windows_leave_nothing_behind() -> None:
    backend = NumpyBackend()
    with backend.collect(Options()):
        X + 1
    kept = [sys.getrefcount(None), len(hook._hook()._stubs)]
    for _ in range(200):
        with backend.collect(Options()):
            X + 1
            X[[0, 1]]
            np.float64(1) + 2
    assert abs(sys.getrefcount(None) - kept[0]) < 100
    assert len(hook._hook()._stubs) == kept[1]


@pytest.mark.processes
@pytest.mark.parametrize("architecture", assembled.ASSEMBLERS)
def test_the_machine_code_is_its_source_assembled(architecture: str) -> None:
    if not shutil.which(assembler := assembled.ASSEMBLERS[architecture]):
        pytest.skip(f"{assembler} is not installed")
    code = Path(assembled.FOLDER, f"{architecture}.py").read_text(encoding="utf-8")
    assert code == assembled.module(architecture)


def test_ufuncs_of_a_module_that_is_imported_in_the_window_are_seen(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import numpy as np\nlate = np.frompyfunc(abs, 1, 1)\n"
    (tmp_path / "opprof_late.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with watch.ops():
        import opprof_late as module  # type: ignore[import-not-found]

        X.copy()  # a call after an import finds what it has brought
        module.late(X)
    assert watch.counts == {"Copy": 1, "ufunc.abs (vectorized)": 1}
    (remark,) = remarks_of(watch.profile)
    assert remark == "not seen: the first calls of ufuncs of opprof_late, first imported in the window"
    monkeypatch.delitem(sys.modules, "opprof_late")


def test_a_module_that_is_imported_in_the_window_without_a_call_after_it_is_said(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opprof_later.py").write_text("import numpy as np\nlate = np.frompyfunc(abs, 1, 1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with watch.ops():
        import opprof_later as module  # type: ignore[import-not-found]

        module.late(X)
    (remark,) = remarks_of(watch.profile)
    assert remark == "not seen: ufuncs of opprof_later, first imported in the window"
    monkeypatch.delitem(sys.modules, "opprof_later")


@pytest.mark.processes
def test_parts_of_numpy_that_are_first_used_in_a_window_are_seen_without_a_remark(tmp_path: Path) -> None:
    code = (
        "import numpy as np\n"
        "from pytest_opprof.frameworks.live.contract import Options\n"
        "from pytest_opprof.frameworks.numpy.live.backend import NumpyBackend\n"
        "with NumpyBackend().collect(Options()) as log:\n"
        "    np.fft.fft(np.ones(4)); np.linalg.inv(np.eye(2))\n"
        "profile = log.freeze()\n"
        "print(sorted(profile.raw_names), profile.remarks)\n"
    )
    (tmp_path / "program.py").write_text(code)
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("['numpy.eye', 'numpy.fft.fft', 'numpy.linalg.inv', 'numpy.ones'] ()")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("numba.core.registry", "CPUDispatcher"),
        ("numba.np.ufunc.dufunc", "DUFunc"),
        ("numba.np.ufunc.gufunc", "GUFunc"),
    ],
)
def test_a_function_that_numba_compiled_does_what_it_did_and_the_window_says_that_it_ran(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a class of the name that Numba's has; its calls take the same slot of the type."""

    class Compiled:
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if not args:
                raise ValueError("no argument")
            return args, kwargs

    stand_in = types.ModuleType(module)
    setattr(stand_in, name, Compiled)
    monkeypatch.setitem(sys.modules, module, stand_in)
    compiled, told = Compiled(), []
    for runs in (False, True):
        with NumpyBackend().collect(Options()) as log:
            X + 1
            if runs:
                assert compiled(X, out=3) == ((X,), {"out": 3})
                assert compiled(X) == ((X,), {})
                with pytest.raises(ValueError, match="no argument"):
                    compiled()
        told.append(remarks_of(log.freeze()))
        assert len(log) == 1
    assert told == [
        [],
        ["functions compiled by Numba ran: the ops inside are not seen, only their CPU time is compared"],
    ]
    assert compiled(X) == ((X,), {})
