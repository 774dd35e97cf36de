from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_opprof.backends import fake
from pytest_opprof.cli import main
from pytest_opprof.cli.selfcheck import checks, command, workloads
from pytest_opprof.cli.selfcheck.workloads import Clock, Sizes, Work
from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.nvidia.live import driver as cuda_driver
from pytest_opprof.frameworks.nvidia.live import nvml
from pytest_opprof.machine.load import Watch
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

from ..frameworks.nvidia.live.cuda_stand_in import Gpu
from ..frameworks.nvidia.live.test_backend import install

pytestmark = pytest.mark.usefixtures("beside_other_software")
CHECKS = ["counts", "one Cast more", "windows", "clock", "two runs", "overhead"]


class Device:
    """A device that is not there: what it does is told to the fake backend, or not."""

    def __init__(self) -> None:
        self.spent_ns = 0
        self.slower = 1.0
        self.clock = 1.0
        self.casts = 0
        self.loses: Callable[[int], bool] = lambda cast: False

    def launch(self, op: str, ns: float) -> None:
        self.spent_ns += round(ns)
        fake.launch(op, device_ns=round(ns))

    def cast(self, array: object) -> None:
        self.casts += 1
        if not self.loses(self.casts):
            self.launch("Cast", 1000)

    def ns(self, body: Callable[[], None]) -> int:
        before = self.spent_ns
        body()
        return round((self.spent_ns - before) * self.clock)


class Array:
    def __init__(self, device: Device, shape: tuple[int, ...]) -> None:
        self.device, self.shape = device, shape

    def __matmul__(self, other: Array) -> None:
        self.device.launch("MatMul", 100_000 * self.device.slower)

    def __add__(self, other: Array) -> None:
        self.device.launch("Add", 100)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    use(monkeypatch, work_of(device))
    monkeypatch.setattr(checks, "WINDOWS", 20)
    monkeypatch.setattr(checks, "SMALL_OPS", 5)
    return device


def work_of(device: Device, on_host: bool = False) -> Work:
    return Work(
        framework="fake",
        backend=fake.backend(),
        array=lambda shape: Array(device, shape),
        plain=lambda shape: Array(device, shape),
        cast=device.cast,
        copy=lambda array: device.launch("MemcpyDtoH", 500),
        copy_op="MemcpyDtoH",
        wait=lambda: None,
        clock=Clock("its clock", 0.01, device.ns),
        sizes=Sizes(100, 10, 1),
        on_host=on_host,
    )


def use(monkeypatch: pytest.MonkeyPatch, *works: Work) -> None:
    monkeypatch.setattr(command, "works", lambda device: iter(works))


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, str], str]]:
    """Return a function that runs the command: its exit code, the line of each check, and all it printed."""

    def run(*arguments: str) -> tuple[int, dict[str, str], str]:
        code = main.main(["selfcheck", *arguments])
        out, err = capsys.readouterr()
        lines = [line.strip() for line in out.splitlines() if line.startswith("  ")]
        return (
            code,
            {name: line for line in lines for name in [*CHECKS, "first window"] if f"  {name}  " in line},
            (out + err),
        )

    return run


Report = Callable[..., tuple[int, dict[str, str], str]]


def statuses(lines: dict[str, str]) -> dict[str, str]:
    return {name: line.partition("  ")[0] for name, line in lines.items()}


def test_on_a_device_that_does_as_it_is_told_all_holds(device: Device, report: Report) -> None:
    code, lines, text = report("--device", "cpu")
    assert code == 0
    assert statuses(lines) == {**dict.fromkeys(CHECKS, "ok"), "overhead": "figure"}
    assert text.splitlines()[:2] == ["opprof selfcheck on cpu, as asked", "fake 1, fake, async"]
    assert text.splitlines()[-1] == "opprof: 5 ok"
    assert lines["counts"].endswith("expected 5 Cast, 7 MatMul, 3 MemcpyDtoH; found 5 Cast, 7 MatMul, 3 MemcpyDtoH")
    assert lines["one Cast more"].endswith("; found Cast: 6 calls (budget: 5)")
    assert "found 100 us a MatMul, 100 us by its clock (+0.00%)" in lines["clock"]


