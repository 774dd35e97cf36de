"""The conformance tests: who keeps the contract passes them, and each way to break it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from pytest_opprof import testing
from pytest_opprof.backends import KnownWork, fake
from pytest_opprof.cli import main
from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.frameworks.live import registry
from pytest_opprof.frameworks.nvidia.live.backend import CudaBackend
from pytest_opprof.ops import names
from pytest_opprof.testing import check_backend, promises

from .frameworks import toy_backend, toy_framework
from .frameworks.nvidia.live.cuda_stand_in import Gpu
from .frameworks.nvidia.live.test_backend import CAST, install
from .frameworks.toy_backend import ToyBackend

NO_PROFILER = [f"another profiler {where}: the work names no other profiler" for where in ("around", "inside")]
NO_THREADS = "threads inside: the work says that other threads are not recorded"
NO_FIRST_USE = "first use inside the window: the work names no first use"


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    names.learn("toy", ToyBackend.vocabulary)
    yield
    names.learn("toy", {})
    toy_framework.listener = None
    toy_framework.pending.clear()


def checked(name: str) -> list[str]:
    backend = registry.load(name)
    work = backend.selfcheck_work()
    assert work is not None
    return check_backend(backend, work)


@pytest.mark.processes
def test_an_asynchronous_backend_of_a_third_party_passes_all() -> None:
    backend = ToyBackend()
    assert check_backend(backend, backend.selfcheck_work()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "found"),
    [
        (toy_backend.NeverSettles, {"counts": "expected 2 Cast, 1 Relu; found nothing"}),
        (toy_backend.HasAnotherClock, {"moments": "on toy 1 thread "}),
        (toy_backend.SettlesInMarks, {"steps": "settle() has to wait until they are done"}),
        (toy_backend.AddsOne, {"counts": "found 2 Cast, 1 Copy, 1 Relu", "empty window": "nothing; found 1 Copy"}),
        (toy_backend.LosesOne, {"many windows": "of 20: expected"}),
        (toy_backend.Swallows, {"exception in the body": "swallows the _MineError of a body"}),
        (toy_backend.StaysOn, {"exception in the body": "a profiler of the toy framework is running already"}),
        (
            toy_backend.IgnoresOthers,
            dict.fromkeys(["another profiler around", "another profiler inside"], "found nothing"),
        ),
        (toy_backend.SeesOneThread, dict.fromkeys(["window in a thread", "threads inside"], "found nothing")),
        (toy_backend.CountsMarks, {"steps": "found 18+0+0+0 Cast", "nested windows": "in the inner window, expected"}),
        (toy_backend.Steals, {"two collections at once": "expected 2 Cast, 1 Relu; found nothing"}),
        (toy_backend.CannotLimit, {"limited threads": "failed: AttributeError: no set_threads (toy_backend.py:"}),
        (toy_backend.NeverInUse, {"first use inside the window": "in_use() is still false after 'import tests."}),
        (toy_backend.AlwaysInUse, {"first use inside the window": "in_use() is true before"}),
    ],
)
@pytest.mark.processes
def test_each_broken_promise_is_found(
    backend: type[ToyBackend], found: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "WINDOWS", 20)
    work = ToyBackend().selfcheck_work()
    if "first use inside the window" not in found:
        work = replace(work, first_use="")  # it takes half a second
    broken = {each.name: each.broken for each in promises(backend(), work) if each.broken}
    assert {name: said in broken[name] for name, said in found.items()} == dict.fromkeys(found, True)


def test_a_backend_need_not_say_when_ops_ran() -> None:
    work = replace(ToyBackend().selfcheck_work(), first_use="")
    left_out = check_backend(toy_backend.SaysNoMoments(), work)
    assert "moments: its log does not say when ops ran (EventLog.ran)" in left_out


def test_work_that_is_dropped_before_it_is_done_is_not_in_the_next_window() -> None:
    class LosesTheEnd(ToyBackend):
        """Sees two ops a window, however many there were."""

        def sees(self, thread: int) -> bool:
            self.seen = getattr(self, "seen", 0) + 1
            return self.seen % 5 != 0

    broken = [each.name for each in promises(LosesTheEnd(), ToyBackend().selfcheck_work()) if each.broken]
    assert "dropped results" in broken


def test_the_first_broken_promise_is_the_error() -> None:
    expected = (
        r"^backend 'toy' breaks its contract \(docs/backends.md\), exception in the body:"
        r" collect\(\) swallows the _MineError of a body$"
    )
    with pytest.raises(BackendError, match=expected):
        check_backend(toy_backend.Swallows(), ToyBackend().selfcheck_work())


def test_work_that_is_not_as_it_says_is_the_error_as_well() -> None:
    work = ToyBackend().selfcheck_work()
    with pytest.raises(BackendError, match=r"counts: expected 3 Cast; found 2 Cast, 1 Relu"):
        check_backend(ToyBackend(), replace(work, ops={"Cast": 3}))
    for ops in ({}, {"Cast": 0}):
        with pytest.raises(UsageError, match="name at least one op, and how often one run shows it"):
            check_backend(ToyBackend(), replace(work, ops=ops))


def test_a_backend_that_cannot_run_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyBackend, "unavailable", lambda self: "toy is not installed")
    with pytest.raises(BackendError, match=r"^backend 'toy' cannot run here: toy is not installed$"):
        check_backend(ToyBackend(), ToyBackend().selfcheck_work())


def test_a_class_that_no_other_process_can_import_leaves_the_first_use_out() -> None:
    class Local(ToyBackend):
        """Of this function."""

    (left_out,) = check_backend(Local(), ToyBackend().selfcheck_work())
    assert left_out.startswith(f"first use inside the window: no other process can import {__name__}.test_a_class")


@pytest.mark.processes
def test_a_first_use_that_ends_the_process_is_said() -> None:
    work = replace(ToyBackend().selfcheck_work(), first_use="import os; os._exit(3)")
    with pytest.raises(BackendError, match=r"first use inside the window: its process ended"):
        check_backend(ToyBackend(), work)


def test_the_fake_device_passes() -> None:
    assert checked("fake") == [*NO_PROFILER, NO_THREADS, NO_FIRST_USE]


def test_numpy_passes() -> None:
    assert checked("numpy") == [*NO_PROFILER, NO_FIRST_USE]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
def test_torch_passes() -> None:
    assert checked("torch") == []


@pytest.mark.usefixtures("beside_other_software")
def test_cuda_passes_on_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    backend: CudaBackend = install(monkeypatch, gpu)

    def run() -> None:
        gpu.launch(CAST, 700, "cuLaunchKernel", late_ns=10_000_000)
        gpu.launch("cupy_add__float32_float32_float32", 2000, "cuLaunchKernel")

    work = KnownWork(run, {"Cast": 1, "Add": 1}, in_threads=False)
    assert check_backend(backend, work) == [*NO_PROFILER, NO_THREADS, NO_FIRST_USE]


# opprof selfcheck --backend


Command = Callable[[str], tuple[int, list[str]]]


@pytest.fixture
def selfcheck(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Return a function that checks a backend of `toy_backend` by the command: the exit code and the lines."""

    def run(factory: str) -> tuple[int, list[str]]:
        point = EntryPoint("toy", f"{toy_backend.__name__}:{factory}", registry.GROUP)
        monkeypatch.setattr(registry, "entry_points", lambda group: [point])
        registry._of_third_parties.cache_clear()
        code = main.main(["selfcheck", "--backend", "toy"])
        out, err = capsys.readouterr()
        return code, [*out.splitlines(), *err.splitlines()]

    yield run
    registry._of_third_parties.cache_clear()


