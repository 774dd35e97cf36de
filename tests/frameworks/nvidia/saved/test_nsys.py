"""Nsight Systems: the recording of a public repository, read in place, and files of the same schema made by hand."""

from __future__ import annotations

import gzip
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pytest_opprof.errors import TraceError
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
from pytest_opprof.frameworks.nvidia.saved import nsys
from pytest_opprof.profile.saved import SavedOp, SavedProfile, op_of
from pytest_opprof.timeline.spans import Kind

from ....conftest import shared

RECORDING = "nsys/cloverleaf-cuda.trimmed.sqlite.gz"


@pytest.fixture(scope="module")
def recording() -> SavedProfile:
    return nsys.read(Place(shared(RECORDING)), Options())


def of_type(trace: SavedProfile, *types: str) -> list[SavedOp]:
    return [record for record in trace.records if record.type in types]


def test_counts_are_those_of_the_recording(recording: SavedProfile) -> None:
    on_device = [record for record in recording.records if record.place.startswith("GPU")]
    kernels = [record for record in on_device if "kernel" in record.type]
    assert sum(record.calls for record in kernels) == 1312
    assert sum(record.calls for record in of_type(recording, "MemcpyHtoD", "MemcpyDtoH")) == 279
    assert sum(record.calls for record in recording.records if record.place == "CUDA API") == 3048
    assert {record.type: record.calls for record in of_type(recording, "MemcpyHtoD", "MemcpyDtoH")} == {
        "MemcpyHtoD": 254,
        "MemcpyDtoH": 25,
    }


def test_the_gpu_and_the_version_are_those_of_the_recording(recording: SavedProfile) -> None:
    assert recording.environment.device == "NVIDIA A100-SXM4-80GB"
    assert recording.source == "Nsight Systems 2024.5.1.113 sqlite export"


def test_types_have_no_template_arguments_and_names_have(recording: SavedProfile) -> None:
    record = of_type(recording, "par_reduce_kernel")[0]
    assert "<" in record.name
    assert {r.type for r in recording.records if "kernel" in r.type} == {
        "par_ranged1d_kernel",
        "par_ranged2d_kernel",
        "par_reduce_kernel",
    }


def test_calls_that_launch_or_copy_are_not_counted_again(recording: SavedProfile) -> None:
    uncounted = {record.type for record in recording.records if record.counted == 0}
    assert uncounted == {"cudaLaunchKernel", "cudaMemcpy"}
    assert of_type(recording, "cudaDeviceSynchronize")[0].calls == 1312
    assert of_type(recording, "cudaDeviceSynchronize")[0].host_ns == 301_652_956


def test_launches_are_budgeted_as_in_a_live_window(recording: SavedProfile) -> None:
    assert recording.profile().launches == (1312,)


def test_kernels_are_linked_to_the_calls_that_launched_them(recording: SavedProfile) -> None:
    assert recording.kernels is not None
    assert {kernel.launched_by for kernel in recording.kernels} == {"cudaLaunchKernel"}
    assert sum(kernel.calls for kernel in recording.kernels) == 1312
    assert recording.remarks == ()


def test_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    for name, content in {
        "plain.sqlite": gzip.decompress(shared(RECORDING).read_bytes()),
        "compressed": shared(RECORDING).read_bytes(),
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert nsys.recognises(Place(path))
        nsys.read(Place(path), Options())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compressed", "plain.sqlite"]


# Made by hand from here on, in the schema of nsys' documentation.

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
    shortName INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, globalPid INTEGER, bytes INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
    globalTid INTEGER, textId INTEGER);
CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (processId INTEGER NOT NULL, deviceId INTEGER NOT NULL);
"""
STRINGS = {
    1: "cudaLaunchKernel_v7000",
    2: "void add<float>(float*)",
    3: "add",
    4: "layer",
    5: "cupy_copy__float32_float16",
    6: "cupy_add__float32_float32_float32",
    7: "cupy_copy__float_float32",
    8: "cupy_of_mine",
}
Make = Callable[..., Place]
PROCESS = (1 << 48) + (77 << 24)
OTHER = (1 << 48) + (78 << 24)


@pytest.fixture
def made(tmp_path: Path) -> Make:
    def make(**rows: list[tuple[object, ...]]) -> Place:
        path = tmp_path / "made.sqlite"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(SCHEMA)
            connection.executemany("INSERT INTO StringIds VALUES (?, ?)", STRINGS.items())
            for table, values in rows.items():
                name = {"kernels": "CUPTI_ACTIVITY_KIND_KERNEL", "calls": "CUPTI_ACTIVITY_KIND_RUNTIME"}.get(
                    table, table
                )
                marks = ", ".join("?" * len(values[0]))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
        return Place(path)

    return make


def launch(number: int, start: int, process: int = PROCESS) -> tuple[int, ...]:
    return (start, start + 5, process + 1, number, 1)


def kernel(
    number: int, start: int, end: object, process: int = PROCESS, name: int = 2, short: int = 3
) -> tuple[object, ...]:
    return (start, end, 0, 7, number, process, name, short)


def test_the_innermost_range_around_the_launch_is_what_launched(made: Make) -> None:
    place = made(
        calls=[launch(1, 10), launch(2, 30), launch(3, 60)],
        kernels=[kernel(1, 100, 110), kernel(2, 120, 140), kernel(3, 150, 155), kernel(4, 160, 161)],
        NVTX_EVENTS=[
            (0, 50, 59, "step", PROCESS + 1, None),
            (20, 40, 59, None, PROCESS + 1, 4),
            (0, 90, 59, "another thread", PROCESS + 2, None),
            (0, 90, 60, "not on the stack of a thread", PROCESS + 1, None),
        ],
    )
    kernels = nsys.read(place, Options()).kernels
    assert kernels is not None
    assert {(k.launched_by, k.calls, k.device_ns) for k in kernels} == {
        ("step", 1, 10),
        ("layer", 1, 20),
        ("cudaLaunchKernel", 1, 5),
        ("(unlinked)", 1, 1),
    }


def test_launches_without_a_kernel_are_said(made: Make) -> None:
    trace = nsys.read(made(calls=[launch(1, 10), launch(2, 30)], kernels=[kernel(1, 100, 110)]), Options())
    assert trace.remarks == ("2 kernels launched, 1 recorded: 1 launch without a kernel",)


def twice(calls: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Each call once more inside itself, as some versions of nsys write it, under the name with its version."""
    return [*calls, *((start + 1, end - 1, thread, number, 9) for start, end, thread, number, _ in calls)]


def test_a_call_that_has_two_rows_is_one(made: Make) -> None:
    strings = [(9, "cudaMemcpy_v3020"), (10, "cudaMemcpy")]
    copies = [(start, start + 9, PROCESS + 1, number, 10) for number, start in ((3, 50), (4, 70))]
    for rows in (
        [*twice([launch(1, 10), launch(2, 30)]), *twice(copies)],
        [*twice(copies), launch(1, 10), launch(2, 30)],
    ):
        place = made(StringIds=strings, calls=rows, kernels=[kernel(1, 100, 110), kernel(2, 120, 140)])
        trace = nsys.read(place, Options())
        place.path.unlink()
        assert trace.remarks == ()
        (copied,) = of_type(trace, "cudaMemcpy")
        assert (copied.calls, copied.host_ns, copied.host_least_ns, copied.host_most_ns) == (2, 18, 9, 9)
        assert trace.profile().launches == (2,)
        assert [(k.launched_by, k.calls) for k in trace.kernels or ()] == [("cudaLaunchKernel", 2)]


