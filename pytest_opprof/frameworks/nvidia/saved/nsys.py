"""Nsight Systems: the SQLite file of `nsys export --type sqlite`, gzipped or not.

Tables (only of recorded kinds; times are ns; the ids of names are in ``StringIds``):

- ``CUPTI_ACTIVITY_KIND_KERNEL``: start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName;
- ``CUPTI_ACTIVITY_KIND_MEMCPY`` (copyKind, bytes) and ``CUPTI_ACTIVITY_KIND_MEMSET`` (bytes): the same without names;
- ``CUPTI_ACTIVITY_KIND_RUNTIME``: the calls of the CUDA API: start, end, nameId, globalTid, correlationId. Some files
  have two rows for a call, ``cudaMemcpy`` (eventClass 67) and ``cudaMemcpy_v3020`` (0), one inside the other, with one
  correlationId: only the outer one is read;
- ``NVTX_EVENTS``: the ranges that a program pushes and pops (eventType 59): start, end, globalTid, text or textId;
- ``TARGET_INFO_GPU``, ``META_DATA_EXPORT`` (``EXPORT_META_DATA`` before 2021): the GPU, the version.

A kernel is an op here. Its name is the demangled name; its type is the short name, without template arguments, so that
it stays the same when these change. A kernel of CuPy is the op in its name. A kernel is launched by the innermost NVTX
range around the API call with the same correlationId; without a range, by that call. API calls are ops on the host.
Calls that launch, copy or set are not counted, because the work that they start is. Synchronisations are counted as API
calls; ``CUPTI_ACTIVITY_KIND_SYNCHRONIZATION`` has them a second time. Work launched before the recording has a lower
correlationId than all calls in it, and is outside of the only step. Tested: 2024.5 (schema 3.13), A100. NVTX, and two
rows for a call, follow the published schema, untested.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ....errors import TraceError
from ....ops import cuda_calls
from ....ops.cuda_calls import CUDA_COPIES
from ....profile.environment import Environment
from ....profile.saved import OUTSIDE, UNLINKED, SavedKernel, SavedOp, SavedProfile
from ....units import plural
from ...files.format import Format, Options
from ...files.gpu_rows import by_cupy
from ...files.place import Place
from ...files.sqlite import MAGIC
from .nsys_database import (
    KERNEL,
    MEMCPY,
    MEMSET,
    PUSH_POP_RANGE,
    RUNTIME,
    TIMED,
    TITLE,
    Database,
    api_name,
    calls_once,
    open_database,
)  # fmt: skip

if TYPE_CHECKING:
    from ....timeline.spans import Timeline


def recognises(place: Place) -> bool:
    """Return True for an SQLite file whose first tables are those of nsys."""
    if not place.head.startswith(MAGIC):
        return False
    return b"CUPTI_ACTIVITY_KIND_" in place.head or b"StringIds" in place.head


def ranks(place: Place) -> list[int | None]:
    """Return a number for each process that used a GPU; only None for a single process."""
    with open_database(place) as database:
        processes = database.processes()
    return list(range(len(processes))) if len(processes) > 1 else [None]


def read(place: Place, options: Options) -> SavedProfile:
    """Return the GPU work; *options.rank* is a process, counted from 0 by id. Raises TraceError."""
    with open_database(place, options.partial) as database:
        if options.rank is not None:
            database.only(options.rank)
        return _trace(database)


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline of kernels, copies, calls of the API and NVTX ranges. Raises TraceError."""
    from .nsys_timeline import timeline_of

    with open_database(place, options.partial) as database:
        if options.rank is not None:
            database.only(options.rank)
        return timeline_of(database)


def _trace(database: Database) -> SavedProfile:
    if "StringIds" not in database.tables or not database.tables & {KERNEL, MEMCPY, MEMSET, RUNTIME}:
        raise TraceError(
            f"{database.place}: has no CUDA activity (no table {KERNEL} or {RUNTIME});"
            " was the program run with nsys profile --trace=cuda?"
        )
    kernels, copies, calls = list(_kernels(database)), list(_copies(database)), _calls(database)
    if not kernels and not copies and not calls:
        raise TraceError(f"{database.place}: has no CUDA activity: its tables of kernels, copies and calls are empty")
    launches = tuple(_launches(database)) if kernels else ()
    remarks = list(_remarks(database, kernels, calls))
    if sum(launch.calls for launch in launches) != sum(kernel.calls for kernel in kernels):
        launches = ()
        remarks.append(
            "kernels are not linked to their launches: the numbers that link them are missing, or not unique"
        )
    return SavedProfile(
        source=" ".join(filter(None, ["Nsight Systems", _version(database), "sqlite export"])),
        environment=Environment((("cuda", ""),), _device(database, [*kernels, *copies]), ""),
        records=(*kernels, *copies, *calls),
        steps=("", OUTSIDE) if any(record.step for record in (*kernels, *copies)) else ("",),
        kernels=launches or None,
        untold=("*",),  # kernels have names of their own, not names of ops
        remarks=(*remarks, *database.untimed.remarks()),
    )


