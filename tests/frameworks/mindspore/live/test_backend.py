"""The backend on the real MindSpore, in graph and in PyNative mode on a CPU."""

from __future__ import annotations

import csv
import gc
import linecache
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_opprof.errors import BackendError, UsageError
from pytest_opprof.frameworks.live import registry
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.mindspore.live import scratch
from pytest_opprof.frameworks.mindspore.live.backend import MindSporeBackend, backend
from pytest_opprof.frameworks.numpy.live.backend import backend as numpy_backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains
from pytest_opprof.testing import check_backend

from ....conftest import remarks_of
from ...ascend.live import ascend_stand_in
from ...measured import measured
from ...nvidia.live.cuda_stand_in import Gpu
from ...nvidia.live.test_backend import install as install_cuda

pytestmark = pytest.mark.mindspore
Body = Callable[[], object]


@pytest.fixture(scope="module")
def ms() -> ModuleType:
    os.environ.setdefault("GLOG_v", "3")  # errors only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mindspore
    return mindspore


@pytest.fixture(scope="module")
def nets(ms: ModuleType) -> Iterator[ModuleType]:
    from .. import mindspore_nets

    backend().begin_test()
    yield mindspore_nets
    gc.collect()  # MindSpore cannot delete its cells any more when Python ends


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let amp write the networks that it changes into a folder that is deleted, and extend a path of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture(params=["graph", "pynative"])
def mode(ms: ModuleType, request: pytest.FixtureRequest) -> Iterator[str]:
    ms.set_context(mode=ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def dispatching(ms: ModuleType, request: pytest.FixtureRequest) -> None:
    """Skip in PyNative mode where that does not tell what it dispatches."""
    is_graph = "mode" in request.fixturenames and request.getfixturevalue("mode") == "graph"
    if not is_graph and not hasattr(ms.utils, "MsDispatchMode"):
        pytest.skip(f"MindSpore {ms.__version__} has no MsDispatchMode (2.10 and later)")


@pytest.fixture
def pynative(ms: ModuleType) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def graph(ms: ModuleType) -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def measure(*bodies: Body) -> OpProfile:
    return measured(backend(), *bodies)


def raws(profile: OpProfile) -> dict[str, int]:
    """Return the calls by MindSpore's name."""
    found = Counter[str]()
    for key, times in zip(profile.columns.key.tolist(), profile.columns.events.tolist()):
        found[profile.keys[key].raw] += times
    return dict(found)


def casts(profile: OpProfile) -> dict[str, int]:
    """Return the casts by their dtypes; nothing where those of one are not known."""
    return {dtypes: sum(calls) for dtypes, calls in profile.calls_by_dtype.get("Cast", {}).items()}


def lenet(nets: ModuleType, level: str = "O0") -> Body:
    from mindspore import amp

    net, image = amp.auto_mixed_precision(nets.LeNet(), level), nets.tensor(2, 1, 32, 32)
    return lambda: net(image)


def lenet_training(nets: ModuleType, optimizer: str) -> Body:
    from mindspore import nn

    net = nets.LeNet()
    return nets.training(net, getattr(nn, optimizer)(net.trainable_params(), 0.01), nets.tensor(2, 1, 32, 32))


def transformer(nets: ModuleType) -> Body:
    net, words = nets.Transformer(), nets.tensor(2, 8, 32)
    return lambda: net(words)


def transformer_training(nets: ModuleType) -> Body:
    from mindspore import nn

    net = nets.Transformer()
    return nets.training(net, nn.SGD(net.trainable_params(), 0.1), nets.tensor(2, 8, 32))


def molecules(nets: ModuleType, hidden: bool = False) -> Body:
    net, atoms = nets.Molecules(hidden=hidden), nets.tensor(10, 3)
    return lambda: net(atoms, atoms)


def half_dense(nets: ModuleType) -> Body:
    from mindspore import float16, nn

    net, atoms = nn.Dense(3, 4).to_float(float16), nets.tensor(10, 3)
    return lambda: net(atoms)


WORKS: dict[str, Callable[[ModuleType], Body]] = {
    "lenet": lenet,
    "lenet O1": partial(lenet, level="O1"),
    "lenet O2": partial(lenet, level="O2"),
    "lenet O3": partial(lenet, level="O3"),
    "lenet RMSProp": partial(lenet_training, optimizer="RMSProp"),
    "lenet Adam": partial(lenet_training, optimizer="Adam"),
    "transformer": transformer,
    "transformer SGD": transformer_training,
    "molecules": molecules,
    "to_float": half_dense,
}


def own_counts(folder: Path, body: Body) -> dict[str, int]:
    """Return the calls by op type as MindSpore's own profiler sums them up."""
    from mindspore.profiler import ProfilerActivity, profile, tensorboard_trace_handler

    handler = tensorboard_trace_handler(str(folder), analyse_flag=False)
    backend().settle()  # MindSpore waits before it stops, and not before it starts: what is queued would be in it
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=handler):
        body()
    (table,) = folder.rglob("cpu_op_type_info_*.csv")
    with table.open(newline="") as file:
        return {row["op_type"]: int(row["type_occurrences"]) for row in csv.DictReader(file)}


