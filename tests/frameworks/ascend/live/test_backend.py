"""The ascend backend from what a program launches to budgets, on stand-ins: there is no NPU here."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pytest_opprof import testing
from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.frameworks.ascend.live import backend as ascend_backend
from pytest_opprof.frameworks.ascend.live import mspti, session
from pytest_opprof.frameworks.ascend.live.backend import AscendBackend
from pytest_opprof.frameworks.live.contract import KnownWork, Options
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.timeline.window import timeline_of

from ...measured import measured
from .ascend_stand_in import Npu, TorchNpu, binary, compiled, forget, install, mindspore

LATE = [0, 1, 3, 5, 15]
"""How many flushes a record comes late. With one delivery in 20 ms these are up to 300 ms."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cann")
    compiled(folder)
    return folder


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(session, "PAUSE_S", 0)
    monkeypatch.setattr(session, "PATIENCE_S", 0.3)
    yield
    forget()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> tuple[Npu, AscendBackend]:
    return install(monkeypatch, folder, tmp_path / "home")


@pytest.fixture
def npu(installed: tuple[Npu, AscendBackend]) -> Npu:
    return installed[0]


@pytest.fixture
def backend(installed: tuple[Npu, AscendBackend]) -> AscendBackend:
    return installed[1]


@pytest.fixture
def measure(backend: AscendBackend) -> Callable[..., OpProfile]:
    return partial(measured, backend)


def counts(profile: OpProfile) -> dict[str, tuple[int, ...]]:
    return {stats.op: stats.calls for stats in profile.ops}


Measure = Callable[..., OpProfile]


def test_kernels_are_counted_as_the_ops_before_the_hash_and_timed_by_the_npu(npu: Npu, measure: Measure) -> None:
    def body() -> None:
        npu.launch("MatMulV2", 5000, kind="KERNEL_AICORE")
        npu.launch("Cast", 700, times=2)
        npu.launch("Cast", 300, variant="f" * 32)
        npu.run("my_kernel", "my_kernel", 40)

    profile = measure(body)
    assert counts(profile) == {"MatMul": (1,), "Cast": (3,), "my_kernel": (1,)}
    assert profile.total.device_ns == (5000 + 2 * 700 + 300 + 40,)
    assert profile.busy_ns == (5000 + 2 * 700 + 300 + 40,)
    assert profile.stats("aclnnCast_CastAiCore_Cast").calls == (3,)
    assert profile.stats("aclnnMul_MulAiCore_Mul").calls == (0,)
    assert profile.environment.frameworks == (("cann", "8.5.0"),)
    assert str(profile.environment) == "cann 8.5.0, Ascend910B2, async"
    cast = binary("Cast", "f" * 32)
    assert {(row.kernel, row.op, row.device, row.streams, row.fastest_ns) for row in profile.kernels or ()} >= {
        (cast, "Cast", 0, (3,), 300)
    }


@pytest.mark.parametrize("late", LATE)
def test_no_kernel_is_lost_however_late_the_driver_delivers(npu: Npu, measure: Measure, late: int) -> None:
    npu.lag = late
    for _ in range(3):
        profile = measure(lambda: npu.launch("Cast", times=30), lambda: None, lambda: npu.launch("Add", times=7))
        assert counts(profile) == {"Cast": (30, 0, 0), "Add": (0, 0, 7)}