_GROUP = "count(*), sum(end - start), min(end - start), max(end - start)"


_TIMED_KERNEL = re.sub(r"\b(start|end)\b", r"k.\1", TIMED)


def _groups(
    database: Database, table: str, columns: Sequence[str], process: str, extra: str = "NULL", rows: str = ""
) -> Iterator[Any]:
    """Group by *columns*; yield these, the number of calls, sum, minimum and maximum of the times, and the sum of
    *extra*.

    *rows* is a query for the rows to group; without it, all rows of the *table*.
    """
    if table not in database.tables:
        return
    where = database.where(process)
    (bad,) = next(database.rows(f"SELECT count(*) FROM {table} WHERE {where} AND NOT ({TIMED})"))
    if bad:
        said = f"{plural(bad, 'row')} of {table} without a time, or with an end before the start"
        database.untimed.add(database.place, said, bad, True)
    yield from database.rows(
        f"SELECT {', '.join(columns)}, {_GROUP}, sum({extra}) FROM {rows or table} WHERE {where} AND {TIMED}"
        f" GROUP BY {', '.join(map(str, range(1, len(columns) + 1)))} ORDER BY min(start)"
    )


def _on_device_groups(database: Database, table: str, columns: Sequence[str], extra: str = "NULL") -> Iterator[Any]:
    """Yield the groups of device work; the first column is the step: 0, or 1 for outside of all steps."""
    early, rows = "0", table
    if database.has(table, "correlationId") and (begins := _begins(database)):
        early, rows = "coalesce(correlationId < begin, 0)", f"{table} LEFT JOIN {begins} ON process = globalPid >> 24"
    return _groups(database, table, (early, *columns), "globalPid", extra, rows)


def _begins(database: Database) -> str:
    """Return the query for the correlationId of the first call of each process."""
    if not database.has(RUNTIME, "correlationId", "globalTid"):
        return ""
    return (
        f"(SELECT globalTid >> 24 AS process, min(correlationId) AS begin FROM {RUNTIME} WHERE correlationId > 0"
        " GROUP BY 1)"
    )


def _kernels(database: Database) -> Iterator[SavedOp]:
    columns = ("demangledName", "shortName", "deviceId", "streamId")
    for step, full, short, device, stream, *numbers, _ in _on_device_groups(database, KERNEL, columns):
        name, type_ = database.text(full), database.text(short)
        record = _on_device(step, name, type_, device, stream, numbers)
        yield by_cupy(record) if type_.startswith("cupy_") else record


def _copies(database: Database) -> Iterator[SavedOp]:
    columns = ("copyKind", "deviceId", "streamId")
    for step, kind, device, stream, *numbers, size in _on_device_groups(database, MEMCPY, columns, "bytes"):
        type_ = CUDA_COPIES.get(kind, "Memcpy")
        yield _on_device(step, type_, type_, device, stream, numbers)._replace(memory=_size(size))
    for step, device, stream, *numbers, size in _on_device_groups(database, MEMSET, columns[1:], "bytes"):
        yield _on_device(step, "Memset", "Memset", device, stream, numbers)._replace(memory=_size(size))


def _calls(database: Database) -> list[SavedOp]:
    """Return the calls of the API; two versions of one function count together."""
    found: dict[str, SavedOp] = {}
    for number, calls, total, least, most, _ in _groups(
        database, RUNTIME, ("nameId",), "globalTid", rows=calls_once(database)
    ):
        type_ = api_name(database, number)
        counted = 0 if cuda_calls.starts_device_work(type_) else None
        known = found.get(type_) or SavedOp(
            type_, type_, calls=0, host_ns=0, host_least_ns=least, host_most_ns=most, counted=counted, place="CUDA API"
        )
        found[type_] = known._replace(
            calls=known.calls + calls,
            host_ns=(known.host_ns or 0) + total,
            host_least_ns=min(known.host_least_ns or 0, least),
            host_most_ns=max(known.host_most_ns or 0, most),
        )
    return list(found.values())


