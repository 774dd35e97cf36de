"""MindSpore's formats.

The GPU's files, and of Ascend those with ``task_type`` and of the AI CPU, are stand-ins made here after MindSpore's
source: no recording of them was at hand.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files import formats as readers_formats
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.mindspore.saved import ascend as mindspore_ascend
from pytest_opprof.frameworks.mindspore.saved import cpu, gpu
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile

from ....conftest import SHARED, shared

DATA = Path(__file__).parents[3] / "data" / "mindspore-cpu"
VERSIONS = ("2.0.0-py3.9", "2.7.0-py3.10", "2.10.0-py3.11")
RUNS = {"forward": 5, "legacy_Profiler": 5, "train": 3, "train_memory": 3, "schedule": 2, "castloop": 4}
"""How often the network (or its training step, or the loop) ran."""
SESSIONS = [
    (version, mode, run)
    for version in VERSIONS
    for mode in ("graph", "pynative")
    for run in RUNS
    if version != VERSIONS[0] or run in ("forward", "train", "castloop")
]
CALLS = "Default/Mul-op1;HostCpuOps;1000,0.5,0 3000,0.25,0 \nCast;HostCpuOps;2000,0.001,0 \n"
LAUNCHES = "Mul;Mul-op1;7;input_1:[2, 3];input_2:[];\n;;7;\nMul;Mul-op1;7;input_1:[2, 3];input_2:[];\n"
DETAIL = "op_side,op_type,op_name,full_op_name,op_occurrences,op_total_time(ms),op_avg_time(ms),percent,graph,pid\n"
TYPES = "op_type,type_occurrences,execution_frequency(per-step),total_compute_time,avg_time(ms),percent\n"
MEMORY = "Timestamp(ns),Total Allocated(Byte),Total Reserved(Byte),Total Active(Byte)\n"


def network(version: str, mode: str, run: str) -> dict[str, int]:
    """Return the calls of each op: what the recorded scripts must do, and the compiler of this version."""
    if run == "castloop":
        return {"Cast": 14, "Mul": 7}
    old, graph = version == VERSIONS[0], mode == "graph"
    ops = {"Conv2D": 1, "ReLU": 1, "Cast": 2 if graph else 4, "MatMul": 1, "BiasAdd": 1}
    if not graph:
        ops["Flatten"] = 1
    if old and graph:
        ops = {**ops, "MatMul": 0, "BiasAdd": 0, "MatMulBiasAddFusion": 1}
    if run in ("forward", "legacy_Profiler"):
        return ops
    ops |= {"ApplyMomentum": 3, "BiasAddGrad": 1, "Conv2DBackpropFilter": 1, "ReluGrad": 1}
    ops |= {"SparseSoftmaxCrossEntropyWithLogits": 2, "MatMul": ops["MatMul"] + 2, "Cast": 2 * ops["Cast"]}
    if not old:
        ops["AssignAdd"] = 1
    if not graph:
        ops |= {"Mul": 1, ("Reshape" if old else "Ones"): 1}
    return ops


def read(path: Path, format: ModuleType = cpu, partial: bool = False, rank: int | None = None) -> SavedProfile:
    place = Place(path)
    assert format.recognises(place)
    return format.read(place, Options(partial, rank))


def attempt(path: Path, partial: bool) -> SavedProfile | str:
    """Return what was read, or why not."""
    try:
        return read(path, partial=partial)
    except TraceError as error:
        return str(error)


def calls(trace: SavedProfile) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for record in trace.records:
        counted[record.type] += record.calls
    return dict(counted)


def written(folder: Path, **files: str) -> Path:
    """Write files whose names have ``__`` for the rank 0 and the ending: ``cpu_framework__txt``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", "_0.")).write_text(content, encoding="utf-8", newline="")
    return folder


def one(root: Path) -> Path:
    """Return the folder of the only session in a folder."""
    (found,) = readers_formats.find(Place(root))
    assert (found.format, found.rank) == ("mindspore", 0)
    return found.place.path


@pytest.mark.parametrize(("version", "mode", "run"), SESSIONS)
def test_every_recording_has_the_calls_that_its_script_made_and_agrees_with_its_own_summaries(
    version: str, mode: str, run: str
) -> None:
    trace = read(one(shared(f"mindspore-cpu/{version}/{mode}/{run}")))
    expected = {op: count * RUNS[run] for op, count in network(version, mode, run).items() if count}
    assert calls(trace) == expected
    assert trace.remarks == ()
    assert (trace.peak_memory is not None) == (run in ("train_memory", "schedule"))


