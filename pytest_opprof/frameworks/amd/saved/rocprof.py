"""rocprofv3 (ROCprofiler-SDK, AMD's GPUs): its tables (``--output-format csv``) and its JSON.

==========================  ============================================================================================
``kernel_trace.csv``        one row a dispatch: Kind, Agent_Id, Queue_Id, Kernel_Name, Start_Timestamp, End_Timestamp
``memory_copy_trace.csv``   one row a copy: Kind, Direction, Source_Agent_Id, Destination_Agent_Id, the same times
``hip_api_trace.csv``       (``hip_runtime_trace``, ``hsa_api_trace``) one row a call: Domain, Function, the same times
``kernel_stats.csv``        (``memory_copy_stats``, ``hip_api_stats``) one row a name: Name, Calls, TotalDurationNs,
                            MinNs, MaxNs
==========================  ============================================================================================

The JSON has all of these, for each process: ``{"rocprofiler-sdk-tool": [{"agents": [{"id": {"handle"}, "name"}],
"kernel_symbols": [{"kernel_id", "formatted_kernel_name"}], "strings": {"buffer_records": [{"kind", "operations"}]},
"buffer_records": {"kernel_dispatch": [...], "memory_copy": [...], "hip_api": [...]}}]}``. Times are ns. Calls that the
runtime makes for itself (HSA, HIP's compiler) and markers are left out.

Written after AMD's documentation and public examples of ROCm 6.2 to 7.1, not tried on recordings of our own. Memory:
twice the JSON, which is limited to 512 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedProfile
from ...files import tables
from ...files.durations import Untimed
from ...files.format import Format, Options
from ...files.gpu_rows import GpuRows, Kind, Taken
from ...files.place import Place

if TYPE_CHECKING:
    from .rocprof_json import Record, Tool

MOST_BYTES = 512 << 20
_KERNELS = frozenset(["kind", "agent id", "queue id", "kernel name", "start timestamp", "end timestamp"])
_COPIES = frozenset(["kind", "direction", "start timestamp", "end timestamp"])
_CALLS = frozenset(["domain", "function", "start timestamp", "end timestamp"])
_STATS = frozenset(["name", "calls", "totaldurationns", "minns", "maxns"])
_NAME = {"kernel": "kernel name", "copy": "direction", "call": "function"}
_CALL = re.compile(r"hip[A-Z]\w*")
# Names that are no kernels: calls of HSA and of HIP's compiler, and the domains of ``domain_stats.csv``.
_NO_KERNEL = re.compile(r"hsa_\w+|__hip\w+|[A-Z]+_[A-Z_]+")
_JSON = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_STATS_NAME = re.compile(r"_stats(\.csv(?:\.gz)?)$")
Row = tuple[Kind, str, str, Taken]


def recognises(place: Place) -> bool:
    """Return True if the columns of a table, or the first key of the JSON, match."""
    if _JSON.match(place.head):
        return True
    columns = tables.columns(tables.head(place), {}).keys()
    # The sums of markers have the same columns, and any names.
    return "_marker_" not in place.path.name and any(map(columns.__ge__, (_KERNELS, _COPIES, _CALLS, _STATS)))


def repeats(place: Place) -> bool:
    """Return True for a table of sums beside the table of the single rows."""
    name = place.path.name
    return bool(_STATS_NAME.search(name)) and (place.path.parent / _STATS_NAME.sub(r"_trace\1", name)).exists()


def read(place: Place, options: Options) -> SavedProfile:
    """Return the kernels, copies and calls. Raises TraceError."""
    rows, remarks, devices = GpuRows(place), list[str](), set[str]()
    if _JSON.match(place.head):
        # Imported here: it imports msgspec, which a table does not need.
        from .rocprof_json import decode

        tools = decode(place, MOST_BYTES)
        if len(tools) > 1:
            remarks.append(f"{len(tools)} processes are added up")
        for tool in tools:
            devices.update(_recorded(place, tool, rows))
    else:
        untimed = Untimed(options.partial)
        for row in _table(tables.table(place, {}), remarks if options.partial else None, untimed):
            rows.add(*row)
        remarks += untimed.remarks()
    records = rows.records("HIP API")
    if not records:
        raise TraceError(f"{place}: has no kernel, copy or call of HIP. Was the program run with --runtime-trace?")
    environment = Environment((("hip", ""),), "+".join(sorted(devices - {""})), "")
    return SavedProfile("rocprofv3", environment, records, untold=("*",), remarks=tuple(remarks))


def _table(table: tables.Table, cut: list[str] | None, untimed: Untimed) -> Iterator[Row]:
    columns = table.columns.keys()
    if columns >= _STATS:
        yield from _stats(table, cut, untimed)
        return
    kind: Kind = "kernel" if columns >= _KERNELS else "copy" if columns >= _COPIES else "call"
    table.require(_NAME[kind], "start timestamp", "end timestamp")
    times = ("start timestamp", "end timestamp")
    cells = table.rows(_NAME[kind], *times, "domain", "agent id", "queue id", remarks=cut)
    for number, (name, *at, domain, agent, queue) in enumerate(cells, 2):
        if kind == "call" and not (domain.startswith("HIP") and _CALL.fullmatch(name)):
            continue
        start, end = (tables.count(table, number, column, cell) for column, cell in zip(times, at))
        if end < start:
            raise TraceError(f"{table.place}: row {number} ends before it starts: {start} to {end}")
        yield kind, name, _at(agent, queue) if kind == "kernel" else "", Taken.by_one(end - start)


def _stats(table: tables.Table, cut: list[str] | None, untimed: Untimed) -> Iterator[Row]:
    columns = ("totaldurationns", "minns", "maxns")
    for number, (name, calls, *cells) in enumerate(table.rows("name", "calls", *columns, remarks=cut), 2):
        times = [tables.duration(table, number, *cell, untimed) for cell in zip(columns, cells)]
        kind: Kind = "copy" if name.startswith("MEMORY_COPY_") else "call" if _CALL.fullmatch(name) else "kernel"
        if kind == "kernel" and _NO_KERNEL.fullmatch(name):
            continue
        yield kind, name, "", Taken.of(tables.count(table, number, "calls", calls), *times)


def _at(agent: object, queue: object) -> str:
    """Return the place of a kernel. An agent is a number in tables of ROCm 6.2, ``Agent 2`` in later ones."""
    return f"{agent if str(agent).startswith(('Agent', 'GPU', 'CPU')) else f'Agent {agent}'} queue {queue}"


def _recorded(place: Place, tool: Tool, rows: GpuRows) -> Iterator[str]:
    """Add the records of a process; yield the model of the device for each kernel."""
    agents = {agent.id.handle: agent for agent in tool.agents}
    kernels = {symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name for symbol in tool.kernel_symbols}
    recorded = tool.buffer_records
    of_kinds: tuple[tuple[Kind, list[Record]], ...] = (
        ("kernel", recorded.kernel_dispatch),
        ("copy", recorded.memory_copy),
        ("call", recorded.hip_api),
    )
    for kind, records in of_kinds:
        for record in records:
            ns = record.end_timestamp - record.start_timestamp
            if ns < 0:
                raise TraceError(f"{place}: a {kind} ends before it starts, at {record.start_timestamp} ns")
            if ns >> 63:
                raise TraceError(f"{place}: a {kind} ends at {record.end_timestamp} ns, a number beyond 64 bits")
            name, where = _operation(tool, record), ""
            if kind == "kernel":
                ran = record.dispatch_info
                name = kernels.get(ran.kernel_id) or f"(kernel {ran.kernel_id})"
                where = _at(ran.agent_id.handle, ran.queue_id.handle)
                agent = agents.get(ran.agent_id.handle)
                yield (agent.product_name or agent.name) if agent else ""
            if kind != "call" or _CALL.fullmatch(name):
                rows.add(kind, name, where, Taken.by_one(ns, record.bytes if record.bytes >= 0 else None))


def _operation(tool: Tool, record: Record) -> str:
    kinds = tool.strings.buffer_records
    names = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else ()
    return names[record.operation] if 0 <= record.operation < len(names) else f"(operation {record.operation})"


FORMAT = Format("rocprofv3 table (CSV) or JSON", recognises, read, repeats=repeats, as_documented=True)