@pytest.mark.slow
@pytest.mark.processes
def test_the_command_says_of_each_promise_whether_it_is_kept(selfcheck: Command) -> None:
    code, lines = selfcheck("ToyBackend")
    assert (code, lines[0], lines[-1]) == (0, "opprof selfcheck of backend toy", "opprof: 15 ok")
    assert lines[1] == "  ok           counts"
    code, lines = selfcheck("SeesOneThread")
    assert (code, lines[-1]) == (1, "opprof: 13 ok, 2 FAILED")
    assert "  FAILED       threads inside               expected 40 Cast, 20 Relu; found nothing" in lines


def test_the_command_says_what_is_left_out_and_where_there_is_no_work(
    selfcheck: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["selfcheck", "--backend", "fake"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  left out     another profiler around      the work names no other profiler" in lines
    assert lines[-1] == "opprof: 11 ok, 4 left out"
    monkeypatch.setattr(ToyBackend, "selfcheck_work", lambda self: None)
    code, lines = selfcheck("ToyBackend")
    assert (code, lines) == (
        2,
        ["opprof: backend 'toy' brings no work to check it with: its selfcheck_work() is to return a KnownWork"],
    )
    assert main.main(["selfcheck", "--backend", "tory"]) == 2
    assert "no backend 'tory': did you mean 'toy'?" in capsys.readouterr().err


def test_fake_work_is_what_it_says() -> None:
    assert fake.backend().selfcheck_work().ops == {"MatMul": 1, "Cast": 1}