@pytest.mark.parametrize("root", sorted(path for path in DATA.glob("*/*/*")), ids=lambda path: path.name)
def test_the_recordings_in_the_repository_have_them_too(root: Path) -> None:
    version, mode, run = root.relative_to(DATA).parts
    trace = read(one(root))
    assert calls(trace) == {op: count * RUNS[run] for op, count in network(version, mode, run).items() if count}
    assert trace.remarks == ()


def test_the_recordings_in_the_repository_are_those_that_were_recorded() -> None:
    for path in DATA.rglob("*_0.*"):
        if SHARED.exists():
            assert path.read_bytes() == shared(f"mindspore-cpu/{path.relative_to(DATA)}").read_bytes()


def test_an_op_has_its_calls_their_times_and_its_input_shapes() -> None:
    trace = read(DATA / "2.0.0-py3.9/graph/forward")
    assert trace.records[0] == SavedOp(
        name="Default/conv-Conv2d/Conv2D-op14",
        type="Conv2D",
        calls=5,
        device_ns=90164 + 18305 + 15722 + 15630 + 15193,
        least_ns=15193,
        most_ns=90164,
        input_shapes=((4, 3, 8, 8), (8, 3, 3, 3)),
    )
    assert [record.type for record in trace.records] == ["Conv2D", "ReLU", "Cast", "Cast", "MatMulBiasAddFusion"]


def test_version_and_mode_are_said_where_a_file_tells_them_and_are_unknown_elsewhere() -> None:
    old, new = read(DATA / "2.0.0-py3.9/graph/forward"), read(one(DATA / "2.10.0-py3.11/graph/schedule"))
    assert str(old.environment) == "mindspore 2.0.0, cpu"
    assert old.source == "MindSpore CPU profiler, graph mode"
    assert new.environment.frameworks == (("mindspore", ""),)
    assert new.source == "MindSpore CPU profiler"
    assert old.environment.arch == new.environment.arch == ""
    assert old.steps == new.steps == ("",)


def test_shapes_are_unknown_for_ops_that_pynative_mode_launches_without_a_name() -> None:
    records = {record.type: record for record in read(one(DATA / "2.7.0-py3.10")).records}
    assert records["Cast"].input_shapes is None
    assert records["Conv2D"].input_shapes == ((4, 3, 8, 8), (8, 3, 3, 3))
    assert records["BiasAddGrad"].input_shapes == ((4, 10),)  # its second input is no tensor
    assert records["ApplyMomentum"].input_shapes == ((8, 3, 3, 3), (8, 3, 3, 3), (), (8, 3, 3, 3), ())


def test_ops_that_share_the_last_part_of_their_name_take_its_launches_in_the_order_of_their_calls(
    tmp_path: Path,
) -> None:
    written(
        tmp_path,
        cpu_op_execute_timestamp__txt="a/Cast-op0;H;30,1,0 10,2,0 \nb/Cast-op0;H;20,4,0 40,8,1 \n",
        cpu_framework__txt="".join(f"Cast;Cast-op0;1;input_1:[{size}];\n" for size in (1, 2, 1, 1)),
    )
    found = [(r.name, r.input_shapes, r.calls, r.device_ns) for r in read(tmp_path).records]
    assert found == [
        ("a/Cast-op0", ((1,),), 2, 3e6),
        ("b/Cast-op0", ((2,),), 1, 4e6),
        ("b/Cast-op0", ((1,),), 1, 8e6),
    ]


def test_without_the_calls_the_table_of_ops_is_read(tmp_path: Path) -> None:
    written(tmp_path, cpu_op_detail_info__csv=f"{DETAIL}Host,Cast,Cast-op1,a/Cast-op1,5,0.5,0.1,1,Default,1\n")
    assert read(tmp_path).records == (SavedOp("a/Cast-op1", "Cast", calls=5, device_ns=500_000),)