def test_a_process_that_was_not_let_run_has_not_waited(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a loaded machine, or after it slept, the time may be up before records were asked for a second time."""
    monkeypatch.setattr(session, "PATIENCE_S", 0)
    npu.lag = 5
    assert counts(measure(lambda: npu.launch("Cast", times=30))) == {"Cast": (30,)}


@pytest.mark.parametrize("late", LATE[1:])
def test_stopping_as_the_monitor_of_mspti_does_would_lose_all_of_it(
    npu: Npu, backend: AscendBackend, late: int
) -> None:
    """So the stand-in is not kinder than what was measured with the real library."""
    npu.lag = late
    subscription = backend._subscribed()
    subscription.keeps = True
    npu.launch("Cast", times=37)
    npu.library.msptiUnsubscribe(None)
    subscription.flush()
    npu.library.msptiActivityDisable(2)
    records = session.decode(subscription.taken())
    assert len(records[session.KERNEL]["name"]) == 0
    assert len(records[session.NODE_API]["name"]) == 37


def test_kernels_ran_on_their_streams_by_the_clock_of_the_npu(npu: Npu, measure: Measure) -> None:
    def body() -> None:
        npu.launch("MatMulV2", 5000)
        npu.launch("Cast", 700)

    whole, *spans = timeline_of(measure(body, body, options=Options(moments=True)), 1)
    assert [(str(span.lane), span.name, span.duration_ns) for span in spans] == [
        ("device 0 stream 3", f"MatMul ({binary('MatMulV2')})", 5000),
        ("device 0 stream 3", f"Cast ({binary('Cast')})", 700),
    ]
    assert whole.name == "round 2 of 2"
    assert whole.start_ns <= spans[0].start_ns < spans[0].end_ns <= spans[1].start_ns


def test_what_ran_before_a_window_or_between_rounds_is_in_none(
    npu: Npu, backend: AscendBackend, measure: Measure
) -> None:
    npu.lag = 5
    measure(lambda: None)
    npu.launch("Cast", times=9)
    recorder, window = Recorder([backend], Options(), explicit=True), Window("test")
    with recorder.open(window):
        npu.launch("Relu", times=5)
        with recorder.step(window):
            npu.launch("Cast")
        npu.launch("Add", times=2)
        with recorder.step(window):
            npu.launch("Cast", times=2)
        npu.launch("Mul")
    assert counts(window.profile) == {"Cast": (1, 2)}


def test_500_windows_have_one_subscription_and_bounded_memory(npu: Npu, backend: AscendBackend) -> None:
    npu.lag = 1
    for number in range(500):
        with backend.collect(Options()) as log:
            npu.launch("Cast", times=number % 7)
        assert len(log) == 2 * (number % 7)
    assert npu.seen("subscriptions") == 1
    assert len(backend._subscribed()._ready) <= 2


def test_many_kernels_fill_buffers_in_several_threads_and_all_are_there(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mspti, "BUFFER_BYTES", 4096)
    monkeypatch.setattr(mspti, "MOST_BUFFERS", 1000)

    def body() -> None:
        threads = [threading.Thread(target=npu.launch, args=["Cast"], kwargs={"times": 300}) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert counts(measure(body, body)) == {"Cast": (900, 900)}
    assert npu.seen("handed_over") > 30


def test_more_records_than_buffers_are_an_error_and_the_next_window_is_right(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mspti, "BUFFER_BYTES", 4096)
    monkeypatch.setattr(mspti, "MOST_BUFFERS", 2)
    with pytest.raises(BackendError, match=r"MSPTI dropped records: .* Measure less in one window"):
        measure(lambda: npu.launch("Cast", times=500))
    assert counts(measure(lambda: npu.launch("Cast", times=3))) == {"Cast": (3,)}


def test_a_kernel_without_a_record_is_an_error_that_names_its_launch(npu: Npu, measure: Measure) -> None:
    measure(lambda: None)
    npu.drop_every = 25
    with pytest.raises(BackendError, match=r"MSPTI lost 2 of 60 kernels: .* \(aclnnCast_CastAiCore_Cast\)\. A graph"):
        measure(lambda: npu.launch("Cast", times=60))
    npu.drop_every = 0
    assert counts(measure(lambda: npu.launch("Cast", times=60))) == {"Cast": (60,)}


def test_a_fence_without_a_record_is_an_error_in_bounded_time(npu: Npu, measure: Measure) -> None:
    npu.silent = 1
    with pytest.raises(BackendError, match=r"MSPTI recorded no fence within 0\.3 s\. .*LD_PRELOAD="):
        measure(lambda: None)
    npu.silent = 0
    measure(lambda: None)

    def vanishes() -> None:
        npu.silent = 1

    with pytest.raises(BackendError, match=r"MSPTI recorded 2 of 4 fences within"):
        measure(vanishes)


def test_kernels_of_a_graph_are_counted_where_they_are_replayed(npu: Npu, measure: Measure) -> None:
    graph = npu.capture()
    npu.lag = 3

    def replay() -> None:
        npu.replay(graph, "Cast")

    profile = measure(replay, lambda: npu.launch("Add"), lambda: [replay(), npu.launch("Add"), replay()])
    assert counts(profile) == {"Cast": (1, 0, 2), "Add": (0, 1, 1)}


def test_a_graph_that_is_captured_and_replayed_in_a_window_is_right_and_one_only_captured_is_an_error(
    npu: Npu, measure: Measure
) -> None:
    graphs: list[int] = []
    profile = measure(
        lambda: graphs.append(npu.capture()), lambda: [npu.replay(graphs[0], "Cast") for _ in range(7)], lambda: None
    )
    assert counts(profile) == {"Cast": (0, 7, 0)}
    with pytest.raises(BackendError, match="A graph that is captured inside a window looks the same"):
        measure(npu.capture)


def test_an_op_of_several_kernels_counts_each_and_only_the_last_is_under_its_launch(npu: Npu, measure: Measure) -> None:
    profile = measure(lambda: npu.launch("Add", kernels=3))
    assert counts(profile) == {"Add": (3,)}
    assert profile.stats("aclnnAdd_AddAiCore_Add").calls == (1,)


def test_before_26_the_launches_have_no_names_and_kernels_are_right(npu: Npu, measure: Measure) -> None:
    npu.before_26 = 1
    profile = measure(lambda: npu.launch("Cast", times=3))
    with pytest.raises(UsageError, match="unknown op 'aclnnCast_CastAiCore_Cast'"):  # else it would be 0
        profile.stats("aclnnCast_CastAiCore_Cast")
    assert (counts(profile), set(profile.raw_names)) == ({"Cast": (3,)}, {binary("Cast")})


def test_copies_cannot_be_measured_without_ld_preload_and_are_never_0(npu: Npu, measure: Measure) -> None:
    profile = measure(lambda: npu.copy(2, 64))
    for name in ("MemcpyHtoD", "MemcpyDtoH", "Memset", "Memcpy*"):
        with pytest.raises(UsageError, match=r"cannot be measured here: copies .* LD_PRELOAD=\$ASCEND_HOME_PATH"):
            profile.stats(name)
    assert profile.stats("Cast").calls == (0,)


def test_copies_and_sets_are_counted_where_libmspti_is_preloaded_and_have_no_times(npu: Npu, measure: Measure) -> None:
    npu.preloaded = 1

    def body() -> None:
        for kind in (1, 2, 3, 4, 5):
            npu.copy(kind, 10 * kind)
        npu.set_memory(128)
        npu.launch("Cast", 70)

    profile = measure(lambda: npu.copy(2, 5), body, lambda: None)
    once = (0, 1, 0)
    assert counts(profile) == {
        **dict.fromkeys(["MemcpyHtoH", "MemcpyDtoH", "MemcpyDtoD", "Memcpy", "Memset", "Cast"], once),
        "MemcpyHtoD": (1, 1, 0),
    }
    assert profile.stats("MemcpyHtoD").bytes == (5, 20, 0)
    assert (profile.stats("MemcpyHtoD").device_ns, profile.stats("Cast").device_ns) == (None, (0, 70, 0))


def test_where_calls_of_the_runtime_have_numbers_only_the_fences_tell(npu: Npu, measure: Measure) -> None:
    npu.preloaded = 1
    npu.capture()  # any call of the runtime takes a number there
    assert counts(measure(lambda: [npu.capture(), npu.launch("Cast")])) == {"Cast": (1,)}


def test_another_subscriber_is_an_error_that_says_who_it_may_be(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu.subscribed = 1
    monkeypatch.setitem(sys.modules, "mspti", ModuleType("mspti"))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    with pytest.raises(BackendError, match=r"another subscriber of MSPTI .* It may be a monitor of the mspti package;"):
        measure(lambda: None)


@pytest.mark.parametrize("variable", ["PROFILER_SAMPLECONFIG", "PROFILING_MODE"])
def test_under_msprof_nothing_is_recorded_and_that_is_said(
    backend: AscendBackend, measure: Measure, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "dynamic")
    assert f"msprof records this process ({variable} is set)" in str(backend.unavailable())
    with pytest.raises(BackendError, match="cannot record: msprof records this process"):
        measure(lambda: None)


def test_the_profilers_of_torch_npu_and_mindspore_are_named_around_and_inside_a_window(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    creator = SimpleNamespace(is_prof_inited=False)
    module = SimpleNamespace(ProfPathCreator=lambda: creator)
    monkeypatch.setitem(sys.modules, "torch_npu.profiler._profiler_path_creator", module)
    with pytest.raises(BackendError, match=r"lost this window: torch_npu\.profiler records in this process"):
        measure(lambda: setattr(creator, "is_prof_inited", True))
    with pytest.raises(BackendError, match=r"cannot record: torch_npu\.profiler records"):
        measure(lambda: None)
    creator.is_prof_inited = False
    interface = SimpleNamespace(ProfilerInterface=SimpleNamespace(is_initialized=True))
    monkeypatch.setitem(sys.modules, "mindspore.profiler.profiler_interface", interface)
    assert counts(measure(lambda: npu.launch("Cast"))) == {"Cast": (1,)}  # it records a CPU
    monkeypatch.setitem(sys.modules, "mindspore", mindspore())
    with pytest.raises(BackendError, match="cannot record: MindSpore's profiler records"):
        measure(lambda: None)


def test_what_torch_npu_has_queued_belongs_to_the_round_that_asked_for_it(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = TorchNpu()
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace(__version__="2.14.0"))  # type: ignore[arg-type]

    def asks() -> None:
        torch.queue += [lambda: npu.launch("Cast")] * 3

    profile = measure(asks, lambda: None, asks)
    assert counts(profile) == {"Cast": (3, 0, 3)}
    assert profile.environment.frameworks == (("cann", "8.5.0"), ("torch", "2.14.0"), ("torch_npu", "2.14.0"))
    torch.fails = "EZ9999: vector core exception"
    with pytest.raises(BackendError, match="work on the NPU failed after it was asked for: EZ9999"):
        measure(lambda: None)


def test_mindspore_is_waited_for_where_it_runs_on_an_npu(
    npu: Npu, backend: AscendBackend, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "acl")
    framework = mindspore("CPU")
    monkeypatch.setitem(sys.modules, "mindspore", framework)
    assert not backend.in_use()
    framework = mindspore()
    monkeypatch.setitem(sys.modules, "mindspore", framework)
    assert backend.in_use()
    profile = measure(lambda: npu.launch("Cast"))
    assert profile.environment.frameworks == (("cann", "8.5.0"), ("mindspore", "2.10.0"))
    assert framework.waits


def test_sync_timing_needs_launches_that_wait_and_kernels_that_do_not_overlap(
    npu: Npu, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = Options(timing="sync")
    profile = measure(lambda: npu.launch("Cast", 70, times=2), options=sync)
    assert (profile.stats("Cast").device_ns, profile.environment.timing) == ((140,), "sync")
    npu.overlaps = 1
    with pytest.raises(BackendError, match="and 1 kernel began before another had ended"):
        measure(lambda: npu.launch("Cast", 70, times=2), options=sync)
    assert measure(lambda: npu.launch("Cast", 70, times=2)).busy_ns == (71,)
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace(__version__="2.14.0"))  # type: ignore[arg-type]
    with pytest.raises(BackendError, match="run pytest --opprof-timing=sync, or set ASCEND_LAUNCH_BLOCKING=1"):
        measure(lambda: None, options=sync)
    monkeypatch.delitem(sys.modules, "torch_npu")
    monkeypatch.setitem(sys.modules, "mindspore", mindspore())
    with pytest.raises(BackendError, match=r"call mindspore\.runtime\.launch_blocking\(\) at the top"):
        measure(lambda: None, options=sync)
    by_context, by_runtime = mindspore(blocking=True), mindspore()
    settings = SimpleNamespace(is_launch_blocking=lambda: True)
    by_runtime._c_expression = SimpleNamespace(RuntimeConf=SimpleNamespace(get_instance=lambda: settings))
    npu.overlaps = 0
    for waits in (by_context, by_runtime):
        monkeypatch.setitem(sys.modules, "mindspore", waits)
        assert counts(measure(lambda: npu.launch("Cast"), options=sync)) == {"Cast": (1,)}


def test_kernels_of_another_npu_are_an_error(npu: Npu, measure: Measure) -> None:
    def elsewhere() -> None:
        npu.foreign_device = 1
        npu.launch("Cast")
        npu.foreign_device = 0

    elsewhere()  # before the window it is nobody's business
    measure(lambda: None)

    with pytest.raises(BackendError, match=r"kernels ran on NPU 7 too, .* of NPU 0 alone"):
        measure(elsewhere)


def test_an_npu_may_have_another_number_in_records_than_in_the_program(npu: Npu, measure: Measure) -> None:
    """As where ASCEND_RT_VISIBLE_DEVICES=5 makes number 5 the program's number 0."""
    npu.number = 5
    profile = measure(lambda: npu.launch("Cast", times=2))
    assert counts(profile) == {"Cast": (2,)}
    assert {row.device for row in profile.kernels or ()} == {5}


def test_a_fence_that_is_two_kernels_is_an_error(npu: Npu, measure: Measure) -> None:
    npu.fence_kernels = 2
    with pytest.raises(BackendError, match="the fence, launched 4 times, was recorded as 8 kernels"):
        measure(lambda: None)


def test_work_that_fails_is_said(npu: Npu, measure: Measure) -> None:
    npu.fails_synchronize = 507011
    with pytest.raises(BackendError, match="CANN reports error 507011 from aclrtSynchronizeDevice"):
        measure(lambda: None)


def test_an_exception_in_the_body_ends_the_window_and_the_next_is_right(npu: Npu, backend: AscendBackend) -> None:
    for error in (ValueError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)), backend.collect(Options()):
            npu.launch("Cast", times=5)
            raise error
        with backend.collect(Options()) as log:
            npu.launch("Cast")
        assert len(log) == 2


