"""Which libcupti a process is to use."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver
from pytest_opprof.frameworks.nvidia.live import libcupti

from .cuda_stand_in import Gpu


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("cuda_cupti/lib/libcupti.so.12", "cu13/lib/libcupti.so.13"):
        path = tmp_path / "nvidia" / name
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    return tmp_path / "nvidia"


def test_a_library_that_is_loaded_comes_first_then_the_wheel_of_the_cuda_in_use(wheels: Path) -> None:
    loaded = ["/opt/libcupti.so.12", "/opt/libcudart.so.12.9.79"]
    found = list(libcupti.candidates(loaded, {}))
    assert [path.removeprefix(str(wheels)) for path in found][:3] == [
        "/opt/libcupti.so.12",
        "/cuda_cupti/lib/libcupti.so.12",
        "/cu13/lib/libcupti.so.13",
    ]
    assert found[-1] == "libcupti.so"


@pytest.mark.parametrize(
    ("driver", "first"),
    [(None, "cu13/lib/libcupti.so.13"), (13, "cu13/lib/libcupti.so.13"), (12, "cuda_cupti/lib/libcupti.so.12")],
)
def test_of_wheels_alone_the_newest_comes_first_that_the_driver_supports(
    wheels: Path, driver: int | None, first: str
) -> None:
    found = list(libcupti.candidates([], {}, driver))
    assert found[0] == str(wheels / first)
    assert len([path for path in found if str(wheels) in path]) == 2


def test_the_driver_decides_which_library_is_opened(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(libcupti, "mapped", list)
    monkeypatch.setattr(cuda_driver, "opened", lambda: SimpleNamespace(version=lambda: (12, 4)))
    monkeypatch.setattr(ctypes, "CDLL", loaded.append)
    libcupti.opened.cache_clear()
    libcupti.opened()
    libcupti.opened.cache_clear()
    assert loaded == [str(wheels / "cuda_cupti/lib/libcupti.so.12")]


def test_the_version_of_what_is_loaded_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the stand-in."""
    gpu, loaded = Gpu(), ["/opt/libcudart.so.12"]
    monkeypatch.setattr(libcupti, "mapped", lambda: loaded)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: gpu)
    assert libcupti.loaded_version() is None
    loaded.append("/opt/libcupti.so.13")
    assert libcupti.loaded_version() == 130001
    gpu.fails["cuptiGetVersion"] = 999  # 13.5 without a driver
    assert libcupti.loaded_version() is None


def test_the_toolkit_is_the_last_place_and_the_variable_the_only_one(tmp_path: Path) -> None:
    path = tmp_path / "extras/CUPTI/lib64/libcupti.so"
    path.parent.mkdir(parents=True)
    path.touch()
    assert str(path) in libcupti.candidates([], {"CUDA_HOME": str(tmp_path)})
    assert list(libcupti.candidates(["/opt/libcupti.so.12"], {"OPPROF_LIBCUPTI": "/mine"})) == ["/mine"]


def test_no_library_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPPROF_LIBCUPTI", "/no/such/libcupti.so")
    libcupti.opened.cache_clear()
    with pytest.raises(BackendError, match=r"found \(/no/such/libcupti.so: .*\. Install .*nvidia-cuda-cupti-cu12"):
        libcupti.opened()


def test_libraries_that_are_loaded_are_found_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = "7f0-7f1 r-xp 00000000 fd:01 5 /opt/cuda 12/libcudart.so.12\n7f1-7f2 r-xp 0 fd:01 5 /lib/libc.so.6\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: maps * 2)
    assert libcupti.mapped() == ["/opt/cuda 12/libcudart.so.12"]
    assert libcupti.cuda_major(libcupti.mapped()) == 12
    assert libcupti.cuda_major([]) is None


def test_nothing_is_known_to_be_loaded_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert libcupti.mapped() == []


@pytest.mark.processes
def test_the_real_library_loads_and_refuses_without_a_driver() -> None:
    paths = [path for path in libcupti.candidates([], {}) if "/nvidia/" in path]
    if not paths or cuda_driver.opened():
        pytest.skip("the wheel nvidia-cuda-cupti is not installed, or there is a driver")
    program = (
        "import ctypes, sys\nfrom pytest_opprof.frameworks.nvidia.live.cupti import Cupti\n"
        "library = Cupti(ctypes.CDLL(sys.argv[1]))\nprint(library.major(), library.function(5, 211))\nlibrary.enable()"
    )
    done = subprocess.run([sys.executable, "-c", program, paths[0]], capture_output=True, text=True, check=False)
    assert done.stdout in ("12 cudaLaunchKernel\n", "13 cudaLaunchKernel\n")
    assert "the NVIDIA driver is missing or too old" in done.stderr
