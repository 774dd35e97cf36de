"""Tables of profilers of GPUs: nsys stats, ncu, rocprofv3.

The tables here are written by hand, with the columns that the documentation of each lists: no such tool is at hand, and
the public ones are not ours to distribute.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.amd.saved import rocprof
from pytest_opprof.frameworks.files import formats, gpu_rows
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.nvidia.saved import ncu, nsys_stats
from pytest_opprof.profile.saved import SavedOp, SavedProfile


def read(folder: Path, content: str | bytes, name: str = "table.csv", **how: bool) -> SavedProfile:
    """Read a file that exactly one format recognises."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    place = Place(folder / name)
    (owner,) = [each for each in formats.FORMATS if formats.format_of(each).recognises(place)]
    trace = formats.read(formats.Found(owner, place), **how)
    assert trace.untold == ("*",)
    return trace


def by_type(trace: SavedProfile) -> dict[str, SavedOp]:
    assert len({record.type for record in trace.records}) == len(trace.records)
    return {record.type: record for record in trace.records}


class TestNsysStats:
    KERNELS = (
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        '60.0,600000,3,200000.0,200000.0,100000,300000,100000.0,"void gemm<(int)64, float>(float *, int)"\n'
        "40.0,400000,2,200000.0,200000.0,150000,250000,50000.0,cupy_copy__float64_float32\n"
    )
    PRINTED = (
        "Generating SQLite file a.sqlite from a.nsys-rep\nProcessing [a.sqlite] with [cuda_gpu_kern_sum.py]...\n\n"
    )

    @pytest.mark.parametrize("before", ["", PRINTED, "\ufeff"], ids=["file", "terminal", "byte order mark"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
    def test_kernels_have_their_calls_and_times(self, tmp_path: Path, before: str, end: str) -> None:
        found = by_type(read(tmp_path, (before + self.KERNELS).replace("\n", end)))
        gemm, cast = found["gemm"], found["cupy_copy__float64_float32"]
        assert gemm.name == "void gemm<(int)64, float>(float *, int)"
        assert (gemm.calls, gemm.device_ns, gemm.least_ns, gemm.most_ns) == (3, 600_000, 100_000, 300_000)
        assert (cast.op, cast.input_dtypes, cast.output_dtypes) == ("Cast", ("float64",), ("float32",))

    def test_times_are_in_the_unit_of_the_header_as_old_versions_call_the_columns(self, tmp_path: Path) -> None:
        old = "Time(%),Total Time (us),Instances,Average (us),Minimum (us),Maximum (us),StdDev (us),Name\n"
        (record,) = read(tmp_path, old + "1,9,2,4.5,4,5,1,k\n").records
        assert (record.device_ns, record.least_ns, record.most_ns) == (9000, 4000, 5000)

    def test_copies_are_told_by_their_direction(self, tmp_path: Path) -> None:
        table = (
            "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
            "50.0,10,1,10.0,10.0,10,10,0.0,[CUDA memcpy Host-to-Device]\n30.0,6,2,3,3,3,3,0,[CUDA memcpy DtoH]\n"
            "20.0,4,1,4,4,4,4,0,[CUDA memset]\n"
        )
        assert {type_: r.calls for type_, r in by_type(read(tmp_path, table)).items()} == {
            "MemcpyHtoD": 1, "MemcpyDtoH": 2, "Memset": 1,
        }  # fmt: skip

    def test_calls_are_on_the_host_and_those_that_start_work_are_not_counted(self, tmp_path: Path) -> None:
        table = (
            "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
            "50,10,1,10,10,10,10,0,cudaLaunchKernel\n50,10,1,10,10,10,10,0,cudaDeviceSynchronize\n9,9,9,1,1,1,1,0,poll\n"
        )
        found = by_type(read(tmp_path, table))
        assert {type_: (r.host_ns, r.host_most_ns, r.device_ns, r.counted) for type_, r in found.items()} == {
            "cudaLaunchKernel": (10, 10, None, 0), "cudaDeviceSynchronize": (10, 10, None, None),
        }  # fmt: skip

    def test_a_report_of_several_kinds_says_which_is_which(self, tmp_path: Path) -> None:
        table = (
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation\n"
            "60,6,1,6,6,6,6,0,CUDA_KERNEL,k(int)\n30,3,1,3,3,3,3,0,MEMORY_OPER,[CUDA memcpy HtoD]\n"
            "10,1,1,1,1,1,1,0,CUDA_API,cuLaunchKernel\n"
        )
        found = by_type(read(tmp_path, table))
        assert [found[type_].device_ns for type_ in ("k", "MemcpyHtoD", "cuLaunchKernel")] == [6, 3, None]

    def test_a_trace_has_a_row_for_each_kernel_and_copy(self, tmp_path: Path) -> None:
        table = (
            "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
            "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
            "1,1000,5,1,1,1,1,1,1,16,0,0,,,,,NVIDIA A100 (0),1,7,k(int)\n"
            "9,3000,6,1,1,1,1,1,1,16,0,0,,,,,NVIDIA A100 (0),1,7,k(int)\n"
            "20,500,7,,,,,,,,,,2.0,9.9,Pinned,Device,NVIDIA A100 (0),1,7,[CUDA memcpy HtoD]\n"
        )
        trace = read(tmp_path, table)
        kernel, copy = trace.records
        assert (kernel.calls, kernel.device_ns, kernel.least_ns, kernel.most_ns) == (2, 4000, 1000, 3000)
        assert (copy.type, copy.memory, copy.place) == ("MemcpyHtoD", 2 << 20, "NVIDIA A100 (0) stream 7")
        assert trace.environment.device == "NVIDIA A100"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (KERNELS + "\n" + PRINTED + KERNELS, r"holds several reports\. Write each to a file: nsys stats"),
            (KERNELS.replace("(ns),Inst", "(h),Inst"), r"no unit in the header 'Total Time \(h\)'"),
            (KERNELS.replace("600000,3", "600000,x"), r"row 2 has 'x'"),
            (KERNELS.replace("600000,3", "-1,3"), r"row 2 has '-1' in the column 'Total Time \(ns\)'"),
            (KERNELS[:-20], "is cut in row 3"),
            (KERNELS.partition("\n")[0] + "\n", "has no kernel, copy or call of CUDA"),
        ],
    )  # fmt: skip
    def test_a_broken_report_is_one_clear_error(self, tmp_path: Path, content: str, message: str) -> None:
        with pytest.raises(TraceError, match=message):
            read(tmp_path, content)

    def test_a_row_without_a_time_counts_only_if_asked(self, tmp_path: Path) -> None:
        table = self.KERNELS.replace("600000,3", ",3")
        with pytest.raises(
            TraceError, match=r"a duration is missing or not a number: row 2 \('Total Time \(ns\)' is ''\)"
        ):
            read(tmp_path, table)
        trace = read(tmp_path, table, partial=True)
        assert [(record.calls, record.device_ns) for record in trace.records] == [(3, None), (2, 400_000)]
        assert trace.remarks[0].startswith(
            "1 durations are missing or not numbers: counted, in no sum; the first: row 2"
        )

    def test_a_report_that_was_cut_gives_its_whole_rows_if_asked(self, tmp_path: Path) -> None:
        trace = read(tmp_path, self.KERNELS[:-20], partial=True)
        assert ([record.type for record in trace.records], trace.is_cut) == (["gemm"], True)