def test_fences_of_a_window_that_broke_off_are_not_taken_for_those_of_the_next(
    npu: Npu, backend: AscendBackend
) -> None:
    for late in (0, 4, 1):
        for _ in range(2):
            npu.lag = late
            with pytest.raises(ValueError, match="mine"), backend.collect(Options()) as log:
                log.mark()
                npu.launch("Add", times=5)
                log.mark()
                raise ValueError("mine")
        npu.lag = 6 - late  # what is left of it comes before the next fence does
        with backend.collect(Options()) as log:
            log.mark()
            npu.launch("Cast")
        assert len(log) == 2


@pytest.mark.parametrize(
    ("soc", "count", "why"),
    [
        ("Ascend910A", 1, "there is no MSPTI for Ascend910A"),
        ("Ascend910B", 1, "there is no MSPTI for Ascend910B"),
        ("Ascend310P3", 1, "there is no MSPTI for Ascend310P3"),
        ("Ascend910B3", 0, "CANN finds no NPU; check npu-smi info"),
    ],
)
def test_devices_without_mspti_are_told_with_what_to_do(
    npu: Npu, backend: AscendBackend, soc: str, count: int, why: str
) -> None:
    npu.soc, npu.devices = soc, count
    assert str(backend.unavailable()).startswith(why)
    assert not backend.in_use()


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910B4", "Ascend910_9391", "Ascend310B1", "Ascend950PR_9589"])
def test_devices_with_mspti_can_run(npu: Npu, backend: AscendBackend, soc: str) -> None:
    npu.soc = soc
    assert backend.unavailable() is None
    assert backend.in_use()


