"""The onnxruntime backend on the real ONNX Runtime. What is counted is compared with the graph that it says it runs."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_opprof.cli import main
from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.onnx.events import INSERTED_CAST
from pytest_opprof.frameworks.onnx.live.backend import OnnxRuntimeBackend, backend
from pytest_opprof.frameworks.onnx.live.files import folder
from pytest_opprof.frameworks.onnx.live.runs import OPTIONS_OF
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.events.assembly import assemble, told_apart
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.testing import check_backend
from pytest_opprof.timeline.window import timeline_of

from ....conftest import remarks_of
from ...measured import measured
from .. import onnx_models as models
from ..onnx_models import BATCH, CPU, MODELS, PICTURES

pytestmark = pytest.mark.onnxruntime


@pytest.fixture
def ort() -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)  # it warns of models that are saved, and says that files are gone
    return onnxruntime


@pytest.fixture(autouse=True)
def _no_file_is_left() -> Iterator[None]:
    yield
    assert os.listdir(folder(os.getpid())) == []


def measure(body: Callable[[], object], subject: OnnxRuntimeBackend | None = None) -> OpProfile:
    return measured(subject or backend(), body)


def calls(profile: OpProfile) -> dict[str, int]:
    return {stats.op: stats.most_calls for stats in profile.ops}


def raw_calls(profile: OpProfile) -> Counter[str]:
    return Counter(calls(told_apart(profile, "name")))


EXPORTED = Path(__file__).parents[3] / "data" / "onnxruntime-cpu" / "exported.onnx"
"""A model that PyTorch exported."""


def content_of(name: str) -> bytes:
    return EXPORTED.read_bytes() if name == "exported" else MODELS[name]()


def batch_of(name: str) -> Any:
    if name == "exported":
        return models.weights(2, 5, 16)
    return PICTURES if name == "convolutions" else BATCH


@pytest.mark.processes
def test_it_keeps_the_contract(capsys: pytest.CaptureFixture[str], ort: ModuleType) -> None:
    work = backend().selfcheck_work()
    assert check_backend(backend(), work) == []
    assert not main.main(["selfcheck", "--backend", "onnxruntime"])
    assert "opprof: 15 ok" in capsys.readouterr().out


def test_it_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["backends"])
    assert "onnxruntime  can run\n" in capsys.readouterr().out


def saved(ort: Any, content: bytes, level: str, path: Path) -> Counter[str]:
    """Return the op types of the graph that ONNX Runtime says it runs, as the `onnx` package reads it."""
    import onnx

    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(content, options, providers=CPU)
    nodes = onnx.load(str(path)).graph.node
    return Counter(INSERTED_CAST if node.name.startswith(INSERTED_CAST) else node.op_type for node in nodes)


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("name", [*MODELS, "exported"])
def test_counts_are_those_of_the_graph_that_was_saved(ort: Any, tmp_path: Path, name: str, level: str) -> None:
    content = content_of(name)
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    session = ort.InferenceSession(content, options, providers=CPU)
    profile = measure(lambda: [session.run(None, {"x": batch_of(name)}) for _ in range(3)])
    assert raw_calls(profile) == Counter({op: 3 * n for op, n in saved(ort, content, level, tmp_path / "m").items()})


def test_nodes_ran_inside_of_the_round_one_after_the_other(ort: Any) -> None:
    name = sorted(MODELS)[0]
    session = ort.InferenceSession(content_of(name), providers=CPU)
    recorder, window = Recorder([backend()], Options(moments=True), explicit=True), Window("w")
    with recorder.open(window):
        for times in (1, 2):
            with recorder.step(window):
                for _ in range(times):
                    session.run(None, {session.get_inputs()[0].name: batch_of(name)})
    whole, *spans = timeline_of(window.profile, 1)
    assert Counter(span.name.partition(" (")[0] for span in spans) == {
        stats.op: stats.calls[1] for stats in window.profile.ops
    }
    assert all(whole.start_ns <= span.start_ns <= span.end_ns <= whole.end_ns for span in spans)
    assert {span.depth for span in spans} == {0}


def test_what_a_loop_runs_is_counted_each_time(ort: Any) -> None:
    session = ort.InferenceSession(models.loop(times=7, pairs=2), providers=CPU)
    profile = measure(lambda: session.run(None, {"x": BATCH}))
    assert calls(profile) == {"Loop": 1, "Cast": 28, "Add": 14, "Identity": 7}
    assert profile.stats("Cast[float32->float16]").calls == (14,)


def test_of_an_if_the_branch_that_ran_is_counted(ort: Any) -> None:
    session = ort.InferenceSession(models.branches(), providers=CPU)
    assert "Cos" not in calls(measure(lambda: session.run(None, {"x": np.abs(BATCH)})))
    assert calls(measure(lambda: session.run(None, {"x": -np.abs(BATCH)})))["Cos"] == 2


def test_casts_that_onnx_runtime_inserts_are_counted_and_told_apart(ort: Any) -> None:
    session = ort.InferenceSession(models.half(), providers=CPU)
    profile = measure(lambda: session.run(None, {"x": BATCH}))
    casts, inserted = profile.stats("Cast").most_calls, profile.stats(INSERTED_CAST).most_calls
    assert inserted == raw_calls(profile)[INSERTED_CAST] > 0
    assert casts == inserted + raw_calls(profile)["Cast"]
    assert profile.knows(INSERTED_CAST)
    assert profile.knows("FusedGemm")
    assert not profile.knows("FusedGem")


def test_work_is_known_where_weights_are_packed(ort: Any) -> None:
    """In float32: 4x64 by 64x32 with 32 added, 4x32 by 32x8."""
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    products = measure(lambda: session.run(None, {"x": BATCH})).stats("MatMul")
    assert products.flops == (2 * (4 * 64 * 32 + 4 * 32 * 8),)
    assert products.bytes == (4 * (4 * 64 + 64 * 32 + 32 + 4 * 32) + 4 * (4 * 32 + 32 * 8 + 4 * 8),)


def test_the_work_of_convolutions_is_known(ort: Any) -> None:
    session = ort.InferenceSession(models.convolutions(), providers=CPU)
    flops = measure(lambda: session.run(None, {"x": PICTURES})).stats("Conv").flops
    assert flops == (2 * PICTURES.size * (16 * 9 + 8),)


def bound(session: Any) -> Any:
    binding = session.io_binding()
    binding.bind_cpu_input("x", BATCH)
    binding.bind_output("y")
    return binding


def by_binding(ort: Any, session: Any) -> Any:
    binding = bound(session)
    session.run_with_iobinding(binding)
    gc.collect()
    return binding.copy_outputs_to_cpu()[0]


def by_values(ort: Any, session: Any) -> Any:
    return session.run_with_ort_values(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(BATCH)})[0].numpy()


def by_vectors(ort: Any, session: Any) -> Any:
    from onnxruntime.capi import _pybind_state as state

    fed, fetched = state.OrtValueVector(), state.OrtValueVector()
    fed.push_back(ort.OrtValue.ortvalue_from_numpy(BATCH)._ortvalue)
    device = ort.OrtDevice.make("cpu", 0)._get_c_device()
    session.run_with_ortvaluevector(ort.RunOptions(), ["x"], fed, ["y"], fetched, [device])
    return ort.OrtValue(fetched[0]).numpy()


def by_callback(ort: Any, session: Any) -> Any:
    found: list[Any] = []
    done = threading.Event()

    def callback(results: Any, given: Any, error: str) -> None:
        found.extend(results)
        done.set()

    session.run_async(["y"], {"x": BATCH}, callback, None)
    assert done.wait(60)
    return found[0]


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "run": lambda ort, session: session.run(["y"], {"x": BATCH})[0],
    "run_with_iobinding": by_binding,
    "run_with_ort_values": by_values,
    "run_with_ortvaluevector": by_vectors,
    "run_async": by_callback,
}


def of_two_threads(ort: Any) -> Any:
    """Return options with which `run_async` works, also where there is one core."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    return options


