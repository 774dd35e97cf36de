"""ONNX Runtime: profiles of sessions, and models that nobody ran."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.onnx.saved import model as onnx_model
from pytest_opprof.frameworks.onnx.saved import runtime
from pytest_opprof.profile.op_key import line_of
from pytest_opprof.profile.saved import SavedProfile
from pytest_opprof.sites.shown import Shown

from ....protobuf_messages import field, varint
from ...counted import counts

DATA = Path(__file__).parents[3] / "data" / "onnxruntime-cpu"


def profile(name: str) -> SavedProfile:
    return runtime.read(Place(DATA / name), Options())


def model(path: Path) -> SavedProfile:
    return onnx_model.read(Place(path), Options())


Write = Callable[["bytes | list[object]"], Place]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(content: bytes | list[object]) -> Place:
        path = tmp_path / "profile"
        path.write_bytes(json.dumps(content).encode() if isinstance(content, list) else content)
        return Place(path)

    return write


def node(name: str, op: str, ts: float, dur: float, tid: int = 1, provider: str = "CPUExecutionProvider") -> object:
    args = {"op_name": op, "provider": provider, "input_type_shape": [{"float": [2]}]}
    return {
        "cat": "Node",
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "ph": "X",
        "name": f"{name}_kernel_time",
        "args": args,
    }


def run(ts: float, dur: float, tid: int = 1) -> object:
    return {"cat": "Session", "pid": 1, "tid": tid, "ts": ts, "dur": dur, "ph": "X", "name": "model_run", "args": {}}


@pytest.mark.parametrize(("name", "casts"), [("ort_opt-all.json.gz", 1), ("ort_opt-none.json.gz", 2)])
def test_casts_of_each_run_are_those_that_ran_at_its_optimisation_level(name: str, casts: int) -> None:
    trace = profile(name)
    assert trace.steps == ("1", "2", "3", "4", "5")
    for step in range(5):
        assert sum(r.calls for r in trace.records if r.step == step and r.type == "Cast") == casts


def test_times_are_the_durations_in_the_file() -> None:
    trace = profile("ort_opt-all.json.gz")
    events = json.loads(gzip.decompress((DATA / "ort_opt-all.json.gz").read_bytes()))
    assert sum(r.device_ns or 0 for r in trace.records) == 1000 * sum(e["dur"] for e in events if e["cat"] == "Node")
    assert trace.step_ns == tuple(1000.0 * e["dur"] for e in events if e["name"] == "model_run")


def test_a_cast_says_from_which_dtype_to_which_and_how_much_it_moves() -> None:
    cast = next(r for r in profile("ort_opt-none.json.gz").records if r.name == "InsertedPrecisionFreeCast_W1")
    assert (cast.input_dtypes, cast.output_dtypes) == (("float16",), ("float",))
    assert cast.input_shapes == cast.output_shapes == ((64, 128),)
    assert cast.memory == 64 * 128 * (2 + 4)


def test_a_loop_is_timed_without_the_nodes_in_its_body() -> None:
    trace = profile("ort_loop.json.gz")
    events = json.loads(gzip.decompress((DATA / "ort_loop.json.gz").read_bytes()))
    loop = next(r for r in trace.records if r.type == "Loop" and r.step == 0)
    whole = next(e["dur"] for e in events if e["name"] == "loop_kernel_time")
    body = [r for r in trace.records if r.step == 0 and r.type in ("Cast", "Add", "Identity")]
    assert [r.calls for r in body] == [4, 4, 4, 4]
    assert loop.device_ns == 1000 * whole - sum(r.device_ns or 0 for r in body)


EVENTS = json.loads(gzip.decompress((DATA / "ort_loop.json.gz").read_bytes()))


@given(st.permutations(EVENTS))
@settings(max_examples=20)
def test_the_order_of_the_events_changes_nothing(events: list[object]) -> None:
    with NamedTemporaryFile() as file:
        file.write(json.dumps(events).encode())
        file.flush()
        shuffled = runtime.read(Place(Path(file.name)), Options())
    trace = profile("ort_loop.json.gz")
    assert Counter(shuffled.records) == Counter(trace.records)
    assert (shuffled.steps, shuffled.step_ns) == (trace.steps, trace.step_ns)


def test_runs_on_two_threads_at_the_same_time_are_told_apart(written: Write) -> None:
    place = written([node("a", "Add", 1, 2, 1), node("b", "Mul", 2, 2, 2), run(0, 9, 1), run(1, 9, 2)])
    trace = runtime.read(place, Options())
    assert [(r.type, r.step) for r in trace.records] == [("Add", 0), ("Mul", 1)]


def test_a_node_outside_of_every_run_is_shown_and_has_no_wall_time(written: Write) -> None:
    trace = runtime.read(written([node("a", "Add", 1, 2), run(10, 9), node("b", "Mul", 11, 2)]), Options())
    assert trace.steps == ("1", "outside")
    assert trace.step_ns == (9000,)
    assert [(r.type, r.step) for r in trace.records] == [("Add", 1), ("Mul", 0)]


def test_fences_of_old_versions_are_no_nodes(written: Write) -> None:
    fence = {**node("a", "Add", 0, 5), "name": "a_fence_before"}
    assert counts(runtime.read(written([fence, node("a", "Add", 5, 1)]), Options())) == {"Add": 1}


def test_a_node_that_only_launches_has_the_device_time_of_its_kernels(written: Write) -> None:
    """Made by hand after ONNX Runtime's source: nobody here has a build that records kernels."""
    kernel = {"cat": "Kernel", "name": "gemm_kernel", "ts": 2, "dur": 33, "args": {"op_name": "MatMul"}}
    place = written([node("mm", "MatMul", 1, 17, provider="CUDAExecutionProvider"), kernel, run(0, 99)])
    trace = runtime.read(place, Options())
    (record,) = trace.records
    assert (record.host_ns, record.device_ns) == (17_000, 33_000)
    assert trace.kernels is not None
    assert [(k.name, k.launched_by, k.device_ns) for k in trace.kernels] == [("gemm_kernel", "MatMul", 33_000)]
    assert trace.environment.device == "cuda"


