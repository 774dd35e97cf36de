"""The torch backend on the real PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import ANY

import pytest

from pytest_opprof import op
from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import backend as numpy_backend
from pytest_opprof.frameworks.pytorch.live.backend import OTHER_THREADS, backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import ALWAYS, OpProfile
from pytest_opprof.profile.timings import run_of
from pytest_opprof.sites.chains import Chains
from pytest_opprof.verdict.budgets import Budget

from ....conftest import HAS_TORCH, remarks_of

pytestmark = pytest.mark.torch
if not HAS_TORCH:
    if "OPPROF_REQUIRE_TORCH" in os.environ:
        pytest.fail("torch is not installed")
    pytest.skip("torch is not installed (pip install torch==2.13.0)", allow_module_level=True)

import torch  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

nn, F = torch.nn, torch.nn.functional


def measure(body: Callable[[], object], **options: bool) -> OpProfile:
    with backend().collect(Options(**options)) as log:  # type: ignore[arg-type]
        log.mark()
        body()
        log.mark()
    return assemble([(log.freeze(), {1: 0})], [1])


def test_a_gpu_whose_kernels_are_not_recorded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch for CPUs stands in for one that has initialised CUDA."""
    assert not measure(lambda: torch.ones(2)).remarks
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    ((step, remark),) = measure(lambda: torch.ones(2)).remarks
    assert step == ALWAYS
    assert remark.text.startswith("torch uses a GPU that its profiler does not record here")