def test_every_way_to_run_a_session_is_known(ort: Any) -> None:
    from onnxruntime.capi.onnxruntime_inference_collection import Session

    assert {name for name in vars(Session) if name.startswith("run")} == set(OPTIONS_OF) == set(WAYS)


@pytest.mark.parametrize("way", WAYS)
def test_results_are_the_same_bits_however_a_session_is_run(ort: Any, way: str) -> None:
    session = ort.InferenceSession(models.mlp(), of_two_threads(ort), providers=CPU)
    plain = session.run(["y"], {"x": BATCH})[0]
    found: list[Any] = []

    def body() -> None:
        for _ in range(3):
            found.append(WAYS[way](ort, session))

    assert calls(measure(body)) == {"MatMul": 6, "Softmax": 3}
    gc.collect()
    assert [each.tobytes() for each in found] == [plain.tobytes()] * 3


def test_a_binding_goes_on_after_the_window(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    binding = bound(session)
    measure(lambda: session.run_with_iobinding(binding))
    session.run_with_iobinding(binding)
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], session.run(["y"], {"x": BATCH})[0])


def test_checks_of_a_session_are_those_of_the_programs(ort: Any) -> None:
    session, other = (ort.InferenceSession(models.mlp(), providers=CPU) for _ in range(2))

    def body() -> None:
        with pytest.raises(Exception, match="x"):
            session.run(None, {"x": BATCH.astype(np.float64)})
        with pytest.raises(ValueError, match="missing"):
            session.run(None, {})
        session.run(None, {"x": BATCH})
        if hasattr(bound(other), "_session"):  # newer versions
            with pytest.raises(ValueError, match="must be used with the session that created it"):
                session.run_with_iobinding(bound(other))

    assert calls(measure(body)) == {"MatMul": 2, "Softmax": 1}


