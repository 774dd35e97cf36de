"""MindSpore's profiler on the CPU. `folder` says where the files are.

============================== ========================================================================================
cpu_op_execute_timestamp_0.txt ``full_op_name;HostCpuOps;start,duration,thread start,duration,thread ...``: each call;
                               start in ns, duration in ms, a float32 with 6 significant digits
cpu_framework_0.txt            ``op_type;op_name;graph_id;input_1:[4, 3, 8, 8];input_2:NoShape;``: each launch, in
                               order. op_name is the last part of the full name. Name and type are empty for ops that
                               PyNative launches on its short path (Cast, MatMul, ReLU): their shapes are not known.
                               NoShape is an input that is no tensor: left out
cpu_op_detail_info_0.csv       calls and total (ms) by full name: a cross-check, or read where the calls are missing
cpu_op_type_info_0.csv         the same by op type, in ms though the header does not say so: a cross-check. Its
                               ``execution_frequency(per-step)`` is not per step, and is never read
cpu_ms_memory_record_0.txt     timestamp (ns), bytes allocated. It repeats the records of the earlier sessions of the
                               process: only records between the start of the first op and the end of the last are read
============================== ========================================================================================

The op type is the last part of the full name without ``-op12``. An op has a record for each of its input shapes. The
files have no steps. Not read: ``cpu_timeline_*.json`` of 2.0, which add up all sessions of a process, and
``trace_view.json``, which repeats the calls.

Seen: recordings of 2.0.0, 2.7.0 and 2.10.0, graph and PyNative mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import TraceError
from ....profile.saved import SavedOp, SavedProfile
from ...files import tables
from ...files.format import Format, Options
from ...files.place import Place
from ..file_lines import op_type
from . import folder as common
from .calls import Calls, read_calls, records_of

if TYPE_CHECKING:
    from ....timeline.spans import Timeline


def recognises(place: Place) -> bool:
    """Return True if the folder holds CPU ops and no ops of an accelerator, or an empty session."""
    if not place.is_folder or common.is_newer(place):
        return False
    if common.home_of(place, common.CPU_FILES):
        return not common.home_of(place, common.GPU_FILES + common.ASCEND_FILES)
    return _is_of_an_empty_session(place)


def ranks(place: Place) -> list[int] | list[None]:
    """Return the ranks whose files are here; [None] for an empty session."""
    return common.ranks_of(place, common.CPU_FILES) or [None]


def read(place: Place, options: Options) -> SavedProfile:
    """Read the ops of one rank. Raises TraceError."""
    session = common.open_session(place, common.CPU_FILES, options)
    records, peak = cpu_records(session)
    return session.trace("CPU", records, peak_memory=peak)


def timeline(place: Place, options: Options) -> Timeline | None:
    """Return the timeline; None if only the sums of times are known. Raises TraceError."""
    from ....timeline.spans import Kind, Lane, Timeline

    session = common.open_session(place, common.CPU_FILES, options)
    timestamps = session.file("cpu_op_execute_timestamp_{}.txt")
    if timestamps is None:
        return None
    found = Timeline()
    ops = read_calls(session, timestamps)
    begin = min(op.starts[0] for op in ops)
    for op in ops:
        for start, duration, thread in zip(op.starts, op.times, op.threads):
            found.add(Lane("CPU", f"thread {thread}", True), op.name, Kind.OP, start - begin, duration)
    return found


def cpu_records(session: common.Session) -> tuple[list[SavedOp], int | None]:
    """Return the ops that ran on the CPU, in the order of their first calls, and the peak of memory."""
    timestamps = session.file("cpu_op_execute_timestamp_{}.txt")
    detail = session.file("cpu_op_detail_info_{}.csv")
    types = session.file("cpu_op_type_info_{}.csv")
    memory = session.file("cpu_ms_memory_record_{}.txt")
    ops = read_calls(session, timestamps) if timestamps else []
    told = _details(session, detail) if detail else []
    records = records_of(session, ops) if ops else told
    if ops and detail:
        session.check(detail.path.name, common.sums(told, "name"), common.sums(records, "name"))
    if types:
        session.check(types.path.name, _type_sums(session, types), common.sums(records, "type"))
    return records, _peak(session, memory, ops) if ops and memory else None


def host_records(session: common.Session) -> list[SavedOp]:
    """Return the ops that ran on the CPU beside an accelerator: their times are the host's."""
    return [
        record._replace(
            host_ns=record.device_ns,
            host_least_ns=record.least_ns,
            host_most_ns=record.most_ns,
            device_ns=None,
            least_ns=None,
            most_ns=None,
            place="CPU",
        )
        for record in cpu_records(session)[0]
    ]


def _is_of_an_empty_session(place: Place) -> bool:
    """Return True for a folder of MindSpore that holds only its own log."""
    if not place.path.name.endswith("_ascend_ms"):
        return False
    children = {child.path.name: child for child in place.children()}
    if not {"FRAMEWORK"} <= children.keys() <= {"FRAMEWORK", common.OUTPUT, "logs"}:
        return False
    return not any(child.children() for name, child in children.items() if name != "logs" and child.is_folder)


def _details(session: common.Session, place: Place) -> list[SavedOp]:
    """Return the ops of the table by full name."""
    table = tables.table(place, {})
    columns = ("full op name", "op type", "op occurrences", "op total time")
    table.require(*columns)
    return [
        SavedOp(
            name=name,
            type=kind or op_type(name),
            calls=common.count(table, row, columns[2], calls),
            device_ns=session.nanoseconds(table, row, columns[3], total),
        )
        for row, (name, kind, calls, total) in session.rows(table, *columns)
    ]


def _type_sums(session: common.Session, place: Place) -> common.Sums:
    table = tables.table(place, {})
    columns = ("op type", "type occurrences", "total compute time")
    table.require(*columns)
    return {
        kind: (common.count(table, row, columns[1], calls), session.nanoseconds(table, row, columns[2], total))
        for row, (kind, calls, total) in session.rows(table, *columns)
    }


def _peak(session: common.Session, place: Place, ops: list[Calls]) -> int | None:
    """Return the largest number of bytes allocated while the ops ran."""
    begin = min(op.starts[0] for op in ops)
    end = max(start + ns for op in ops for start, ns in zip(op.starts, op.times))
    table = tables.table(place, {})
    columns = ("timestamp", "total allocated")
    table.require(*columns)
    inside, outside = [-1], [-1]
    for row, (time, size) in enumerate(table.rows(*columns, remarks=session.remarks if session.partial else None), 2):
        if not (time.isdecimal() and len(time) < 20):
            raise TraceError(f"{place}: row {row} has {time[:40]!r} in 'Timestamp(ns)'; expected a whole number")
        most = inside if begin <= int(time) <= end else outside
        most[0] = max(most[0], common.count(table, row, columns[1], size))
    if outside > inside:
        session.remarks.append(
            f"{place.path.name} has {outside[0]} bytes outside the time of these ops: left out, since MindSpore repeats"
            " the records of earlier sessions there"
        )
    return inside[0] if inside[0] >= 0 else None


FORMAT = Format("MindSpore on the CPU", recognises, read, timeline=timeline, ranks=ranks)