def test_a_cast_that_is_lost_fails_what_counts_it(device: Device, report: Report) -> None:
    device.loses = lambda cast: cast % 5 == 0
    code, lines, text = report()
    assert code == 1
    assert {name for name, status in statuses(lines).items() if status == "FAILED"} == set(CHECKS[:3])
    assert "found 4 Cast, 7 MatMul, 3 MemcpyDtoH; Cast: 4 calls (budget: 5..5)" in lines["counts"]
    assert lines["one Cast more"].endswith("; found nothing")
    assert text.splitlines()[-1].endswith("FAILED")


def test_an_op_that_nobody_asked_for_fails_the_counts(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "cast", lambda array: [device.launch(op, 10) for op in ("Cast", "Softmax")])
    use(monkeypatch, work_of(device))
    code, lines, _ = report()
    assert (code, statuses(lines)["counts"]) == (1, "FAILED")
    assert "Softmax: 5 calls, but only MatMul, Cast, MemcpyDtoH may run" in lines["counts"]


def test_a_clock_that_disagrees_fails(device: Device, report: Report) -> None:
    device.clock = 1.02
    code, lines, _ = report()
    assert code == 1
    assert lines["clock"].startswith("FAILED")
    assert lines["clock"].endswith("expected times within 1%; found 100 us a MatMul, 102 us by its clock (-1.96%)")


