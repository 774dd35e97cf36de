"""Stand-ins for CANN and for what runs on it. They are no NPU: `Npu` writes down what it is told that one did."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_opprof.frameworks.ascend.live import backend as ascend_backend
from pytest_opprof.frameworks.ascend.live import libraries
from pytest_opprof.frameworks.ascend.live.backend import AscendBackend
from pytest_opprof.frameworks.ascend.live.users import USERS

HERE = Path(__file__).parent
HASH = "0123456789abcdef0123456789abcdef"
NAMES = (*libraries.KIN, "libnnopbase.so", "libopapi.so", "libmspti.so")
VARIABLES = ("PROFILER_SAMPLECONFIG", "PROFILING_MODE", "LD_PRELOAD", "ASCEND_LAUNCH_BLOCKING")


@cache
def compiled(folder: Path, source: str = "mspti_stand_in.c") -> Path:
    """Return the library made of a *source* in C. Skips the test where there is no compiler."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    library = folder / f"{source}.so"
    # Symbolic: libmspti is opened for all, and the library of an earlier test must not answer for that of a later one.
    options = ["-shared", "-fPIC", "-pthread", "-Wl,-Bsymbolic"]
    subprocess.run([compiler, *options, "-o", library, HERE / source, "-ldl"], check=True)
    return library


def binary(op: str, variant: str = HASH) -> str:
    """Return the name that CANN gives a kernel."""
    return f"{op}_{variant}_high_performance_210000000"


class Npu:
    """The library, and the program that uses it; a test sets what ``npu_...`` of the library is to have bad weather."""

    def __init__(self, home: Path, library: Path) -> None:
        self.home = home
        folder = home / "lib64"
        folder.mkdir(parents=True)
        # A copy: a library that is loaded already would be the same one, with its state.
        shutil.copy(library, folder / "libcann.so")
        for name in NAMES:
            (folder / name).symlink_to("libcann.so")
        self.library = ctypes.CDLL(str(folder / "libascendcl.so"))
        self.library.npu_capture.restype = ctypes.c_uint64
        self.texts: list[bytes] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("home", "library", "texts"):
            super().__setattr__(name, value)
        elif isinstance(value, str):
            self.texts.append(value.encode())  # the library keeps a pointer to it
            ctypes.c_char_p.in_dll(self.library, f"npu_{name}").value = self.texts[-1]
        else:
            ctypes.c_int.in_dll(self.library, f"npu_{name}").value = value

    def seen(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, f"npu_{name}").value

    def launch(
        self,
        op: str,
        ns: int = 1000,
        times: int = 1,
        stream: int = 3,
        kernels: int = 1,
        kind: str = "KERNEL_AIVEC",
        variant: str = HASH,
    ) -> None:
        """Launch the kernel of an op of CANN."""
        self.run(f"aclnn{op}_{op}AiCore_{op}", binary(op, variant), ns, times, stream, kernels, kind)

    def run(
        self,
        node: str,
        kernel: str,
        ns: int = 1000,
        times: int = 1,
        stream: int = 3,
        kernels: int = 1,
        kind: str = "KERNEL_AIVEC",
    ) -> None:
        for _ in range(times):
            self.library.npu_launch(node.encode(), kernel.encode(), kind.encode(), stream, ctypes.c_uint64(ns), kernels)

    def capture(self) -> int:
        """Capture a kernel in a graph: it gets a number, and runs later."""
        number: int = self.library.npu_capture()
        return number

    def replay(self, number: int, op: str, ns: int = 1000) -> None:
        self.library.npu_replay(ctypes.c_uint64(number), binary(op).encode(), ctypes.c_uint64(ns))

    def copy(self, kind: int, nbytes: int) -> None:
        self.library.npu_copy(kind, ctypes.c_uint64(nbytes))

    def set_memory(self, nbytes: int) -> None:
        self.library.npu_set(ctypes.c_uint64(nbytes))


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, home: Path) -> tuple[Npu, AscendBackend]:
    """Let an NPU be there, and ACL all that this process imported of what uses it."""
    npu = Npu(home, compiled(folder))
    monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for user in USERS:
        monkeypatch.delitem(sys.modules, user, raising=False)
    monkeypatch.setitem(sys.modules, "acl", ModuleType("acl"))
    forget()
    backend = AscendBackend()
    monkeypatch.setattr(ascend_backend, "_BACKEND", backend)
    return npu, backend


def forget() -> None:
    """Forget the libraries that were opened: the next test has others."""
    libraries.opened.cache_clear()
    libraries.mspti.cache_clear()


class TorchNpu:
    """Shaped like ``torch`` with torch_npu, which launches from a queue: what is in it is launched by a wait."""

    def __init__(self) -> None:
        self.queue: list[Any] = []
        self.initialized = False
        self.fails = ""
        self.npu = SimpleNamespace(
            is_initialized=lambda: self.initialized, synchronize=self.synchronize, current_device=self.current_device
        )
        self.__version__ = "2.14.0+cpu"

    def current_device(self) -> int:
        self.initialized = True
        return 0

    def synchronize(self) -> None:
        if self.fails:
            raise RuntimeError(self.fails)
        while self.queue:
            self.queue.pop(0)()


def mindspore(target: str = "Ascend", blocking: bool = False) -> Any:
    """Return a module shaped like MindSpore 2.10."""
    module: Any = ModuleType("mindspore")
    context = {"device_target": target, "device_id": 0, "pynative_synchronize": blocking}
    module.__version__ = "2.10.0"
    module.get_context = context.__getitem__
    module.waits = []
    module.runtime = SimpleNamespace(synchronize=lambda: module.waits.append(1))
    module.hal = SimpleNamespace()
    return module