class TestNcu:
    HEADER = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
    HEADER += '"Block Size","Grid Size","Device","CC"'
    DETAILS = HEADER + ',"Section Name","Metric Name","Metric Unit","Metric Value"\n'
    PRINTED = (
        '==PROF== Connected to process 7 (/usr/bin/python)\n==PROF== Profiling "gemm" - 0: 0%....100% - 8 passes\n'
    )

    def row(self, id_: int, kernel: str, metric: str, unit: str, value: str) -> str:
        where = '"7","python","here"', f'"{kernel}"', '"1","7","(256, 1, 1)","(8, 1, 1)","0","8.0"', '"Speed Of Light"'
        return ",".join([f'"{id_}"', *where, f'"{metric}","{unit}","{value}"']) + "\n"

    @pytest.mark.parametrize("before", ["", PRINTED], ids=["file", "terminal"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
    def test_each_launch_has_its_duration(self, tmp_path: Path, before: str, end: str) -> None:
        table = before + self.DETAILS
        for id_, (kernel, unit, value) in enumerate([("gemm<1>(int)", "ns", "2,848"), ("gemm<1>(int)", "us", "3.50")]):
            table += self.row(id_, kernel, "SM Frequency", "hz", "1,215,000,000.00")
            table += self.row(id_, kernel, "Duration", unit, value)
        trace = read(tmp_path, table.replace("\n", end))
        (record,) = trace.records
        assert (record.name, record.type, record.calls, record.place) == ("gemm<1>(int)", "gemm", 2, "GPU 0 stream 7")
        assert (record.device_ns, record.least_ns, record.most_ns) == (6348, 2848, 3500)
        assert "by itself, at a fixed clock" in trace.remarks[0]

    def test_one_row_a_launch_with_the_units_below_the_header(self, tmp_path: Path) -> None:
        table = (
            self.HEADER + ',"gpu__time_duration.sum","sm__cycles_elapsed.avg"\n' + '"",' * 11 + '"usecond","cycle"\n'
        )
        table += '"0","7","python","here","k(int)","1","7","(256, 1, 1)","(8, 1, 1)","0","8.0","2.98","5,004.25"\n'
        (record,) = read(tmp_path, table).records
        assert (record.calls, record.device_ns) == (1, pytest.approx(2980))

    def test_without_the_metric_there_are_calls_and_no_times(self, tmp_path: Path) -> None:
        trace = read(tmp_path, self.DETAILS + self.row(0, "k", "DRAM Throughput", "%", "5.1"))
        (record,) = trace.records
        assert (record.calls, record.device_ns, trace.remarks) == (1, None, ())

    @pytest.mark.parametrize(
        ("other", "duration", "ns"),
        [("1,215.50", "2,848", 2848), ("1.215,50", "2.848", 2848), ("0,5", "2.848", 2848), ("0.5", "2,848", 2848)],
    )
    def test_numbers_are_read_as_the_locale_of_the_file_writes_them(
        self, tmp_path: Path, other: str, duration: str, ns: int
    ) -> None:
        table = self.DETAILS + self.row(0, "k", "Duration", "ns", duration) + self.row(0, "k", "Cycles", "cycle", other)
        assert read(tmp_path, table).records[0].device_ns == ns

    def test_a_launch_without_a_time_beside_others_that_have_one_is_an_error(self, tmp_path: Path) -> None:
        table = self.DETAILS + self.row(0, "k", "Duration", "ns", "5") + self.row(1, "k", "Cycles", "", "5")
        with pytest.raises(TraceError, match="a duration is missing or not a number: a launch of 'k'"):
            read(tmp_path, table)

    def test_a_time_that_is_not_known_is_one_that_is_missing(self, tmp_path: Path) -> None:
        table = self.DETAILS + self.row(0, "k", "Duration", "ns", "5") + self.row(1, "k", "Duration", "ns", "N/A")
        with pytest.raises(TraceError, match="a duration is missing or not a number: a launch of 'k'"):
            read(tmp_path, table)
        assert by_type(read(tmp_path, table, partial=True))["k"].calls == 2

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([("Duration", "ns", "1.5"), ("Cycles", "", "1,5")], r"in two ways, '1\.5' and '1,5'; .*LC_ALL=C"),
            ([("Duration", "ns", "soon")], "'k' took 'soon' 'ns'; expected a number of ns"),
            ([("Duration", "ns", "nan")], "'k' took 'nan' 'ns'; expected a number of ns"),
            ([("Duration", "ns", "-1")], "'k' took '-1' 'ns'; expected a number of ns"),
            ([("Duration", "years", "1")], "'k' took '1' 'years'"),
            ([], "has no kernel; did ncu find one"),
        ],
    )
    def test_a_broken_table_is_one_clear_error(
        self, tmp_path: Path, rows: list[tuple[str, str, str]], message: str
    ) -> None:
        with pytest.raises(TraceError, match=message):
            read(tmp_path, self.DETAILS + "".join(self.row(0, "k", *row) for row in rows))