def _on_device(step: int, name: str, type_: str, device: object, stream: object, numbers: Sequence[Any]) -> SavedOp:
    calls, total, least, most = numbers
    place = _place(device, stream)
    return SavedOp(name, type_, step=step, calls=calls, device_ns=total, least_ns=least, most_ns=most, place=place)


def _place(device: object, stream: object) -> str:
    return f"GPU {device} stream {stream}"


def _size(size: object) -> float | None:
    return size if isinstance(size, int) else None


def _launches(database: Database) -> Iterator[SavedKernel]:
    """Yield the kernels by launcher. Ranges and launches are read one thread after the other, in the order of time."""
    api = cache(partial(api_name, database))
    totals: defaultdict[tuple[int, object, object, object, str], list[int]] = defaultdict(lambda: [0, 0])
    around: list[tuple[int, str]] = []
    on_thread = None
    for thread, start, end, call, text, kernel, device, stream, ns, step in database.rows(_timeline(database)):
        if thread != on_thread:
            on_thread, around = thread, []
        while around and around[-1][0] <= start:
            around.pop()
        if kernel is None:
            around.append((end, str(text)))
            continue
        launcher = UNLINKED if call is None else around[-1][1] if around else api(call)
        total = totals[step, kernel, device, stream, launcher]
        total[0] += 1
        total[1] += ns
    for (step, kernel, device, stream, launcher), (calls, ns) in totals.items():
        yield SavedKernel(database.text(kernel), launcher, step, calls, ns, _place(device, stream))


def _timeline(database: Database) -> str:
    """Return the query for ranges (without a kernel) and for kernels with the call that launched them."""
    # The file has no index; SQLite makes one for this query, in 0.3 s for 10**6 calls.
    linked = "r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24"
    call, joined, early = "NULL, NULL, 0, NULL", "", "0"
    if database.has(RUNTIME):
        call, joined = "r.globalTid, r.start, 0, r.nameId", f"LEFT JOIN {calls_once(database)} r ON {linked}"
    if begins := _begins(database):
        early, joined = (
            "coalesce(k.correlationId < begin, 0)",
            f"{joined} LEFT JOIN {begins} ON process = k.globalPid >> 24",
        )
    launches = (
        f"SELECT {call}, NULL, k.demangledName, k.deviceId, k.streamId, k.end - k.start, {early}"
        f" FROM {KERNEL} k {joined} WHERE {database.where('k.globalPid')} AND {_TIMED_KERNEL}"
    )
    if not database.has("NVTX_EVENTS", "text", "textId", "eventType", "globalTid"):
        return launches
    return (
        "SELECT globalTid, start, end, NULL, coalesce(text, value, '(unnamed range)'), NULL, NULL, NULL, NULL, 0"
        f" FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE eventType = {PUSH_POP_RANGE}"
        " AND typeof(globalTid) = 'integer' AND typeof(start) = 'integer' AND typeof(end) = 'integer'"
        f" UNION ALL {launches} ORDER BY 1, 2, 6"
    )


def _remarks(database: Database, kernels: list[SavedOp], calls: list[SavedOp]) -> Iterator[str]:
    processes = database.processes()
    if database.process is None and len(processes) > 1:
        yield f"{len(processes)} processes are added up"
    launched = sum(call.calls for call in calls if re.match(r"cu(?:da)?LaunchKernel", call.type))
    ran = sum(kernel.calls for kernel in kernels)
    if launched > ran:
        lacking = plural(launched - ran, "launch")
        yield f"{plural(launched, 'kernel')} launched, {ran} recorded: {lacking} without a kernel"


def _device(database: Database, records: list[SavedOp]) -> str:
    """Return the models of the used GPUs."""
    if not database.has("TARGET_INFO_GPU", "id", "name"):
        return ""
    used = {record.place.split()[1] for record in records}
    rows = database.rows("SELECT DISTINCT id, name FROM TARGET_INFO_GPU")
    return "+".join(sorted({str(name) for device, name in rows if str(device) in used}))


def _version(database: Database) -> str:
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if database.has(table, "name", "value"):
            rows = database.rows(f"SELECT value FROM {table} WHERE name = 'EXPORT_PRODUCT_VERSION'")
            return str(next(rows, ("",))[0])
    return ""


FORMAT = Format(TITLE, recognises, read, timeline=timeline, ranks=ranks)