def test_the_recording_is_read_the_same_where_each_call_has_two_rows(recording: SavedProfile, tmp_path: Path) -> None:
    path = tmp_path / "twice.sqlite"
    path.write_bytes(gzip.decompress(shared(RECORDING).read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = "start, end, 67, globalTid, correlationId, nameId, returnValue, callchainId"
        connection.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT {columns} FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    assert nsys.read(Place(path), Options()) == recording


def test_what_was_launched_before_the_recording_is_outside_of_it(made: Make) -> None:
    rows = [kernel(3, 0, 70), kernel(8, 80, 90), kernel(9, 90, 95)]
    trace = nsys.read(made(calls=[launch(8, 10)], kernels=rows), Options())
    assert trace.steps == ("", "outside")
    assert [(record.step, record.device_ns) for record in trace.records if record.type == "add"] == [(1, 70), (0, 15)]
    assert [(k.step, k.launched_by, k.device_ns) for k in trace.kernels or ()] == [
        (1, "(unlinked)", 70), (0, "(unlinked)", 5), (0, "cudaLaunchKernel", 10),
    ]  # fmt: skip
    assert trace.profile().total.device_ns == (15,)


def test_numbers_that_do_not_link_are_said_and_not_counted_twice(made: Make) -> None:
    trace = nsys.read(made(calls=[launch(1, 10), launch(1, 30)], kernels=[kernel(1, 0, 5), kernel(1, 6, 9)]), Options())
    assert trace.kernels is None
    assert "not unique" in trace.remarks[0]


def test_astype_of_cupy_is_a_cast_and_a_memset_has_its_size(made: Make) -> None:
    rows = [kernel(1, 0, 5, name=5, short=5)]
    cast, memset = nsys.read(
        made(kernels=rows, CUPTI_ACTIVITY_KIND_MEMSET=[(6, 7, 0, 7, PROCESS, 64)]), Options()
    ).records
    assert (cast.op, cast.input_dtypes, cast.output_dtypes) == ("Cast", ("float32",), ("float16",))
    assert (memset.type, memset.memory, memset.device_ns) == ("Memset", 64, 1)


def test_kernels_of_cupy_are_the_ops_of_their_names(made: Make) -> None:
    rows = [kernel(number, number, 9, name=number, short=number) for number in (6, 7, 8)]
    trace = nsys.read(made(kernels=rows), Options())
    assert [op_of(record) for record in trace.records] == ["Add", "ConstantOfShape", "cupy_of_mine"]
    assert [record.input_dtypes for record in trace.records] == [(), (), ()]


def test_processes_are_ranks(made: Make) -> None:
    place = made(
        calls=[launch(1, 0), launch(1, 0, OTHER)],
        kernels=[kernel(1, 10, 15), kernel(1, 20, 29, OTHER)],
        TARGET_INFO_CUDA_CONTEXT_INFO=[(77, 0), (78, 1)],
    )
    assert nsys.ranks(place) == [0, 1]
    traces = [nsys.read(place, Options(rank=rank)) for rank in (0, 1)]
    assert [of_type(trace, "add")[0].device_ns for trace in traces] == [5, 9]
    assert nsys.read(place, Options()).remarks == ("2 processes are added up",)
    with pytest.raises(TraceError, match="has no rank 2; it has 2 processes"):
        nsys.read(place, Options(rank=2))


def test_what_is_still_in_the_log_of_sqlite_is_read_and_the_log_left_alone(made: Make, tmp_path: Path) -> None:
    place = made(kernels=[kernel(1, 0, 5)])
    with closing(sqlite3.connect(place.path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 7, 2, 0, 2, 3)")
        writer.commit()
        log = place.path.with_name(f"{place.path.name}-wal")
        before = log.read_bytes()
        assert Counter({record.type: record.calls for record in nsys.read(place, Options()).records}) == {"add": 2}
        assert log.read_bytes() == before


def test_a_database_in_wal_mode_without_a_log_leaves_none(made: Make) -> None:
    place = made(kernels=[kernel(1, 0, 5)])
    with closing(sqlite3.connect(place.path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
    nsys.read(place, Options())
    assert [path.name for path in place.path.parent.iterdir()] == ["made.sqlite"]


@pytest.mark.parametrize("rows", [kernel(1, 10, 5), kernel(1, 10, "soon"), kernel(1, 10, b"x")])
def test_a_kernel_without_a_time_is_an_error(made: Make, rows: tuple[object, ...]) -> None:
    place = made(kernels=[rows, kernel(2, 20, 25)])
    with pytest.raises(TraceError, match="1 row of CUPTI_ACTIVITY_KIND_KERNEL without a time, or with an end before"):
        nsys.read(place, Options())
    trace = nsys.read(place, Options(partial=True))
    assert [(record.calls, record.device_ns) for record in trace.records] == [(1, 5)]
    assert [(launched.calls, launched.device_ns) for launched in trace.kernels or ()] == [(1, 5)]
    assert "1 durations are missing or not numbers: left out" in trace.remarks[0]


def test_times_too_large_to_add_are_an_error(made: Make) -> None:
    with pytest.raises(TraceError, match="integer overflow"):
        nsys.read(made(kernels=[kernel(1, 0, 2**63 - 1), kernel(2, 0, 2**63 - 1)]), Options())


def test_a_database_of_something_else_is_not_recognised_and_said_to_be_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE moz_places (url TEXT)")
    assert not nsys.recognises(Place(path))
    with pytest.raises(TraceError, match="has no CUDA activity"):
        nsys.read(Place(path), Options())


def test_a_view_is_not_run(made: Make) -> None:
    place = made(kernels=[kernel(1, 0, 5)])
    with closing(sqlite3.connect(place.path)) as connection, connection:
        connection.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT i AS start FROM n"
        )
    assert len(nsys.read(place, Options()).records) == 1


@pytest.mark.parametrize("size", [10, 5_000, 20_000])
def test_a_file_that_was_cut_is_one_clear_error(made: Make, size: int) -> None:
    place = made(kernels=[kernel(number, number, number + 5) for number in range(2000)])
    cut = place.path.with_name("cut.sqlite")
    cut.write_bytes(place.path.read_bytes()[:size])
    with pytest.raises(TraceError) as error:
        nsys.read(Place(cut), Options())
    assert str(error.value).startswith(str(cut))


def test_its_timeline_has_ranges_by_thread_and_kernels_of_the_chosen_process(made: Make) -> None:
    place = made(
        calls=[launch(1, 10), launch(2, 30), launch(3, 60, OTHER)],
        kernels=[kernel(1, 100, 110), kernel(2, 120, 140), kernel(3, 150, 155, OTHER), kernel(9, 160, "late")],
        CUPTI_ACTIVITY_KIND_MEMSET=[(145, 149, 0, 7, PROCESS, 64)],
        NVTX_EVENTS=[
            (10, 50, 59, "step", PROCESS + 1, None),
            (20, 40, 59, None, PROCESS + 1, 4),
            (0, 90, 60, "not on the stack of a thread", PROCESS + 1, None),
        ],
        TARGET_INFO_CUDA_CONTEXT_INFO=[(77, 0), (78, 0)],
    )
    spans = list(nsys.timeline(place, Options(partial=True, rank=0)))
    assert [(span.name, span.kind, span.start_ns, span.launched_ns) for span in spans if span.lane.on_device] == [
        ("add", Kind.OP, 90, 0),
        ("add", Kind.OP, 110, 20),
        ("Memset", Kind.COPY, 135, None),
    ]
    assert [(span.name, span.depth, span.kind) for span in spans if not span.lane.on_device] == [
        ("step", 0, Kind.RANGE),
        ("cudaLaunchKernel", 1, Kind.CALL),
        ("layer", 1, Kind.RANGE),
        ("cudaLaunchKernel", 2, Kind.CALL),
    ]
    assert {str(span.lane) for span in spans} == {"GPU 0 stream 7", "process 77 thread 1"}
    assert len(nsys.timeline(place, Options(rank=1))) == 2