@pytest.mark.parametrize("work", WORKS)
def test_counts_are_those_that_mindspore_sums_up_itself(work: str, mode: str, nets: ModuleType, tmp_path: Path) -> None:
    body = WORKS[work](nets)
    body()
    expected = own_counts(tmp_path, body)
    assert raws(measure(body)) == expected
    assert raws(measure(body, body)) == {op: 2 * calls for op, calls in expected.items()}


@pytest.mark.parametrize("work", WORKS)
def test_in_graphs_every_dtype_and_shape_is_known(work: str, graph: None, nets: ModuleType) -> None:
    body = WORKS[work](nets)
    profile = measure(body, body)
    assert [key for key in profile.keys if key.signature.dtypes is None or key.signature.input_shapes is None] == []
    assert profile.remarks == ()
    if "O2" in work:
        assert set(casts(profile)) == {"float32->float16", "float16->float32"}


@pytest.mark.usefixtures("dispatching")
def test_a_loop_and_a_branch_count_as_they_ran(mode: str, ms: ModuleType, nets: ModuleType) -> None:
    net, x = nets.Branches(), ms.Tensor(np.ones((4, 8), np.float32))
    for times in (3, 5):
        n = ms.Tensor(times, ms.int32)
        net(x, n)
        profile = measure(lambda n=n: net(x, n))
        assert casts(profile) == {"float32->float16": times, "float16->float32": times}
        assert (profile.stats("Relu").most_calls, profile.stats("Sin").most_calls) == (1, 0)


def test_dynamic_shapes_are_not_known_but_their_dtypes_are(graph: None, ms: ModuleType, nets: ModuleType) -> None:
    net = ms.nn.SequentialCell([ms.nn.Dense(8, 4), ms.nn.ReLU()])
    net.set_inputs(ms.Tensor(shape=[None, 8], dtype=ms.float32))
    net(nets.tensor(2, 8))
    profile = measure(lambda: net(nets.tensor(5, 8)), lambda: net(nets.tensor(3, 8)))
    (matmul,) = (key for key in profile.keys if key.raw == "MatMul")
    assert (matmul.signature.input_dtypes, matmul.signature.input_shapes) == (("float32", "float32"), None)
    assert profile.stats("MatMul").bytes is None


@pytest.mark.usefixtures("dispatching")
@pytest.mark.parametrize("hidden", [False, True])
def test_the_hidden_cast_of_a_molecular_dynamics_step_has_its_dtypes(hidden: bool, mode: str, nets: ModuleType) -> None:
    body = molecules(nets, hidden)
    body()
    found = casts(measure(body))
    # A graph takes the result of the network at once: float16 to float32 to float64 is one cast.
    source = "float32" if mode == "pynative" else "float16"
    assert {dtypes: calls for dtypes, calls in found.items() if "64" in dtypes} == (
        {f"{source}->float64": 3, "float64->float32": 3} if hidden else {}
    )
    assert min(found["float32->float16"], found["float16->float32"]) > 3  # kernels without float16 cast, too


@pytest.mark.usefixtures("dispatching")
def test_the_line_of_the_hidden_cast_is_told(mode: str, nets: ModuleType) -> None:
    body = molecules(nets, hidden=True)
    body()
    with backend().collect(Options(chains=Chains())) as log:
        log.mark()
        body()
        log.mark()
    profile = assemble([(log.freeze(), {1: 0})], [1])
    lines = Counter[str]()
    for number, calls in zip(profile.columns.key.tolist(), profile.columns.events.tolist()):
        key = profile.keys[number]
        if "float64" in (key.signature.dtypes or "") and key.site:
            frame = key.site.frames[0]
            lines[linecache.getline(frame.file, frame.line).strip()] += calls
    # Three steps: there, the product, and back.
    assert lines == {"force = ops.cast(ops.cast(force, ms.float64) * 2.0, ms.float32)": 9}


