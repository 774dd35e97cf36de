"""What CANN, torch_npu and MindSpore recorded on an NPU is read as their own summaries have it.

The recordings are of public repositories (see their PROVENANCE.md) and read in place. The small files that the tests
write are made by us in the same format: they stand in for what no recording at hand shows.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.ascend.saved import ops
from pytest_opprof.frameworks.ascend.saved import profile as ascend_profile
from pytest_opprof.frameworks.ascend.saved.ops import type_of
from pytest_opprof.frameworks.ascend.work import flops
from pytest_opprof.frameworks.files import formats, sqlite
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.formats import Found, find
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import OUTSIDE, SavedOp, SavedProfile, communicates

from ....conftest import shared

ALEXNET = "ascend/torchnpu-alexnet"
TEXTS = ["text/level0/rank0", "text/level1/rank0", "text/level1/rank1", "text/level2/rank0"]
DATABASES = ["db/level0/rank0", "db/level1/rank0"]
KERNELS = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes,Input Data Types,Input Formats"


def recording(name: str) -> Path:
    return shared(f"{ALEXNET}/{name}_ascend_pt")


def read(path: Path, **options: object) -> SavedProfile:
    place = Place(path)
    assert ascend_profile.recognises(place)
    return ascend_profile.read(place, Options(**options))  # type: ignore[arg-type]


def calls(records: list[SavedOp]) -> int:
    return sum(record.calls for record in records)


def us(records: list[SavedOp]) -> float:
    return sum(record.device_ns or 0 for record in records) / 1000


def of_type(trace: SavedProfile, kind: str) -> list[SavedOp]:
    return [record for record in trace.records if record.type == kind]


def compute(trace: SavedProfile) -> list[SavedOp]:
    return [record for record in trace.records if not communicates(record)]


def by_type(trace: SavedProfile) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for record in compute(trace):
        counts[record.type, record.place] += record.calls
    return counts


class TestRecordingsOfAlexNet:
    @pytest.mark.parametrize("name", TEXTS + DATABASES)
    def test_each_export_has_the_191_kernels_of_the_step(self, name: str) -> None:
        trace = read(recording(name))

        assert calls(list(trace.records)) == 191
        assert calls(compute(trace)) == 187
        assert {
            kind: calls(of_type(trace, kind)) for kind in ("Cast", "TransData", "MemSet", "Transpose", "TensorMove")
        } == {
            "Cast": 4,
            "TransData": 57,
            "MemSet": 11,
            "Transpose": 5,
            "TensorMove": 11,
        }
        assert len({record.type for record in compute(trace)}) == 33
        assert trace.steps == ("50",)

    @pytest.mark.parametrize(
        ("name", "computing"), [*zip(TEXTS + DATABASES, [8827.473, 8873.756, 8878.295, 8868.240, 8843.910, 8903.431])]
    )
    def test_the_compute_kernels_take_what_the_profiler_says_and_no_remark_is_made(
        self, name: str, computing: float
    ) -> None:
        trace = read(recording(name))

        # Each of the 187 rows of a csv is rounded to 0.001 us.
        assert us(compute(trace)) == pytest.approx(computing, abs=0.0005 * 187)
        assert not [remark for remark in trace.remarks if "Computing" in remark or "op_statistic" in remark]

    @pytest.mark.parametrize("name", TEXTS[1:])
    def test_counts_and_times_by_type_and_core_are_those_of_op_statistic(self, name: str) -> None:
        folder = recording(name) / "ASCEND_PROFILER_OUTPUT"
        kernels, statistic = read(folder / "kernel_details.csv"), read(folder / "op_statistic.csv")

        assert by_type(kernels) == by_type(statistic)
        for record in statistic.records:
            same = [each for each in kernels.records if (each.type, each.place) == (record.type, record.place)]
            assert us(same) == pytest.approx((record.device_ns or 0) / 1000, abs=0.0005 * (record.calls + 1))
            assert min(each.least_ns or 0 for each in same) == record.least_ns
            assert max(each.most_ns or 0 for each in same) == record.most_ns

    @pytest.mark.parametrize("name", TEXTS + DATABASES)
    def test_types_guessed_at_level_0_are_those_recorded_at_level_1(self, name: str) -> None:
        trace, recorded = read(recording(name)), read(recording("text/level1/rank0"))
        types = {record.type: calls(of_type(trace, record.type)) for record in trace.records}

        assert types == {record.type: calls(of_type(recorded, record.type)) for record in recorded.records}
        assert trace.inferred_types is ("level0" in name)
        assert any("record with Level1" in remark for remark in trace.remarks) is ("level0" in name)

    @pytest.mark.parametrize("name", TEXTS[1:])
    def test_a_name_gives_the_type_that_was_recorded_for_it(self, name: str) -> None:
        assert [(record.name, type_of(record.name)) for record in read(recording(name)).records] == [
            (record.name, record.type) for record in read(recording(name)).records
        ]

    def test_the_database_has_the_same_counts_as_the_text(self) -> None:
        text, database = read(recording("text/level1/rank0")), read(recording("db/level1/rank0"))

        assert by_type(text) == by_type(database)
        described = ("type", "input_shapes", "output_shapes", "input_dtypes", "output_dtypes", "input_formats")
        assert Counter(tuple(getattr(record, name) for name in described) for record in compute(text)) == Counter(
            tuple(getattr(record, name) for name in described) for record in compute(database)
        )

    def test_layouts_shapes_and_dtypes_of_a_conversion(self) -> None:
        trace = read(recording("text/level1/rank0"))
        first = trace.records[0]

        assert first.name == "trans_TransData_0"
        assert (first.input_shapes, first.output_shapes) == (((32, 3, 224, 224),), ((32, 1, 224, 224, 8),))
        assert (first.input_dtypes, first.input_formats, first.output_formats) == (("FLOAT",), ("NCHW",), ("NC1HWC0",))
        assert us(of_type(trace, "TransData")) == 1423.202  # op_statistic sums before it rounds: 1423.208
        assert us(of_type(trace, "Cast")) == 5.78

    @pytest.mark.parametrize("name", TEXTS + DATABASES)
    def test_communication_is_a_place_of_its_own(self, name: str) -> None:
        trace = read(recording(name))
        communication = [record for record in trace.records if communicates(record)]

        assert {record.type for record in communication} == {"hcom_allReduce_"}
        assert calls(communication) == 4
        assert us(communication) > 9 * us(compute(trace))

    @pytest.mark.parametrize(
        ("name", "wall", "peak"),
        [("text/level1/rank0", 136581.009, 1322299392), ("db/level1/rank0", 132233.522, 1263251456)],
    )
    def test_wall_time_and_memory_come_from_the_files_beside_it(self, name: str, wall: float, peak: int) -> None:
        trace = read(recording(name))

        assert trace.step_ns == (pytest.approx(wall * 1000),)
        assert trace.peak_memory == peak

    @pytest.mark.parametrize("name", TEXTS)
    def test_without_a_record_of_memory_the_operators_tell_its_peak(self, name: str, tmp_path: Path) -> None:
        shutil.copytree(recording(name) / "ASCEND_PROFILER_OUTPUT", tmp_path / "copy")
        (tmp_path / "copy" / "memory_record.csv").unlink()
        with open(tmp_path / "copy" / "operator_memory.csv", encoding="utf-8-sig", newline="") as file:
            totals = [float(row["Allocation Total Allocated(MB)"]) for row in csv.DictReader(file)]
        trace = read(tmp_path / "copy")

        assert trace.peak_memory == max(totals) * 2**20 == 1245688832
        assert (
            "peak memory is from operator_memory.csv, which has it only when operators of the framework allocate"
            in trace.remarks
        )

    def test_the_environment_is_what_the_files_say(self) -> None:
        assert read(recording("db/level1/rank0")).environment == Environment((("torch_npu", ""),), "Ascend910B", "")
        assert read(recording("text/level1/rank0")).environment == Environment((("torch_npu", ""),), "ascend", "")

    def test_each_rank_is_a_profile(self) -> None:
        root = shared(f"{ALEXNET}/text/level1")
        ranks = [Found("ascend", Place(root / f"rank{rank}_ascend_pt"), rank) for rank in (0, 1)]

        assert find(Place(root)) == ranks

    def test_operators_have_their_own_times_on_host_and_device(self) -> None:
        file = recording("text/level1/rank0") / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv"
        with open(file, encoding="utf-8", newline="") as opened:
            rows = list(csv.DictReader(opened))
        trace = read(file)

        assert calls(list(trace.records)) == len(rows) == 859
        host = sum(float(row["Host Self Duration(us)"]) for row in rows)
        assert sum(record.host_ns or 0 for record in trace.records) / 1000 == pytest.approx(host)
        assert us(list(trace.records)) == pytest.approx(sum(float(row["Device Self Duration(us)"]) for row in rows))
        shapes = next(record.input_shapes for record in trace.records if record.type == "aten::conv2d")
        assert shapes is not None
        assert shapes[0] == (32, 3, 224, 224)

    def test_operators_have_the_lines_that_asked_for_them(self) -> None:
        file = recording("text/level1/rank0") / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv"
        trace = ascend_profile.read(Place(file), Options(sites=True))
        plain = ascend_profile.read(Place(file), Options())

        assert not plain.has_sites
        assert calls(list(trace.records)) == calls(list(plain.records))
        (linear,) = {record.site for record in trace.records if record.name == "aten::linear"}
        assert linear is not None
        assert [(Path(frame.file).name, frame.function, frame.line) for frame in linear.frames] == [
            ("alexnet.py", "forward", 51),
            ("main.py", "train", 354),
            ("main.py", "main_worker", 282),
        ]

    def test_kernels_have_the_bytes_that_they_read_and_write(self) -> None:
        trace = read(recording("text/level1/rank0"))
        moved = {record.name: record.memory for record in trace.records}
        assert moved["aclnnTopk_CastAiCore_Cast"] == 32 * 5 * (4 + 8)
        assert moved["trans_TransData_0"] == 32 * 224 * 224 * (3 + 8) * 4
        assert [record.memory for record in trace.records if communicates(record)] == [None] * 4
        products = [record for record in trace.records if record.type.startswith("MatMul")]
        assert sum(record.computation or 0 for record in products) == pytest.approx(11.3e9, rel=0.01)
        assert {record.computation for record in trace.records if record.type.startswith("Conv")} == {None}

    def test_flops_that_follow_from_shapes_are_about_those_that_cann_measured(self) -> None:
        """CANN counts what the cores did: 1 to 9 % more in the 13 products at hand."""
        file = shared("ascend/torchnpu-2023-mixed-precision/kernel_details.csv")
        products = [record for record in read(file).records if "MatMul" in record.type]
        for record in products:
            formats = (*record.input_formats, *record.output_formats)
            one = flops(record.type, record.input_shapes or (), record.output_shapes or (), formats)
            assert one is not None
            assert 1 <= (record.computation or 0) / record.calls / one < 1.09
        assert calls(products) == 13

    def test_the_api_of_cann_has_host_times_only(self) -> None:
        trace = read(recording("text/level1/rank0") / "ASCEND_PROFILER_OUTPUT" / "api_statistic.csv")
        launch = next(record for record in trace.records if record.type == "Launch_Ffts")

        assert (launch.place, launch.calls, launch.host_ns, launch.device_ns) == ("hccl", 4, 474410, None)
        assert (launch.host_least_ns or 0) <= 474410 / 4 <= (launch.host_most_ns or 0)


class TestOtherRecordings:
    def test_casts_of_mixed_precision(self) -> None:
        trace = read(shared("ascend/torchnpu-2023-mixed-precision/kernel_details.csv"))
        casts = of_type(trace, "Cast")
        pairs: Counter[tuple[str, ...]] = Counter()
        for cast in casts:
            pairs[cast.input_dtypes + cast.output_dtypes] += cast.calls

        assert calls(list(trace.records)) == 591
        assert calls([record for record in trace.records if communicates(record)]) == 19
        assert (calls(casts), round(us(casts), 2)) == (75, 5904.02)
        assert us(compute(trace)) == pytest.approx(50408.3, abs=0.05)
        assert (pairs["FLOAT", "FLOAT16"], pairs["FLOAT16", "FLOAT"]) == (28, 29)
        assert calls(of_type(trace, "TransData")) == 0

    def test_floating_point_operations_are_read_where_they_were_recorded(self) -> None:
        trace = read(shared("ascend/torchnpu-2023-mixed-precision/kernel_details.csv"))

        assert trace.records[0].computation == 137176320
        assert next(record for record in trace.records if communicates(record)).computation is None
        assert read(recording("text/level1/rank0")).records[0].computation is None

    def test_the_summary_of_msprof_with_the_headers_of_2026(self) -> None:
        trace = read(shared("ascend/msprof-triton-matmul-2026/a003-op_summary.csv"))
        casts = of_type(trace, "Cast")

        assert trace.environment == Environment((("cann", ""),), "ascend", "")
        assert calls(list(trace.records)) == 15
        assert (calls(casts), us(casts)) == (6, 22.6)
        assert max(cast.most_ns or 0 for cast in casts) == 11220
        assert round(us(of_type(trace, "matmul_bias_activation_kernel")), 2) == 35.16
        assert calls(of_type(trace, "DSARandomNormal")) == 6


def profile(folder: Path, *rows: str, header: str = KERNELS, name: str = "kernel_details.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return folder


ROW = '{step},{name},{kind},AI_CORE,1736408883704643.212\t,{us},"""32,3;""",FLOAT;INT32,ND;ND'


def row(us: object = "1.5", *, step: object = 1, name: str = "Cast1", kind: str = "Cast") -> str:
    return ROW.format(step=step, name=name, kind=kind, us=us)


class TestMadeFiles:
    def test_steps_are_in_the_order_of_the_file_and_what_is_outside_comes_last(self, tmp_path: Path) -> None:
        trace = read(profile(tmp_path, row(step=""), row(step=11), row(step=2), row(2.5, step=2)))

        assert trace.steps == ("11", "2", "outside")
        assert [(record.step, record.calls, record.device_ns) for record in trace.records] == [
            (2, 1, 1500),
            (0, 1, 1500),
            (1, 2, 4000),
        ]
        assert (trace.records[2].least_ns, trace.records[2].most_ns) == (1500, 2500)
        assert trace.records[0].input_shapes == ((32, 3), ())

    def test_mindspore_writes_the_same_with_the_operator_before_the_kernel(self, tmp_path: Path) -> None:
        name = "Default/net-Net/Cast-op10/Cast-op10"
        folder = profile(
            tmp_path / "vm_1_2_ascend_ms" / "ASCEND_PROFILER_OUTPUT",
            row(name=name, kind="N/A"),
            header=KERNELS.replace("Step Id", "Step ID"),
        )
        information = folder.parent / "profiler_info_3.json"
        for rank, ranks in (("3", [3]), (-1, [None]), (True, [None]), (3, [3])):
            information.write_text(json.dumps({"rank_id": rank, "ms_version": "2.10.0"}))
            assert ascend_profile.ranks(Place(folder.parent)) == ranks
        trace = read(folder.parent)

        assert (trace.records[0].name, trace.records[0].type) == (name, "Cast")
        assert trace.inferred_types
        assert trace.environment.frameworks == (("mindspore", "2.10.0"),)

    def test_versions_come_from_the_information_beside_it(self, tmp_path: Path) -> None:
        folder = profile(tmp_path / "a_ascend_pt" / "ASCEND_PROFILER_OUTPUT", row())
        (folder.parent / "profiler_info.json").write_text('{"torch_npu_version": "2.9.0", "cann_version": "8.5.1"}')
        (folder.parent / "profiler_metadata.json").write_text("[" * 10**5)

        assert read(folder).environment.frameworks == (("cann", "8.5.1"), ("torch_npu", "2.9.0"))

    def test_parts_of_a_table_are_joined_and_an_older_export_is_left_aside(self, tmp_path: Path) -> None:
        for name, kind in (
            ("op_summary_20250101000000.csv", "Old"),
            ("op_summary_slice_1_20250102000000.csv", "Second"),
            ("op_summary_slice_0_20250102000000.csv", "First"),
        ):
            profile(tmp_path / "PROF_1" / "mindstudio_profiler_output", row(kind=kind), name=name)
        trace = read(tmp_path / "PROF_1")

        assert [record.type for record in trace.records] == ["First", "Second"]
        assert "the last of 2 exports is read, op_summary_slice_0_20250102000000.csv" in trace.remarks

    def test_iterations_of_the_old_msprof_are_steps_and_their_devices_apart(self, tmp_path: Path) -> None:
        header = KERNELS.removeprefix("Step Id,").replace("Name", "Op Name").replace("Type", "OP Type", 1)
        for device, iteration in ((0, 1), (0, 2), (1, 1)):
            rows = row(f"{device}.{iteration}").partition(",")[2]
            profile(tmp_path, rows, header=header, name=f"op_summary_{device}_1_{iteration}.csv")
        trace = read(tmp_path, rank=0)

        assert ascend_profile.ranks(Place(tmp_path)) == [0, 1]
        assert trace.steps == ("1", "2")
        assert [record.device_ns for record in trace.records] == [100, 200]

    def test_several_devices_are_never_summed(self, tmp_path: Path) -> None:
        folder = profile(tmp_path, f"0,{row(1)}", f"3,{row(2)}", f"3,{row(4)}", header=f"Device_id,{KERNELS}")

        assert ascend_profile.ranks(Place(folder)) == [0, 3]
        assert [record.device_ns for record in read(folder, rank=3).records] == [6000]
        with pytest.raises(TraceError, match="holds devices 0, 3; choose one with --rank"):
            read(folder)

    def test_the_devices_of_one_process_are_summed_with_a_remark(self, tmp_path: Path) -> None:
        output = tmp_path / "a_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        profile(output, f"0,{row(1)}", f"1,{row(2)}", header=f"Device_id,{KERNELS}")
        (output.parent / "profiler_info_0.json").write_text('{"rank_id": 0}')

        assert [record.device_ns for record in read(output).records] == [3000]
        assert "the kernels of 2 devices are added up: 0, 1" in read(output).remarks

    def test_only_a_statistic_is_read_as_totals(self, tmp_path: Path) -> None:
        header = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
        folder = profile(tmp_path, "0,Cast,AI_CORE,4,10.5,1,2,3,100", header=header, name="op_statistic_1.csv")
        (record,) = read(folder).records

        assert (record.type, record.place, record.calls, record.device_ns) == ("Cast", "AI_CORE", 4, 10500)
        assert (record.least_ns, record.most_ns) == (1000, 3000)
        assert any("totals by op type only" in remark for remark in read(folder).remarks)

    def test_a_table_that_lacks_work_which_its_folder_has_is_an_error_with_both_numbers(self, tmp_path: Path) -> None:
        """A kernel_details.csv was cut at a line end: 12 Casts, where op_statistic has 287; check passed."""
        profile(tmp_path, row(1), row(2))
        header = "OP Type,Core Type,Count,Total Time(us),Min Time(us),Max Time(us)"
        profile(tmp_path, "Cast,AI_CORE,3,6,1,3", "Mul,AI_CORE,1,1,1,1", header=header, name="op_statistic.csv")
        header = "Step,Computing,Communication(Not Overlapped),Free"
        profile(tmp_path, "1,6,0,1", header=header, name="step_trace_time.csv")

        with pytest.raises(TraceError) as error:
            read(tmp_path)
        assert str(error.value) == (
            f"{tmp_path / 'kernel_details.csv'}: lacks work that other files of its folder have: step 1: the compute"
            " kernels take 3.000 us, but Computing of step_trace_time is 6.000 us (and 2 more of that kind). Was it"
            " copied whole? Export it again; --partial reads what is there"
        )
        (found,) = find(Place(tmp_path))
        trace = formats.read(found, partial=True)
        assert trace.is_cut
        assert list(trace.remarks) == [
            "step 1: the compute kernels take 3.000 us, but Computing of step_trace_time is 6.000 us",
            "Cast AI_CORE: 2 calls take 3.000 us, but op_statistic has 3 calls of 6.000 us",
            "Mul AI_CORE: 0 calls take 0.000 us, but op_statistic has 1 calls of 1.000 us",
        ]

    def test_a_table_that_has_more_than_its_folder_is_remarked(self, tmp_path: Path) -> None:
        profile(tmp_path, row(1), row(2))
        header = "OP Type,Core Type,Count,Total Time(us),Min Time(us),Max Time(us)"
        profile(tmp_path, "Cast,AI_CORE,1,1,1,1", header=header, name="op_statistic.csv")

        assert list(read(tmp_path).remarks) == [
            "Cast AI_CORE: 2 calls take 3.000 us, but op_statistic has 1 calls of 1.000 us"
        ]

    def test_the_tasks_of_msprof_are_kernels_where_their_type_says_so(self, tmp_path: Path) -> None:
        header = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
        tasks = [
            *("0,Cast_1,AI_VECTOR_CORE,2,1,1.5,1,2", "0,Cast_2,Other,2,2,2.5,1,2", "0,EVENT_WAIT,EVENT_WAIT,2,3,9,1,2"),
            *("0,EVENT_WAIT_SQE,Other,2,4,9,1,2", "0,new,NEW_CORE,2,5,9,1,2"),
        ]
        profile(tmp_path, *tasks, header=header, name="task_time_20260101000000.csv")

        trace = read(tmp_path)
        assert [(r.type, r.place, r.calls, r.device_ns) for r in trace.records] == [
            ("Cast", "AI_VECTOR_CORE", 1, 1500),
            ("Cast", "Other", 1, 2500),
        ]
        assert trace.inferred_types
        assert "tasks of a type that opprof does not know are left out: NEW_CORE (1)" in trace.remarks

    def test_a_broken_file_beside_it_is_a_remark(self, tmp_path: Path) -> None:
        profile(tmp_path, row())
        profile(
            tmp_path, "1,x,y,z", header="Step,Computing,Communication(Not Overlapped),Free", name="step_trace_time.csv"
        )
        (tmp_path / "memory_record.csv").write_text("Component\n")

        trace = read(tmp_path)
        assert calls(list(trace.records)) == 1
        assert ["not checked" in remark for remark in trace.remarks] == [True, True]
        assert "row 2 has 'x' in the column 'Computing'" in trace.remarks[0]

    def test_a_duration_that_is_not_known_is_no_zero_and_takes_no_other_with_it(self, tmp_path: Path) -> None:
        folder = profile(tmp_path, row(2), row("N/A"), row(3))

        with pytest.raises(TraceError, match=r"missing or not a number: row 3 \('Duration\(us\)' is 'N/A'\)"):
            read(folder)
        trace = read(folder, partial=True)
        assert [(record.calls, record.device_ns, record.least_ns, record.most_ns) for record in trace.records] == [
            (1, None, None, None),
            (2, 5000, 2000, 3000),
        ]
        assert "1 durations are missing or not numbers: counted, in no sum; the first: row 3" in trace.remarks[0]

    @pytest.mark.parametrize(
        ("rows", "header", "error"),
        [
            ([], KERNELS, "has no rows: the profiler recorded nothing"),
            ([row("x")], KERNELS, r"row 2 has 'x' in the column 'Duration\(us\)'"),
            ([row(-1)], KERNELS, "'Cast1' has a duration of -1.0; expected one from 0"),
            ([row("1e300")], KERNELS, "'Cast1' has a duration of 1e[+]300"),
            ([row()], KERNELS.replace("(us)", "(min)"), r"has no unit in the header 'Duration\(min\)'"),
            (["1,Cast1"], KERNELS, "row 2 has 2 cells, expected 9"),
        ],
    )
    def test_a_broken_table_is_one_error(self, tmp_path: Path, rows: list[str], header: str, error: str) -> None:
        with pytest.raises(TraceError, match=error):
            read(profile(tmp_path, *rows, header=header))

    def test_a_cut_table_is_read_up_to_the_cut_where_that_is_asked_for(self, tmp_path: Path) -> None:
        file = profile(tmp_path, row(1), row(2)) / "kernel_details.csv"
        file.write_bytes(file.read_bytes()[:-30])

        with pytest.raises(TraceError, match=r"is cut in row 3; was it copied whole\?"):
            read(tmp_path)
        assert [record.device_ns for record in read(tmp_path, partial=True).records] == [1000]
        assert "kernel_details.csv is cut in row 3, which is left out" in read(tmp_path, partial=True).remarks

    def test_more_different_ops_than_fit_in_memory_are_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ops, "MOST_RECORDS", 5)

        with pytest.raises(TraceError, match=r"kernel_details\.csv: holds more than 5 different ops"):
            read(profile(tmp_path, *(row(name=f"Cast{n}") for n in range(9))))
        with pytest.raises(TraceError, match=r"msprof_1\.db: holds more than 5 different ops"):
            read(
                change(database(tmp_path / "msprof_1.db", tasks=9), "UPDATE COMPUTE_TASK_INFO SET name = globalTaskId")
            )

    def test_bytes_are_read_where_they_were_recorded(self, tmp_path: Path) -> None:
        columns = "aic_read_main_memory_datas(KB),aiv_write_main_memory_datas(KB)"
        trace = read(profile(tmp_path, f"{row()},3,1.5", f"{row()},1,0", header=f"{KERNELS},{columns}"))

        assert trace.records[0].memory == 5.5 * 1024

    @pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x89PNG", b'{"a": 1}', b"a,b,c\n", b"SQLite format 3\0"])
    def test_nothing_else_is_taken_for_it(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "kernel_details.csv").write_bytes(content)
        (tmp_path / "msprof_1.db").write_bytes(content)

        assert not ascend_profile.recognises(Place(tmp_path))
        assert not ascend_profile.recognises(Place(tmp_path / "kernel_details.csv"))
        with pytest.raises(TraceError, match=r"expected kernel_details\.csv"):
            ascend_profile.read(Place(tmp_path), Options())


class TestAFolderWhoseFirstFileIsBroken:
    @pytest.mark.parametrize(("size", "why"), [(0, "is empty"), (20, "is cut in its header")])
    def test_no_other_file_is_read_in_its_place(self, tmp_path: Path, size: int, why: str) -> None:
        folder = tmp_path / "a_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        shutil.copytree(recording("text/level1/rank0"), folder.parent)
        file = folder / "kernel_details.csv"
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content[:size])

        for given in (folder, folder.parent, tmp_path):
            (found,) = find(Place(given))
            with pytest.raises(
                TraceError, match=rf"kernel_details\.csv: {why}\. opprof reads this file of such a folder"
            ):
                ascend_profile.read(found.place, Options(rank=found.rank))
        assert calls(list(read(folder / "op_statistic.csv").records)) == 187

    def test_a_database_that_is_cut_is_no_less_broken(self, tmp_path: Path) -> None:
        statistic = "OP Type,Core Type,Count,Total Time(us)"
        profile(tmp_path, "Cast,AI_CORE,0,0", header=statistic, name="op_statistic.csv")
        file = database(tmp_path / "msprof_1.db")
        assert read(tmp_path).steps == ("7", "outside")
        file.write_bytes(file.read_bytes()[:5000])

        with pytest.raises(TraceError, match=r"msprof_1\.db: is not a complete sqlite export of CANN"):
            read(tmp_path)

    def test_a_part_that_is_empty_is_missed(self, tmp_path: Path) -> None:
        for part in (0, 1):
            profile(tmp_path, row(), name=f"op_summary_slice_{part}_20250102000000.csv")
        assert calls(list(read(tmp_path).records)) == 2
        (tmp_path / "op_summary_slice_1_20250102000000.csv").write_text("")

        assert ascend_profile.ranks(Place(tmp_path)) == [None]
        with pytest.raises(TraceError, match=r"op_summary_slice_1_20250102000000\.csv: is empty"):
            read(tmp_path)

    def test_an_older_export_may_be_broken(self, tmp_path: Path) -> None:
        profile(tmp_path, row(), name="op_summary_20250102000000.csv")
        (tmp_path / "op_summary_20250101000000.csv").write_text("")

        assert calls(list(read(tmp_path).records)) == 1

    def test_information_that_is_broken_is_told(self, tmp_path: Path) -> None:
        folder = profile(tmp_path / "a_ascend_pt" / "ASCEND_PROFILER_OUTPUT", row())
        (folder.parent / "profiler_info_2.json").write_text('{"rank_id": 2')

        assert "profiler_info_2.json could not be read" in read(folder).remarks[0]

    def test_a_table_without_rows_is_named(self, tmp_path: Path) -> None:
        profile(tmp_path, name="kernel_details.csv")
        header = "OP Type,Core Type,Count,Total Time(us)"
        profile(tmp_path, "Cast,AI_CORE,1,1", header=header, name="op_statistic.csv")

        with pytest.raises(TraceError, match=r"kernel_details\.csv: has no rows"):
            read(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aclnnInplaceRelu_Relu_Relu", "Relu"),
        ("aclnnMaxPool2dWithMask_TransDataSpecial_TransData", "TransData"),
        ("trans_TransData_7", "TransData"),
        ("Conv2DBackpropFilter6_MemSet", "MemSet"),
        ("atomic_memset-1_69_2208226_1_0", "MemSet"),
        ("trans_Cast_12", "Cast"),
        ("Conv2D12", "Conv2D"),
        ("MatMulV2", "MatMulV2"),
        ("MatMulV213", "MatMulV2"),
        ("Default/network/Cast-op10", "Cast"),
        ("hcom_allReduce__586_0_1", "hcom_allReduce_"),
        ("12", "12"),
        ("aclnn_", "aclnn_"),
    ],
)
def test_a_type_is_guessed_from_a_name(name: str, kind: str) -> None:
    assert type_of(name) == kind


def database(path: Path, steps: bool = True, tasks: int = 2, **columns: str) -> Path:
    """Write a database as msprof does, with as few columns as it may have."""
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE STRING_IDS (id INTEGER, value TEXT);"
        "CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER, opType INTEGER, other BLOB);"
        "CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, globalTaskId INTEGER);"
        "INSERT INTO STRING_IDS VALUES (1, 'Cast1'), (2, 'Cast'), (3, 'never asked for');"
    )
    for task in range(tasks):
        connection.execute("INSERT INTO COMPUTE_TASK_INFO VALUES (1, ?, 2, x'00')", [task])
        connection.execute("INSERT INTO TASK VALUES (?, ?, 0, ?)", [1000 * task, 1000 * task + 10, task])
    if steps:
        connection.executescript(
            "CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);"
            "INSERT INTO STEP_TIME VALUES (7, 0, 1000), (8, 900, 1000);"
        )
    connection.commit()
    connection.close()
    return path


def change(path: Path, statements: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(statements)
    connection.close()
    return path


class TestDatabases:
    def test_a_task_is_in_the_step_in_which_it_starts(self, tmp_path: Path) -> None:
        trace = read(database(tmp_path / "msprof_1.db"))

        assert trace.steps == ("7", "outside")
        assert [(record.step, record.calls, record.device_ns, record.name) for record in trace.records] == [
            (0, 1, 10, "Cast1"),
            (1, 1, 10, "Cast1"),
        ]
        assert read(database(tmp_path / "msprof_2.db", steps=False)).steps == ("",)

    @pytest.mark.parametrize(("steps", "label"), [(True, "7"), (False, "")])
    def test_what_was_launched_before_the_recording_is_in_no_step(
        self, tmp_path: Path, steps: bool, label: str
    ) -> None:
        calls = "CREATE TABLE CANN_API (connectionId INTEGER); INSERT INTO CANN_API VALUES (0), (8), (9)"
        links = "ALTER TABLE TASK ADD connectionId INTEGER; UPDATE TASK SET connectionId = 7 + globalTaskId"
        file = change(database(tmp_path / "msprof_1.db", steps), f"{calls}; {links}; UPDATE TASK SET startNs = 0")
        trace = read(file)

        assert trace.steps == (label, "outside")
        assert [(record.step, record.device_ns) for record in trace.records] == [(1, 10), (0, 1010)]

    def test_several_devices_are_never_summed(self, tmp_path: Path) -> None:
        file = change(
            database(tmp_path / "msprof_1.db"), "UPDATE TASK SET deviceId = globalTaskId, endNs = startNs + deviceId"
        )

        assert ascend_profile.ranks(Place(file)) == [0, 1]
        assert [record.calls for record in read(file, rank=1).records] == [1]
        with pytest.raises(TraceError, match="holds devices 0, 1"):
            read(file)

    def test_the_rank_is_what_the_file_says_not_its_device(self, tmp_path: Path) -> None:
        ranks = "CREATE TABLE RANK_DEVICE_MAP (rankId INTEGER, deviceId INTEGER); INSERT INTO RANK_DEVICE_MAP VALUES"
        for rank, expected in ((5, [5]), (-1, [0])):
            file = change(database(tmp_path / f"msprof_{abs(rank)}.db"), f"{ranks} ({rank}, 0)")
            assert ascend_profile.ranks(Place(file)) == expected
            assert calls(list(read(file, rank=expected[0]).records)) == 2

    def test_the_memory_of_operators_stands_for_a_record_of_it(self, tmp_path: Path) -> None:
        table = (
            "CREATE TABLE OP_MEMORY (allocationTotalAllocated INTEGER); INSERT INTO OP_MEMORY VALUES (5), (7), (NULL)"
        )
        assert read(change(database(tmp_path / "msprof_1.db"), table)).peak_memory == 7

    def test_nothing_is_written_beside_a_file_in_wal_mode(self, tmp_path: Path) -> None:
        file = change(database(tmp_path / "msprof_1.db"), "PRAGMA journal_mode = WAL")
        before = hashlib.sha256(file.read_bytes()).digest()
        assert file.read_bytes()[18] == 2, "not in WAL mode"

        assert read(tmp_path).steps == ("7", "outside")
        assert [path.name for path in tmp_path.iterdir()] == ["msprof_1.db"]
        assert hashlib.sha256(file.read_bytes()).digest() == before

    def test_what_is_only_in_the_write_ahead_log_is_read(self, tmp_path: Path) -> None:
        file = database(tmp_path / "msprof_1.db", tasks=1)
        writer = sqlite3.connect(file)
        writer.executescript("PRAGMA journal_mode = WAL; UPDATE TASK SET endNs = startNs + 77")
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

        assert [record.device_ns for record in read(file).records] == [77]
        assert before["msprof_1.db-wal"]
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        writer.close()

    def test_views_are_not_read_and_endless_work_ends(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite, "_STEPS", 10_000)
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS endNs, x AS startNs"
        view = f"DROP TABLE TASK; CREATE VIEW TASK AS {endless}, x AS globalTaskId FROM n"
        assert not ascend_profile.recognises(Place(change(database(tmp_path / "msprof_1.db"), view)))

        file = change(database(tmp_path / "msprof_2.db", tasks=2000), "UPDATE TASK SET globalTaskId = 1")
        with pytest.raises(TraceError, match="interrupted"):
            read(change(file, "UPDATE COMPUTE_TASK_INFO SET globalTaskId = 1"))

    @pytest.mark.parametrize(
        "statements",
        [
            "UPDATE TASK SET endNs = 'later'",
            "UPDATE TASK SET endNs = NULL",
            "UPDATE TASK SET endNs = startNs - 1",
            "UPDATE TASK SET startNs = -9223372036854775807, endNs = 9223372036854775807",
            "DROP TABLE COMPUTE_TASK_INFO; CREATE TABLE COMPUTE_TASK_INFO (name)",
            "DELETE FROM TASK",
        ],
    )
    def test_wrong_content_is_one_error(self, tmp_path: Path, statements: str) -> None:
        with pytest.raises(TraceError, match=r"msprof_1\.db"):
            read(change(database(tmp_path / "msprof_1.db"), statements))

    def test_wrong_names_are_nothing(self, tmp_path: Path) -> None:
        file = change(database(tmp_path / "msprof_1.db", tasks=1), "UPDATE STRING_IDS SET value = x'ff00'")

        assert [(record.name, record.type) for record in read(file).records] == [("", "")]

    @pytest.mark.parametrize("size", [20, 100, 5000])
    def test_a_cut_database_is_one_error(self, tmp_path: Path, size: int) -> None:
        file = database(tmp_path / "msprof_1.db")
        file.write_bytes(file.read_bytes()[:size])

        with pytest.raises(TraceError, match=r"msprof_1\.db: "):
            ascend_profile.read(Place(file), Options())


@pytest.mark.processes
def test_a_csv_file_is_read_without_sqlite_and_numpy(tmp_path: Path) -> None:
    code = """
import sys
before = set(sys.modules)  # coverage itself has sqlite3
from pathlib import Path
from pytest_opprof.frameworks.ascend.saved import profile as ascend
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
ascend.read(Place(Path(sys.argv[1])), Options())
assert not {"sqlite3", "numpy", "msgspec"} & (set(sys.modules) - before)
"""
    subprocess.run([sys.executable, "-c", code, str(profile(tmp_path, row()) / "kernel_details.csv")], check=True)


def test_a_recording_may_be_copied_anywhere(tmp_path: Path) -> None:
    shutil.copytree(recording("db/level1/rank0") / "ASCEND_PROFILER_OUTPUT", tmp_path / "copy")

    assert read(tmp_path / "copy").records == read(recording("db/level1/rank0")).records
    assert OUTSIDE not in read(tmp_path / "copy").steps
