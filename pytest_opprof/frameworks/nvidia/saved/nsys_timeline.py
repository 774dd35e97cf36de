"""The timeline of an Nsight Systems file: work of the GPUs by stream, calls of the API and NVTX ranges by thread."""

from __future__ import annotations

from functools import cache, partial

from ....ops.cuda_calls import CUDA_COPIES
from ....ops.cuda_kernels import is_nccl
from ....timeline.spans import Kind, Lane, Timeline
from .nsys_database import KERNEL, MEMCPY, MEMSET, PUSH_POP_RANGE, RUNTIME, TIMED, Database, api_name, calls_once


def timeline_of(database: Database) -> Timeline:
    """Return the timeline."""
    found = Timeline()
    text, api = cache(database.text), cache(partial(api_name, database))
    begin = next(database.rows(f"SELECT min(start) FROM ({_starts(database)})"))[0] or 0
    for device, stream, start, end, name, kind, launched in database.rows(_on_device_timeline(database)):
        called = text(name) if kind == "kernel" else "Memset" if kind == "set" else CUDA_COPIES.get(name, "Memcpy")
        does = Kind.COPY if kind != "kernel" else Kind.COMMUNICATION if is_nccl(called) else Kind.OP
        lane = Lane(f"GPU {device}", f"stream {stream}", True)
        found.add(lane, called, does, start - begin, end - start, None if launched is None else launched - begin)
    for thread, start, end, name, label, kind in database.rows(_on_host_timeline(database)):
        lane = Lane(f"process {(thread or 0) >> 24 & 0xFFFFFF}", f"thread {(thread or 0) & 0xFFFFFF}")
        if kind == "call":
            found.add(lane, api(name), Kind.CALL, start - begin, end - start)
        else:
            found.add(lane, str(label), Kind.RANGE, start - begin, end - start)
    return found


def _starts(database: Database) -> str:
    tables = [table for table in (KERNEL, MEMCPY, MEMSET, RUNTIME) if table in database.tables]
    return " UNION ALL ".join(f"SELECT start FROM {table} WHERE {TIMED}" for table in tables)


def _on_device_timeline(database: Database) -> str:
    """Return the query for device, stream, start, end, name, kind and launch of device work."""
    launches = (
        f"(SELECT correlationId AS asked, globalTid >> 24 AS process, min(start) AS begun FROM {RUNTIME}"
        " WHERE correlationId > 0 GROUP BY 1, 2)"
    )
    is_linked = database.has(RUNTIME, "correlationId", "globalTid")
    kinds = {KERNEL: ("kernel", "shortName"), MEMCPY: ("copy", "copyKind"), MEMSET: ("set", "NULL")}
    queries = []
    for table, (kind, name) in kinds.items():
        launched, joined = "NULL", ""
        if is_linked and database.has(table, "correlationId"):
            launched, joined = "begun", f"LEFT JOIN {launches} ON asked = correlationId AND process = globalPid >> 24"
        if table in database.tables:
            queries.append(
                f"SELECT deviceId, streamId, start, end, {name}, '{kind}', {launched} FROM {table} {joined}"
                f" WHERE {database.where('globalPid')} AND {TIMED}"
            )
    return " UNION ALL ".join(queries)


def _on_host_timeline(database: Database) -> str:
    """Return the query for thread, start, end, id and text of the name, and kind of the events of threads."""
    queries = []
    if RUNTIME in database.tables:
        queries.append(
            f"SELECT globalTid, start, end, nameId, NULL, 'call' FROM {calls_once(database)}"
            f" WHERE {database.where('globalTid')} AND {TIMED}"
        )
    if database.has("NVTX_EVENTS", "text", "textId", "eventType", "globalTid"):
        queries.append(
            "SELECT globalTid, start, end, NULL, coalesce(text, value, '(unnamed range)'), 'range' FROM NVTX_EVENTS"
            f" LEFT JOIN StringIds ON id = textId WHERE eventType = {PUSH_POP_RANGE}"
            f" AND {database.where('globalTid')} AND {TIMED}"
        )
    return " UNION ALL ".join(queries) or "SELECT 1 WHERE 0"
