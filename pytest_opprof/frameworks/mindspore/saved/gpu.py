"""MindSpore's profiler on a GPU. `folder` says where the files are.

======================== ===============================================================================================
gpu_op_detail_info_0.csv by op: ``op_type``, ``op_full_name``, ``op_occurrences``, ``op_total_time(us)`` (the host, from
                         launch to return; with ``sync_enable=True`` until the device is done),
                         ``cuda_activity_cost_time(us)`` and ``cuda_activity_call_count`` (the device)
gpu_op_type_info_0.csv   by op type: ``type_occurrences``, ``total_time(us)`` (the host): a cross-check, or read where
                         the first is missing
gpu_activity_data_0.csv  by kernel: ``name``, ``op_full_name`` (what launched it), ``stream_id``, ``occurrences``,
                         ``total_duration(us)``: the kernels, and a cross-check of the device times
cpu_*                    ops that ran on the CPU: host times, see `cpu`
======================== ===============================================================================================

No recording was at hand: the columns are those of MindSpore's source (data_saver.h, gpu_data_saver.h), 2.0 to 2.10. The
files have neither steps nor shapes, nor the model of the GPU.
"""

from __future__ import annotations

from ....profile.saved import UNLINKED, SavedKernel, SavedOp, SavedProfile
from ...files import tables
from ...files.format import Format, Options
from ...files.place import Place
from ..file_lines import op_type
from . import folder as common
from .cpu import host_records


def recognises(place: Place) -> bool:
    """Return True if the folder holds the ops of a GPU."""
    return place.is_folder and not common.is_newer(place) and common.home_of(place, common.GPU_FILES) is not None


def ranks(place: Place) -> list[int]:
    """Return the ranks whose files are here."""
    return common.ranks_of(place, common.GPU_FILES)


def read(place: Place, options: Options) -> SavedProfile:
    """Read the ops of one rank. Raises TraceError."""
    session = common.open_session(place, common.GPU_FILES, options)
    detail = session.file("gpu_op_detail_info_{}.csv")
    types = session.file("gpu_op_type_info_{}.csv")
    activity = session.file("gpu_activity_data_{}.csv")
    kernels = _kernels(session, activity) if activity else None
    records = _details(session, detail, kernels) if detail else []
    if types:
        told = _types(session, types)
        if detail:
            session.require_rows(detail, records, types, told)
            told_sums, found = (common.sums(these, "type", "host_ns") for these in (told, records))
            session.check(types.path.name, told_sums, found)
        records = records or told
    return session.trace("GPU", records + host_records(session), kernels)


def _details(session: common.Session, place: Place, kernels: list[SavedKernel] | None) -> list[SavedOp]:
    """Return the ops, and remark on disagreements with the kernels."""
    table = tables.table(place, {})
    op = ("op full name", "op type", "op occurrences", "op total time")
    columns = (*op, "cuda activity cost time", "cuda activity call count")
    table.require(*columns)
    records: list[SavedOp] = []
    launches: dict[str, tuple[int, float | None]] = {}
    for row, (name, kind, calls, host, device, launched) in session.rows(table, *columns):
        record = SavedOp(
            name=name,
            type=kind or op_type(name),
            calls=common.count(table, row, columns[2], calls),
            device_ns=session.nanoseconds(table, row, columns[4], device),
            host_ns=session.nanoseconds(table, row, columns[3], host),
        )
        records.append(record)
        launches[name] = common.count(table, row, columns[5], launched), record.device_ns
    if kernels is not None:
        found = common.sums(kernels, "launched_by")
        session.check("gpu_activity_data", {op: found.get(op, (0, 0)) for op in launches}, launches)
    return records


def _types(session: common.Session, place: Place) -> list[SavedOp]:
    table = tables.table(place, {})
    columns = ("op type", "type occurrences", "total time")
    table.require(*columns)
    return [
        SavedOp(
            name=kind,
            type=kind,
            calls=common.count(table, row, columns[1], calls),
            host_ns=session.nanoseconds(table, row, columns[2], host),
        )
        for row, (kind, calls, host) in session.rows(table, *columns)
    ]


def _kernels(session: common.Session, place: Place) -> list[SavedKernel]:
    """Return the kernels, with different grids joined."""
    table = tables.table(place, {})
    columns = ("name", "op full name", "stream id", "occurrences", "total duration")
    table.require(*columns)
    found: dict[tuple[str, str, str], SavedKernel] = {}
    for row, (name, op, stream, calls, total) in session.rows(table, *columns):
        key = name, op or UNLINKED, f"stream {stream}"
        known = found.get(key) or SavedKernel(key[0], key[1], calls=0, place=key[2])
        ns = session.nanoseconds(table, row, columns[4], total) or 0
        count = common.count(table, row, columns[3], calls)
        found[key] = known._replace(calls=known.calls + count, device_ns=known.device_ns + ns)
    return list(found.values())


FORMAT = Format("MindSpore on a GPU", recognises, read, ranks=ranks)