def test_without_kernels_the_device_time_of_such_a_node_is_not_known(written: Write) -> None:
    place = written([node("mm", "MatMul", 1, 17, provider="CUDAExecutionProvider")])
    (record,) = runtime.read(place, Options()).records
    assert (record.host_ns, record.device_ns) == (17_000, None)


@pytest.mark.parametrize("name", ["ort_opt-all.json.gz", "ort_loop.json.gz"])
def test_a_profile_is_recognised_and_a_model_is_none(name: str) -> None:
    assert runtime.recognises(Place(DATA / name))
    assert not runtime.recognises(Place(DATA / "model.onnx"))
    assert not onnx_model.recognises(Place(DATA / name))


def test_a_profile_that_was_cut_gives_its_whole_events_if_asked(written: Write) -> None:
    content = gzip.decompress((DATA / "ort_opt-all.json.gz").read_bytes())
    place = written(content[: len(content) // 2])
    with pytest.raises(TraceError, match="is cut off"):
        runtime.read(place, Options())
    trace = runtime.read(Place(place.path), Options(partial=True))
    assert 0 < sum(counts(trace).values()) < 25
    assert any("partial" in remark for remark in trace.remarks)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([run(0, 1)], "has no nodes"),
        ([node("a", "Add", 0, -5)], "takes -5"),
        ([node("a", "Add", 1e300, 5)], "not a number of us"),
        ([node("a", "Add", 10**400, 5)], "not a number of us"),
    ],
)
def test_a_broken_profile_is_one_clear_error(written: Write, events: list[object], message: str) -> None:
    place = written(events)
    with pytest.raises(TraceError, match=message) as error:
        runtime.read(place, Options())
    assert str(error.value).startswith(str(place))


def test_ops_of_a_model_are_those_that_were_put_in() -> None:
    trace = model(DATA / "model.onnx")
    assert counts(trace) == {"Cast": 3, "MatMul": 1, "Relu": 1, "Gemm": 1, "Softmax": 1}
    assert [r.output_dtypes for r in trace.records if r.type == "Cast"] == [("float16",), ("float",), ("double",)]
    assert all(r.device_ns is None and r.host_ns is None for r in trace.records)


def test_nodes_in_functions_count_as_often_as_they_are_called_and_in_loops_once() -> None:
    trace = model(DATA / "loop.onnx")
    assert counts(trace) == {"Mul": 2, "Constant": 2, "Loop": 1, "Identity": 1, "Cast": 2, "Add": 1, "MatMul": 1}
    assert any("counted once" in remark for remark in trace.remarks)


def test_a_model_and_its_profile_agree_but_for_the_loop() -> None:
    static, ran = counts(model(DATA / "loop.onnx")), counts(profile("ort_loop.json.gz"))
    for op in ("Mul", "MatMul", "Loop"):
        assert ran[op] == 3 * static[op]
    for op in ("Cast", "Add", "Identity"):
        assert ran[op] == 3 * 4 * static[op]