def test_sessions_of_before_and_inside_the_window_in_several_threads_are_told_by_step(ort: Any) -> None:
    before = ort.InferenceSession(models.mlp(), providers=CPU)
    inside: list[Any] = []
    recorder, window = Recorder([backend()], Options(), explicit=True), Window("test")

    def work(times: int) -> None:
        for _ in range(times):
            before.run(None, {"x": BATCH})
            inside[0].run(None, {"x": BATCH})

    with recorder.open(window):
        for times in (1, 0, 3):
            with recorder.step(window):
                inside[:] = [ort.InferenceSession(models.attention(), providers=CPU)]
                threads = [threading.Thread(target=work, args=[times]) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
    assert window.profile.stats("MatMul").calls == (3 * 4, 0, 9 * 4)
    assert window.profile.stats("Softmax").calls == (3 * 2, 0, 9 * 2)


def test_a_session_may_end_inside_the_window(ort: Any) -> None:
    def body() -> None:
        for _ in range(3):
            session = ort.InferenceSession(models.mlp(), providers=CPU)
            session.run(None, {"x": BATCH})
            handles.append(weakref.ref(session._sess))

    handles: list[Any] = []
    assert calls(measure(body)) == {"MatMul": 6, "Softmax": 3}
    gc.collect()
    assert [handle() for handle in handles] == [None] * 3


def test_results_of_run_async_may_be_dropped(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), of_two_threads(ort), providers=CPU)

    def body() -> None:
        for _ in range(20):
            session.run_async(None, {"x": BATCH}, lambda *results: None, None)

    assert calls(measure(body)) == {"MatMul": 40, "Softmax": 20}
    assert calls(measure(lambda: None)) == {}


def test_one_thread_is_enough_for_copies_but_for_those_of_run_async(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), of_two_threads(ort), providers=CPU)
    made: list[int] = []
    original = ort.InferenceSession.__init__

    def init(self: Any, model: Any, options: Any = None, **how: Any) -> None:
        made.append(options.intra_op_num_threads)
        original(self, model, options, **how)

    with pytest.MonkeyPatch.context() as patch, backend().threads_limited(1):
        patch.setattr(ort.InferenceSession, "__init__", init)
        measure(lambda: (session.run(None, {"x": BATCH}), by_callback(ort, session)))
    assert made == [1, 2]
    assert session.get_session_options().intra_op_num_threads == 2


def test_parallel_execution_is_counted(ort: Any) -> None:
    options = ort.SessionOptions()
    options.execution_mode, options.inter_op_num_threads = ort.ExecutionMode.ORT_PARALLEL, 2
    session = ort.InferenceSession(models.loop(), options, providers=CPU)
    assert calls(measure(lambda: session.run(None, {"x": BATCH})))["Cast"] == 14


def test_the_options_of_a_session_are_those_it_was_made_with(ort: Any) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(models.mlp(), options, providers=CPU)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert calls(measure(lambda: session.run(None, {"x": BATCH})))["Relu"] == 1
    assert not options.enable_profiling


def test_a_model_that_the_session_saved_is_not_saved_again(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "mine.onnx")
    session = ort.InferenceSession(models.mlp(), options, providers=CPU)
    (tmp_path / "mine.onnx").unlink()
    measure(lambda: session.run(None, {"x": BATCH}))
    assert not (tmp_path / "mine.onnx").exists()