def test_an_npu_whose_kernels_another_backend_counts_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch for CPUs stands in for one with torch_npu."""
    monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
    monkeypatch.setattr(torch, "npu", SimpleNamespace(is_initialized=lambda: True), raising=False)
    ((step, remark),) = measure(lambda: torch.ones(2)).remarks
    assert step == ALWAYS
    assert (
        "the ascend backend counts the kernels beside them. For the kernels alone: --opprof-backend=ascend"
        in remark.text
    )


def counts(body: Callable[[], object], *ops: str) -> dict[str, int]:
    """Return the calls by op of a body that ran once before, of all ops or of those named."""
    body()
    profile = measure(body)
    if ops:
        return {op: profile.stats(op).most_calls for op in ops}
    return {stats.op: stats.most_calls for stats in profile.ops}


X = torch.randn(4, 6, 8)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda: nn.functional.linear(X[0], torch.ones(3, 8), torch.ones(3)), {"MatMul": 1}),
        (lambda: X.half(), {"Cast": 1}),
        (lambda: X.half().float(), {"Cast": 2}),
        (lambda: X.to(torch.float32), {"Cast": 0, "Copy": 0}),
        (lambda: X.to(torch.float32, copy=True), {"Cast": 0, "Copy": 1}),
        (lambda: X.double() + X, {"Cast": 2, "Add": 1}),
        (lambda: X.clone(), {"Copy": 1}),
        (lambda: X.transpose(0, 1).contiguous(), {"Copy": 1, "Transpose": 1}),
        (lambda: X.contiguous(), {"Copy": 0}),
        (lambda: X.transpose(0, 1).reshape(-1), {"Copy": 1, "Reshape": 0}),
        (lambda: X.reshape(-1), {"Copy": 0, "Reshape": 1}),
        (lambda: X @ X.transpose(1, 2), {"MatMul": 1, "Transpose": 1}),
        (lambda: torch.einsum("bij,bkj->bik", X, X), {"MatMul": 1}),
        (lambda: X.mean(), {"ReduceMean": 1, "ReduceSum": 0, "Div": 0}),
        (lambda: X.softmax(-1), {"Softmax": 1}),
        (lambda: X.sum().item(), {"ReduceSum": 1, "Item": 1}),
        (lambda: F.layer_norm(X, (8,)), {"LayerNormalization": 1}),
        (lambda: F.conv2d(X[:, None], torch.ones(2, 1, 3, 3)), {"Conv": 1}),
        (lambda: F.dropout(X), {"Dropout": 1, "Mul": 0}),
        (lambda: F.scaled_dot_product_attention(X[:, None], X[:, None], X[:, None]), {"Attention": 1, "MatMul": 0}),
        (lambda: torch.stack([X, X]), {"Concat": 1, "Copy": 0}),
        (lambda: F.embedding(torch.tensor([1, 2]), X[0]), {"Gather": 1}),
        (lambda: F.pad(X, (1, 1)), {"Pad": 1, "Copy": 0}),
        (lambda: torch.zeros(3), {"ConstantOfShape": 1}),
    ],
)
def test_an_op_of_the_program_is_one_op(body: Callable[[], object], expected: dict[str, int]) -> None:
    assert counts(body, *expected) == expected


def training_step() -> Callable[[], None]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch, target = torch.randn(2, 3, 8, 8), torch.tensor([1, 2])

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(batch)
        F.cross_entropy(out.float(), target).backward()
        optimizer.step()

    step()
    return step


def test_self_times_add_up_to_the_time_in_ops_as_torch_counts_it() -> None:
    """Against prof.key_averages() of the same session: the public, slow way to the same numbers."""
    from torch.profiler import ProfilerActivity, profile

    from pytest_opprof.frameworks.pytorch.live import backend as module
    from pytest_opprof.profile.events.event_log import EventLog

    step = training_step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        step()
    log = EventLog(module._environment())
    module._read(session.profiler.kineto_results, log, Options())
    ours = assemble([(log.freeze(), {0: 0})], [1])
    theirs = [row for row in session.key_averages() if not row.is_user_annotation]
    assert theirs
    for row in theirs:
        if row.key in ours.raw_names:
            assert (ours.stats(row.key).device_ns or (0,))[0] / 1e3 == pytest.approx(row.self_cpu_time_total, abs=2)
    total = sum(row.self_cpu_time_total for row in theirs if not row.key.startswith("Optimizer."))
    assert (ours.total.device_ns or (0,))[0] / 1e3 == pytest.approx(total, rel=0.01, abs=5)


def test_casts_of_a_mixed_precision_step_are_counted_wherever_they_are() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class CountCopies(TorchDispatchMode):
        casts = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten._to_copy.default:
                self.casts += args[0].dtype != (kwargs or {}).get("dtype", args[0].dtype)
            return func(*args, **(kwargs or {}))

    step = training_step()
    profile = measure(step)
    with CountCopies() as dispatched:
        step()
    # The dispatcher's _to_copy are the casts of the program and of autocast; what ops cast inside comes on top.
    assert dispatched.casts > 5
    assert profile.stats("Cast").most_calls >= dispatched.casts
    assert (profile.stats("Conv").most_calls, profile.stats("ConvGrad").most_calls) == (1, 1)
    assert profile.stats("MatMul").most_calls == 3


def test_two_runs_of_a_step_give_one_op_table() -> None:
    step = training_step()
    tables = [{stats.op: stats.calls for stats in measure(step).ops} for _ in range(5)]
    assert all(table == tables[0] for table in tables)
    assert len(tables[0]) > 10


def test_users_annotations_are_no_ops_and_what_is_inside_them_is() -> None:
    def body() -> None:
        with torch.profiler.record_function("my region"), torch.profiler.record_function("inner"):
            X + X

    assert counts(body) == {"Add": 1}


def test_steps_inside_an_annotation_are_told_apart() -> None:
    with backend().collect(Options()) as log:
        log.mark()
        with torch.profiler.record_function("epoch"):
            for _ in range(3):
                log.mark()
                X + X
        log.mark()
    assert assemble([(log.freeze(), {2: 0, 3: 1, 4: 2})], [1, 1, 1]).stats("Add").calls == (1, 1, 1)


def test_bytes_are_those_that_an_op_reads_and_writes() -> None:
    profile = measure(lambda: (X.half(), X.clone(), X + X))
    size = X.numel() * 4
    assert profile.stats("Cast").bytes == (size + size // 2,)
    assert profile.stats("aten::copy_").bytes == (size + size // 2 + 2 * size,)
    assert profile.stats("Add").bytes == (3 * size,)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(10),
        lambda: torch.arange(2, 10, 3),
        lambda: torch.arange(10, 2, -3),
        lambda: torch.arange(0, 1, 0.1),
        lambda: torch.arange(0, 5.5, dtype=torch.int64),
        lambda: torch.arange(0, 5.5, dtype=torch.int32),
        lambda: torch.arange(3, out=torch.empty(3)),
        lambda: torch.arange(0),
        lambda: torch.linspace(0, 1, 5),
    ],
)
def test_a_sequence_of_numbers_is_as_many_bytes_as_it_writes(make: Callable[[], torch.Tensor]) -> None:
    assert measure(make).stats("Range").bytes == (make().nbytes,)


def test_flops_are_known_and_memory_when_asked_for() -> None:
    a, b = torch.ones(8, 16), torch.ones(16, 4)
    profile = measure(lambda: a @ b, memory=True)
    assert profile.stats("MatMul").flops == (2 * 8 * 16 * 4,)
    assert profile.memory is not None
    assert profile.memory[0].peak == 8 * 4 * 4
    assert profile.allocations == (1,)
    assert measure(lambda: a @ b).memory is None


def test_a_step_that_writes_into_what_it_has_allocates_nothing() -> None:
    a, b, out = torch.ones(8, 16), torch.ones(16, 4), torch.empty(8, 4)
    assert measure(lambda: torch.mm(a, b, out=out).view(-1), memory=True).allocations == (0,)
    assert measure(lambda: (a @ b, a.half(), torch.empty(0)), memory=True).allocations == (2,)


def test_a_raw_name_that_torch_registers_is_no_spelling_mistake() -> None:
    profile = measure(lambda: X + X)
    assert profile.stats("aten::linalg_qr").calls == (0,)
    with pytest.raises(UsageError, match=r"unknown op 'aten::linalg_qq'"):
        profile.stats("aten::linalg_qq")
    with pytest.raises(UsageError):
        profile.stats("linalg_qr")


def test_an_empty_window_is_an_empty_window_not_an_error() -> None:
    assert measure(lambda: None).ops == ()


def test_a_profiler_that_the_user_already_runs_is_an_error() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as mine:
        X + X
        with pytest.raises(BackendError, match=r"a torch profiler is already running in this thread"):
            measure(lambda: None)
        X * X
    assert {"aten::add", "aten::mul"} <= {row.key for row in mine.key_averages()}


@pytest.mark.parametrize("profiler", [torch.profiler.profile, torch.autograd.profiler.profile])
def test_a_session_lost_to_a_profiler_started_inside_is_an_error(profiler: Callable[[], Any]) -> None:
    def body() -> None:
        X + X
        with profiler():
            X * X

    with pytest.raises(BackendError, match="the torch profiler lost this window"):
        measure(body)
    assert counts(lambda: X + X) == {"Add": 1}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have notes from Python 3.11 on")
def test_a_profiler_that_cannot_start_beside_ours_is_told_why() -> None:
    window, recorder = Window("body"), Recorder([backend()], Options(memory=True), explicit=True)
    with pytest.raises(RuntimeError, match="already enabled") as caught, recorder.open(window), recorder.step(window):
        with torch.autograd.profiler.profile():
            pass
    assert any("PyTorch has one session at a time" in note for note in caught.value.__notes__)
    assert counts(lambda: X + X) == {"Add": 1}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_stops_the_profiler(error: type[BaseException]) -> None:
    def body() -> None:
        raise error

    with pytest.raises(error):
        measure(body)
    assert not torch.autograd._profiler_enabled()
    assert counts(lambda: X + X) == {"Add": 1}


def double_in_a_thread() -> None:
    thread = threading.Thread(target=X.double)
    thread.start()
    thread.join()


@pytest.mark.parametrize("memory", [False, True])
def test_ops_of_other_threads_are_seen_also_of_those_that_ran_before(memory: bool) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: X + X, range(4)))

        def body() -> None:
            X + X
            list(pool.map(lambda _: X.double(), range(4)))
            double_in_a_thread()

        profile = measure(body, memory=memory)
    assert {op.op: op.most_calls for op in profile.ops} == {"Add": 1, "Cast": 5}


@pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")
def test_a_training_step_is_counted_once_and_so_is_what_torch_forks() -> None:
    """Threads that autograd or TorchScript tells of the profiler are not told of it twice."""
    weight, matrix = torch.ones(6, 4, requires_grad=True), torch.ones(3, 6)

    def step() -> None:
        (matrix @ weight).relu().sum().backward()
        torch.jit.wait(torch.jit.fork(torch.sin, X))  # type: ignore[no-untyped-call]

    step()
    expected = counts(step)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as of_this_thread:
        step()
    plain = {row.key: row.count for row in of_this_thread.key_averages()}
    assert expected["MatMul"] == plain["aten::mm"] == 2
    assert expected["Relu"] == plain["aten::relu"]


def test_backward_in_another_thread_has_the_line_of_the_forward_op() -> None:
    """Each thread counts its nodes from 0: the same number is of several ops."""
    weight = torch.ones(4, 4, requires_grad=True)
    kept: list[torch.Tensor] = []

    def forward() -> None:
        kept.append((weight * 2).sum())

    def body() -> None:
        (weight + 1).sum()
        thread = threading.Thread(target=forward)
        thread.start()
        thread.join()
        kept.pop().backward()

    weight.grad = None
    chains = Chains()
    with backend().collect(Options(chains=chains)) as log:
        log.mark()
        body()
        log.mark()
    profile = assemble([(log.freeze(), {1: 0})], [1])
    sites = {site.frames[0].line if site and site.frames else 0 for (site, _) in profile.sites("Mul")}
    assert sites == {0}  # the thread's lines are not known, and no other's stand in their place


def test_a_pytorch_that_cannot_see_other_threads_counts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_opprof.frameworks.pytorch.live.backend._sees_all_threads", lambda: False)
    assert counts(lambda: (double_in_a_thread(), X + X)) == {"Add": 1}


def test_hundreds_of_windows_in_one_process_all_see_their_ops() -> None:
    assert {measure(lambda: X + X).stats("Add").calls for _ in range(200)} == {(1,)}


def test_the_environment_is_the_public_version_without_the_build() -> None:
    profile = measure(lambda: X + X)
    assert str(profile.environment) == f"torch {torch.__version__.split('+')[0]}, cpu"


def test_it_is_in_use_once_torch_is_imported() -> None:
    assert backend().in_use()
    assert backend().unavailable() is None


# torch.compile.

compiles = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # inductor imports what torch deprecates


def broken(x: torch.Tensor) -> torch.Tensor:
    y = (x @ x.T).relu()
    print(end="")  # torch.compile cannot have it in a graph
    return (y * 2).sum()


@compiles
@pytest.mark.parametrize("how", ["eager", "aot_eager"])
def test_a_graph_break_is_one_graph_more_with_every_backend(how: str) -> None:
    torch._dynamo.reset()
    in_two, in_one = torch.compile(broken, backend=how), torch.compile(lambda x: x.t().relu(), backend=how)
    x = torch.ones(4, 4)
    assert counts(lambda: in_two(x), "torch::graph", "torch::compile") == {"torch::graph": 2, "torch::compile": 0}
    assert counts(lambda: in_one(x)) == {"torch::graph": 1, "Transpose": 1, "Relu": 1}
    assert counts(lambda: (in_one(x), x.t())) == {"torch::graph": 1, "Transpose": 2, "Relu": 1}


@compiles
def test_each_frame_that_is_compiled_again_is_one_op_without_device_time() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.relu(), backend="eager")
    inputs = torch.ones(3), torch.ones(3), torch.ones(3).half()
    first, again, other = (measure(partial(compiled, x)) for x in inputs)
    assert [profile.stats("torch::compile").calls for profile in (first, again, other)] == [(1,), (0,), (1,)]
    assert first.stats("torch::compile").device_ns is None
    assert {stats.op for stats in first.ops} == {"torch::compile", "torch::graph", "Relu"}
    # Compiling takes a thousand times as long.
    timed = [stats.device_ns for stats in first.ops if stats.op != "torch::compile"]
    assert first.total.device_ns == (sum(ns for (ns,) in filter(None, timed)),)
    with pytest.raises(UsageError, match=r"cannot be checked"):
        Budget.parse([{"torch::compile": "1 s"}], {}).check(first)
    assert [str(found) for found in Budget.parse([{"torch::compile": 0, "torch::graph": 1}], {}).check(first)] == [
        "torch::compile: 1 call (budget: 0)"
    ]


@compiles
def test_a_frame_without_tensors_runs_no_graph() -> None:
    torch._dynamo.reset()

    def untouched(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return x

    compiled = torch.compile(untouched, backend="eager")
    x = torch.ones(3)
    assert measure(lambda: compiled(x)).stats("torch::compile").calls == (2,)
    assert counts(lambda: (compiled(x), x.relu())) == {"Relu": 1}


@compiles
@pytest.mark.slow
@pytest.mark.processes
def test_what_inductor_compiles_is_the_same_ops_whether_its_caches_are_cold_or_warm() -> None:
    import shutil

    import torch._inductor.config as config
    from torch._inductor.utils import fresh_cache

    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no C++ compiler for torch.compile (apt install g++)")
    layer, ones = nn.Linear(8, 8, bias=False), torch.ones(4, 8)
    step = torch.compile(lambda x: layer(x) + 1)
    profiles = []
    with config.patch({"cpp.enable_kernel_profile": True}), fresh_cache():
        for _ in range(2):
            torch._dynamo.reset()
            layer.zero_grad()
            profiles.append(measure(lambda: [step(ones).backward(ones) for _ in range(2)]))
        forward = measure(lambda: step(ones))
    cold, warm = ({stats.op: stats.calls for stats in profile.ops} for profile in profiles)
    assert cold == warm
    assert cold == {
        "torch::compile": (1,),
        "torch::graph": (2 + 2,),
        "MatMul": (2 + 2,),
        "cpp_fused_add": (2,),
        "Identity": (1,),  # the first gradient
        "Add": (1,),  # the second
    }
    # What inductor does not report one by one is the graph's; what compiling took is not.
    assert {stats.op: stats.calls for stats in forward.ops} == {
        "torch::graph": (1,),
        "MatMul": (1,),
        "cpp_fused_add": (1,),
    }
    assert min(forward.stats("torch::graph").device_ns or (0,)) > 0
    assert max(profiles[0].total.device_ns or ()) < 10**9


@compiles  # torch.jit is deprecated
def test_what_only_stands_around_ops_is_no_op() -> None:
    @torch.jit.script
    def scripted(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + x)

    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    def body() -> None:
        scripted(X)
        with Mode():
            X.to(torch.float64)
        X.to(torch.float32)

    assert counts(body) == {"Add": 1, "Relu": 1, "Cast": 1}
    assert measure(body).stats("aten::to").calls == (2,)


# Ranges of the user's.


def recorded(body: Callable[[], object], *more: Any) -> Window:
    """Return the second of two windows around *body*: the first pays for what PyTorch sets up."""
    for _ in range(2):
        window = Window("w")
        recorder = Recorder([backend(), *more], Options(), explicit=True)
        with recorder.open(window), recorder.step(window):
            body()
    return window


def calls(window: Window) -> dict[str, int]:
    return {stats.op: stats.most_calls for stats in window.ops}


def test_a_range_around_ops_is_one_op_and_they_keep_their_counts() -> None:
    def body() -> None:
        with torch.profiler.record_function("an annotation"), op("my_attention"):
            (X @ X.transpose(1, 2)).softmax(-1)
            with op("my_cast"):
                X.half()

    window = recorded(body)
    assert calls(window) == {"my_attention": 1, "my_cast": 1, "MatMul": 1, "Softmax": 1, "Cast": 1, "Transpose": 1}
    times = [(stats.device_ns or (0,))[0] for stats in window.ops]
    assert min(times) > 0
    assert window.device_ns == sum(times) <= window.host_ns


def test_a_range_around_ops_of_two_frameworks_is_one_and_both_are_taken_off() -> None:
    watcher = numpy_backend()
    x = X.numpy()

    def body() -> None:
        with op("mine"):
            X * X
            x + x

    window = recorded(body, watcher)
    assert calls(window) == {"mine": 1, "Mul": 1, "Add": 1}
    assert window.device_ns <= window.host_ns


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        with op("my_forward"):
            x = x * 2
        return x + 0

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        with op("my_backward"):
            return gradient * 2


def test_a_range_inside_a_function_of_autograd_is_counted_and_the_function_has_its_time() -> None:
    x = torch.ones(3, requires_grad=True)

    def body() -> None:
        with op("around"):
            Doubled.apply(x).sum().backward()  # type: ignore[no-untyped-call]

    window = recorded(body)
    found = calls(window)
    ranges = {"my_forward": 1, "my_backward": 1, "around": 1}
    assert {name: found.pop(name) for name in ranges} == ranges
    assert (found["Doubled"], found["Mul"]) == (1, 2)
    assert window.stats("my_forward").device_ns == window.stats("my_backward").device_ns == (0,)
    assert window.device_ns <= window.host_ns


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_range_in_a_layer_that_is_computed_again_for_its_gradient_runs_twice(reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(3, 3, requires_grad=True)

    def with_range(x: torch.Tensor) -> torch.Tensor:
        with op("my_layer"):
            return layer(x)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ x)

    def training(layer: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, int]:
        return calls(recorded(lambda: checkpoint(layer, x, use_reentrant=reentrant).sum().backward()))

    assert training(with_range) == training(layer) | {"my_layer": 2}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # dynamo imports what torch deprecates
@pytest.mark.parametrize("decorated", [False, True])
def test_a_range_in_code_that_torch_compile_compiles_is_not_there_and_does_not_change_that_code(
    decorated: bool,
) -> None:
    graphs = []

    def compiler(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def with_range(x: torch.Tensor) -> torch.Tensor:
        with op("mine"):
            return x * x

    if decorated:
        with_range = op("mine")(lambda x: x * x)
    compiled = torch.compile(with_range, backend=compiler, fullgraph=True)
    compiled(X)
    found = calls(recorded(lambda: compiled(X)))
    assert (len(graphs), found["Mul"], "mine" in found) == (1, 1, False)
    assert calls(recorded(lambda: with_range(X))) == {"Mul": 1, "mine": 1}


def test_a_window_inside_an_op_is_an_error_whether_or_not_there_are_ranges() -> None:
    class Opens(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            inner = Window("inner")
            with recorder.open(inner), recorder.step(inner), op("mine"):
                return x * 2

    recorder, outer = Recorder([backend()], Options(), explicit=True), Window("outer")
    with pytest.raises(BackendError, match="a window was opened inside an op"):
        with recorder.open(outer), recorder.step(outer):
            Opens.apply(torch.ones(3))  # type: ignore[no-untyped-call]
    assert counts(lambda: X + X) == {"Add": 1}


def test_of_stderr_only_what_is_said_of_older_memory_is_kept_away(capfd: pytest.CaptureFixture[str]) -> None:
    from pytest_opprof.frameworks.pytorch.live import backend as module

    class Block:
        def __del__(self) -> None:
            os.write(2, b"of a thread\n[W1 CPUAllocator.cpp:245] " + module._UNKNOWN_SIZE + b", ...\nmore\n")

    blocks = [Block()]
    module._free_unheard(blocks)
    assert (blocks, capfd.readouterr().err) == ([], "of a thread\nmore\n")


def test_what_an_op_makes_has_its_own_dtype_not_that_of_what_it_is_like() -> None:
    profile = measure(lambda: (torch.zeros_like(X, dtype=torch.float64), torch.randn_like(X, dtype=torch.float64)))
    assert profile.stats("*[float64]").calls == (2,)
    assert profile.stats("*[float32]").calls == (0,)
    assert measure(lambda: torch.zeros(3, dtype=torch.int32)).stats("ConstantOfShape[int32]").calls == (1,)


def test_what_is_not_known_is_no_zero() -> None:
    profile = measure(
        lambda: (
            torch.ones(3, 3) @ torch.ones(3, 3),
            torch.addbmm(torch.ones(2, 2), torch.ones(3, 2, 4), torch.ones(3, 4, 2)),
        )
    )
    assert profile.stats("MatMul").flops is None
    assert profile.total.flops is None
    assert measure(lambda: torch.eye(10)).total.bytes is None
    with pytest.raises(UsageError, match=r"does not tell the dtypes of"):
        measure(lambda: torch.eye(10, dtype=torch.float64)).stats("*[float64]")


def test_a_raw_name_inside_an_op_is_asked_for_its_dtypes_in_vain_and_told_so() -> None:
    profile = measure(lambda: torch.ones(3, 3) @ torch.ones(3, 3))
    assert profile.stats("aten::mm").calls == (1,)
    with pytest.raises(UsageError, match=r"'aten::mm\[float32\]' cannot be counted"):
        profile.stats("aten::mm[float32]")


def test_memory_that_is_only_got_is_of_no_dtype_that_matters() -> None:
    assert measure(lambda: torch.empty(3, dtype=torch.float64)).stats("*[float64]").calls == (0,)


def test_flops_of_what_is_inside_belong_to_the_op_that_has_none_itself() -> None:
    profile = measure(lambda: torch.tensordot(torch.ones(4, 6), torch.ones(6, 5), 1))
    assert profile.stats("MatMul").flops == (2 * 4 * 6 * 5,)
    assert measure(lambda: torch.inner(torch.ones(4, 6), torch.ones(5, 6))).stats("MatMul").flops == (240,)


def test_a_window_of_one_thread_in_which_others_ran_says_that_their_ops_are_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_opprof.frameworks.pytorch.live.backend._sees_all_threads", lambda: False)
    x = torch.ones(3)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread is there before

        def in_new_thread() -> None:
            thread = threading.Thread(target=x.double)
            thread.start()
            thread.join()

        def in_executor() -> None:
            pool.submit(lambda: [x.double() for _ in range(100)]).result()

        def in_none() -> None:
            x.clone().requires_grad_().sum().backward()

        remarks = []
        for body in (in_new_thread, in_executor, in_none):
            with backend().collect(Options()) as log:
                x + 1
                body()
            remarks.append(any(text == OTHER_THREADS for text in remarks_of(log.freeze())))
    assert remarks == [True, sys.platform == "linux", False]


def on_meta(body: Callable[[], object], **options: bool) -> tuple[OpProfile, list[str]]:
    profile = measure(body, **options)
    return profile, remarks_of(profile)


def test_ops_on_fake_or_meta_tensors_count_and_have_no_times_for_nothing_was_computed() -> None:
    def fake() -> None:
        with FakeTensorMode() as mode:
            x = mode.from_tensor(torch.ones(4, 4))
            (x @ x.T).double() + 1

    def meta() -> None:
        x = torch.ones(4, 4, device="meta")
        (x @ x.T).double() + 1

    for body in (fake, meta):
        profile, (said,) = on_meta(body, memory=True)
        assert "ran on fake or meta tensors: nothing was computed" in said
        assert profile.stats("MatMul").calls == (1,)
        assert profile.stats("MatMul").device_ns is None
        assert profile.peak_memory is None
        assert run_of(profile) is None
        with pytest.raises(UsageError, match="cannot be checked"):
            Budget.parse([{"MatMul": "1 s"}], {}).check(profile)
        with pytest.raises(UsageError, match="cannot be checked: ops ran on fake or meta tensors"):
            Budget.parse([], {"device_time": "1 s"}).check(profile)
        assert not Budget.parse([], {"MatMul": 1}).check(profile)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # inductor imports what torch deprecates
def test_what_torch_compile_traces_is_none_of_it_nor_are_numbers_beside_tensors() -> None:
    def body() -> None:
        torch._dynamo.reset()
        torch.compile(lambda x: (x * 2).relu(), backend="eager")(X)
        X + 1

    assert on_meta(body) == (ANY, [])


@compiles
def test_what_torch_compile_compiles_again_is_said_with_the_guard_that_failed() -> None:
    torch._dynamo.reset()
    scaled = torch.compile(lambda x, n: x * n, backend="eager")

    def of(body: Callable[[], object]) -> list[str]:
        return remarks_of(measure(body))

    assert of(lambda: scaled(X, 2)) == []
    assert of(lambda: scaled(X, 2)) == []
    (said,) = of(lambda: scaled(X.double(), 2))
    assert said.startswith("torch.compile compiled <lambda> (")
    assert said.endswith(" again: tensor 'x' dtype mismatch. expected Float, actual Double")


@pytest.mark.processes
def test_a_window_imports_no_compiler() -> None:
    """`torch.profiler.profile` does: 2.5 s of CPU time in each process."""
    code = """
import sys, torch
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.pytorch.live.backend import backend
for memory in (True, False):
    with backend().collect(Options(memory=memory)):
        torch.ones(3) + 1
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
