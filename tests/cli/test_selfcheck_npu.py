"""``opprof selfcheck --device npu`` on stand-ins for CANN and for frameworks: what reads the records is what ships."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.cli import main
from pytest_opprof.cli.selfcheck import checks, workloads
from pytest_opprof.frameworks.ascend.live import session
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver

from ..frameworks.ascend.live.ascend_stand_in import Npu, TorchNpu, compiled, forget, install, mindspore

CHECKS = ["counts", "one Cast more", "windows", "clock", "two runs", "overhead"]


class Array:
    def __init__(self, npu: Counting, shape: tuple[int, ...]) -> None:
        self.npu, self.shape = npu, shape

    def __matmul__(self, other: Array) -> None:
        self.npu.launch("TransData", 5000)
        self.npu.launch("MatMulV3", self.shape[1] * 1000, kind="KERNEL_AICORE")

    def __add__(self, other: Array) -> None:
        self.npu.launch("Add", 2000)

    def to(self, dtype: object) -> None:
        self.npu.casts += 1
        if not self.npu.loses(self.npu.casts):
            self.npu.launch("Cast", 3000)

    astype = to

    def tanh(self) -> None:
        self.npu.launch("Tanh", 3000)

    def cpu(self) -> None:
        self.npu.npu.copy(3, 4 * self.shape[0])


class Counting:
    """The program, which knows how long its kernels took, as the events of an NPU do."""

    def __init__(self, npu: Npu) -> None:
        self.npu, self.spent_ns, self.casts = npu, 0, 0
        self.loses: Callable[[int], bool] = lambda cast: False

    def launch(self, op: str, ns: int, **how: str) -> None:
        self.spent_ns += ns
        self.npu.launch(op, ns, **how)  # type: ignore[arg-type]

    def event(self, enable_timing: bool) -> Any:
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, program: Counting) -> None:
        self._program = program

    def record(self) -> None:
        self.ns = self._program.spent_ns

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return (end.ns - self.ns) / 1e6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cann")
    compiled(folder)
    return folder


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> Counting:
    npu, backend = install(monkeypatch, folder, tmp_path / "home")
    npu.lag = 1
    monkeypatch.delitem(sys.modules, "acl")
    monkeypatch.setattr(workloads, "load", lambda name: {"ascend": backend}[name])
    monkeypatch.setattr(cuda_driver, "opened", lambda: None)
    monkeypatch.setattr(checks, "WINDOWS", 20)
    monkeypatch.setattr(checks, "SMALL_OPS", 5)
    monkeypatch.setattr(session, "PATIENCE_S", 0.1)
    return Counting(npu)


@pytest.fixture
def torch(program: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = TorchNpu()
    torch.float32, torch.float16 = "float32", "float16"
    torch.ones = lambda shape, dtype, device: {"npu": Array(program, shape)}[device]
    torch.npu.Event = program.event
    offered(monkeypatch, torch=torch, torch_npu=torch)


def offered(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Let these be the frameworks that are installed."""
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(workloads, "find_spec", lambda name: ModuleSpec(name, None) if name in modules else None)
    monkeypatch.setattr(workloads, "_imported", modules.__getitem__)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str], str]:
    code = main.main(["selfcheck", *arguments])
    out, err = capsys.readouterr()
    forget()
    lines = {name: line.strip() for line in out.splitlines() for name in CHECKS if f"  {name}  " in line}
    return code, lines, out + err


def test_every_check_holds_on_torch_npu_and_the_npu_is_chosen(torch: None, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, text = run(capsys)
    assert text.splitlines()[:2] == [
        "opprof selfcheck on npu, there is an NPU",
        "cann 8.5.0 + torch 2.14.0 + torch_npu 2.14.0+cpu, Ascend910B2, async",
    ]
    assert {name: line.split()[0] for name, line in lines.items()} == {
        **dict.fromkeys(CHECKS, "ok"),
        "overhead": "figure",
    }
    assert code == 0
    assert "expected 5 Cast, 7 MatMul, 3 Tanh; found 5 Cast, 7 MatMul, 3 Tanh, 7 TransData" in lines["counts"]
    assert "by the NPU's events (+0.00%)" in lines["clock"]


def test_where_libmspti_is_preloaded_copies_are_checked(
    program: Counting, torch: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program.npu.preloaded = 1
    monkeypatch.setenv("LD_PRELOAD", "/usr/local/Ascend/lib64/libmspti.so")
    code, lines, _ = run(capsys, "--device", "npu")
    assert code == 0
    assert "found 5 Cast, 7 MatMul, 3 MemcpyDtoH, 7 TransData" in lines["counts"]


def test_every_check_holds_on_mindspore(
    program: Counting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = mindspore()
    module.float32, module.float16, module.PYNATIVE_MODE = "float32", "float16", 1
    module.set_context = lambda mode: None
    module.ops = type("ops", (), {"ones": staticmethod(lambda shape, dtype: Array(program, shape))})
    module.runtime.Event = program.event
    offered(monkeypatch, mindspore=module)
    code, lines, text = run(capsys, "--device", "npu")
    assert code == 0, text
    assert list(lines) == CHECKS
    assert "cann 8.5.0 + mindspore 2.10.0, Ascend910B2, async" in text


def test_a_cast_that_is_not_launched_fails_what_counts_it(
    program: Counting, torch: None, capsys: pytest.CaptureFixture[str]
) -> None:
    program.loses = lambda cast: cast % 5 == 0
    code, lines, _ = run(capsys, "--device", "npu")
    assert code == 1
    assert {name for name, line in lines.items() if line.startswith("FAILED")} == set(CHECKS[:3])


def test_a_record_that_mspti_drops_fails_with_the_reason(
    program: Counting, torch: None, capsys: pytest.CaptureFixture[str]
) -> None:
    program.npu.drop_every = 9
    code, _, text = run(capsys, "--device", "npu")
    assert code == 1
    assert "MSPTI lost 1 of" in text or "MSPTI recorded" in text


def test_without_a_framework_or_an_npu_the_message_says_what_is_missing(
    program: Counting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offered(monkeypatch)
    assert run(capsys, "--device", "npu") == (
        2,
        {},
        "opprof: selfcheck cannot run on npu: neither torch_npu nor a MindSpore for Ascend is installed; see"
        " https://www.hiascend.com\n",
    )
    offered(monkeypatch, mindspore=mindspore("CPU"))
    assert run(capsys, "--device", "npu")[0] == 2
    program.npu.devices = 0
    workloads.ascend._BACKEND._problem.clear()
    code, _, text = run(capsys, "--device", "npu")
    assert (code, "CANN finds no NPU; check npu-smi info" in text) == (2, True)