def test_a_thread_without_an_npu_is_told_to_set_one(npu: Npu, measure: Measure) -> None:
    npu.no_device = 1
    with pytest.raises(BackendError, match=r"no NPU is set in this thread.*acl\.rt\.set_device\(\)"):
        measure(lambda: None)


def test_a_library_that_mspti_would_crash_without_is_an_error_before_it_is_loaded(
    npu: Npu, backend: AscendBackend
) -> None:
    (npu.home / "lib64" / "libhccl.so").unlink()
    assert "libhccl.so of CANN cannot be loaded" in str(backend.unavailable())
    assert "source set_env.sh" in str(backend.unavailable())


@pytest.mark.processes
def test_loading_mspti_without_its_kin_ends_the_process_and_asking_the_backend_does_not(
    npu: Npu, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = npu.home / "lib64" / "libmspti.so"
    library.unlink()
    library.write_bytes(compiled(folder, "mspti_crashing_stand_in.c").read_bytes())
    (npu.home / "lib64" / "libprofapi.so").unlink()

    def run(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert run(f"import ctypes; ctypes.CDLL({str(library)!r})").returncode < 0
    done = run("from pytest_opprof.frameworks.ascend.live.backend import backend; print(backend().unavailable())")
    assert (done.returncode, done.stdout.split(" of CANN")[0]) == (0, "libprofapi.so")


def test_without_cann_the_reason_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    forget()
    backend = AscendBackend()
    assert not backend.in_use()
    reason = str(backend.unavailable())
    assert reason.startswith("libascendcl.so of CANN cannot be loaded")
    assert "\n" not in reason


def test_a_forked_process_is_told_not_to_fork(npu: Npu, backend: AscendBackend, measure: Measure) -> None:
    measure(lambda: None)
    backend._subscribed()._process += 1
    with pytest.raises(BackendError, match="this process was forked from one that uses an NPU"):
        measure(lambda: None)


def test_the_first_test_subscribes_before_the_program_sets_an_npu_up(npu: Npu, backend: AscendBackend) -> None:
    backend.begin_test()
    assert npu.seen("subscriptions") == 1
    backend.begin_test()
    assert npu.seen("subscriptions") == 1


def test_the_work_for_the_contract_is_a_product_and_a_cast_in_torch_npu(
    npu: Npu, backend: AscendBackend, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.selfcheck_work() is None

    class Half:
        def __matmul__(self, other: object) -> SimpleNamespace:
            npu.launch("MatMulV2")
            return SimpleNamespace(to=lambda dtype: npu.launch("Cast"))

    torch = SimpleNamespace(ones=lambda *shape, dtype, device: Half(), float16=1, float32=2)
    monkeypatch.setattr(ascend_backend, "find_spec", lambda name: name == "torch_npu")
    monkeypatch.setattr(ascend_backend, "import_module", {"torch": torch, "torch_npu": None}.__getitem__)
    work = backend.selfcheck_work()
    assert work is not None
    assert {op: (calls,) for op, calls in work.ops.items()} == counts(measure(work.run))


@contextmanager
def torch_npu_profiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = SimpleNamespace(ProfPathCreator=lambda: SimpleNamespace(is_prof_inited=True))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch_npu.profiler._profiler_path_creator", module)
        yield


@pytest.mark.slow
def test_it_keeps_the_contract_of_backends_also_where_records_come_late(
    npu: Npu, backend: AscendBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu.lag = 2

    def run() -> None:
        npu.launch("MatMulV3")
        npu.launch("Cast", times=2)

    def another() -> AbstractContextManager[None]:
        return torch_npu_profiles(monkeypatch)

    left_out = testing.check_backend(backend, KnownWork(run, {"MatMul": 1, "Cast": 2}, another))
    assert left_out == ["first use inside the window: the work names no first use"]


def test_an_idle_backend_opens_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("torch_npu", "mindspore", "acl"):
        monkeypatch.delitem(sys.modules, user, raising=False)
    backend = AscendBackend()
    backend.begin_test()
    assert not backend.in_use()
    assert backend._problem == {}
