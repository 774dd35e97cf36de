"""XLA's own profile, by itself and beside the trace of the same run."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import formats
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.xla.saved import jax_trace as jax
from pytest_opprof.frameworks.xla.saved import xplane
from pytest_opprof.profile.saved import SavedProfile

from ....conftest import shared
from ....protobuf_messages import field

DATA = Path(__file__).parents[3] / "data"
RUN = DATA / "jax-cpu" / "run"
XPLANE = (RUN / "vm.xplane.pb").read_bytes()
Read = Callable[[bytes], SavedProfile]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def written(content: bytes) -> SavedProfile:
        (tmp_path / "vm.xplane.pb").write_bytes(content)
        (found,) = formats.find(Place(tmp_path / "vm.xplane.pb"))
        assert found.format == "jax_xplane"
        return formats.read(found)

    return written


@pytest.mark.parametrize("name", ["vm.trace.json.gz", "perfetto_trace.json.gz"])
def test_all_files_of_a_run_give_the_same_profile(name: str) -> None:
    (found,) = formats.find(Place(RUN / name))
    trace = formats.read(found)
    assert trace.steps == ("train 0", "train 1", "train 2", "outside")
    assert sum(record.calls for record in trace.records) > 40
    assert replace(xplane.read(Place(RUN / "vm.xplane.pb"), Options()), source=trace.source) == trace


def test_a_longer_run_gives_the_same_profile_as_its_trace() -> None:
    trace = jax.read(Place(DATA / "jax-cpu" / "train_step.trace.json.gz"), Options())
    of_xplane = xplane.read(Place(shared("jax-cpu/train_step.xplane.pb.gz")), Options())
    assert replace(of_xplane, source=trace.source) == trace


def test_a_folder_with_all_files_of_a_run_holds_one_profile(tmp_path: Path) -> None:
    (found,) = formats.find(Place(RUN))
    assert found.place.path.name == "vm.xplane.pb"
    for path in RUN.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "other.trace.json.gz").write_bytes((RUN / "vm.trace.json.gz").read_bytes())
    names = [found.place.path.name for found in formats.find(Place(tmp_path))]
    assert names == ["other.trace.json.gz", "vm.xplane.pb"]


def test_tensorflows_ops_are_those_of_functions_of_xla_and_of_python() -> None:
    """Three steps: Cast, MatMul, Relu in a function; the same three compiled, two of them fused; a Cast by itself."""
    trace = xplane.read(Place(DATA / "tensorflow-cpu" / "vm.xplane.pb.gz"), Options())
    assert trace.environment.frameworks == (("tensorflow", ""),)
    assert trace.steps == ("train 0", "train 1", "train 2")
    for step in range(3):
        calls: Counter[str] = Counter()
        for record in trace.records:
            if record.step == step and record.counted != 0:
                calls[record.type] += record.calls
        assert calls == {
            "Cast": 2,
            "MatMul": 2,  # XLA calls its own after TensorFlow's
            "Relu": 1,
            "convert": 1,
            "broadcast_maximum_fusion": 1,
        }
    assert {record.type for record in trace.records if record.counted == 0} == {"__inference_g_23"}
    assert not any("XLA" in record.type for record in trace.records)


def stat(name: int, **value: int | str) -> bytes:
    ((kind, content),) = value.items()
    return field(4, field(1, name) + field({"uint": 3, "int": 4, "text": 5, "ref": 7}[kind], content))


def named(number: int, name: str) -> bytes:
    return field(1, number) + field(2, field(1, number) + field(2, name))


def event(metadata: int, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
    return field(4, field(1, metadata) + field(2, offset_ps) + field(3, duration_ps) + b"".join(stats))


STATS = ["", "hlo_op", "hlo_module", "run_id", "step_num", "dot.1", "jit_f", "other"]
OP = [stat(1, ref=5), stat(2, text="jit_f"), stat(3, int=-7)]


def plane(*events: bytes, name: str = "/device:GPU:0", line: str = "Stream 1", metadata: bytes = b"") -> bytes:
    """Return a space with a plane that has one line; event 1 is called gemm, 2 train, 3 what *metadata* says."""
    lines = field(3, field(1, 1) + field(2, line) + field(3, 1000) + b"".join(events))
    names = field(4, named(1, "gemm")) + field(4, named(2, "train")) + metadata
    stats = b"".join(field(5, named(number, name)) for number, name in enumerate(STATS) if name)
    return field(1, field(1, 5) + field(2, name) + lines + names + stats) + field(4, "host")


def test_times_are_those_of_the_event_from_that_of_its_line_on(read: Read) -> None:
    content = plane(event(2, 0, 9_000_000, stat(4, uint=3)), event(1, 2_000_400, 1_500_600, *OP))
    trace = read(content)
    (record,) = trace.records
    assert (record.name, record.type, record.id) == ("dot.1", "dot", "jit_f")
    assert (record.calls, record.device_ns, record.place) == (1, 1501, "/device:GPU:0")
    assert (trace.steps, trace.step_ns) == (("train 3",), (9000.0,))
    assert trace.environment.device == "gpu"
    assert trace.kernels is not None
    assert [(kernel.name, kernel.launched_by) for kernel in trace.kernels] == [("gemm", "dot.1")]


def test_what_metadata_says_holds_for_all_its_events(read: Read) -> None:
    meant = field(1, 3) + field(2, field(1, 3) + field(2, "gemm") + field(5, OP[0][2:]) + field(5, OP[1][2:]))
    trace = read(plane(event(3, 0, 1000), event(3, 5000, 1000), metadata=field(4, meant)))
    assert [(record.name, record.calls) for record in trace.records] == [("dot.1", 2)]


def test_a_line_that_shows_ops_again_is_left_out(read: Read) -> None:
    with pytest.raises(TraceError, match="has no XLA ops"):
        read(plane(event(1, 0, 1, *OP), line="Async XLA Ops"))


def test_what_a_device_did_for_no_op_is_told(read: Read) -> None:
    trace = read(plane(event(1, 0, 1000, *OP), event(1, 0, 1000, stat(7, int=1))))
    assert "1 event of /device:GPU:0 without the name of an op of XLA's: left out" in trace.remarks


def test_ops_of_tensorflow_have_host_time_where_a_device_did_their_work(read: Read) -> None:
    meant = field(1, 3) + field(2, field(1, 3) + field(2, "a/MatMul:MatMul") + field(4, "a/MatMul"))
    host = plane(event(3, 0, 5000), name="/host:CPU", metadata=field(4, meant))
    assert [(r.name, r.type, r.device_ns, r.host_ns) for r in read(host).records] == [("a/MatMul", "MatMul", 5, None)]
    trace = read(host + plane(event(1, 0, 1000)))
    assert [(r.device_ns, r.host_ns, r.host_most_ns) for r in trace.records] == [(None, 5, 5)]
    assert trace.remarks[0] == "1 event of /device:GPU:0 without the name of an op of XLA's: left out"


KERNELS = [stat(1, ref=5), stat(2, text="jit_f")]
"""The stats of an op on a GPU, which does not tell the execution."""


def test_launches_of_the_host_are_no_work_of_the_device(read: Read) -> None:
    """Recorded on an MI300X: 150 kernels, and 150 launches on /host:CPU with the same hlo_op."""
    launches = plane(
        event(3, 0, 9000, *KERNELS), name="/host:CPU", metadata=field(4, named(3, "hipModuleLaunchKernel"))
    )
    trace = read(launches + plane(event(1, 0, 1000, *KERNELS), event(1, 5000, 1000, *KERNELS)))
    assert [(r.name, r.calls, r.device_ns, r.place) for r in trace.records] == [("dot.1", 2, 2, "/device:GPU:0")]
    assert trace.remarks == ()


def test_instructions_that_the_host_ran_beside_a_device_are_said_to_be_left_out(read: Read) -> None:
    host = plane(event(3, 0, 9000, *KERNELS), name="/host:CPU", metadata=field(4, named(3, "dot.1")))
    trace = read(host + plane(event(1, 0, 1000, *KERNELS)))
    assert [(r.calls, r.place) for r in trace.records] == [(1, "/device:GPU:0")]
    assert trace.remarks == ("1 instruction that the host ran itself: left out, as a device ran the others",)


def test_kernels_of_one_call_are_one_call(read: Read) -> None:
    """Of the backward pass of fused attention: two fills, then three kernels."""
    attend = field(4, named(3, "attend"))
    kernels = [event(which, at * 10_000, 1000, *KERNELS) for at, which in enumerate((1, 1, 3, 1, 1, 3))]
    trace = read(plane(*kernels, metadata=attend))
    assert [(r.calls, r.device_ns) for r in trace.records] == [(2, 6)]
    assert trace.kernels is not None
    assert [(kernel.name, kernel.calls) for kernel in trace.kernels] == [("gemm", 4), ("attend", 2)]


def test_kernels_without_a_number_count_in_the_step_in_which_they_ran(read: Read) -> None:
    steps = [event(2, at, 2_000_000, stat(4, int=number)) for number, at in enumerate((0, 5_000_000))]
    trace = read(plane(*steps, event(1, 1_000_000, 1000, *KERNELS), event(1, 6_000_000, 1000, *KERNELS)))
    assert [(record.step, record.calls) for record in trace.records] == [(0, 1), (1, 1)]
    assert trace.remarks[0].startswith("2 kernels are not linked to the call from Python")


TPU_STATS = ["", "run_id", "flops", "bytes_accessed", "step_num"]
COPY = "%copy-start.4 = (f32[8]{0:T(8)S(5)}, f32[8]{0}, u32[]) copy-start(f32[8]{0} %x)"
CAST = "%convert.2 = bf16[8,4]{1,0:T(8,128)(2,1)} convert(f32[8,4]{1,0} %y)"
FUSED = "%add_fusion.1 = f32[8]{0} fusion(f32[8]{0} %x), kind=kLoop, calls=%c"
LOOP = "%while.3 = (s32[], f32[8]{0}) while((s32[], f32[8]{0}) %t), condition=%c, body=%b"


def tpu(*ops: str, lines: bytes = b"") -> bytes:
    """Return a plane of a TPU on which module jit_f ran all *ops*, twice; an op takes 1 us, the loop what is in it."""
    texts = dict(enumerate(dict.fromkeys(ops), 3))
    numbers = {text: number for number, text in texts.items()}
    metadata = field(4, named(1, "jit_f(12190760917235803885)"))
    for number, text in texts.items():
        shown = text.partition(" ")[0].removeprefix("%")
        facts = field(5, field(1, 2) + field(3, 70)) + field(5, field(1, 3) + field(3, 64))
        metadata += field(4, field(1, number) + field(2, field(1, number) + field(2, text) + field(4, shown) + facts))
    runs = [(0, 9), (20_000_000, -2)]
    modules = b"".join(event(1, at, 10_000_000, stat(1, int=run)) for at, run in runs)
    ran = b"".join(
        event(numbers[text], at + 1_000_000 * index, 1_000_000) for at, _ in runs for index, text in enumerate(ops)
    )
    content = field(3, field(2, "XLA Modules") + modules) + field(3, field(2, "XLA Ops") + ran) + lines
    names = b"".join(field(5, named(number, name)) for number, name in enumerate(TPU_STATS) if name)
    return field(1, field(2, "/device:TPU:0") + content + metadata + names) + field(4, "host")


def test_the_instructions_of_a_tpu_are_read_from_their_texts(read: Read) -> None:
    trace = read(tpu(CAST, FUSED, COPY))
    assert trace.environment.device == "tpu"
    assert [(r.name, r.type, r.id, r.calls, r.device_ns) for r in trace.records] == [
        ("convert.2", "convert", "jit_f", 2, 2000),
        ("add_fusion.1", "add_fusion", "jit_f", 2, 2000),
        ("copy-start.4", "copy", "jit_f", 2, 2000),
    ]
    cast = trace.records[0]
    assert (cast.input_dtypes, cast.output_dtypes, cast.input_shapes) == (("f32",), ("bf16",), ((8, 4),))
    assert (cast.computation, cast.memory) == (140, 128)
    assert trace.kernels is None


def test_halves_and_loops_of_a_tpu_are_no_ops_of_their_own(read: Read) -> None:
    trace = read(tpu(LOOP, CAST, "%copy-done.4 = f32[8]{0} copy-done((f32[8]{0}, u32[]) %copy-start.4)", "dependency"))
    assert {r.type: (r.counted, r.computation) for r in trace.records} == {
        "while": (0, None),
        "convert": (None, 140),
        "copy-done": (0, None),
        "dependency": (None, 140),
    }


def test_steps_of_a_tpu_are_those_of_the_calls_from_python(read: Read) -> None:
    names = field(4, named(1, "PjitFunction(f)")) + field(4, named(2, "train")) + field(5, named(4, "step_num"))
    events = [event(2, 0, 5000, stat(4, int=0)), event(1, 100, 100), event(2, 6000, 5000, stat(4, int=1))]
    host = field(1, field(2, "/host:CPU") + field(3, b"".join([*events, event(1, 6100, 100)])) + names)
    trace = read(host + tpu(CAST))
    assert trace.steps == ("train 0", "train 1")
    assert [(r.step, r.calls) for r in trace.records] == [(1, 1), (0, 1)]  # by run_id: -2 is before 9


def kernel_of(op: str, at: int) -> bytes:
    return event(1, at, 1000, stat(8, text=op))


def test_the_kernels_of_tensorflows_ops_have_their_device_time(read: Read) -> None:
    """Two kernels that follow each other are of one call; lines that repeat them are not read."""
    names = field(5, named(8, "tf_op")) + field(4, named(3, "a/MatMul:MatMul"))
    content = [kernel_of("a/MatMul:MatMul", 0), kernel_of("a/MatMul:MatMul", 2000), kernel_of("Cast:Cast", 4000)]
    again = field(3, field(2, "TensorFlow Ops") + event(3, 0, 3000))
    trace = read(plane(*content, kernel_of("a/MatMul:MatMul", 6000), metadata=names + again))
    assert trace.environment.frameworks == (("tensorflow", ""),)
    assert [(r.name, r.type, r.calls, r.device_ns) for r in trace.records] == [
        ("a/MatMul", "MatMul", 2, 3),
        ("Cast", "Cast", 1, 1),
    ]
    assert trace.kernels is not None
    assert [(kernel.name, kernel.launched_by, kernel.calls) for kernel in trace.kernels] == [
        ("gemm", "a/MatMul", 3),
        ("gemm", "Cast", 1),
    ]
    assert trace.remarks == ()


def test_an_op_of_tensorflow_that_host_and_device_tell_counts_once(read: Read) -> None:
    meant = field(1, 3) + field(2, field(1, 3) + field(2, "a/MatMul:MatMul") + field(4, "a/MatMul"))
    host = plane(event(3, 0, 5000), event(3, 9000, 5000), name="/host:CPU", metadata=field(4, meant))
    trace = read(host + plane(kernel_of("a/MatMul:MatMul", 0), metadata=field(5, named(8, "tf_op"))))
    assert [(r.calls, r.counted, r.device_ns, r.host_ns) for r in trace.records] == [
        (2, None, None, 10),
        (1, 0, 1, None),
    ]


def test_tensorflows_own_line_is_read_where_no_kernel_names_its_op(read: Read) -> None:
    names = field(4, named(3, "a/MatMul:MatMul"))
    again = field(3, field(2, "TensorFlow Ops") + event(3, 0, 3000) + event(1, 3000, 10))
    trace = read(plane(event(1, 0, 1000), metadata=names + again))
    assert [(r.name, r.type, r.calls, r.device_ns) for r in trace.records] == [("a/MatMul", "MatMul", 1, 3)]
    assert trace.remarks[0] == "1 event of /device:GPU:0 without the name of an op of XLA's: left out"


def test_executions_without_a_number_are_not_taken_for_one(read: Read) -> None:
    unnumbered = [OP[0], OP[1], stat(3, uint=2**64 - 1)]
    steps = [event(2, at, 2_000_000, stat(4, int=number)) for number, at in enumerate((0, 5_000_000))]
    trace = read(plane(*steps, event(1, 1_000_000, 1000, *unnumbered), event(1, 6_000_000, 1000, *unnumbered)))
    assert [record.step for record in trace.records] == [0, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (XPLANE[:5000], r"is not a complete XLA profile \(field 1 at byte 0 ends [0-9]+ bytes behind its"
r" message\)\. Was it"),
        (plane(event(1, 0, 1, *OP))[:-6], "it ends without the name of a host"),
        (plane(event(9, 0, 1)), "has no metadata"),
        (plane(event(1, 0, -5000, *OP)), "'gemm' at byte [0-9]+ takes"),
        (plane(event(1, 0, 1 << 63, *OP)), "'gemm' at byte [0-9]+ takes"),
        (plane(field(4, b"\x08")), "ends in the middle of a field"),
        (plane(field(4, b"\x0a\x7f")), "ends in the middle of a field"),
        (plane(field(4, b"\x0d\x00\x00\x00\x00")), "a field of wire type 5 in the event"),
        (plane(field(4, b"\x08" + b"\xff" * 20)), "more than 10 bytes"),
        (plane(event(1, 0, 1, *OP), field(3, 7)), "the time of a line behind its events"),
        (plane(), "has no XLA ops"),
    ],
    ids="cut boundary metadata negative huge short long fixed varint order empty".split(),
)  # fmt: skip
def test_a_broken_profile_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        trace = xplane.read(Place(tmp_path / "a"), Options())
        raise TraceError(f"{tmp_path / 'a'}: {trace.remarks}")  # what is no error is a remark
    assert str(error.value).startswith(str(tmp_path / "a"))


@given(st.binary(max_size=100), st.integers(0, len(XPLANE)), st.integers(0, 40))
def test_bytes_of_any_kind_are_a_profile_or_one_error(content: bytes, at: int, removed: int) -> None:
    with NamedTemporaryFile() as file:
        file.write(XPLANE[:at] + content + XPLANE[at + removed :])
        file.flush()
        place = Place(Path(file.name))
        xplane.recognises(place)
        try:
            assert xplane.read(place, Options()).records
        except TraceError:
            pass


def test_a_trace_without_calls_of_jax_is_one_of_xla(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress((RUN / "vm.trace.json.gz").read_bytes()))
    document["traceEvents"] = [e for e in document["traceEvents"] if "Pjit" not in str(e.get("name"))]
    (tmp_path / "a").write_text(json.dumps(document))
    assert jax.read(Place(tmp_path / "a"), Options()).environment.frameworks == (("xla", ""),)
