"""Nsight Systems: a report of `nsys stats --format csv`, written to a file (``--output``) or printed.

Reports of sums have one row a name, for kernels, copies and calls (``cuda_gpu_kern_sum``, ``cuda_gpu_mem_time_sum``,
``cuda_gpu_sum``, ``cuda_api_sum``, ``cuda_api_gpu_sum``): ``Total Time (ns)``, ``Instances`` (``Num Calls``,
``Count``), ``Min (ns)``, ``Max (ns)``, ``Name`` (``Operation``), and ``Category`` in reports of several kinds.
``cuda_gpu_trace`` has one row a kernel or copy: ``Duration (ns)``, ``CorrId``, ``Bytes (MB)``, ``Device``, ``Strm``,
``Name``. Times are in the unit of the header. Before 2022 ``Average``, ``Minimum``, ``Maximum``.

Written after NVIDIA's documentation of the reports and public examples of 2021 to 2025, not tested on recordings of our
own. The sqlite export (`nsys`) has more: the launcher of a kernel, steps, several processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedProfile
from ...files import tables
from ...files.durations import Untimed
from ...files.format import Format, Options
from ...files.gpu_rows import NS, GpuRows, Kind, Taken
from ...files.place import Place

TITLE = "Nsight Systems statistics (nsys stats, CSV)"
_ALIASES = {
    "operation": "name",
    "instances": "calls",
    "num calls": "calls",
    "count": "calls",
    "minimum": "min",
    "maximum": "max",
}
_SUM = frozenset(["total time", "calls", "min", "max", "name"])
_TRACE = frozenset(["start", "duration", "corrid", "strm", "name"])
_MIB = 1 << 20
_MEMORY = re.compile(r"\[CUDA mem(?:cpy|set)\b.*")
_CALL = re.compile(r"cu(?:da)?[A-Z]\w*")
_KINDS: Mapping[str, Kind] = {"CUDA_KERNEL": "kernel", "MEMORY_OPER": "copy", "CUDA_API": "call"}
# The line that nsys prints before each report.
_ANOTHER = re.compile(rb"^\s*(?:Processing \[|\*\* )", re.MULTILINE)
Row = tuple[Kind, str, str, Taken]


def recognises(place: Place) -> bool:
    """Return True if the columns of the first table in the file match."""
    return tables.located(place, _ALIASES, _SUM, _TRACE) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the rows of the report. Raises TraceError, also for a file with several reports."""
    place = tables.located(place, _ALIASES, _SUM, _TRACE) or place
    if _ANOTHER.search(place.head):
        raise TraceError(
            f"{place}: holds several reports. Write each to a file: nsys stats --format csv --output ."
            " --report cuda_gpu_kern_sum REPORT.nsys-rep"
        )
    table = tables.table(place, _ALIASES)
    remarks: list[str] = []
    cut = remarks if options.partial else None
    rows, devices, untimed = GpuRows(place), set[str](), Untimed(options.partial)
    if table.columns.keys() >= _TRACE:
        for row, device in _traced(table, cut, untimed):
            rows.add(*row)
            devices.add(re.sub(r" \(\d+\)$", "", device))
    else:
        table.require(*_SUM)
        for row in _summed(table, cut, untimed):
            rows.add(*row)
    records = rows.records("CUDA API")
    if not records:
        raise TraceError(f"{place}: has no kernel, copy or call of CUDA. Was the program run with --trace=cuda?")
    environment = Environment((("cuda", ""),), "+".join(sorted(devices - {""})), "")
    return SavedProfile(TITLE, environment, records, untold=("*",), remarks=(*remarks, *untimed.remarks()))


def _summed(table: tables.Table, cut: list[str] | None, untimed: Untimed) -> Iterator[Row]:
    """Yield the rows of a report of sums."""
    units = [tables.unit(table, column, NS) for column in ("total time", "min", "max")]
    are_calls = table.header[table.columns["calls"]].startswith("Num")
    cells = table.rows("name", "category", "calls", "total time", "min", "max", remarks=cut)
    for number, (name, category, calls, *times) in enumerate(cells, 2):
        name, category = name.strip(), category.strip()
        kind = _KINDS.get(category) or ("copy" if _MEMORY.match(name) else "call" if are_calls else "kernel")
        if kind == "call" and not _CALL.fullmatch(name):
            continue  # calls of the operating system (osrt_sum) or of another library
        total, least, most = (
            tables.duration(table, number, column, cell, untimed) * unit
            for column, cell, unit in zip(("total time", "min", "max"), times, units)
        )
        yield kind, name, "", Taken.of(tables.count(table, number, "calls", calls), total, least, most)


def _traced(table: tables.Table, cut: list[str] | None, untimed: Untimed) -> Iterator[tuple[Row, str]]:
    """Yield the rows of ``cuda_gpu_trace``, and the device of each."""
    unit = tables.unit(table, "duration", NS)
    megabytes = tables.unit(table, "bytes", {"MB": _MIB}) if "bytes" in table.columns else 0
    cells = table.rows("name", "duration", "bytes", "device", "strm", remarks=cut)
    for number, (name, duration, size, device, stream) in enumerate(cells, 2):
        name = name.strip()
        ns = tables.duration(table, number, "duration", duration, untimed) * unit
        moved = tables.number(table, number, "bytes", size) if megabytes else None
        taken = Taken.of(1, ns, ns, ns, None if moved is None else moved * megabytes)
        kind: Kind = "copy" if _MEMORY.match(name) else "kernel"
        yield (kind, name, f"{device} stream {stream.strip()}".strip(), taken), device


FORMAT = Format(TITLE, recognises, read, as_documented=True)