def test_an_error_of_the_body_passes_and_leaves_no_trace(ort: Any) -> None:
    from onnxruntime.capi import _pybind_state as state
    from onnxruntime.capi.onnxruntime_inference_collection import Session

    session = ort.InferenceSession(models.mlp(), providers=CPU)
    before = [dict(vars(owner)) for owner in (Session, state.InferenceSession)]
    for error in (ZeroDivisionError("mine"), KeyboardInterrupt("mine")):
        with pytest.raises(type(error), match="mine"), backend().collect(Options()) as log:
            log.mark()
            session.run(None, {"x": BATCH})
            raise error
    assert [dict(vars(owner)) for owner in (Session, state.InferenceSession)] == before
    assert calls(measure(lambda: session.run(None, {"x": BATCH}))) == {"MatMul": 2, "Softmax": 1}


def profiled(ort: Any, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "mine")
    return ort.InferenceSession(models.mlp(), options, providers=CPU)


def test_a_session_that_the_program_profiles_is_read_where_it_ends_its_profile(ort: Any, tmp_path: Path) -> None:
    session = profiled(ort, tmp_path)
    session.run(None, {"x": BATCH})  # in the same file, and in no window
    ended: list[str] = []

    def body() -> None:
        session.run(None, {"x": BATCH})
        ended.append(session.end_profiling())
        session.run(None, {"x": BATCH})  # not profiled by the program any more

    assert calls(measure(body)) == {"MatMul": 4, "Softmax": 2}
    assert Path(ended[0]).read_text().count("model_run") == 2


def test_a_session_that_the_program_profiles_to_the_end_of_the_window_is_an_error(ort: Any, tmp_path: Path) -> None:
    session = profiled(ort, tmp_path)
    message = r"the session of 'mlp' \(made of bytes\) was made with enable_profiling.* call session\.end_profiling\(\)"
    with pytest.raises(BackendError, match=message):
        measure(lambda: session.run(None, {"x": BATCH}))
    assert "model_run" in Path(session.end_profiling()).read_text()