def test_a_jit_function_and_its_gradient_have_their_dtypes(pynative: None, ms: ModuleType, nets: ModuleType) -> None:
    x = nets.tensor(4, 4)
    gradient = ms.value_and_grad(nets.sum_there_and_back)
    gradient(x)
    profile = measure(lambda: nets.there_and_back(x), lambda: gradient(x))
    there, back = "float32->float64", "float64->float32"
    assert profile.calls_by_dtype["Cast"] == {there: (1, 2), back: (1, 2)}
    assert profile.calls_by_dtype["Cos"] == {"float64": (0, 1)}


@pytest.mark.usefixtures("dispatching")
@pytest.mark.parametrize("number", range(7))
def test_kernels_cast_for_themselves_in_pynative_mode_as_in_a_graph(
    number: int, pynative: None, ms: ModuleType, nets: ModuleType
) -> None:
    """Of a graph MindSpore says what each kernel casts; in PyNative mode it follows from what was dispatched."""
    function = nets.HALF[number]
    compiled = ms.jit(function)
    a, b = nets.tensor(4, 8, dtype=np.float16), nets.tensor(8, 8, dtype=np.float16)
    b = b[:4] if function is not nets.matmul else b
    compiled(a, b)
    eager, graph = measure(lambda: function(a, b)), measure(lambda: compiled(a, b))
    assert all(key.signature.dtypes is not None for key in (*eager.keys, *graph.keys))
    assert casts(eager) == casts(graph)


@pytest.mark.usefixtures("dispatching")
def test_bytes_are_those_of_the_tensors(mode: str, ms: ModuleType, nets: ModuleType) -> None:
    relu, x = ms.nn.ReLU(), nets.tensor(4, 8)
    relu(x)
    assert measure(lambda: relu(x)).stats("Relu").bytes == (2 * 4 * 8 * 4,)


def test_a_window_changes_no_result(mode: str, ms: ModuleType, nets: ModuleType) -> None:
    image = nets.tensor(2, 1, 32, 32)

    def trained(run: Callable[[Body], object]) -> list[Any]:
        ms.set_seed(0)
        net = nets.LeNet()
        step = nets.training(net, ms.nn.Adam(net.trainable_params()), image)
        run(step)
        run(step)
        return [parameter.asnumpy() for parameter in net.trainable_params()]

    for plain, seen in zip(trained(lambda body: body()), trained(measure), strict=True):
        assert np.array_equal(plain, seen)


def test_ops_belong_to_the_step_that_called_them(mode: str, nets: ModuleType) -> None:
    body = molecules(nets)
    body()
    steps = measure(*[body] * 5, lambda: None)
    assert steps.stats("Tanh").calls == (3, 3, 3, 3, 3, 0)


@pytest.mark.slow
@pytest.mark.processes
def test_the_contract_is_kept(mode: str, ms: ModuleType) -> None:
    assert check_backend(backend(), backend().selfcheck_work()) == []


def test_two_hundred_windows_of_a_graph_give_one_table(graph: None, nets: ModuleType) -> None:
    body = molecules(nets)
    body()
    tables = [(raws(profile), casts(profile)) for profile in (measure(body) for _ in range(200))]
    assert tables == [tables[0]] * 200


