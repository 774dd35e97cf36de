"""RunOptions that profile one run: ONNX Runtime has them in C since 1.25, and Python does not up to 1.32.

The real library profiles here. Only the binding is made up: two attributes that write what the C function writes.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from typing import Any

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.onnx.live import copies

from .. import onnx_models as models
from ..onnx_models import BATCH, CPU
from .test_backend import calls, measure, of_two_threads
from .test_sites import lines, measured

pytestmark = pytest.mark.onnxruntime
_VALUE = 16
"""Where an object of pybind11 has the address of what it stands for."""
_ENABLED, _PREFIX = 42, 48
"""Where a RunOptions of 1.25 to 1.32 has them: a bool, and a std::string of libstdc++ (address, size, room or text)."""
_ROOM = 16


def _address(options: Any) -> int:
    return ctypes.c_void_p.from_address(id(options) + _VALUE).value or 0


def _text(address: int) -> bytes:
    start, size = (ctypes.c_size_t.from_address(address + at).value for at in (0, 8))
    return ctypes.string_at(start, size) if size < 1000 else b""


def _write(address: int, text: bytes) -> None:
    """Write a std::string. Its text is allocated as the library frees it."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    start = libc.malloc(max(len(text) + 1, _ROOM))
    ctypes.memmove(start, text + b"\0", len(text) + 1)
    before = ctypes.c_size_t.from_address(address).value
    if before != address + 16:
        libc.free(ctypes.c_void_p(before))
    for at, value in ((0, start), (8, len(text)), (16, max(len(text), _ROOM - 1))):
        ctypes.c_size_t.from_address(address + at).value = value


@pytest.fixture
def ort(monkeypatch: pytest.MonkeyPatch) -> Any:
    import onnxruntime

    if hasattr(onnxruntime.RunOptions, "enable_profiling"):
        pytest.fail("this version has the binding: test that instead of one that is made up")
    options = onnxruntime.RunOptions()
    if platform.system() != "Linux" or _text(_address(options) + _PREFIX) != b"onnxruntime_run_profile":
        pytest.skip("RunOptions of this version cannot profile, or look otherwise in memory")

    def enable(options: Any, value: bool) -> None:
        ctypes.c_bool.from_address(_address(options) + _ENABLED).value = value

    def name(options: Any, value: str) -> None:
        _write(_address(options) + _PREFIX, value.encode())

    monkeypatch.setattr(onnxruntime.RunOptions, "enable_profiling", property(None, enable), raising=False)
    monkeypatch.setattr(onnxruntime.RunOptions, "profile_file_prefix", property(None, name), raising=False)
    return onnxruntime


@pytest.fixture
def _no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_made", lambda *args: pytest.fail("a copy was made"))


@pytest.mark.usefixtures("_no_copies")
def test_each_run_is_profiled_without_a_copy(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), of_two_threads(ort), providers=CPU)
    plain = session.run(["y"], {"x": BATCH})[0]
    binding = session.io_binding()
    binding.bind_cpu_input("x", BATCH)
    binding.bind_output("y")
    found: list[Any] = []

    def body() -> None:
        for _ in range(20):  # several in a millisecond, by which ONNX Runtime names the files
            found.extend(session.run(["y"], {"x": BATCH}))
        threads = [threading.Thread(target=session.run, args=[["y"], {"x": BATCH}]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session.run_with_iobinding(binding)
        session.run_async(["y"], {"x": BATCH}, lambda results, given, error: found.extend(results), None)

    assert calls(measure(body)) == {"MatMul": 52, "Softmax": 26}
    assert [each.tobytes() for each in found] == [plain.tobytes()] * 21


@pytest.mark.usefixtures("_no_copies")
def test_a_run_that_fails_is_no_error_of_the_profiler(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)

    def body() -> None:
        with pytest.raises(Exception, match="x"):
            session.run(None, {"x": BATCH[:, :5]})
        session.run(None, {"x": BATCH})

    assert calls(measure(body)) == {"MatMul": 2, "Softmax": 1}


@pytest.mark.usefixtures("_no_copies")
def test_a_profile_that_was_not_written_is_an_error(ort: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort.RunOptions, "enable_profiling", property(None, lambda options, value: None))
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    with pytest.raises(
        BackendError, match=r"ONNX Runtime wrote 0 profiles of a run of the session of 'mlp' .*, not one"
    ):
        measure(lambda: session.run(None, {"x": BATCH}))


def test_a_run_with_options_of_the_program_runs_a_copy(ort: Any) -> None:
    options = ort.RunOptions()
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    assert calls(measure(lambda: session.run(None, {"x": BATCH}, options))) == {"MatMul": 2, "Softmax": 1}


@pytest.mark.usefixtures("_no_copies")
def test_a_run_has_the_line_that_called_it(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)

    def body() -> None:
        session.run(None, {"x": BATCH})
        for _ in range(2):
            session.run(None, {"x": BATCH})  # again

    found = lines(measured(body), "MatMul")
    first = body.__code__.co_firstlineno
    assert {name.rpartition(".")[2]: calls for name, calls in found.items()} == {
        f"body:{first + 1}": 2,
        f"body:{first + 3}": 4,
    }