def test_a_summary_that_says_something_else_is_remarked_with_both_numbers(tmp_path: Path) -> None:
    mul, cast = "Host,Mul,Mul-op1,Default/Mul-op1,2,{},1,1,Default,1\n", "Host,Cast,Cast,Cast,{},0.001,1,1,Default,1\n"
    files = {"cpu_op_execute_timestamp__txt": CALLS, "cpu_framework__txt": LAUNCHES}
    written(tmp_path, **files, cpu_op_detail_info__csv=DETAIL + mul.format(0.75) + cast.format(1))
    assert read(tmp_path).remarks == ()
    written(tmp_path, cpu_op_detail_info__csv=DETAIL + mul.format(0.7501) + cast.format(3))
    assert read(tmp_path).remarks == (
        "cpu_op_detail_info_0.csv disagrees: Default/Mul-op1 takes 750100 ns there, 750000 ns here;"
        " Cast has 3 calls there, 1 here",
    )
    written(tmp_path, cpu_op_detail_info__csv=DETAIL + mul.format(0.75) + cast.format(1))
    written(tmp_path, cpu_op_type_info__csv=f"{TYPES}Mul,2,1,0.75,1,1\nCast,1,7,0.001,1,1\nAdd,4,1,1,1,1\n")
    assert read(tmp_path).remarks == ("cpu_op_type_info_0.csv disagrees: Add has 4 calls there, 0 here",)


def test_launches_that_are_not_those_of_the_calls_give_no_shapes_but_a_remark(tmp_path: Path) -> None:
    launch = "Mul;Mul-op1;7;input_1:[2];\n"
    written(tmp_path, cpu_op_execute_timestamp__txt=CALLS, cpu_framework__txt=launch)
    trace = read(tmp_path)
    assert [record.input_shapes for record in trace.records] == [None, None]
    assert trace.remarks == (
        "cpu_framework_0.txt has 1 launch of Mul-op1, but 2 known calls: its input shapes are left out",
    )


def test_only_memory_that_was_allocated_while_the_ops_ran_counts(tmp_path: Path) -> None:
    earlier = "10,999,1,1\n"
    written(tmp_path, cpu_op_execute_timestamp__txt=CALLS)
    written(tmp_path, cpu_ms_memory_record__txt=f"{MEMORY}{earlier}1000,40,1,1\n253000,50,1,1\n600000,7,1,1\n")
    trace = read(tmp_path)
    assert trace.peak_memory == 50
    assert "999 bytes outside the time of these ops" in trace.remarks[0]
    written(tmp_path, cpu_ms_memory_record__txt=f"{MEMORY}{earlier}")
    assert read(tmp_path).peak_memory is None


def test_the_peak_of_a_recording_is_not_that_of_the_session_before_it() -> None:
    assert read(one(DATA / "2.10.0-py3.11/graph/schedule")).peak_memory == 44032


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from(["a/Cast-op0", "b/Cast-op0", "Mul"]), st.integers(0, 10**6), st.integers(0, 10**9)),
        min_size=1,
        max_size=30,
        unique_by=lambda call: call[1],
    ),
    st.randoms(),
)
def test_no_order_of_lines_and_calls_changes_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, launched: list[tuple[str, int, int]], random: object
) -> None:
    folder = tmp_path_factory.mktemp("calls")
    seen = []
    for _ in range(2):
        lines = {name: "".join(f"{s},{ns / 1e6!r},0 " for op, s, ns in launched if op == name) for name, *_ in launched}
        written(folder, cpu_op_execute_timestamp__txt="".join(f"{op};H;{each}\n" for op, each in lines.items()))
        shapes = [
            f"X;{op.split('/')[-1]};1;input_1:[{ns % 3}];\n" for op, _, ns in sorted(launched, key=lambda c: c[1])
        ]
        written(folder, cpu_framework__txt="".join(shapes))
        seen.append(read(folder).records)
        random.shuffle(launched)  # type: ignore[attr-defined]
    assert seen[0] == seen[1]
    assert sum(record.device_ns or 0 for record in seen[0]) == sum(ns for *_, ns in launched)
    for record in seen[0]:
        alike = [ns for op, _, ns in launched if op == record.name and record.input_shapes == ((ns % 3,),)]
        assert (record.calls, record.device_ns) == (len(alike), sum(alike))
        assert (record.least_ns, record.most_ns) == (min(alike), max(alike))


@given(st.data())
def test_a_file_that_is_cut_is_an_error_and_partly_read_if_that_is_allowed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = next((DATA / "2.10.0-py3.11/graph").rglob("cpu_op_execute_timestamp_0.txt")).read_text()
    cut = whole[: data.draw(st.integers(1, len(whole) - 1).filter(lambda end: whole[end - 1] != "\n"))]
    folder = written(tmp_path_factory.mktemp("cut"), cpu_op_execute_timestamp__txt=cut)
    with pytest.raises(TraceError, match=r"is cut in line \d+; was it copied whole\? --partial reads"):
        read(folder)
    trace = attempt(folder, partial=True)
    if isinstance(trace, str):
        assert cut.count(" ") == 0
        assert "has no whole call" in trace
    else:
        assert sum(calls(trace).values()) == cut.count(" ")  # there is one after each call
        assert "is cut in line" in trace.remarks[0]