def test_a_file_that_is_gone_is_an_error_and_the_program_goes_on(
    ort: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(models.mlp())
    session = ort.InferenceSession("m.onnx", providers=CPU)
    monkeypatch.chdir(tmp_path.parent)
    results: list[Any] = []
    with pytest.raises(
        BackendError, match=r"the session of m\.onnx cannot be copied: m\.onnx is not there \(now in .*"
    ):
        measure(lambda: results.append(session.run(None, {"x": BATCH})))
    assert len(results) == 1


def test_a_model_that_was_replaced_is_an_error(ort: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(models.mlp())
    session = ort.InferenceSession(path, providers=CPU)
    measure(lambda: session.run(None, {"x": BATCH}))
    path.write_bytes(models.mlp("other"))
    with pytest.raises(BackendError, match="other inputs, outputs, metadata or providers than the session"):
        measure(lambda: session.run(None, {"x": BATCH}))
    path.write_bytes(models.mlp().replace(models.weights(32).tobytes(), bytes(4 * 32)))
    for _ in range(2):
        with pytest.raises(BackendError, match="does not give the same results, so its nodes may be others"):
            measure(lambda: session.run(None, {"x": BATCH}))


def test_tensors_that_were_given_beside_the_model_are_an_error_and_results_are_right(ort: Any, tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.load_from_string(models.mlp()), str(path), save_as_external_data=True, location="w.bin", size_threshold=0
    )
    options = ort.SessionOptions()
    options.add_external_initializers(["b1"], [ort.OrtValue.ortvalue_from_numpy(np.zeros(32, np.float32))])
    session = ort.InferenceSession(str(path), options, providers=CPU)
    plain = session.run(None, {"x": BATCH})[0]
    results: list[Any] = []
    with pytest.raises(BackendError, match="were tensors given with add_external_initializers"):
        measure(lambda: results.extend(session.run(None, {"x": BATCH})))
    assert results[0].tobytes() == plain.tobytes()
    files = ort.InferenceSession(str(path), providers=CPU)
    assert calls(measure(lambda: files.run(None, {"x": BATCH}))) == {"MatMul": 2, "Softmax": 1}


def test_weights_that_sessions_share_are_those_of_the_copy(ort: Any) -> None:
    options, shared = ort.SessionOptions(), ort.OrtValue.ortvalue_from_numpy(np.zeros(32, np.float32))
    options.add_initializer("b1", shared)
    session = ort.InferenceSession(models.mlp(), options, providers=CPU)
    assert calls(measure(lambda: session.run(None, {"x": BATCH}))) == {"MatMul": 2, "Softmax": 1}


def custom_ops(ort: Any, content: bytes | Path) -> Any:
    library = pytest.importorskip("onnxruntime_extensions").get_library_path()
    options = ort.SessionOptions()
    options.register_custom_ops_library(library)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(content, options, providers=CPU)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return session


def test_custom_ops_are_known_to_the_copy(ort: Any) -> None:
    session = custom_ops(ort, models.upper())
    profile = measure(lambda: session.run(None, {"x": np.array(["a", "b"])}))
    assert calls(profile) == {"StringUpper": 1, "Identity": 1}
    given = session._sess_options_initial
    assert (given.enable_profiling, given.graph_optimization_level) == (
        False,
        ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    )


def test_custom_ops_of_a_model_with_weights_in_other_files_are_an_error(ort: Any, tmp_path: Path) -> None:
    import onnx

    model = onnx.load_from_string(models.upper(beside=True))
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    session = custom_ops(ort, tmp_path / "m.onnx")
    with pytest.raises(
        BackendError, match=r"m\.onnx cannot be copied: .*StringUpper.* is not a registered function/op"
    ):
        measure(lambda: session.run(None, {"x": np.array(["a", "b"])}))


def test_a_session_that_keeps_no_model_is_an_error(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    session._model_bytes = None
    with pytest.raises(BackendError, match="keeps neither the path nor the bytes of its model"):
        measure(lambda: session.run(None, {"x": BATCH}))


def test_a_session_that_is_run_past_its_methods_is_an_error(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    with pytest.raises(BackendError, match="past its methods"):
        measure(lambda: session._sess.run(["y"], {"x": BATCH}, None))


def test_a_model_that_draws_random_numbers_is_no_error(ort: Any) -> None:
    session = ort.InferenceSession(models.random(), providers=CPU)
    assert calls(measure(lambda: session.run(None, {"x": BATCH}))) == {"RandomNormal": 1, "Add": 1}


def test_events_that_onnx_runtime_dropped_are_an_error(ort: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real limit is 10**6 events, which take a minute."""
    from pytest_opprof.frameworks.onnx.live import recordings

    monkeypatch.setattr(recordings, "MOST_EVENTS", 4)
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    with pytest.raises(BackendError, match=r"stopped recording the session of 'mlp' .* at 4 events"):
        measure(lambda: session.run(None, {"x": BATCH}))


def test_a_disk_without_room_is_an_error(ort: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for one: the file is cut."""
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path)[:300])
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    with pytest.raises(BackendError, match=r"profile of the session of 'mlp' .* cannot be read .* no room"):
        measure(lambda: session.run(None, {"x": BATCH}))


def test_a_package_that_runs_sessions_in_cpp_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of that name stands for onnxruntime_genai."""
    import sys

    assert backend().blind() is None
    monkeypatch.setitem(sys.modules, "onnxruntime_genai", ModuleType("onnxruntime_genai"))
    assert backend().blind() == "what onnxruntime_genai runs is not seen by opprof"


def test_a_provider_that_only_launches_kernels_is_told(ort: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's stands for one: nobody here has another."""
    from pytest_opprof.frameworks.onnx.live import backend as module

    monkeypatch.setattr(module, "ASYNCHRONOUS", frozenset(CPU))
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    profile = measure(lambda: session.run(None, {"x": BATCH}))
    assert profile.environment.timing == "async"
    (said,) = remarks_of(profile)
    assert said == "nodes of CPUExecutionProvider are counted; they launch kernels, and have no times"


def test_windows_of_one_process_show_one_table_and_keep_no_memory(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    tables = {tuple(sorted(calls(measure(lambda: session.run(None, {"x": BATCH}))).items())) for _ in range(50)}
    assert tables == {(("MatMul", 2), ("Softmax", 1))}
    gc.collect()
    handles = [each for each in gc.get_objects() if isinstance(each, ort.InferenceSession)]
    assert handles == [session]


def test_making_a_copy_is_no_time_of_the_program(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    paused = []
    with backend().collect(Options()) as log:
        for _ in range(3):
            log.mark()
            session.run(None, {"x": BATCH})
            paused.append(log.paused_ns)
    assert 0 < paused[0] == paused[1] == paused[2]


def test_marks_between_runs_tell_them_apart(ort: Any) -> None:
    session = ort.InferenceSession(models.mlp(), providers=CPU)
    with backend().collect(Options()) as log:
        for times in (0, 1, 2, 5):
            log.mark()
            for _ in range(times):
                session.run(None, {"x": BATCH})
        log.mark()
    profile = assemble([(log.freeze(), {n + 1: n for n in range(4)})], [1] * 4)
    assert profile.stats("Softmax").calls == (0, 1, 2, 5)