def test_an_alarm_without_a_change_fails(device: Device, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    use_base_then(monkeypatch, device, 1.3)
    code, lines, _ = report()
    assert code == 1
    assert lines["two runs"].startswith("FAILED")
    assert "found slower (+29.6%)" in lines["two runs"]


def use_base_then(monkeypatch: pytest.MonkeyPatch, device: Device, slower: float) -> None:
    """Let the device change its speed once the runs to compare with were made."""
    judged = checks.Subject.judged

    def changed(subject: checks.Subject) -> TimingVerdict:
        _ = subject._base
        device.slower = slower
        return judged(subject)

    monkeypatch.setattr(checks.Subject, "judged", changed)


@pytest.mark.parametrize(("speeds", "status"), [([1, 0.7, 0.7, 0.7], "ok"), ([1, 0.7, 0.7, 0.5], "not decided")])
def test_runs_that_are_faster_are_compared_once_more_and_then_decide_nothing(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch, speeds: list[float], status: str
) -> None:
    judged, left = checks.Subject.judged, iter(speeds)

    def changed(subject: checks.Subject) -> TimingVerdict:
        device.slower = next(left, 0.7)
        _ = subject._base
        device.slower = next(left, 0.7)
        return judged(subject)

    monkeypatch.setattr(checks.Subject, "judged", changed)
    code, lines, _ = report()
    assert (code, statuses(lines)["two runs"]) == (0 if status == "ok" else 2, status)


def test_what_is_too_noisy_is_neither_a_pass_nor_a_failure(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        checks, "judge", lambda base, now, rule: TimingVerdict(Verdict.NOISY, "no process had clean rounds")
    )
    code, lines, text = report()
    assert code == 2
    assert lines["two runs"].startswith("not decided")
    assert lines["two runs"].endswith("found no verdict, too noisy: no process had clean rounds")
    assert text.splitlines()[-2:] == [
        "opprof: 4 ok, 1 not decided",
        "opprof: not all could be decided on this machine now; run opprof selfcheck again when it is quiet",
    ]


@pytest.mark.parametrize(("on_host", "clock", "excused"), [(True, 1.5, True), (True, 0.5, False), (False, 1.5, False)])
def test_others_on_the_machine_excuse_a_time_on_a_cpu_but_none_that_is_longer_inside_than_outside(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch, on_host: bool, clock: float, excused: bool
) -> None:
    fake.pretend(device="cpu" if on_host else "fake")
    use(monkeypatch, work_of(device, on_host))
    monkeypatch.setattr(Watch, "busy", lambda self: "other processes used 1.7 of 2 cores")
    device.clock = clock
    _, lines, _ = report()
    assert lines["clock"].startswith("not decided" if excused else "FAILED")
    assert lines["clock"].endswith("; other processes used 1.7 of 2 cores") is excused


def test_times_of_the_host_are_none_of_a_gpu(device: Device, report: Report) -> None:
    fake.pretend(device="cpu")
    code, lines, _ = report()
    assert code == 1
    assert "found times of the host, none of a GPU" in lines["clock"]


def test_a_check_that_breaks_has_failed_and_the_others_go_on(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(subject: object) -> None:
        raise BackendError("CUPTI dropped 7 records")

    def full(subject: object) -> None:
        raise MemoryError("no memory is left")

    monkeypatch.setattr(command, "CHECKS", {**checks.CHECKS, "counts": lost, "windows": full})
    code, lines, _ = report()
    assert code == 1
    assert lines["counts"].endswith("found CUPTI dropped 7 records")
    assert lines["windows"].endswith("found MemoryError: no memory is left")
    assert statuses(lines)["two runs"] == "ok"


def test_work_that_cannot_begin_has_failed_and_other_work_goes_on(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = iter([work_of(Device()), work_of(device)])
    monkeypatch.setattr(command, "works", lambda device: works)
    subject = command.Subject

    def once(work: Work) -> checks.Subject:
        monkeypatch.setattr(command, "Subject", subject)
        raise BackendError("the profiler does not start")

    monkeypatch.setattr(command, "Subject", once)
    code, lines, _ = report()
    assert code == 1
    assert lines["first window"].endswith("found the profiler does not start")
    assert statuses(lines)["counts"] == "ok"


def test_json_says_the_same(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    device.clock = 1.02
    assert main.main(["selfcheck", "--device", "cpu", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["device"]) == (1, "cpu")
    assert [check["check"] for check in document["checks"]] == CHECKS
    assert [check["status"] for check in document["checks"]] == [*["ok"] * 3, "FAILED", "ok", "figure"]
    assert document["checks"][3]["figures"] == {"own_ns": 100_000, "outside_ns": 102_000}


def test_ctrl_c_is_one_line(device: Device, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(subject: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "CHECKS", {"counts": interrupted})
    code, _, text = report("--device", "cpu")
    assert (code, text) == (130, "opprof selfcheck on cpu, as asked\nopprof: interrupted\n")


# What is missing.


class Driver:
    def __init__(self, problem: str | None) -> None:
        self.problem = lambda: problem


NO_GPU = "the NVIDIA driver finds no GPU. Check nvidia-smi and CUDA_VISIBLE_DEVICES"
NO_DRIVER = "there is no NVIDIA driver (libcuda.so.1) on this machine"


@pytest.mark.parametrize(("driver", "problem"), [(None, NO_DRIVER), (Driver(NO_GPU), NO_GPU)])
def test_without_a_gpu_cuda_cannot_be_checked_and_the_cpu_is(
    device: Device, report: Report, monkeypatch: pytest.MonkeyPatch, driver: Driver | None, problem: str
) -> None:
    monkeypatch.setattr(cuda_driver, "opened", lambda: driver)
    _, _, text = report()
    assert text.splitlines()[0] == f"opprof selfcheck on cpu, no GPU to use: {problem}"
    monkeypatch.setattr(command, "works", workloads.works)
    assert report("--device", "cuda") == (2, {}, f"opprof: selfcheck cannot run on cuda: {problem}\n")


def test_with_a_gpu_it_is_what_is_checked(device: Device, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "opened", lambda: Driver(None))
    _, _, text = report()
    assert text.splitlines()[0] == "opprof selfcheck on cuda, there is a GPU"


def test_with_a_gpu_and_nothing_that_uses_it_the_message_says_what_to_install(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_driver, "opened", lambda: Driver(None))
    monkeypatch.setattr(workloads, "find_spec", lambda name: None)
    assert report() == (
        2,
        {},
        "opprof: selfcheck cannot run on cuda: neither CuPy nor a PyTorch with CUDA is installed: pip install"
        ' "pytest-opprof[cupy]" (CUDA 13) or "pytest-opprof[cupy-cuda12]" (CUDA 12). Without the GPU: --device cpu\n',
    )


def test_a_framework_that_does_not_import_is_one_line(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "opened", lambda: Driver(None))
    monkeypatch.setattr(workloads, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "cupy", None)
    code, _, text = report("--device", "cuda")
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith("opprof: selfcheck cannot run on cuda: cupy is installed and cannot be imported: ")


def test_a_libcupti_that_is_missing_is_said(
    gpu_with_cupy: Gpu, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_with_cupy.version = 12
    gpu_with_cupy.driver_version = 10020
    code, _, text = report("--device", "cuda")
    assert code == 2
    assert "selfcheck cannot run on cuda: libcupti.stand-in is of CUDA 11, the driver supports 10.2" in text


# On the CPU, for real.


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "WINDOWS", 20)
    monkeypatch.setattr(checks, "SMALL_PAIRS", 1)
    monkeypatch.setattr(checks, "ROUNDS", 11)


@pytest.mark.parametrize(
    "make", [workloads.of_numpy, pytest.param(lambda: workloads.of_torch("cpu"), marks=pytest.mark.torch)]
)
def test_on_this_cpu_counts_are_exact_and_every_check_gives_an_answer(
    make: Callable[[], Work], report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch)
    use(monkeypatch, replace(make(), sizes=Sizes(64, 2**12, 8)))
    _, lines, _ = report("--device", "cpu")
    found = statuses(lines)
    assert [found[name] for name in ("counts", "one Cast more", "windows")] == ["ok"] * 3
    assert list(found) == CHECKS
    assert "to be measured" not in "".join(lines.values())


@pytest.mark.torch
def test_torch_that_cannot_use_a_gpu_has_failed_on_one(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.ones", lambda *args, **kwargs: (_ for _ in ()).throw(RuntimeError("no kernel image")))
    use(monkeypatch, workloads.of_torch("cuda"))
    code, lines, _ = report("--device", "cuda")
    assert code == 1
    assert lines["first window"].endswith("expected to be measured; found RuntimeError: no kernel image")


def test_every_device_can_be_asked_for(device: Device, report: Report) -> None:
    for name in workloads.DEVICES:
        assert report("--device", name)[0] == 0


def test_the_cpu_is_numpy_and_torch_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "find_spec", lambda name: None)
    assert [work.framework for work in workloads.works("cpu")] == ["numpy"]
    monkeypatch.setattr(workloads, "find_spec", lambda name: name)
    monkeypatch.setattr(workloads, "of_torch", lambda device: SimpleNamespace(framework=f"torch on {device}"))
    assert [work.framework for work in workloads.works("cpu")] == ["numpy", "torch on cpu"]


@pytest.mark.parametrize(
    ("installed", "cuda", "frameworks"),
    [
        ({"cupy"}, None, ["cupy"]),
        ({"torch"}, "13.0", ["torch on cuda"]),
        ({"cupy", "torch"}, "13.0", ["cupy", "torch on cuda"]),
        ({"cupy", "torch"}, None, ["cupy"]),
    ],
)
def test_a_gpu_is_checked_with_all_that_is_installed_and_cupy_before_torch_is_imported(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], cuda: str | None, frameworks: list[str]
) -> None:
    imported: list[str] = []

    def framework(name: str) -> object:
        imported.append(name)
        return SimpleNamespace(version=SimpleNamespace(cuda=cuda))

    def work(name: str) -> object:
        return SimpleNamespace(framework=name, backend=SimpleNamespace(unavailable=lambda: None))

    monkeypatch.setattr(cuda_driver, "opened", lambda: Driver(None))
    monkeypatch.setattr(workloads, "find_spec", lambda name: name if name in installed else None)
    monkeypatch.setattr(workloads, "_imported", framework)
    monkeypatch.setattr(workloads, "of_cupy", lambda: work("cupy"))
    monkeypatch.setattr(workloads, "of_torch", lambda device: work(f"torch on {device}"))
    found = []
    for each in workloads.works("cuda"):
        found.append(each.framework)
        assert each.framework != "cupy" or imported == []
    assert found == frameworks


# CuPy, on the stand-in for a GPU: what calls it and reads the records is what ships, what it calls is no GPU.


class CupyArray:
    def __init__(self, gpu: Gpu, shape: tuple[int, ...]) -> None:
        self.gpu, self.shape = gpu, shape

    def __matmul__(self, other: CupyArray) -> None:
        self.gpu.launch("nvjet_sss_128x128_64x3_2x1_v_bz_NNT", self.shape[1] * 1000)
        self.gpu.launch("void cublasLt::splitKreduce_kernel<32, 16, int, float>(float const*)", 4000)

    def __add__(self, other: CupyArray) -> None:
        self.gpu.launch("cupy_add__float32_float32_float32", 2000, "cuLaunchKernel")

    def astype(self, dtype: object) -> None:
        self.gpu.launch("cupy_copy__float32_float64", 3000, "cuLaunchKernel")

    def get(self) -> None:
        self.gpu.copy(2, 4 * self.shape[0])
        self.gpu.call("cudaStreamSynchronize_v3020")


class CupyEvent:
    """Knows how many calls there were before it."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def record(self) -> None:
        self.at = self._gpu._correlation

    def synchronize(self) -> None:
        self._gpu.call("cudaEventSynchronize_v3020")


@pytest.fixture
def gpu_with_cupy(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    few(monkeypatch)
    gpu = Gpu()
    install(monkeypatch, gpu)
    monkeypatch.setattr(workloads, "find_spec", lambda name: name if name == "cupy" else None)
    cupy: Any = ModuleType("cupy")
    cupy.__version__, cupy.__spec__ = "14.2.0", ModuleSpec("cupy", None)
    cupy.float32, cupy.float64 = "float32", "float64"
    cupy.ones = lambda shape, dtype: CupyArray(gpu, shape)
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(deviceSynchronize=lambda: gpu.call("cudaDeviceSynchronize_v3020")),
        Event=lambda: CupyEvent(gpu),
        # Each product is two launches, and takes 4.1 ms.
        get_elapsed_time=lambda begin, end: (end.at - begin.at) / 2 * 4.1,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return gpu


def test_cupy_on_the_stand_in_holds(gpu_with_cupy: Gpu, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    code, lines, text = report()
    assert text.splitlines()[:2] == [
        "opprof selfcheck on cuda, there is a GPU",
        "cuda 13.0 + cupy 14.2.0, Stand-in GPU 0, async",
    ]
    assert statuses(lines) == {**dict.fromkeys(CHECKS, "ok"), "overhead": "figure"}
    assert lines["counts"].endswith("; found 5 Cast, 7 MatMul, 3 MemcpyDtoH, 3 Synchronize, 7 splitKreduce_kernel")
    assert "found 4.1 ms a MatMul, 4.1 ms by CUDA's events (+0.00%)" in lines["clock"]
    assert code == 0


def test_that_nobody_watches_the_gpu_is_said_where_the_counts_are(
    gpu_with_cupy: Gpu, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "unwatched", lambda: "throttling is not watched")
    code, lines, text = report()
    assert lines["counts"].endswith("; throttling is not watched")
    assert text.count("not watched") == 1
    assert code == 0


def test_a_kernel_that_cupti_loses_fails_all_that_needs_it(gpu_with_cupy: Gpu, report: Report) -> None:
    gpu_with_cupy.loses.add("cupy_copy__float32_float64")
    code, lines, _ = report()
    assert code == 1
    assert "CUPTI lost 1 of 3 kernels" in lines["first window"]
