"""Files of MegEngine are read whole, and broken ones end in one sentence."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.formats import find
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.megengine.saved import graph as megengine_graph
from pytest_opprof.frameworks.megengine.saved import timeline as megengine_timeline
from pytest_opprof.profile.saved import SavedProfile

DATA = Path(__file__).parents[3] / "data" / "megengine"
EXECUTED = {"smallconv": 23, "resnet18": 93, "resnet18-fused": 76, "encoder4": 285, "copy3dev": 13, "train-conv": 200}
OPS = {"smallconv": 15, "smallconv-scopes": 15, "train": 95}
every_graph = pytest.mark.parametrize("name", EXECUTED)
every_timeline = pytest.mark.parametrize("name", OPS)


def path_of(name: str) -> Path:
    plain = DATA / f"{name}.json"
    return plain if plain.exists() else DATA / f"{name}.json.gz"


@cache
def text_of(name: str) -> bytes:
    content = path_of(name).read_bytes()
    return gzip.decompress(content) if path_of(name).suffix == ".gz" else content


def graph(name: str) -> SavedProfile:
    return megengine_graph.read(Place(path_of(name)), Options())


def timeline(name: str) -> SavedProfile:
    return megengine_timeline.read(Place(path_of(f"imperative-{name}.chrome_timeline")), Options())


def document(name: str) -> Any:
    return json.loads(text_of(name))


def written(folder: Path, content: Any) -> Place:
    path = folder / "profile.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return Place(path)


def small() -> Any:
    """Return a document of one operator on two nodes; made up, in the format of the recorded ones."""
    span = {"start": 1.0, "kern": 1.000002, "end": 1.000005}
    return {
        "graph_exec": {
            "comp_seq": ["7"],
            "operator": {"7": {"name": "a", "type": "Elemwise", "input": ["1"], "output": ["2", "3"]}},
            "var": {"1": {"mem_plan": {"layout": {"dtype": "Float32"}}}, "2": {"mem_plan": None}},
        },
        "profiler": {
            "device": {"7": {'CompNode("cpu0:0" from "xpux:0")': span, 'CompNode("gpu1:0" from "gpu1:0")': dict(span)}},
            "host": {"7": {"@": {"start": 3.0, "kern": -1, "end": 3.000001}}},
            "opr_footprint": {"7": {"in_shapes": [[2, 3]], "out_shapes": [[]], "memory": 0, "computation": 0}},
        },
    }


# The graph profile.


@every_graph
def test_every_operator_that_ran_is_a_record(name: str) -> None:
    trace, raw = graph(name), document(name)
    assert [record.id for record in trace.records] == [
        identifier for identifier in raw["graph_exec"]["operator"] if identifier in raw["profiler"]["device"]
    ]
    assert len(trace.records) == EXECUTED[name]
    assert trace.environment.frameworks == (("megengine", ""),)
    assert (trace.environment.device, trace.environment.arch, trace.remarks) == ("cpu", "", ())


@every_graph
def test_records_say_what_the_file_says(name: str) -> None:
    raw = document(name)
    for record in graph(name).records:
        operator, footprint = raw["graph_exec"]["operator"][record.id], raw["profiler"]["opr_footprint"][record.id]
        (span,) = raw["profiler"]["device"][record.id].values()
        (host,) = raw["profiler"]["host"][record.id].values()
        assert (record.name, record.type) == (operator["name"], operator["type"])
        assert [list(shape) for shape in record.input_shapes or ()] == footprint["in_shapes"]
        assert [list(shape) for shape in record.output_shapes or ()] == footprint["out_shapes"]
        assert (record.memory, record.computation) == (footprint["memory"], footprint["computation"])
        assert record.device_ns == round(span["end"] * 1e6) * 1000 - round(span["start"] * 1e6) * 1000
        assert record.device_launch_ns == round(span["kern"] * 1e6) * 1000 - round(span["start"] * 1e6) * 1000
        assert record.host_ns == round(host["end"] * 1e6) * 1000 - round(host["start"] * 1e6) * 1000
        assert len(record.input_dtypes) in (0, len(operator["input"]))


def test_the_place_is_the_physical_node() -> None:
    nodes = document("copy3dev")["profiler"]["device"]
    trace = graph("copy3dev")
    assert {record.id: record.place for record in trace.records} == {
        identifier: node.split('"')[1] for identifier, spans in nodes.items() for node in spans
    }
    assert {record.place for record in trace.records} == {"cpu0:0", "cpu1:0", "cpu2:0"}


def test_all_24_casts_of_the_encoder_say_what_they_cast_to() -> None:
    casts = [record for record in graph("encoder4").records if record.type == "TypeCvt"]
    assert len(casts) == 24
    assert all(record.name.startswith(f"as{record.output_dtypes[0]}(") for record in casts)
    pairs = Counter((record.input_dtypes or ("",), record.output_dtypes) for record in casts)
    # What LayerNorm returns is planned when the graph runs, so that the dtype of 4 inputs is not in the file.
    assert pairs == {
        (("Float32",), ("Float16",)): 8,
        (("Float16",), ("Float32",)): 12,
        (("",), ("Float16",)): 4,
    }


def test_reductions_and_pooling_are_told_apart_by_their_mode() -> None:
    ops = {record.type: record.op for record in graph("smallconv").records}
    assert (ops["PoolingForward"], ops["Reduce"], ops["ConvolutionForward"]) == ("MaxPool", "ReduceMean", "")
    assert {record.op for record in graph("train-conv").records if record.type == "Reduce"} == {
        "ReduceSum", "ReduceProd", "ReduceMean", "ReduceMax"
    }  # fmt: skip
    elementwise = {record.op for record in graph("smallconv").records if record.type == "Elemwise"}
    assert len(elementwise) == 4
    assert "FUSE_ADD_SIGMOID" in elementwise


def test_the_longest_of_several_nodes_counts(tmp_path: Path) -> None:
    raw = small()
    raw["profiler"]["device"]["7"]['CompNode("gpu1:0" from "gpu1:0")'] = {"start": 0, "kern": 1e-6, "end": 9e-6}
    trace = megengine_graph.read(written(tmp_path, raw), Options())
    (record,) = trace.records
    assert (record.device_ns, record.device_launch_ns) == (9000, 2000)
    assert (record.place, trace.environment.device) == ("cpu0:0+gpu1:0", "cpu+gpu")


def test_an_operator_without_a_kernel_has_no_launch_time(tmp_path: Path) -> None:
    (record,) = megengine_graph.read(written(tmp_path, small()), Options()).records
    assert (record.host_ns, record.host_launch_ns) == (1000, None)


def test_no_formula_and_no_dtype_are_not_known_and_no_bytes_are_none(tmp_path: Path) -> None:
    (record,) = megengine_graph.read(written(tmp_path, small()), Options()).records
    assert (record.computation, record.memory) == (None, 0)
    assert (record.input_dtypes, record.output_dtypes) == (("Float32",), ())
    assert (record.input_shapes, record.output_shapes) == (((2, 3),), ((),))


def test_times_finer_than_a_microsecond_are_kept(tmp_path: Path) -> None:
    raw = small()
    raw["profiler"]["host"]["7"]["@"] = {"start": 0.123456789, "kern": 0.12345679, "end": 0.1234568}
    (record,) = megengine_graph.read(written(tmp_path, raw), Options()).records
    assert (record.host_ns, record.host_launch_ns) == (11, 1)


def test_operators_without_times_are_counted_and_said(tmp_path: Path) -> None:
    """As under MGB_PROFILE_ONLY_WAIT."""
    raw = document("copy3dev")
    for section in raw["profiler"].values():
        for identifier in [key for key in section if raw["graph_exec"]["operator"][key]["type"] != "Copy"]:
            del section[identifier]
    trace = megengine_graph.read(written(tmp_path, raw), Options())
    assert len(trace.records) == 13
    assert trace.remarks == ("10 of 13 operators have no device time",)
    assert sum(record.device_ns is None for record in trace.records) == 10


@given(seed=st.integers(), indent=st.sampled_from([None, 1]))
@settings(max_examples=10)
def test_the_order_of_keys_and_spaces_mean_nothing(seed: int, indent: int | None, tmp_path_factory: Any) -> None:
    for name in ("copy3dev", "train-conv"):
        text = json.dumps(shuffled(document(name), random.Random(seed)), indent=indent)
        place = written(tmp_path_factory.getbasetemp(), text.encode())
        assert megengine_graph.recognises(place)
        assert sorted(megengine_graph.read(place, Options()).records, key=str) == sorted(graph(name).records, key=str)


def shuffled(value: Any, shuffler: random.Random) -> Any:
    if not isinstance(value, dict):
        return value
    items = list(value.items())
    shuffler.shuffle(items)
    return {key: shuffled(item, shuffler) for key, item in items}


# The imperative timeline.


@every_timeline
def test_every_op_of_the_worker_is_a_record(name: str) -> None:
    events = document(f"imperative-{name}.chrome_timeline")["traceEvents"]
    dispatched = [event["args"]["__name__"] for event in events if event["name"] == "OpDispatch" and "args" in event]
    trace = timeline(name)
    ops = [record for record in trace.records if record.type != "HostToDevice"]
    assert Counter(record.type for record in ops) == Counter(dispatched)
    assert len(ops) == OPS[name]
    assert all(record.calls == 1 for record in trace.records)
    assert trace.environment.device == "cpu"


@every_timeline
def test_device_times_are_those_of_the_kernels(name: str) -> None:
    events = document(f"imperative-{name}.chrome_timeline")["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "Kernel"]
    whole = sum(event["ts"] if event["ph"] == "E" else -event["ts"] for event in kernels)
    ops = [record for record in timeline(name).records if record.type != "HostToDevice"]
    assert sum(record.device_ns or 0 for record in ops) == pytest.approx(whole * 1000, rel=1e-9)
    assert all(record.host_ns is not None and record.device_ns is not None for record in ops)


def test_host_to_device_copies_are_ops() -> None:
    copies = [record for record in timeline("train").records if record.type == "HostToDevice"]
    assert [record.device_ns for record in copies] == [0, 0, 0, 0, 580]
    assert copies[0].output_shapes == ((4,),)
    assert copies[0].output_dtypes == ("Int32",)


def test_ops_have_shapes_dtypes_and_the_names_of_modules() -> None:
    conv, *_, cast = timeline("smallconv").records
    assert (conv.name, conv.type, conv.place) == ("body.c1.Convolution", "Convolution", "cpu0:0")
    assert conv.input_shapes == ((2, 3, 64, 64), (16, 3, 3, 3))
    assert conv.output_shapes == ((2, 16, 64, 64),)
    assert (cast.input_dtypes, cast.output_dtypes) == (("Float16",), ("Float32",))
    assert (conv.host_ns, conv.device_ns) == (42785, 7353741)
    assert next(r.op for r in timeline("smallconv").records if r.type == "Reduce") == "ReduceMean"


def test_scopes_are_no_ops() -> None:
    assert Counter(r.type for r in timeline("smallconv").records) == Counter(
        r.type for r in timeline("smallconv-scopes").records
    )


def events(*rows: tuple[str, str, float, Any]) -> Any:
    """Return a timeline of (phase, name, us, args) on one thread; made up, in the format of the recorded ones."""
    head = {"name": "nr_alive_tensor", "ph": "C", "args": {"value": 1.0}}
    made = [{"ph": ph, "name": name, "ts": ts, "tid": 0, **({"args": a} if a else {})} for ph, name, ts, a in rows]
    return {"traceEvents": [head, *made], "metadata": {}}


def test_the_host_time_of_an_op_leaves_out_ops_inside_it(tmp_path: Path) -> None:
    made = events(
        ("B", "Outer", 0, None),
        ("B", "scope", 1, None),
        ("B", "Inner", 2, None),
        ("E", "Inner", 5, {"__id__": 2, "__name__": "Inner"}),
        ("E", "scope", 6, None),
        ("E", "Outer", 10, {"__id__": 1, "__name__": "Outer"}),
    )
    records = megengine_timeline.read(written(tmp_path, made), Options()).records
    assert [(record.name, record.host_ns, record.device_ns) for record in records] == [
        ("Outer", 7000, None),
        ("Inner", 3000, None),
    ]


def test_an_op_that_is_executed_again_is_two_calls(tmp_path: Path) -> None:
    once = [("B", "ADD", 0.0, None), ("E", "ADD", 1.5, {"__id__": 1, "__name__": "ADD"})]
    (record,) = megengine_timeline.read(written(tmp_path, events(*once, *once)), Options()).records
    assert (record.calls, record.host_ns) == (2, 3000)


def test_all_kernels_of_an_op_count_and_the_worker_says_when_it_began(tmp_path: Path) -> None:
    args = {"__id__": 1, "__name__": "ADD"}
    kernels = [("B", "ADD", 0.0, None), ("E", "ADD", 2.0, args), ("B", "ADD", 3.0, None), ("E", "ADD", 4.0, args)]
    made = events(
        *kernels, ("B", "SUB", 5, None), ("E", "SUB", 6, {"__id__": 2}), ("B", "ADD", 7, None), ("E", "ADD", 8, args)
    )
    for event in made["traceEvents"][1:5]:
        event |= {"cat": "Kernel", "tid": 1}
    records = megengine_timeline.read(written(tmp_path, made), Options()).records
    assert [(r.type, r.calls, r.device_ns, r.host_ns) for r in records] == [
        ("SUB", 1, None, 1000),
        ("ADD", 1, 3000, 1000),
    ]


def test_a_scope_that_began_before_the_profile_is_no_error(tmp_path: Path) -> None:
    made = events(("E", "body", 0, None), ("B", "ADD", 1, None), ("E", "ADD", 2, {"__id__": 1, "__name__": "ADD"}))
    assert len(megengine_timeline.read(written(tmp_path, made), Options()).records) == 1


@pytest.mark.parametrize("compressed", [False, True])
def test_a_cut_timeline_is_read_as_far_as_it_is_whole(tmp_path: Path, compressed: bool) -> None:
    content = text_of("imperative-train.chrome_timeline")
    if compressed:
        place = written(tmp_path, gzip.compress(content)[:-5000])
    else:
        place = written(tmp_path, content[: len(content) // 2])
    with pytest.raises(TraceError, match=r"--partial|copied whole"):
        megengine_timeline.read(place, Options())
    trace = megengine_timeline.read(place, Options(partial=True))
    assert 20 < len(trace.records) < 100
    assert trace.records[:20] == timeline("train").records[:20]
    assert "whole events read, " in trace.remarks[0]


def test_a_whole_timeline_is_read_whole_also_in_part() -> None:
    place = Place(path_of("imperative-train.chrome_timeline"))
    assert megengine_timeline.read(place, Options(partial=True)) == timeline("train")


@given(seed=st.integers())
@settings(max_examples=20)
def test_how_threads_are_interleaved_means_nothing(seed: int, tmp_path_factory: Any) -> None:
    threads: dict[int, list[Any]] = {}
    for event in document("imperative-smallconv-scopes.chrome_timeline")["traceEvents"]:
        threads.setdefault(event["tid"], []).append(event)
    turns = [tid for tid, thread in threads.items() for _ in thread]
    random.Random(seed).shuffle(turns)
    mixed = {"traceEvents": [threads[tid].pop(0) for tid in turns]}
    records = megengine_timeline.read(written(tmp_path_factory.getbasetemp(), mixed), Options()).records
    assert records == timeline("smallconv-scopes").records


# What is recognised.


@every_graph
def test_graph_profiles_are_found_by_their_content(name: str) -> None:
    assert [found.format for found in find(Place(path_of(name)))] == ["megengine"]


@every_timeline
def test_timelines_are_told_from_other_traces(name: str) -> None:
    place = Place(path_of(f"imperative-{name}.chrome_timeline"))
    assert megengine_timeline.recognises(place)
    assert not megengine_graph.recognises(place)


@pytest.mark.parametrize("module", [megengine_graph, megengine_timeline])
@given(content=st.binary() | st.sampled_from([b"", b"{}", b"[]", b'{"traceEvents": []}', b'{"profiler": 1}', b"\x00"]))
def test_nothing_else_is_recognised(module: Any, content: bytes) -> None:
    place = Place(DATA / "there-is-no-such-file")
    place.__dict__["head"] = content
    assert not module.recognises(place)


def test_a_folder_is_no_profile() -> None:
    assert not megengine_graph.recognises(Place(DATA))
    assert not megengine_timeline.recognises(Place(DATA))


# What is broken.


def broken(**changes: Any) -> bytes:
    """Return a document with a value at a path (``profiler.host``) replaced; without it for None."""
    raw = small()
    for path, value in changes.items():
        at = raw
        *parents, last = path.split("__")
        for part in parents:
            at = at[part]
        at[last] = value
    return json.dumps(raw).encode()


FIELDS = "memory", "computation", "in_shapes"
BROKEN = {
    "empty": b"",
    "cut": broken()[:-30],
    "not JSON": b'{"profiler": {"device": nan',
    "two documents": broken() * 2,
    "UTF-16": broken().decode().encode("utf-16"),
    "a list": b"[1]",
    "no graph": json.dumps({"profiler": small()["profiler"]}).encode(),
    "nothing ran": broken(profiler={"device": {}, "host": {}}, graph_exec__comp_seq=[]),
    "an unknown operator": broken(graph_exec__comp_seq=["8"]),
    "an operator that is a list": broken(graph_exec__operator={"7": []}),
    "a name that is a number": broken(graph_exec__operator={"7": {"name": 1, "type": "a"}}),
    "a time that is text": broken(profiler__host={"7": {"@": {"start": "1", "kern": 1, "end": 1}}}),
    "a time that is missing": broken(profiler__host={"7": {"@": {"start": 1, "kern": 1}}}),
    "a time without end": broken().replace(b"3.000001", b"1e400"),
    "a time in the stone age": broken().replace(b"3.000001", b"1e30"),
    "an end before the start": broken().replace(b"3.000001", b"2.999"),
    "a kernel after the end": broken().replace(b"-1", b"4"),
    "NaN": broken().replace(b"3.000001", b"NaN"),
    **{f"{field} below zero": broken(profiler__opr_footprint={"7": {field: -1}}) for field in FIELDS},
    **{f"{field} that is huge": broken(profiler__opr_footprint={"7": {field: 10**30}}) for field in FIELDS},
    "a shape of text": broken(profiler__opr_footprint={"7": {"in_shapes": [["a"]]}}),
    "digits": broken().replace(b'"memory": 0', b'"memory": ' + b"9" * 10_000),
    "depth": b'{"profiler": {"device": {"1": ' + b"[" * 200_000,
    "bytes that are no text": broken().replace(b'"a"', b'"\xff"'),
    "a lone surrogate": broken().replace(b'"a"', b'"\\ud800"'),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_graph_profile_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    place = written(tmp_path, content)
    with pytest.raises(TraceError, match=r"profile\.json: .{10}") as raised:
        megengine_graph.read(place, Options())
    assert len(str(raised.value).removeprefix(str(place))) < 300


@pytest.mark.parametrize(
    "content",
    [
        events(("B", "a", 0, None), ("E", "b", 1, None)),
        events(("B", "a", 1, None), ("E", "a", 0, None)),
        events(("B", "a", 0, None), ("E", "a", 1, {"__id__": "x"})),
        events(("B", "a", 0, None), ("E", "a", 1, [1])),
        events(("B", "a", 0, None), ("E", "a", 1e300, {"__id__": 1})),
        events(),
        {"traceEvents": [1]},
        {"traceEvents": {}},
        {},
        b'{"traceEvents": [{"ph": "B"',
        events(*[("B", "a", 0, None)] * 10_001),
    ],
    ids=lambda content: str(content)[:40],
)
def test_a_broken_timeline_is_one_sentence(content: Any, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"profile\.json: .{10}"):
        megengine_timeline.read(written(tmp_path, content), Options())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["copy3dev", "imperative-smallconv.chrome_timeline"])
@given(data=st.data())
@settings(max_examples=200)
def test_a_damaged_file_is_an_error_or_a_trace(name: str, data: st.DataObject, tmp_path_factory: Any) -> None:
    module = megengine_timeline if "timeline" in name else megengine_graph
    content = bytearray(text_of(name))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4) | st.just(b"9" * 400))
    place = written(tmp_path_factory.getbasetemp(), bytes(content))
    for partial in (False, True):
        with suppress(TraceError):
            assert module.read(place, Options(partial=partial)).records