def test_a_model_may_be_compressed(written: Write) -> None:
    place = written(gzip.compress((DATA / "model.onnx").read_bytes()))
    assert onnx_model.recognises(place)
    assert onnx_model.read(place, Options()) == model(DATA / "model.onnx")


def test_weights_are_not_read(tmp_path: Path) -> None:
    nodes = b"".join(field(1, field(2, b"%d" % i) + field(4, b"Relu")) for i in range(3))
    weights = b"\x4a" + varint(1 << 40)  # raw_data of an initializer: 1 TiB
    initializer = b"\x2a" + varint(len(weights) + (1 << 40)) + weights
    graph = b"\x3a" + varint(len(nodes) + len(initializer) + (1 << 40))
    path = tmp_path / "huge.onnx"
    with open(path, "wb") as file:
        file.write(b"\x08\x0a" + graph + nodes + initializer)
        try:
            file.truncate(file.tell() + (1 << 40))
        except OSError:
            pytest.skip("this file system has no sparse files of 1 TiB")
    assert counts(model(path)) == {"Relu": 3}


def nested(depth: int) -> bytes:
    graph = b""
    for _ in range(depth):
        graph = field(1, field(4, b"If") + field(5, field(6, graph)))
    return b"\x08\x0a" + field(7, graph)


RECURSIVE = (
    b"\x08\x0a"
    + field(7, field(1, field(4, b"f") + field(7, b"d")))
    + field(25, field(1, b"f") + field(10, b"d") + field(7, field(4, b"f") + field(7, b"d")))
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((DATA / "model.onnx").read_bytes()[:9000], "is not a complete ONNX model"),
        (b"", "has no graph"),
        (b"\x08\x0a" + field(7, b""), "has no ops"),
        (b"\x08" + b"\xff" * 20, "more than 10 bytes"),
        (nested(100), "64 deep"),
        (RECURSIVE, "calls itself"),
    ],
)
def test_a_broken_model_is_one_clear_error(written: Write, content: bytes, message: str) -> None:
    place = written(content)
    with pytest.raises(TraceError, match=message) as error:
        onnx_model.read(place, Options())
    assert str(error.value).startswith(str(place))


@given(st.binary(max_size=200) | st.binary(max_size=50).map(lambda tail: b"\x08\x0a\x3a\x30" + tail))
def test_bytes_of_any_kind_are_a_model_or_one_error(content: bytes) -> None:
    assume(not content.startswith(b"\x1f\x8b"))
    with NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        place = Place(Path(file.name))
        runtime.recognises(place)
        onnx_model.recognises(place)
        try:
            records = onnx_model.read(place, Options()).records
        except TraceError:
            return
    assert records


def test_runs_beyond_what_can_be_told_apart_are_one_step_and_that_is_said(
    written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_MOST_STEPPED", 1)
    events = [run(0, 9), node("a", "Add", 1, 2), run(10, 9), node("a", "Add", 11, 2)]
    trace = runtime.read(written(events), Options())
    assert (trace.steps, trace.step_ns) == (("",), None)
    assert [(r.calls, r.device_ns) for r in trace.records] == [(2, 4000)]
    assert "2 calls of run() are shown as one step" in trace.remarks[0]


EXPORTED = DATA / "exported.onnx"


def lines(saved: SavedProfile) -> dict[str, str]:
    return {record.name: line_of(record.site, Shown(".")) for record in saved.records}


def test_nodes_of_an_exported_model_have_lines() -> None:
    assert not model(EXPORTED).has_sites
    found = lines(onnx_model.read(Place(EXPORTED), Options(sites=True)))
    assert found["node_linear"] == "/home/me/project/network.py:12 in forward"
    assert "(no line known)" not in found.values()


def test_nodes_of_a_run_have_those_of_the_model() -> None:
    ran = runtime.read(Place(DATA / "ort_exported.json.gz"), Options(sites=True, model=EXPORTED))
    known = {name: line for name, line in lines(ran).items() if line != "(no line known)"}
    of_model = lines(onnx_model.read(Place(EXPORTED), Options(sites=True)))
    assert {name: line for name, line in known.items() if name in of_model}.items() <= of_model.items()
    assert {record.type for record in ran.records if record.site} == {
        *("FusedMatMul", "MatMul", "Cast", "Softmax", "Relu", "Gemm"),
    }
    assert not runtime.read(Place(DATA / "ort_exported.json.gz"), Options(sites=True)).has_sites


def test_a_model_that_tells_no_lines_is_an_error() -> None:
    with pytest.raises(TraceError, match=r"loop.onnx: does not tell which lines its nodes come from"):
        runtime.read(Place(DATA / "ort_loop.json.gz"), Options(sites=True, model=DATA / "loop.onnx"))