def test_threads_of_the_program_are_counted(pynative: None, nets: ModuleType) -> None:
    steps = molecules(nets)
    steps()

    def body() -> None:
        threads = [threading.Thread(target=steps) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert measure(body).stats("Tanh").calls == (6,)


def test_another_profiler_around_or_inside_is_an_error_and_the_next_window_is_right(
    pynative: None, ms: ModuleType, nets: ModuleType, tmp_path: Path
) -> None:
    from mindspore.profiler import ProfilerActivity, profile, tensorboard_trace_handler

    def theirs() -> Any:
        handler = tensorboard_trace_handler(str(tmp_path), analyse_flag=False)
        return profile(activities=[ProfilerActivity.CPU], on_trace_ready=handler)

    x = nets.tensor(2, 2)
    with theirs():
        with pytest.raises(BackendError, match="a MindSpore profiler is already running in this process"):
            measure(lambda: ms.ops.relu(x))
    original = ms._c_expression.Profiler.init

    def inside() -> None:
        ms.ops.relu(x)
        with theirs():
            ms.ops.relu(x)

    with pytest.raises(BackendError, match=r"another one \(ms.Profiler.*\) was started or stopped inside the test"):
        measure(inside)
    assert ms._c_expression.Profiler.init is original
    assert raws(measure(lambda: ms.ops.relu(x))) == {"ReLU": 1}


def test_an_op_that_fails_after_it_was_called_is_said(
    pynative: None, nets: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyNative mode may find out when it is waited for; when it does is up to threads, so it is made up here."""
    try:
        from mindspore.graph.api import _pynative_executor
    except ImportError:
        from mindspore.common.api import _pynative_executor

    def fails() -> None:
        raise RuntimeError("The kernel Clone unregistered.")

    with pytest.raises(BackendError, match=r"^an op of MindSpore failed after it was called: The kernel Clone"):
        measure(lambda: monkeypatch.setattr(_pynative_executor, "sync", fails))
    monkeypatch.undo()
    assert raws(measure(lambda: None)) == {}


def test_an_error_in_the_body_stops_the_profiler(pynative: None, ms: ModuleType, nets: ModuleType) -> None:
    x = nets.tensor(2)

    def fails() -> None:
        ms.ops.relu(x)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(fails)
    assert raws(measure(lambda: ms.ops.sin(x))) == {"Sin": 1}


@pytest.mark.usefixtures("dispatching")
def test_a_mode_of_the_program_that_sees_its_ops_is_left_alone(
    pynative: None, ms: ModuleType, nets: ModuleType
) -> None:
    seen: list[str] = []

    class Mine(ms.utils.MsDispatchMode):  # type: ignore[misc, name-defined]
        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            seen.append(func.name)
            return func(*args)

    x = nets.tensor(2)
    with Mine():
        profile = measure(lambda: ms.ops.cast(x, ms.float64))
    assert (seen, raws(profile), casts(profile)) == (["Cast"], {"Cast": 1}, {})
    assert "the dtypes of some casts are unknown" in remarks_of(profile)[0]
    with pytest.raises(UsageError, match="cannot be counted: mindspore does not tell the dtypes of Cast"):
        profile.stats("Cast[*->float64]")


def test_where_nothing_is_dispatched_dtypes_of_pynative_mode_are_not_known_and_that_is_said(
    pynative: None, ms: ModuleType, nets: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before 2.10."""
    monkeypatch.delattr(ms.utils, "MsDispatchMode", raising=False)
    x = nets.tensor(2)
    profile = measure(lambda: ms.ops.cast(x, ms.float64), lambda: ms.ops.relu(x))
    assert (raws(profile), casts(profile)) == ({"Cast": 1, "ReLU": 1}, {})
    assert "the dtypes of some casts are unknown" in remarks_of(profile)[0]


def test_a_graph_that_the_program_lets_mindspore_write_is_read_there(
    graph: None, ms: ModuleType, nets: ModuleType, tmp_path: Path
) -> None:
    context, parameters = ms.context._context(), ms.context.ms_ctx_param.__members__
    ours = context.get_param(parameters["save_graphs_path"])
    context.set_param(parameters["save_graphs_path"], str(tmp_path))
    try:
        profile = measure(molecules(nets))
        assert context.get_param(parameters["save_graphs_path"]) == str(tmp_path)
    finally:
        context.set_param(parameters["save_graphs_path"], ours)
    assert sum(casts(profile).values()) == profile.stats("Cast").most_calls > 0
    assert profile.remarks == ()
    assert [*tmp_path.glob("graph_build_*.ir")]


def test_a_graph_that_was_compiled_before_the_first_test_is_not_known_and_that_is_said(
    graph: None, nets: ModuleType
) -> None:
    body, late = molecules(nets), MindSporeBackend()
    measure(body)
    with late.collect(Options()) as log:
        body()
    profile = log.freeze()
    assert profile.stats("Cast").most_calls > 0
    assert (casts(profile), len(profile.remarks)) == ({}, 1)


def test_files_of_graphs_do_not_pile_up(graph: None, ms: ModuleType, nets: ModuleType) -> None:
    net, x = ms.nn.ReLU(), nets.tensor(3)
    measure(lambda: net(x))
    assert [path for path in scratch.folder("graphs").rglob("*") if path.is_file()] == []


def test_what_runs_elsewhere_is_said(
    pynative: None, ms: ModuleType, nets: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MindSpore for a CPU stands in for one on an accelerator."""
    real = ms.get_context
    monkeypatch.setattr(ms, "get_context", lambda name: "GPU" if name == "device_target" else real(name))
    reason = (
        "MindSpore runs on GPU: the mindspore backend records what it runs on the CPU, and the cuda backend the"
        " kernels, without their dtypes, shapes and lines"
    )
    with backend().collect(Options()) as log:
        ms.ops.relu(nets.tensor(2))
    assert (backend().blind(), remarks_of(log.freeze())[0]) == (reason, reason)


@pytest.mark.processes  # it compiles the stand-in
def test_on_ascend_its_kernels_come_from_mspti_and_what_runs_on_the_cpu_from_mindspore(
    pynative: None, ms: ModuleType, nets: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """MindSpore for a CPU and a stand-in for libmspti stand in for MindSpore on an NPU."""
    npu, ascend = ascend_stand_in.install(monkeypatch, tmp_path, tmp_path / "home")
    monkeypatch.delitem(sys.modules, "acl")
    monkeypatch.setitem(sys.modules, "mindspore", ms)
    _runs_on(ms, "Ascend", monkeypatch)
    recorder, window = Recorder([ascend, backend()], Options()), Window("w")
    x = nets.tensor(2)
    with recorder.open(window), recorder.step(window):
        npu.launch("Cast", times=3)
        ms.ops.relu(x)
    assert {stats.op: stats.calls for stats in window.profile.ops} == {"Cast": (3,), "Relu": (1,)}
    assert window.profile.environment.device == "Ascend910B2+cpu"
    assert any(text.startswith("MindSpore runs on Ascend: ") for text in remarks_of(window.profile))
    ascend_stand_in.forget()


def test_on_a_gpu_its_kernels_come_from_cupti(
    pynative: None, ms: ModuleType, nets: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MindSpore for a CPU and a stand-in for libcupti stand in for MindSpore on a GPU."""
    gpu = Gpu()
    cuda = install_cuda(monkeypatch, gpu)
    monkeypatch.delitem(sys.modules, "cupy")
    assert not cuda.in_use()
    _runs_on(ms, "GPU", monkeypatch)
    recorder, window = Recorder([cuda, backend()], Options()), Window("w")
    x = nets.tensor(2)
    with recorder.open(window), recorder.step(window):
        gpu.launch("my_kernel")
        ms.ops.relu(x)
    assert {stats.op for stats in window.profile.ops} == {"my_kernel", "Relu"}
    assert dict(window.profile.environment.frameworks).keys() == {"cuda", "mindspore"}


def _runs_on(ms: ModuleType, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ms.get_context
    monkeypatch.setattr(ms, "get_context", lambda name: target if name == "device_target" else real(name))
    monkeypatch.setattr(ms.runtime, "synchronize", lambda: None)


def test_that_threads_are_not_limited_is_said_once(
    pynative: None, ms: ModuleType, nets: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    fresh, x, remarks = MindSporeBackend(), nets.tensor(2), []
    for _ in range(2):
        with registry.threads_limited([fresh], 1), fresh.collect(Options()) as log:
            ms.ops.relu(x)
        remarks += remarks_of(log.freeze())
    assert len(remarks) == 1
    assert remarks[0].startswith(
        "MindSpore's threads cannot be limited in a process that runs: its ops use all 3 cores"
    )


@pytest.mark.usefixtures("dispatching")
def test_numpy_in_the_same_window_is_counted_beside_it(mode: str, nets: ModuleType) -> None:
    body = molecules(nets)
    body()
    numpy = numpy_backend()
    numpy.begin_test()
    recorder, window = Recorder([backend(), numpy], Options(), explicit=True), Window("w")
    array = np.ones((10, 3))
    with recorder.open(window), recorder.step(window):
        body()
        array.astype(np.float32)
    found = casts(window.profile)
    assert found["float64->float32"] == 1
    assert window.profile.environment.folder.startswith("mindspore-2")
    assert dict(window.profile.environment.frameworks).keys() == {"mindspore", "numpy"}


def test_a_typo_of_an_op_is_a_mistake(pynative: None, ms: ModuleType, nets: ModuleType) -> None:
    profile = measure(lambda: ms.ops.relu(nets.tensor(2)))
    assert profile.knows("ApplyMomentum")
    assert profile.knows("SumExt")
    assert not profile.knows("cast")
    assert not profile.knows("ApplyMomentun")


def test_the_environment_is_the_version(ms: ModuleType, nets: ModuleType) -> None:
    assert measure(lambda: None).environment.frameworks == (("mindspore", ms.__version__),)