def test_launches_that_are_cut_are_an_error_and_left_out_if_that_is_allowed(tmp_path: Path) -> None:
    written(tmp_path, cpu_op_execute_timestamp__txt=CALLS, cpu_framework__txt=LAUNCHES[:-3])
    assert "cpu_framework_0.txt: is cut in line 3" in str(attempt(tmp_path, partial=False))
    trace = read(tmp_path, partial=True)
    assert [record.input_shapes for record in trace.records] == [None, None]
    assert trace.remarks[0] == "cpu_framework_0.txt is cut in line 3, the end of which is left out"


@pytest.mark.parametrize("broken", ["cpu_op_execute_timestamp", "cpu_framework", "cpu_op_detail_info"])
def test_more_ops_than_any_network_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    many = {
        "cpu_op_execute_timestamp": "".join(f"op{n};H;1,1,0 \n" for n in range(9)),
        "cpu_framework": "".join(f"op;op{n};1;\n" for n in range(9)),
        "cpu_op_detail_info": DETAIL + "".join(f"Host,op,op,op{n},1,1,1,1,D,1\n" for n in range(9)),
    }
    ending = "csv" if broken == "cpu_op_detail_info" else "txt"
    written(tmp_path, **{"cpu_op_execute_timestamp__txt": CALLS, f"{broken}__{ending}": many[broken]})
    monkeypatch.setattr("pytest_opprof.frameworks.mindspore.saved.folder.MOST_OPS", 7)
    with pytest.raises(TraceError, match=rf"{broken}_0.{ending}: has more than 7 .* which no profile of MindSpore has"):
        read(tmp_path)


