"""PyTorch on a real GPU: counts are exact, times are the GPU's. Skipped where there is none.

`test_frameworks` runs it in a process of its own.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.nvidia.live import nvml
from pytest_opprof.frameworks.pytorch.live.backend import backend
from pytest_opprof.measure.memory.leaks import Left, left_by
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.sites.chains import Chains

from .windows import counts, of_torch, torch_or_skip

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


@pytest.fixture(scope="module")
def torch() -> Any:
    torch = torch_or_skip()
    of_torch(lambda: _work(torch, 1, 1, 1, 1, 1))  # loads kernels, and makes the handle of cuBLAS
    return torch


def _work(torch: Any, matmuls: int, casts: int, up: int, down: int, waits: int) -> None:
    matrix, host = torch.ones(512, 512, device="cuda"), torch.ones(512, 512)
    for _ in range(matmuls):
        matrix @ matrix
    for _ in range(casts):
        matrix.half()
    for _ in range(up):
        host.to("cuda")
    for _ in range(down):
        matrix.cpu()
    for _ in range(waits):
        torch.cuda.synchronize()


def test_matmuls_casts_copies_and_waits_are_counted_exactly(torch: Any) -> None:
    profile = of_torch(lambda: _work(torch, 7, 5, 3, 2, 4))
    found = counts(profile)
    assert [found[op] for op in ("MatMul", "Cast", "MemcpyHtoD", "MemcpyDtoH")] == [7, 5, 3, 2]
    assert profile.stats("MemcpyHtoD").bytes == (3 * 512 * 512 * 4,)
    assert profile.stats("MemcpyDtoH").bytes == (2 * 512 * 512 * 4,)
    # A copy of pageable memory waits for its stream once; ours before and after are not there.
    assert profile.stats("cudaDeviceSynchronize").calls == (4,)
    assert found["Synchronize"] == 4 + profile.stats("cudaStreamSynchronize").most_calls
    assert profile.stats("(unlinked)").calls == (0,)
    # A matrix is filled by one kernel, and a product may take two (split, and sum).
    assert profile.launches is not None
    assert 1 + 7 + 5 <= profile.launches[0] <= 1 + 2 * 7 + 5


def test_50_windows_lose_nothing(torch: Any) -> None:
    wrong = [
        n for n in range(50) if of_torch(lambda n=n: _work(torch, 0, n % 7, 0, 0, 0)).stats("Cast").calls != (n % 7,)
    ]
    assert wrong == []


def test_ops_of_the_cpu_are_counted_beside_and_take_no_device_time(torch: Any) -> None:
    x, y = torch.ones(64, 64), torch.ones(64, 64, device="cuda")
    profile = of_torch(lambda: (x + x, x.double(), y * y))
    assert counts(profile) == {"Add": 1, "Cast": 1, "Mul": 1}
    assert profile.stats("Add").device_ns == profile.stats("Cast").device_ns == (0,)
    assert (profile.stats("Mul").device_ns or (0,))[0] > 0


def test_a_window_of_the_cpu_is_one_of_the_cpu(torch: Any) -> None:
    x = torch.ones(64, 64)
    profile = of_torch(lambda: x + x)
    assert profile.environment.device == "cpu"
    assert (profile.stats("Add").device_ns or (0,))[0] > 0
    assert profile.launches == (0,)


def test_times_agree_with_the_events_of_cuda(torch: Any) -> None:
    x = torch.ones(16384, 8192, device="cuda")  # so long that the launch of the first kernel is nothing beside it
    out = torch.empty_like(x)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def body() -> None:
        begin.record()
        for _ in range(50):
            torch.mul(x, x, out=out)
        end.record()
        end.synchronize()

    (device_ns,) = of_torch(body).total.device_ns or (0,)
    between_ns = begin.elapsed_time(end) * 1e6
    # Events see the gaps between kernels as well.
    assert 0.8 * between_ns < device_ns <= 1.01 * between_ns


def test_the_kernels_of_an_op_have_grid_block_and_streams_and_take_its_time(torch: Any) -> None:
    x, streams = torch.ones(512, 512, device="cuda"), [torch.cuda.Stream() for _ in range(2)]

    def body() -> None:
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.mul(x, x)

    profile = of_torch(body)
    (kernel,) = (stats for stats in profile.kernels or () if stats.op == "Mul")
    assert (kernel.most_calls, len(kernel.streams)) == (2, 2)
    assert kernel.grid is not None
    assert kernel.block is not None
    assert (kernel.fastest_ns,) == profile.stats("Mul").device_ns


def test_a_cuda_graph_is_one_launch_of_its_kernels_and_capturing_it_none(torch: Any) -> None:
    x = torch.ones(64, 64, device="cuda")
    graph = torch.cuda.CUDAGraph()

    def capture() -> None:
        with torch.cuda.graph(graph):
            y = x * 2
            y + 1

    of_torch(capture)  # no kernel is missed
    profile = of_torch(lambda: [graph.replay() for _ in range(3)])
    assert profile.launches == (3,)
    assert (profile.total.calls, counts(profile)["Mul"], counts(profile)["Add"]) == ((6,), 3, 3)


def test_copies_waits_and_replays_have_lines(torch: Any) -> None:
    x, graph = torch.ones(64, 64, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x * 2

    def body() -> None:
        up = torch.ones(64, 64).to("cuda")
        up.cpu()
        torch.cuda.synchronize()
        graph.replay()

    profile, first = of_torch(body, chains=Chains()), body.__code__.co_firstlineno
    lines = {
        op: {site.frames[0].line - first for site, _ in profile.sites(op) if site}
        for op in ("MemcpyHtoD", "MemcpyDtoH", "cudaDeviceSynchronize", "Mul")
    }
    assert lines == {"MemcpyHtoD": {1}, "MemcpyDtoH": {2}, "cudaDeviceSynchronize": {3}, "Mul": {4}}


def test_copies_of_a_backward_pass_have_its_line(torch: Any) -> None:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 64, batch_first=True, dropout=0.0, device="cuda")
    x = torch.ones(2, 8, 64, device="cuda", requires_grad=True)

    def body() -> None:
        y = layer(x)
        y.sum().backward()

    body()
    profile, first = of_torch(body, chains=Chains()), body.__code__.co_firstlineno
    sites = [site for op in ("MemcpyDtoD", "Memset") for site, _ in profile.sites(op)]
    assert None not in sites
    assert {site.frames[0].line - first for site in sites if site} <= {1, 2}


def test_an_exception_in_a_window_leaves_the_next_one_whole(torch: Any) -> None:
    def fails() -> None:
        _work(torch, 0, 3, 0, 0, 0)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # raised here
        of_torch(fails)
    assert not torch.autograd._profiler_enabled()
    assert of_torch(lambda: _work(torch, 0, 2, 0, 0, 0)).stats("Cast").calls == (2,)


def test_older_work_is_not_in_a_window(torch: Any) -> None:
    x = torch.ones(4096, 4096, device="cuda")
    for _ in range(20):
        x @ x
    assert counts(of_torch(lambda: x + x)) == {"Add": 1}


def test_a_training_step_counts_as_the_reader_counts_its_exported_trace(torch: Any, tmp_path: Path) -> None:
    from pytest_opprof.frameworks.files.format import Options as ReadOptions
    from pytest_opprof.frameworks.files.place import Place
    from pytest_opprof.frameworks.pytorch.live import backend, cuda
    from pytest_opprof.frameworks.pytorch.saved import kineto as reader

    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(4 * 36, 5)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            out = model(torch.ones(2, 3, 8, 8).cuda())
        loss = out.float().square().sum()
        loss.backward()
        optimizer.step()
        loss.item()

    step()
    session = backend._session(Options(), True)
    session.start()
    step()
    session.stop()
    session.export_chrome_trace(str(tmp_path / "trace.json"))
    log = EventLog(backend._environment())
    cuda.fill(log, cuda.recorded(session.profiler.kineto_results.events()))
    ours, theirs = log.freeze(), reader.read(Place(tmp_path / "trace.json"), ReadOptions()).profile()
    assert counts(ours) == counts(theirs)
    for stats in ours.ops:
        assert sum(stats.device_ns or ()) == pytest.approx(sum(theirs.stats(stats.op).device_ns or ()), abs=2)


def test_memory_is_that_of_the_gpu(torch: Any) -> None:
    def body() -> None:
        torch.ones(1000, 1000)
        torch.ones(256, 256, device="cuda")

    (used,) = of_torch(body, memory=True).memory or ()
    assert used.peak == 256 * 256 * 4


def test_a_tensor_that_each_call_keeps_is_left_behind_with_its_bytes_on_the_gpu(torch: Any) -> None:
    kept: list[Any] = []
    left = left_by(lambda: kept.append(torch.ones(256, 256, device="cuda")), device_bytes=backend().device_bytes)
    assert (left.device_bytes, left.objects) == (256 * 256 * 4, {"torch.Tensor": 1})
    nothing = left_by(lambda: torch.ones(256, 256, device="cuda"), device_bytes=backend().device_bytes)
    assert nothing == Left({})


def test_kernels_of_cupy_are_counted_too(torch: Any) -> None:
    if not find_spec("cupy"):
        pytest.skip("CuPy is not installed (pip install cupy-cuda13x, or cupy-cuda12x)")
    import cupy

    matrix = cupy.ones((64, 64), cupy.float32)
    matrix.astype(cupy.float64)
    profile = of_torch(lambda: [matrix.astype(cupy.float64) for _ in range(3)])
    assert profile.stats("Cast").calls == (3,)


def test_the_environment_names_the_gpu(torch: Any) -> None:
    environment = of_torch(lambda: torch.ones(8, device="cuda")).environment
    assert environment.device == torch.cuda.get_device_name(0)
    assert environment.timing == "async"
    assert dict(environment.frameworks)["cuda"] == torch.version.cuda


def test_a_gpu_that_this_process_has_to_itself_is_shared_with_nobody(torch: Any) -> None:
    if missing := nvml.unwatched():
        pytest.skip(missing)
    profile = of_torch(lambda: _work(torch, 1, 1, 1, 1, 1))
    assert [what for what in profile.disturbed if "shared" in what] == []
    assert [said.text for _, said in profile.remarks if "not known" in said.text] == []
