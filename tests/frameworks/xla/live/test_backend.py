"""The backend of JAX: windows, threads, devices, what is in its way. What it counts: `test_counts`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.errors import BackendError, LateImport, NothingMeasured, UsageError
from pytest_opprof.frameworks.live import registry
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.xla.live import backend as module
from pytest_opprof.frameworks.xla.live.backend import JaxBackend, backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.testing import check_backend
from pytest_opprof.timeline.window import timeline_of

from ....conftest import remarks_of
from .jax_measured import DEVICES, calls, measured, opcodes, start

pytestmark = pytest.mark.jax


@pytest.fixture(autouse=True)
def _jax() -> None:
    start()


@pytest.fixture
def product() -> Callable[[Any], Any]:
    """Return a compiled function of one kernel, that takes a millisecond or so."""
    import jax

    return jax.jit(lambda x: x @ x)


@pytest.fixture
def large() -> Any:
    import jax.numpy as jnp

    return jnp.ones((400, 400))


@pytest.mark.processes
def test_it_keeps_the_contract() -> None:
    found = registry.load("jax")
    work = found.selfcheck_work()
    assert work is not None
    assert check_backend(found, work) == []


def test_what_is_dropped_on_any_device_is_in_its_own_step(product: Callable[[Any], Any], large: Any) -> None:
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    spread = NamedSharding(Mesh(jax.devices(), ("d",)), PartitionSpec("d"))
    total = jax.jit(lambda x: (x * 2).sum())
    third, over_all = jax.device_put(large, jax.devices()[3]), jax.device_put(large, spread)
    product(third), product(large), total(over_all)

    def body() -> None:
        product(third), total(over_all), product(large), total(over_all), product(third)

    for _ in range(20):
        profile = measured(body, lambda: None, body)
        assert [opcodes(profile, step).get("dot", 0) for step in range(3)] == [3, 0, 3]
        assert [opcodes(profile, step).get("all-reduce", 0) for step in range(3)] == [8, 0, 8]
        assert profile.stats("jax::program").calls == (5, 0, 5)


def test_kernels_ran_in_their_threads_inside_of_the_round_and_hold_the_ops_that_they_are_fused_of() -> None:
    import jax
    import jax.numpy as jnp

    fused = jax.jit(lambda x: jnp.tanh(x * 2 + 1))
    x = jnp.ones((8, 8))
    fused(x)
    recorder, window = Recorder([backend()], Options(moments=True), explicit=True), Window("w")
    with recorder.open(window), recorder.step(window):
        fused(x)
    whole, *spans = timeline_of(window.profile, 0)
    parts = [span for span in spans if not span.duration_ns]
    (kernel,) = (span for span in spans if "fusion" in span.name)
    assert Counter(span.name.partition(" (")[0] for span in parts) >= Counter(["Tanh", "Add", "Mul"])
    assert {(span.lane, span.start_ns, span.depth) for span in parts} == {
        (kernel.lane, kernel.start_ns, kernel.depth + 1)
    }
    assert {span.name for span in spans} - {span.name for span in parts} == {kernel.name, "jax::program"}
    assert all(whole.start_ns <= span.start_ns <= span.end_ns <= whole.end_ns for span in spans)


def test_other_threads_are_recorded(product: Callable[[Any], Any], large: Any) -> None:
    product(large)

    def body() -> None:
        threads = [threading.Thread(target=lambda: product(large).block_until_ready()) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert calls(measured(body))["MatMul"] == 4


def test_a_range_has_what_it_called_though_nothing_waits(product: Callable[[Any], Any], large: Any) -> None:
    from pytest_opprof import op

    product(large)

    def body() -> None:
        product(large)
        with op("mine"):
            product(large)
            product(large)
        product(large)

    profile = measured(body)
    assert calls(profile) == {"MatMul": 4, "mine": 1, "jax::kernel": 4, "jax::program": 4}
    # Two products ran in it, and none of their time is its own.
    mine, product_ns = profile.stats("mine").device_ns, profile.stats("MatMul").device_ns
    assert mine is not None
    assert product_ns is not None
    assert mine[0] < product_ns[0] / 4


def test_what_is_compiled_and_dropped_in_a_window_is_known() -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.ones(3)

    def body() -> None:
        def double(x: Any) -> Any:
            return x * 2

        jax.jit(double)(x)

    for _ in range(3):
        profile = measured(body)
        assert calls(profile) == {"Mul": 1, "jax::kernel": 1, "jax::program": 1}
        assert profile.stats("jax::compile").calls == (1,)


def test_compiling_counts_by_its_name_and_takes_no_time_of_the_ops() -> None:
    import jax
    import jax.numpy as jnp

    triple = jax.jit(lambda x: x * 3)
    arrays = [jnp.ones(3), jnp.ones(3), jnp.ones(4)]
    profile = measured(*[lambda x=x: triple(x) for x in arrays])
    assert profile.stats("jax::compile").calls == (1, 0, 1)
    assert profile.stats("Mul").device_ns == profile.total.device_ns
    said = {(step, each.text) for step, each in profile.remarks if "again" not in each.text}
    assert said == {(step, "JAX compiled jit(<lambda>)") for step in (0, 2)}


def test_a_program_from_the_cache_on_disk_is_made_and_known(tmp_path: Path) -> None:
    import jax
    import jax.numpy as jnp
    from jax.experimental.compilation_cache import compilation_cache

    settings = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    x, y = jnp.ones((5, 5)), jnp.ones((6, 6))

    def body(*arrays: Any) -> None:
        for array in arrays:
            jax.jit(lambda x: jnp.tanh(x @ x))(array)

    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        body(x, y)
        assert list(tmp_path.iterdir())
        profile = measured(lambda: body(x))
        assert calls(profile) == {"MatMul": 1, "Tanh": 1, "jax::kernel": 2, "jax::program": 1}
        assert profile.stats("jax::compile").calls == (1,)
        # Of two, which differ in a shape alone, nothing tells which of them ran.
        with pytest.raises(
            BackendError, match=r"several programs jit__lambda were loaded from JAX's cache on disk, and"
        ):
            measured(lambda: body(x, y))
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


@pytest.mark.parametrize("setting", ["disable_jit", "transfer_guard", "set_mesh", "enable_checks"])
def test_what_the_user_sets_changes_nothing_in_how_it_waits(
    setting: str, product: Callable[[Any], Any], large: Any
) -> None:
    import jax

    product(large)
    mesh = jax.sharding.Mesh(jax.devices(), ("d",))
    context = {
        "disable_jit": jax.disable_jit,
        "transfer_guard": lambda: jax.transfer_guard("disallow"),
        "set_mesh": lambda: jax.set_mesh(mesh),
        "enable_checks": lambda: jax.enable_checks(True),
    }[setting]
    with context():
        # In a mesh each device has the whole of what is not told to be spread.
        assert calls(measured(lambda: product(large)))["MatMul"] == (DEVICES if setting == "set_mesh" else 1)


def test_the_environment_has_both_versions() -> None:
    import jax
    import jaxlib

    environment = measured(lambda: None).environment
    assert environment.frameworks == (("jax", jax.__version__), ("jaxlib", jaxlib.__version__))
    assert environment.device == "cpu"


def test_a_session_of_the_users_own_is_in_the_way(tmp_path: Path) -> None:
    import jax

    with jax.profiler.trace(tmp_path):
        with pytest.raises(BackendError, match=r"a session of JAX's profiler was already running"):
            measured(lambda: None)
    measured(lambda: None)


@pytest.mark.parametrize("start", ["trace", "start_trace"])
def test_a_session_inside_is_refused_by_name(tmp_path: Path, start: str) -> None:
    import jax

    def body() -> None:
        with getattr(jax.profiler, start)(tmp_path):
            pass

    with pytest.raises(BackendError, match=r"opprof measures this test with JAX's profiler, which has one"):
        measured(body)
    with jax.profiler.trace(tmp_path):
        pass
    assert list(tmp_path.iterdir())


def test_it_cannot_be_nested() -> None:
    with backend().collect(Options()) as log:
        log.mark()
        with pytest.raises(BackendError, match="already recording"):
            with backend().collect(Options()):
                pass


def test_a_call_that_raised_an_error_is_not_taken_for_one_that_ran() -> None:
    import jax
    import jax.numpy as jnp

    update = jax.jit(lambda x: x + 1, donate_argnums=0)

    def twice() -> None:
        x = jnp.ones(3)
        update(x)
        with pytest.raises((ValueError, RuntimeError), match="deleted or donated"):
            update(x)

    with pytest.raises(BackendError, match=r"1 of \d called programs did not end in the window: another"):
        measured(twice)


def test_a_failure_of_the_program_is_the_tests() -> None:
    import jax
    import jax.numpy as jnp

    def fail(x: Any) -> Any:
        raise ArithmeticError("mine")

    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    call = jax.jit(lambda x: jax.pure_callback(fail, shape, x))

    def body() -> None:
        with pytest.raises(Exception, match="mine"):
            call(jnp.ones(3)).block_until_ready()

    measured(body)
    assert calls(measured(lambda: jnp.ones(3) * 2))["Mul"] == 1


def test_importing_jax_starts_nothing_and_is_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    found = JaxBackend()
    assert found.in_use()
    monkeypatch.delitem(sys.modules, "jax._src.xla_bridge")
    assert not found.in_use()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert found.unavailable() == 'jax is not installed: pip install "pytest-opprof[jax]"'


@pytest.mark.parametrize(
    ("platform", "in_use", "said"),
    [
        ("gpu", False, r"^JAX runs on gpu here, and the jax backend sees its CPU only; the cuda backend records it$"),
        ("tpu", True, r"^JAX runs on tpu here, and the jax backend sees its CPU only$"),
    ],
)
def test_an_accelerator_is_another_backends_or_nobodys(
    platform: str, in_use: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A test double: there is no accelerator here.
    monkeypatch.setattr(module, "_platform", lambda: platform)
    found = JaxBackend()
    assert found.in_use() is in_use
    with pytest.raises(BackendError, match=said):
        with found.collect(Options()):
            pass


def test_where_jax_is_going_to_start_on_a_gpu_it_is_in_use_beside_the_cuda_backend_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A test double: there is no GPU here.
    monkeypatch.setattr(module, "is_started", lambda: False)
    assert JaxBackend().in_use()
    monkeypatch.setattr(module, "jax_is_to_use_gpu", lambda: True)
    assert not JaxBackend().in_use()
    monkeypatch.setattr(module.cuda_backend(), "in_use", lambda: True)
    assert JaxBackend().in_use()


def test_beside_the_cuda_backend_it_records_compilations_and_what_is_traced_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import jax
    import jax.numpy as jnp

    # Test doubles: there is no GPU here, so JAX computes on the CPU.
    monkeypatch.setattr(module, "_platform", lambda: "gpu")
    monkeypatch.setattr(module.cuda_backend(), "in_use", lambda: True)
    gpu = Environment((("cuda", "13.0"), ("jax", jax.__version__)), "NVIDIA H200", timing="async")
    monkeypatch.setattr(module, "environment_here", lambda options: gpu)
    by_number = jax.jit(lambda x, n: x * n, static_argnums=1)
    x = jnp.ones(7)
    found = backend()  # JAX's explanations reach the first one that asked for them
    found.begin_test()
    with found.collect(Options()) as log:
        for n in (1, 2, 2):
            found.settle()
            log.mark()
            by_number(x, n)
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1] * 3)
    assert profile.counted("recompilations") == (0, 1, 0)
    assert profile.stats("jax::compile").calls == (1, 1, 0)
    assert (profile.environment, profile.total.most_calls) == (gpu, 0)
    with pytest.raises(UsageError, match="jax::kernel"):
        profile.stats("jax::kernel")
    monkeypatch.setattr(module, "_platform", lambda: next(platforms))
    platforms = iter(["gpu", "cpu", "cpu"])
    with pytest.raises(LateImport, match=r"started on cpu inside the measured window"):
        with found.collect(Options()):
            pass
    monkeypatch.setattr(module, "_platform", lambda: "gpu")
    with pytest.raises(NothingMeasured, match=r"JAX runs on gpu here, .*; the cuda backend records it"):
        with Recorder([found], Options(), explicit=True).open(Window("w")):
            pass


def again(*bodies: Callable[[], object]) -> tuple[tuple[int, ...] | None, list[str]]:
    backend().begin_test()
    profile = measured(*bodies)
    return profile.counted("recompilations"), [text for text in remarks_of(profile) if "again" in text]


def test_what_is_traced_again_is_counted_and_why() -> None:
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda x, count: (x * 2.5, count))
    by_number = jax.jit(lambda x, n: x * n, static_argnums=1)
    x, one = jnp.ones(4), jnp.int32(1)
    assert again(lambda: f(x, 1), lambda: f(x, 1)) == ((0, 0), [])
    counts, (said,) = again(lambda: f(jnp.ones(6), 1), lambda: f(jnp.ones(6), one))
    assert counts == (0, 1)
    assert "<lambda>" in said
    assert said.endswith("at count, now i32[]{weak_type=False} and before i32[]{weak_type=True}")
    counts, (said,) = again(lambda: by_number(x, 1), lambda: by_number(x, 2))
    assert counts == (0, 1)
    assert "Static(val=2)" in said


def test_a_function_that_an_earlier_test_traced_is_new_to_this_one() -> None:
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda x: x * 2.5)
    assert again(lambda: f(jnp.ones(7))) == ((0,), [])
    assert again(lambda: f(jnp.ones(8))) == ((0,), [])


def test_the_branches_of_a_function_are_traced_with_it() -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.ones(3)

    def body(x: Any) -> Any:
        for _ in range(3):
            x = jax.lax.cond(x.sum() > 0, lambda x=x: x + 1, lambda x=x: x - 1)
        return x

    f = jax.jit(body)
    assert again(lambda: f(x), lambda: f(x)) == ((0, 0), [])
    counts, (said,) = again(lambda: f(jnp.ones(4)), lambda: f(jnp.ones(5)))
    assert (counts, "body" in said) == ((0, 1), True)
    counts, _ = again(lambda: body(x))
    assert counts is not None
    assert counts[0] > 1  # without a function around them each is compiled for itself


def test_a_function_that_is_made_in_each_call_is_traced_again() -> None:
    import jax
    import jax.numpy as jnp

    def body() -> None:
        for _ in range(3):
            jax.jit(lambda x: x * 2.5)(jnp.ones(9))

    counts, (said,) = again(body)
    assert counts == (2,)
    assert said.endswith("again, in the same test: another function is defined there each time")


def test_nothing_of_it_is_in_the_log_of_the_program_unless_it_asks(caplog: pytest.LogCaptureFixture) -> None:
    import jax
    import jax.numpy as jnp

    again(lambda: jax.jit(lambda x: x * 2.5)(jnp.ones(10)))
    assert not [record for record in caplog.records if "CACHE MISS" in record.getMessage()]