@given(st.binary(max_size=200) | st.text("0123456789,;.- \n[]e", max_size=80).map(str.encode), st.data())
def test_whatever_is_in_a_file_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject
) -> None:
    folder = written(tmp_path_factory.mktemp("any"), cpu_op_execute_timestamp__txt=CALLS, cpu_framework__txt=LAUNCHES)
    written(folder, cpu_op_detail_info__csv=DETAIL, cpu_op_type_info__csv=TYPES, cpu_ms_memory_record__txt=MEMORY)
    written(folder, profiler_info__json='{"ms_version": "2.0.0"}')
    file = data.draw(st.sampled_from(sorted(folder.iterdir())))
    text = file.read_bytes()
    at = data.draw(st.integers(0, len(text)))
    file.write_bytes(text[:at] + content + text[at + data.draw(st.integers(0, 9)) :])
    for partial in (False, True):
        found = attempt(folder, partial)
        assert isinstance(found, SavedProfile) or str(folder) in found


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"cpu_op_execute_timestamp__txt": ""}, "has no whole call, and MindSpore writes no file"),
        ({"cpu_op_execute_timestamp__txt": "a;H;\n"}, r"line 1 has 'a;H;', expected full_op_name;HostCpuOps;"),
        (
            {"cpu_op_execute_timestamp__txt": "a;H;1,nan,0 \n"},
            r"a duration is missing or not a number: a call of 'a' in line 1, '1,nan,0'",
        ),
        ({"cpu_op_execute_timestamp__txt": "a;H;1,-1,0 \n"}, r"line 1 has '1,-1,0', expected a call"),
        ({"cpu_op_execute_timestamp__txt": "a;H;1,1,0\n\n"}, r"line 2 has '', expected full_op_name"),
        ({"cpu_op_execute_timestamp__txt": f"a;H;{'9' * 19},1,0 \n"}, r"line 1 has .*, expected a call"),
        ({"cpu_op_execute_timestamp__txt": f"a;H;{'9' * 5000},1,0 \n"}, r"line 1 has .*, expected a call"),
        ({"cpu_op_execute_timestamp__txt": "a;H;1,1e99,0 \n"}, r"line 1 has '1,1e99,0', expected a call"),
        ({"cpu_op_execute_timestamp__txt": "a;H;1,1,0,1 \n"}, r"line 1 has '1,1,0,1', expected a call"),
        (
            {"cpu_framework__txt": "Mul;Mul-op1;7;input_1:[2, x];\n"},
            r"line 1 has .*, expected op_type;op_name;graph_id",
        ),
        (
            {"cpu_op_detail_info__csv": "a,b\n1,2\n"},
            "has no column for full op name, op type, .* its columns are 'a', 'b'",
        ),
        (
            {"cpu_op_detail_info__csv": f"{DETAIL}Host,a,b,c,1.5,1,1,1,D,1\n"},
            "row 2 has '1.5' .* expected a whole number",
        ),
        ({"cpu_op_detail_info__csv": f"{DETAIL}Host,a,b,c,1,inf,1,1,D,1\n"}, "row 2 has 'inf' .* that is not negative"),
        ({"cpu_ms_memory_record__txt": f"{MEMORY}-1,1,1,1\n"}, "row 2 has '-1' .* expected a whole number"),
        ({"profiler_info__json": "[" * 9999}, "is not a profiler_info file of MindSpore"),
        ({"profiler_info__json": '{"ms_version": 2}'}, "is not a profiler_info file of MindSpore"),
    ],
)
def test_an_error_says_which_file_is_broken_where_and_what_was_expected(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    written(tmp_path, **{"cpu_op_execute_timestamp__txt": CALLS, "cpu_framework__txt": LAUNCHES, **files})
    broken = tmp_path / next(iter(files)).replace("__", "_0.")
    with pytest.raises(TraceError, match=message) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{broken}: ")


def test_a_session_in_which_nothing_ran_is_an_error_that_explains_the_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "host_1_2026_ascend_ms"
    (folder / "FRAMEWORK").mkdir(parents=True)
    written(folder / "logs", profiler__log="")
    (found,) = readers_formats.find(Place(tmp_path))
    with pytest.raises(TraceError, match="MindSpore writes no file at all when nothing ran while it recorded"):
        readers_formats.read(found)
    written(folder / "PROF_1", x__csv="")  # an NPU's, not yet analysed
    assert not cpu.recognises(Place(folder))


def test_of_several_ranks_one_is_chosen(tmp_path: Path) -> None:
    for rank in (0, 3):
        (tmp_path / f"cpu_op_execute_timestamp_{rank}.txt").write_text(f"op{rank};H;1,1,0 \n")
    assert cpu.ranks(Place(tmp_path)) == [0, 3]
    assert read(tmp_path, rank=3).records[0].name == "op3"
    with pytest.raises(TraceError, match="has several ranks; choose --rank 0 or 3"):
        read(tmp_path)
    with pytest.raises(TraceError, match="has no rank 1; choose --rank 0 or 3"):
        read(tmp_path, rank=1)


def test_a_folder_is_recognised_by_its_own_files_only(tmp_path: Path) -> None:
    formats = (cpu, gpu, mindspore_ascend)
    written(tmp_path / "text", note__txt="cpu_op_execute_timestamp")
    written(tmp_path / "run/profiler", cpu_op_execute_timestamp__txt=CALLS)
    file = tmp_path / "run/profiler/cpu_op_execute_timestamp_0.txt"
    assert cpu.recognises(Place(tmp_path / "run"))
    assert cpu.recognises(Place(file.parent))
    for path in (tmp_path, tmp_path / "text", file, tmp_path / "none"):
        assert not any(format.recognises(Place(path)) for format in formats)
    with pytest.raises(TraceError, match="Name the folder: a profile of MindSpore is several files"):
        cpu.read(Place(file), Options())


@pytest.mark.parametrize("name", ["kernel_details.csv", "op_statistic.csv", "ascend_mindspore_profiler_0.db"])
def test_a_newer_profile_of_ascend_is_left_to_its_own_format(tmp_path: Path, name: str) -> None:
    written(tmp_path / "FRAMEWORK", cpu_op_execute_timestamp__txt=CALLS, gpu_op_detail_info__csv="")
    written(tmp_path / "FRAMEWORK", aicore_intermediate_0_detail__csv="")
    written(tmp_path / "ASCEND_PROFILER_OUTPUT")
    (tmp_path / "ASCEND_PROFILER_OUTPUT" / name).write_text("")
    assert not any(format.recognises(Place(tmp_path)) for format in (cpu, gpu, mindspore_ascend))


# --- GPU: stand-ins -------------------------------------------------------------------------------------------------

GPU_DETAIL = (
    "op_side,op_type,op_name,op_full_name,op_occurrences,op_total_time(us),op_avg_time(us),total_proportion,"
    "cuda_activity_cost_time(us),cuda_activity_call_count\n"
    "Device,Conv2D,Conv2D-op1,Default/conv-Conv2d/Conv2D-op1,5,100.5,20.1,0.5,400.25,10\n"
    "Device,Cast,Cast-op2,Default/Cast-op2,10,50,5,0.25,20.5,{casts}\n"
)
GPU_TYPES = (
    "op_type,type_occurrences,total_time(us),total_proportion,avg_time(us)\nConv2D,5,100.5,0.5,20.1\nCast,10,50,0.5,5\n"
)
GPU_KERNELS = (
    "name,type,op_full_name,stream_id,block_dim,grid_dim,occurrences,"
    "total_duration(us),avg_duration(us),max_duration(us),min_duration(us)\n"
    '"gemm<float, 128>(int, float*)",cuLaunchKernel,Default/conv-Conv2d/Conv2D-op1,7,"1,1","8,1",5,300.25,60.05,70,50\n'
    '"gemm<float, 128>(int, float*)",cuLaunchKernel,Default/conv-Conv2d/Conv2D-op1,7,"1,1","4,1",5,100,20,30,10\n'
    '"cast<float, half>(float*)",cuLaunchKernel,Default/Cast-op2,7,"1,1","8,1",10,20.5,2.05,3,1\n'
    '"memcpy",cuMemcpyHtoD,,7,,,1,3.5,3.5,3.5,3.5\n'
)


def test_an_op_of_a_gpu_has_its_device_and_host_times_and_its_kernels(tmp_path: Path) -> None:
    written(tmp_path, gpu_op_detail_info__csv=GPU_DETAIL.format(casts=10), gpu_op_type_info__csv=GPU_TYPES)
    written(tmp_path, gpu_activity_data__csv=GPU_KERNELS)
    trace = read(tmp_path, gpu)
    assert trace.records == (
        SavedOp("Default/conv-Conv2d/Conv2D-op1", "Conv2D", calls=5, device_ns=400_250, host_ns=100_500),
        SavedOp("Default/Cast-op2", "Cast", calls=10, device_ns=20_500, host_ns=50_000),
    )
    assert trace.kernels == (
        SavedKernel("gemm<float, 128>(int, float*)", "Default/conv-Conv2d/Conv2D-op1", 0, 10, 400_250, "stream 7"),
        SavedKernel("cast<float, half>(float*)", "Default/Cast-op2", 0, 10, 20_500, "stream 7"),
        SavedKernel("memcpy", "(unlinked)", 0, 1, 3500, "stream 7"),
    )
    assert (trace.environment.frameworks, trace.environment.device) == ((("mindspore", ""),), "gpu")
    assert trace.remarks == ()


def test_kernels_that_are_not_those_of_the_ops_are_remarked(tmp_path: Path) -> None:
    written(tmp_path, gpu_op_detail_info__csv=GPU_DETAIL.format(casts=11), gpu_activity_data__csv=GPU_KERNELS)
    trace = read(tmp_path, gpu)
    assert trace.remarks == ("gpu_activity_data disagrees: Default/Cast-op2 has 10 calls there, 11 here",)


def test_op_types_alone_have_host_times_only(tmp_path: Path) -> None:
    trace = read(written(tmp_path, gpu_op_type_info__csv=GPU_TYPES), gpu)
    assert trace.records[0] == SavedOp("Conv2D", "Conv2D", calls=5, host_ns=100_500)
    assert trace.kernels is None


def test_ops_that_ran_on_the_cpu_beside_a_gpu_take_time_of_the_host(tmp_path: Path) -> None:
    written(tmp_path, gpu_op_detail_info__csv=GPU_DETAIL.format(casts=10), cpu_op_execute_timestamp__txt=CALLS)
    assert not cpu.recognises(Place(tmp_path))
    record = read(tmp_path, gpu).records[-1]
    assert (record.name, record.calls, record.device_ns, record.host_ns) == ("Cast", 1, None, 1000)
    assert record.place == "CPU"


# --- Ascend, 2.4 and earlier ----------------------------------------------------------------------------------------


def test_a_recording_of_ascend_has_the_calls_and_times_of_its_own_summary() -> None:
    trace = read(shared("ascend/mindspore-legacy/run_1"), mindspore_ascend)
    assert mindspore_ascend.ranks(Place(shared("ascend/mindspore-legacy/run_1"))) == [1]
    assert sum(record.calls for record in trace.records) == 205
    assert sum(record.device_ns or 0 for record in trace.records) == 3_465_350
    assert calls(trace)["Cast"] == 27
    assert calls(trace)["TransData"] == 9
    assert calls(trace)["FusionOp_ReluGradV2_Cast"] == 6
    assert sum(record.device_ns or 0 for record in trace.records if record.type == "Cast") == 104_320
    assert trace.remarks == ()
    assert not trace.inferred_types


def test_an_op_of_ascend_has_shapes_dtypes_and_formats() -> None:
    records = {r.name: r for r in read(shared("ascend/mindspore-legacy/run_1"), mindspore_ascend).records}
    assert records["Default/TransData-op114"] == SavedOp(
        name="Default/TransData-op114",
        type="TransData",
        calls=3,
        device_ns=48_280,
        input_shapes=((32, 1, 32, 32),),
        output_shapes=((32, 1, 32, 32, 16),),
        input_dtypes=("FLOAT32",),
        output_dtypes=("FLOAT32",),
        input_formats=("DEFAULT",),
        output_formats=("NC1HWC0",),
    )


def test_a_recording_that_was_cut_by_hand_is_remarked() -> None:
    trace = read(shared("ascend/mindspore-legacy/lenet_small"), mindspore_ascend)
    assert calls(trace)["Cast"] == 3
    assert "Cast has 13 calls there, 3 here" in trace.remarks[0]
    assert trace.records[3].input_dtypes == ("FLOAT32",)
    assert trace.records[3].output_dtypes == ("FLOAT16",)


@pytest.mark.parametrize("name", ["full_op_name", "full_kernel_name", "full_kernel_time"])
@pytest.mark.parametrize("mean", ["execution_time", "task_duration"])
@pytest.mark.parametrize("types", ["op_type,execution_time", "kernel_type,total_time", "op_type,task_time"])
def test_every_spelling_of_the_columns_is_read(tmp_path: Path, name: str, mean: str, types: str) -> None:
    written(tmp_path, aicore_intermediate_0_detail__csv=f"{name},{mean},execution_frequency\nDefault/Cast-op1,0.5,4\n")
    (tmp_path / "aicore_intermediate_0_detail_0.csv").rename(tmp_path / "aicore_intermediate_0_detail.csv")
    table = tmp_path / "aicore_intermediate_0_type.csv"
    table.write_text(f"{types},execution_frequency,percent\nCast,2,4,1\n")
    trace = read(tmp_path, mindspore_ascend)
    assert trace.records == (SavedOp("Default/Cast-op1", "Cast", calls=4, device_ns=2_000_000),)
    assert trace.remarks == ()
    assert trace.inferred_types  # there is no framework_raw


def ascend(folder: Path, detail: str, **files: str) -> SavedProfile:
    written(folder, **files)
    if detail:
        (folder / "aicore_intermediate_0_detail.csv").write_text(detail)
    return read(folder, mindspore_ascend)


AICPU = (
    "serial_number,op_type,total_time,dispatch_time,execution_time,run_start,run_end\n"
    "1,GetNext-op6,0.5,0.125,0.25,1,2\n2,GetNext-op6,0.5,0.25,0.125,1,2\n"
)


def test_ops_of_the_ai_cpu_are_read_where_the_other_table_lacks_them(tmp_path: Path) -> None:
    detail = "full_op_name,execution_time,execution_frequency\na/Cast-op1,0.5,4\n"
    aicpu = ascend(tmp_path, detail, aicpu_intermediate__csv=AICPU).records[1]
    assert aicpu == SavedOp("GetNext-op6", "GetNext", calls=2, device_ns=375_000, host_ns=375_000, place="AI_CPU")
    oldest = AICPU.replace("execution_time,", "").replace("0.25,1", "1").replace("0.125,1,", "1,")
    assert ascend(tmp_path, detail, aicpu_intermediate__csv=oldest).records[1].device_ns is None
    newer = "full_op_name,task_duration,execution_frequency,task_type\nGetNext-op6,0.5,4,AI_CPU\n"
    trace = ascend(tmp_path, newer, aicpu_intermediate__csv=AICPU)
    assert trace.records == (SavedOp("GetNext-op6", "GetNext", calls=4, device_ns=2_000_000, place="AI_CPU"),)


def test_communication_is_not_missed_in_the_table_of_types(tmp_path: Path) -> None:
    (tmp_path / "aicore_intermediate_0_type.csv").write_text("op_type,total_time,execution_frequency\nCast,2,4\n")
    detail = (
        "full_op_name,task_duration,execution_frequency,task_type\nCast-op1,0.5,4,AI_CORE\nallReduce-op1,9,1,HCCL\n"
    )
    trace = ascend(tmp_path, detail)
    assert calls(trace) == {"Cast": 4, "allReduce": 1}
    assert trace.remarks == ()


def test_without_frequencies_each_op_counts_once_and_it_is_said(tmp_path: Path) -> None:
    trace = ascend(tmp_path, "full_op_name,execution_time\na/Cast-op1,0.5\n", aicpu_intermediate__csv=AICPU)
    assert calls(trace) == {"Cast": 1}
    assert "each op counts once, with its mean time" in trace.remarks[0]
    assert "aicpu_intermediate_0.csv is left out" in trace.remarks[1]


def test_the_table_of_types_is_read_alone(tmp_path: Path) -> None:
    (tmp_path / "aicore_intermediate_0_type.csv").write_text("kernel_type,total_time,execution_frequency\nCast,2,4\n")
    trace = read(tmp_path, mindspore_ascend)
    assert trace.records == (SavedOp("Cast", "Cast", calls=4, device_ns=2_000_000),)
    assert not trace.inferred_types


RAW = "task_id,full_op_name,op_type,op_info,kernel_type\n"


def test_the_type_is_not_the_core_and_what_cann_did_not_know_is_not_a_shape(tmp_path: Path) -> None:
    tensor = '{""format"": ""ND"", ""data_type"": ""FLOAT"", ""shape"": ""4,2""}'
    raw = f'{RAW}1,a/x,MatMulV2,"{{""Input_0"": {tensor}, ""Output_0"": {tensor}}}",AI_CORE\n'
    raw += '2,b/y,hcom,"{""Input_0"": {""format"": ""0"", ""data_type"": ""0"", ""shape"": ""0""}}",HCCL\n'
    detail = "full_op_name,task_duration,execution_frequency,task_type\na/x,0.5,4,AI_CORE\nb/y,1,1,HCCL\n"
    first, second = ascend(tmp_path, detail, framework_raw__csv=raw).records
    assert (first.type, first.place, first.input_shapes, first.output_formats) == (
        "MatMulV2",
        "AI_CORE",
        ((4, 2),),
        ("ND",),
    )
    assert (second.type, second.input_shapes, second.input_dtypes) == ("hcom", None, ())


def test_an_op_whose_shapes_change_has_none(tmp_path: Path) -> None:
    row = '1,a/x,Cast,"{{""Input_0"": {{""shape"": ""{}""}}}}",AI_CORE\n'
    detail = "full_op_name,task_duration,execution_frequency,task_type\na/x,0.5,4,AI_CORE\n"
    (record,) = ascend(tmp_path, detail, framework_raw__csv=RAW + row.format(4) + row.format(5)).records
    assert (record.type, record.input_shapes) == ("Cast", None)


@pytest.mark.parametrize("info", ["{", "[" * 9999, "[1]", '{""a"": {""shape"": ""x""}}', '{""a"": {""shape"": [1.5]}}'])
def test_op_info_that_is_broken_is_an_error(tmp_path: Path, info: str) -> None:
    with pytest.raises(TraceError, match=r"framework_raw_0.csv: row 2 has op_info .* which is not understood"):
        ascend(tmp_path, "full_op_name,execution_time\na,1\n", framework_raw__csv=f'{RAW}1,a,Cast,"{info}",x\n')


@pytest.mark.parametrize(
    ("detail", "header", "types", "content"),
    [
        (
            "aicore_intermediate_0_detail.csv",
            "full_op_name,execution_time,execution_frequency",
            "aicore_intermediate_0_type.csv",
            "op_type,total_time,execution_frequency\nCast,2,4\n",
        ),
        ("gpu_op_detail_info_0.csv", GPU_DETAIL.partition("\n")[0], "gpu_op_type_info_0.csv", GPU_TYPES),
    ],
)
def test_the_table_of_types_does_not_stand_for_one_of_ops_that_is_empty(
    tmp_path: Path, detail: str, header: str, types: str, content: str
) -> None:
    (tmp_path / types).write_text(content)
    (tmp_path / detail).write_text(f"{header}\n")
    (found,) = readers_formats.find(Place(tmp_path))
    with pytest.raises(TraceError, match=rf"{detail}: has no rows, but {types} has"):
        readers_formats.read(found)
    (tmp_path / detail).write_text("")
    with pytest.raises(TraceError, match=rf"{detail}: has no header"):
        readers_formats.read(found)
