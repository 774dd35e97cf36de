"""When everything ran, format by format: what a second reading of a file finds is what the first one added up."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.profile.saved import SavedProfile, communicates
from pytest_opprof.timeline.intervals import length, union
from pytest_opprof.timeline.spans import Kind, Span

from ..conftest import HERE, shared

DATA = HERE / "data"


def both(path: Path, partial: bool = False) -> tuple[list[Span], SavedProfile]:
    """Return the spans of a profile, and its ops."""
    (found,) = formats.find(Place(path))
    timeline = formats.timeline(found, partial)
    assert timeline is not None
    return list(timeline), formats.read(found, partial)


def device_ns(saved: SavedProfile) -> float:
    return sum(record.device_ns or 0 for record in saved.records)


def worked(spans: list[Span], *kinds: Kind) -> list[Span]:
    return [span for span in spans if span.lane.on_device and span.kind in (kinds or tuple(Kind))]


def test_kineto_tells_the_memory_of_each_device_on_the_time_axis_of_the_ops() -> None:
    path = DATA / "torch-cpu" / "train_step.pt.trace.json.gz"
    (found,) = formats.find(Place(path))
    timeline = formats.timeline(found)
    assert timeline is not None
    (cpu,) = timeline.memory.values()
    assert list(timeline.memory) == ["CPU"]
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    told = sorted((e["ts"], e["args"]["Total Allocated"]) for e in events if e["name"] == "[memory]")
    first = min(e["ts"] for e in events if e.get("cat") == "cpu_op")
    op = min(span.start_ns for span in timeline if span.kind is Kind.OP)
    assert [round((ts - first) * 1000) + op for ts, _ in told] == pytest.approx(list(cpu.times_ns), abs=2)
    assert sorted(cpu.sizes) == sorted(size for _, size in told)
    assert max(cpu.sizes) == formats.read(found, False).peak_memory


def test_without_totals_memory_is_what_was_allocated_since_the_file_began() -> None:
    (found,) = formats.find(Place(shared("torch-cuda/kineto_resnet50_v100_2021.pt.trace.json.gz")))
    timeline = formats.timeline(found)
    assert timeline is not None
    assert list(timeline.memory) == ["CPU", "device 0"]
    device = timeline.memory["device 0"]
    assert list(device.times_ns) == sorted(device.times_ns)
    assert max(device.sizes) == formats.read(found, False).peak_memory
    steps = [span for span in timeline if span.kind is Kind.STEP]
    # Training frees what a step allocated: a peak in each.
    peaks = [max(device.between(step.start_ns, step.end_ns).sizes) for step in steps]
    assert len(peaks) == 6
    assert min(peaks) > 0.9 * max(peaks)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        "hta_a100_rank0_shapes.json.gz",
        "hta_trace_diff_control.json.gz",
        "kineto_resnet50_v100_2021.pt.trace.json.gz",
        "hta_sampled_rank-0.json.gz",
    ],
)
def test_kineto_streams_have_every_activity_and_threads_every_op(path: str) -> None:
    spans, saved = both(shared(f"torch-cuda/{path}"))
    assert sum(span.duration_ns for span in worked(spans)) == device_ns(saved)
    assert Counter(span.lane.thread for span in worked(spans)) == {
        place: sum(kernel.calls for kernel in saved.kernels or () if kernel.place == place)
        for place in {kernel.place for kernel in saved.kernels or ()}
    }
    steps = [span for span in spans if span.kind is Kind.STEP]
    assert dict(zip(saved.steps, saved.step_ns or ())) == {step.name: step.duration_ns for step in steps}
    assert all(span.launched_ns is None or span.lane.on_device for span in spans)
    assert any(span.kind is Kind.RANGE for span in spans)


def test_kineto_on_a_cpu_the_threads_are_the_device() -> None:
    spans, saved = both(DATA / "torch-cpu" / "train_step.pt.trace.json.gz")
    ops = worked(spans, Kind.OP)
    # The self times of all ops are the time in which any of them ran.
    assert length(union((span.start_ns, span.end_ns) for span in ops)) == device_ns(saved)
    assert next(span.name for span in spans if span.kind is Kind.RANGE and not span.depth) == "train_step#0"


def test_jax_and_its_xplane_have_the_same_timeline() -> None:
    spans, saved = both(DATA / "jax-cpu" / "train_step.trace.json.gz")
    ops = worked(spans, Kind.OP)
    assert length(union((span.start_ns, span.end_ns) for span in ops)) == round(device_ns(saved))
    assert [span.name for span in spans if span.kind is Kind.STEP] == list(saved.steps)
    other, _ = both(shared("jax-cpu/train_step.xplane.pb.gz"))
    begin = min(span.start_ns for span in other) - min(span.start_ns for span in spans)
    assert [(span.name, span.kind, span.start_ns - begin, span.duration_ns) for span in other] == [
        (span.name, span.kind, span.start_ns, span.duration_ns) for span in spans
    ]


def test_onnx_runtime_nodes_lie_in_their_calls_of_run() -> None:
    spans, saved = both(shared("onnxruntime-cpu/ort_opt-all.json"))
    assert sum(span.duration_ns for span in worked(spans)) == device_ns(saved)
    runs = [span for span in spans if span.kind is Kind.STEP]
    assert [run.duration_ns for run in runs] == list(saved.step_ns or ())
    assert all(any(run.start_ns <= s.start_ns and s.end_ns <= run.end_ns for run in runs) for s in worked(spans))


def test_megengine_kernels_are_on_the_device_and_modules_are_ranges() -> None:
    spans, saved = both(shared("megengine/imperative-smallconv-scopes.chrome_timeline.json"))
    assert sum(span.duration_ns for span in worked(spans)) == device_ns(saved)
    ranges = {span.name for span in spans if span.kind is Kind.RANGE}
    assert {"body", "c1", "c2"} <= ranges
    assert not {name.partition(" ")[0] for name in ranges} & {"Put", "Del"}  # the interpreter's, one for each tensor
    assert set(map(str, {span.lane for span in spans})) == {"host interpreter", "host worker", "xpux:0 kernels"}


def test_ascend_timeline_and_table_of_one_recording_have_the_same_kernels(tmp_path: Path) -> None:
    folder = shared("ascend/torchnpu-alexnet/text/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT")
    spans, _ = both(folder / "trace_view.json")
    (tmp_path / "kernel_details.csv").write_bytes((folder / "kernel_details.csv").read_bytes())
    rows, of_rows = both(tmp_path)

    def kernels(of: list[Span]) -> list[tuple[int, int]]:
        begin = min(span.start_ns for span in worked(of, Kind.OP))
        return sorted((span.start_ns - begin, round(span.duration_ns, -2)) for span in worked(of, Kind.OP))

    assert len(kernels(rows)) == sum(record.calls for record in of_rows.records if not communicates(record))
    assert [start for start, _ in kernels(rows)] == [start for start, _ in kernels(spans)]
    communication = worked(spans, Kind.COMMUNICATION)
    assert len(communication) == len(worked(rows, Kind.COMMUNICATION)) == 4
    assert {span.lane.process for span in worked(spans)} == {"NPU"}
    assert [span.name for span in spans if span.kind is Kind.STEP] == ["50"]


def test_ascend_iterations_are_steps_and_reduces_communication() -> None:
    (folder,) = shared("ascend/mindspore-legacy/alexnet_2023").glob("PROF_*/device_0/timeline")
    spans, saved = both(folder)
    steps = {span.name: span.duration_ns for span in spans if span.kind is Kind.STEP}
    assert [steps[step] for step in saved.steps] == [round(ns) for ns in saved.step_ns or ()]
    assert sum(span.duration_ns for span in worked(spans, Kind.OP)) + sum(
        span.duration_ns for span in worked(spans, Kind.COMMUNICATION) if span.name.split("_")[1] in saved.steps
    ) == pytest.approx(device_ns(saved), abs=len(spans))


def test_mindspore_calls_begin_when_the_file_says() -> None:
    folder = DATA / "mindspore-cpu" / "2.10.0-py3.11" / "graph" / "forward"
    spans, saved = both(folder)
    assert sum(span.duration_ns for span in worked(spans, Kind.OP)) == device_ns(saved)
    (file,) = folder.rglob("cpu_op_execute_timestamp_0.txt")
    calls = [call for line in file.read_text().splitlines() for call in line.split(";")[2].split()]
    starts = sorted(int(call.split(",")[0]) for call in calls)
    assert sorted(span.start_ns for span in spans) == [start - starts[0] for start in starts]
    assert {span.lane.thread for span in spans} == {f"thread {call.split(',')[2]}" for call in calls}


def test_nsight_systems_has_kernels_with_the_call_that_launched_them() -> None:
    spans, saved = both(shared("nsys/cloverleaf-cuda.trimmed.sqlite.gz"))
    assert sum(span.duration_ns for span in worked(spans)) == device_ns(saved)
    calls = [span for span in spans if span.kind is Kind.CALL]
    assert sum(span.duration_ns for span in calls) == sum(record.host_ns or 0 for record in saved.records)
    launched = {span.launched_ns for span in worked(spans)} - {None}
    assert launched <= {span.start_ns for span in calls}


@pytest.mark.parametrize("path", ["megengine/resnet18.json", "ascend/torchnpu-alexnet/db/level0"])
def test_a_format_without_times_says_so(path: str) -> None:
    (found,) = formats.find(Place(shared(path)))
    assert formats.timeline(found) is None


def event(**fields: object) -> dict[str, object]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5, **fields}


def test_a_trace_with_fractions_of_a_us_since_1970_is_exact_to_the_ns(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": [event(ts="A"), event(ts="B", dur=1.001)]})
    path.write_text(text.replace('"A"', "1700000000000000.623").replace('"B"', "1700000000000010.874"))
    spans, _ = both(path)
    assert [(span.start_ns, span.duration_ns) for span in spans] == [(623, 5000), (10_874, 1001)]


def test_a_hostile_trace_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for time in (1e300, None):
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event(), event(ts=time)]}))
        (found,) = formats.find(Place(path))
        with pytest.raises(TraceError, match="has no time, or a number beyond 64 bits"):
            formats.timeline(found)


def test_what_a_task_of_ascend_lacks_is_an_error_and_left_out_of_a_partial_reading(tmp_path: Path) -> None:
    task = {"ph": "X", "name": "MatMul1", "pid": 1, "tid": 2, "ts": "5.001", "dur": 3, "args": {"Task Type": "AI_CORE"}}
    named = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Ascend Hardware"}}
    path = tmp_path / "trace_view.json"
    for broken in ({"ts": "soon"}, {"dur": -1}, {"ts": "1e400"}, {"ts": None}):
        path.write_text(json.dumps([named, task, {**task, **broken}]))
        (found,) = formats.find(Place(path))
        with pytest.raises(TraceError, match="a duration is missing or not a number: 'MatMul1' at"):
            formats.timeline(found)
        assert [span.start_ns for span in formats.timeline(found, partial=True) or ()] == [5001]


@pytest.mark.slow
def test_a_million_events_take_less_than_200_mib(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "t.json.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        file.writelines(
            json.dumps(event(name=f"aten::op{number % 50}", tid=number % 3, ts=number)) + ",\n"
            for number in range(1_000_000)
        )
        file.write(json.dumps(event()) + "]}")
    (found,) = formats.find(Place(path))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    timeline = formats.timeline(found)
    assert timeline is not None
    assert sum(1 for _ in timeline) == 1_000_001
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