class TestRocprof:
    NAME = "void add<float>(float*, float const*)"
    KERNELS = (
        '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
        '"Start_Timestamp","End_Timestamp","LDS_Block_Size"\n'
        f'"KERNEL_DISPATCH","Agent 2",1,0,70,1,33,"{NAME}",1,9007199254740993,9007199254741994,0\n'
        f'"KERNEL_DISPATCH","Agent 2",1,0,70,2,33,"{NAME}",2,9007199254742000,9007199254744000,0\n'
    )
    STATS = (
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
        f'"{NAME}",2,3001,1500.5,99.0,1001,2000,1.0\n'
        '"hipMemcpy",1,500,500.0,1.0,500,500,0\n"MEMORY_COPY_HOST_TO_DEVICE",1,70,70.0,1.0,70,70,0\n'
        '"hsa_agent_get_info",9,9,1.0,1.0,1,1,0\n"KERNEL_DISPATCH",2,3001,1500.5,99.0,1001,2000,1.0\n'
    )
    DOCUMENT: ClassVar[dict[str, Any]] = {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 7},
                "agents": [{"id": {"handle": 42}, "name": "gfx90a", "product_name": "AMD Instinct MI250X"}],
                "kernel_symbols": [{"kernel_id": 33, "formatted_kernel_name": NAME}],
                "strings": {
                    "buffer_records": [
                        {"kind": "NONE", "operations": []},
                        {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
                        {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "__hipPushCallConfiguration"]},
                    ]
                },
                "buffer_records": {
                    "kernel_dispatch": [
                        {
                            "kind": 11,
                            "start_timestamp": start,
                            "end_timestamp": end,
                            "dispatch_info": {"agent_id": {"handle": 42}, "queue_id": {"handle": 1}, "kernel_id": 33},
                        }
                        for start, end in [(9007199254740993, 9007199254741994), (5, 2005)]
                    ],
                    "memory_copy": [
                        {"kind": 1, "operation": 1, "start_timestamp": 5, "end_timestamp": 75, "bytes": 4096}
                    ],
                    "hip_api": [
                        {"kind": 2, "operation": operation, "start_timestamp": 0, "end_timestamp": 9}
                        for operation in (0, 1)
                    ],
                },
            }
        ]
    }  # fmt: skip

    def test_dispatches_are_kernels_with_their_times_to_the_ns(self, tmp_path: Path) -> None:
        (record,) = read(tmp_path, self.KERNELS).records
        assert (record.name, record.type) == ("void add<float>(float*, float const*)", "add")
        assert (record.calls, record.device_ns, record.least_ns, record.most_ns) == (2, 3001, 1001, 2000)
        assert record.place == "Agent 2 queue 1"

    def test_sums_are_told_apart_by_their_names(self, tmp_path: Path) -> None:
        found = by_type(read(tmp_path, self.STATS))
        assert found.keys() == {"add", "hipMemcpy", "MemcpyHtoD"}
        assert (found["add"].device_ns, found["hipMemcpy"].host_ns, found["MemcpyHtoD"].device_ns) == (3001, 500, 70)
        assert found["hipMemcpy"].counted == 0

    def test_copies_and_calls_have_tables_of_their_own(self, tmp_path: Path) -> None:
        copies = (
            '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            '"MEMORY_COPY","DEVICE_TO_HOST",1,0,0,14955952733485,14955953315285\n'
        )
        (copy,) = read(tmp_path, copies).records
        assert (copy.type, copy.device_ns) == ("MemcpyDtoH", 581_800)
        calls = (
            '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            '"HIP_RUNTIME_API","hipDeviceSynchronize",7,7,1,10,25\n"MARKER_CORE_API","hipMemcpy",7,7,2,10,20\n'
        )
        (call,) = read(tmp_path, calls).records
        assert (call.type, call.host_ns, call.counted) == ("hipDeviceSynchronize", 15, None)

    @pytest.mark.parametrize("call", ["hipModuleLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel"])
    def test_a_launch_is_no_op_beside_its_kernel(self, tmp_path: Path, call: str) -> None:
        calls = (
            '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
            f'"HIP_RUNTIME_API","{call}",7,7,1,10,25\n"HIP_RUNTIME_API","hipDeviceSynchronize",7,7,2,30,40\n'
        )
        profile = read(tmp_path, calls).profile()
        assert (profile.total.calls, profile.stats(call).calls, profile.launches) == ((1,), (1,), (1,))

    def test_the_json_has_all_of_them(self, tmp_path: Path) -> None:
        trace = read(tmp_path, json.dumps(self.DOCUMENT), "a_results.json")
        found = by_type(trace)
        assert found.keys() == {"add", "MemcpyHtoD", "hipLaunchKernel"}
        assert found["add"].device_ns == read(tmp_path, self.KERNELS).records[0].device_ns
        assert (found["MemcpyHtoD"].memory, found["hipLaunchKernel"].host_ns) == (4096, 9)
        assert (trace.environment.device, trace.remarks) == ("AMD Instinct MI250X", ())

    def test_a_time_beyond_64_bits_is_an_error(self, tmp_path: Path) -> None:
        document = json.loads(json.dumps(self.DOCUMENT))
        document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"][0]["end_timestamp"] = 1 << 70
        with pytest.raises(TraceError, match="ends at 1180591620717411303424 ns, a number beyond 64 bits"):
            read(tmp_path, json.dumps(document), "a.json")

    def test_several_processes_are_summed_and_that_is_said(self, tmp_path: Path) -> None:
        document = {"rocprofiler-sdk-tool": self.DOCUMENT["rocprofiler-sdk-tool"] * 2}
        trace = read(tmp_path, gzip.compress(json.dumps(document).encode()), "a.json.gz")
        assert (by_type(trace)["add"].calls, trace.remarks) == (4, ("2 processes are added up",))

    def test_a_name_that_is_no_utf_8_is_read_as_far_as_it_is(self, tmp_path: Path) -> None:
        content = json.dumps(self.DOCUMENT).encode().replace(b"void add<", b"add\x8d<")
        assert read(tmp_path, content, "a.json").records[0].type == "add\ufffd"

    def test_sums_are_left_out_where_what_was_summed_is_beside_them(self, tmp_path: Path) -> None:
        for name, content in (("7_kernel_trace.csv", self.KERNELS), ("7_kernel_stats.csv", self.STATS)):
            (tmp_path / name).write_text(content)
        assert [found.place.path.name for found in formats.find(Place(tmp_path))] == ["7_kernel_trace.csv"]
        assert formats.find(Place(tmp_path / "7_kernel_stats.csv"))
        (tmp_path / "7_marker_api_stats.csv").write_text(self.STATS)
        assert not rocprof.recognises(Place(tmp_path / "7_marker_api_stats.csv"))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (KERNELS.replace("9007199254741994", "1"), "row 2 ends before it starts: 9007199254740993 to 1"),
            (KERNELS.replace("9007199254741994", "x"), "row 2 has 'x'"),
            (KERNELS.partition("\n")[0] + "\n", "has no kernel, copy or call of HIP"),
            (KERNELS[:-30], "is cut in row 3"),
            ('{"rocprofiler-sdk-tool": [{', "is not a complete JSON file of rocprofv3"),
            (
                '{"rocprofiler-sdk-tool": [{"agents": 5}]}',
                "is not a complete JSON file of rocprofv3: Expected `array`, got `int`",
            ),
            ('{"rocprofiler-sdk-tool": []}', "has no kernel, copy or call of HIP"),
        ],
    )
    def test_a_broken_file_is_one_clear_error(self, tmp_path: Path, content: str, message: str) -> None:
        with pytest.raises(TraceError, match=message):
            read(tmp_path, content)


def test_more_names_than_any_program_has_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_rows, "MOST_DIFFERENT", 1)
    with pytest.raises(TraceError, match="has more than 1 different names"):
        read(tmp_path, TestNsysStats.KERNELS)


TABLES = [
    TestNsysStats.KERNELS,
    TestNcu.DETAILS,
    TestRocprof.KERNELS,
    TestRocprof.STATS,
    json.dumps(TestRocprof.DOCUMENT),
]


@given(st.sampled_from(TABLES), st.text(max_size=30), st.integers(0, 1000), st.integers(0, 30))
def test_texts_of_any_kind_are_a_table_or_one_error(text: str, put: str, at: int, removed: int) -> None:
    with NamedTemporaryFile() as file:
        file.write((text[:at] + put + text[at + removed :]).encode("utf-8", "replace"))
        file.flush()
        for reader in (nsys_stats, ncu, rocprof):
            reader.recognises(Place(Path(file.name)))
            try:
                assert reader.read(Place(Path(file.name)), Options()).records
            except TraceError:
                pass
