"""The csv files of CANN and of the frameworks on it. Their columns tell which table a file is.

==================================  ====================================================================================
kernels: kernel_details, op_summary one row a kernel: step, name, type, core, duration, shapes, dtypes, formats, and
                                    FLOPs (``*_fops``) or bytes (``*_main_memory_datas(KB)``) if they were recorded
tasks: task_time                    msprof: one row a task, kernels and others (`tasks`)
statistic: op_statistic             count and time by (type, core), without communication
operators: operator_details         torch_npu: self times of aten operators, one row a call; call stacks (with_stack)
apis: api_statistic                 host times of the CANN API, by level (acl, node, runtime, ...)
==================================  ====================================================================================

op_summary's ``Op Name``, ``OP Type``, ``Task Type``, ``Task Duration`` are ``Name``, ``Type``, ``Accelerator Core`` and
``Duration`` in kernel_details.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import nan

from ...files import tables
from ...files.place import Place
from .ops import UNTIMED, Key, Read, Times
from .tasks import LeftOut, is_kernel

ALIASES = {
    "op name": "name",
    "op type": "type",
    "task type": "core",
    "core type": "core",
    "accelerator core": "core",
    "task duration": "duration",
    "task start time": "start time",
    "kernel name": "name",
    "kernel type": "core",
    "task time": "duration",
    "task start": "start time",
    "step id": "step",
    "device id": "device",
}
CAUTIONS = {
    "tasks": "task_time has no op types, shapes and dtypes: op_summary has them, if the recording was made with them",
    "statistic": "op_statistic has totals by op type only, without shapes, steps and communication",
    "operators": "operators call each other, and each call counts; kernel_details.csv counts what ran on the device",
    "apis": "calls of one level are made inside calls of another: times do not add up over levels",
}
_KINDS: Mapping[str, tuple[frozenset[str], ...]] = {
    "tasks": (frozenset(["name", "core", "duration", "task stop"]),),
    "kernels": (frozenset(["name", "duration", "type"]), frozenset(["name", "duration", "core"])),
    "statistic": (frozenset(["type", "core", "count", "total time"]),),
    "operators": (frozenset(["name", "host self duration", "device self duration"]),),
    "apis": (frozenset(["level", "api name", "time", "count"]),),
}
_DESCRIBED = (
    *("step", "name", "type", "core"),
    *("input shapes", "input data types", "input formats"),
    *("output shapes", "output data types", "output formats"),
)
_NOT_DESCRIBED = ("",) * 6
# The content of the tables without ops, and the columns that identify them.
_WITHOUT_OPS: Mapping[str, tuple[str, ...]] = {
    "the wall time of each step": ("step", "computing", "free"),
    "what each operator allocated": ("name", "size", "allocation time"),
    "the memory in use over time": ("component", "timestamp", "total reserved"),
    "the hit rates of the L2 cache": ("task id", "hit rate", "victim rate"),
}
# Columns that a table may begin with.
_FIRST = frozenset(["step", "device", "model name", "model id", "infer id", "name", "type", "level"])
_STEP_TIMES = ("computing", "communication(not overlapped)", "free")
_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_BYTES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


# The parts of a large table: ``op_summary_slice_0_<time>.csv``, 10**6 rows each.
_SLICE = re.compile(r"_?slice_\d+")
# ``op_summary_<device>_<model>_<iteration>.csv``, before CANN 8.
_ITERATION = re.compile(r"_(\d+)_\d+_(\d+)\.csv")


def kind(place: Place) -> str:
    """Return the kind of a table; "" for none of them."""
    columns = tables.columns(tables.head(place), ALIASES).keys()
    return next((kind for kind, ways in _KINDS.items() if any(needed <= columns for needed in ways)), "")


def without_ops(place: Place) -> str:
    """Return the content of a table that belongs to a profile but has no ops; "" for other tables."""
    columns = tables.columns(tables.head(place), ALIASES).keys()
    return next((what for what, needed in _WITHOUT_OPS.items() if columns >= set(needed)), "")


def is_cut_in_header(begin: bytes) -> bool:
    """Return True if *begin*, the whole file, is the cut header of one of these tables."""
    if b"\n" in begin or b"\r" in begin or b"\0" in begin:
        return False
    first = tables.columns((begin.decode("utf-8", "replace").partition(",")[0],), ALIASES)
    return not first.keys().isdisjoint(_FIRST)


def opened(place: Place) -> tables.Table:
    """Return the table in a file."""
    return tables.table(place, ALIASES)


def title(place: Place) -> str:
    """Return the name of a file without numbers and times."""
    return re.sub(r"[\d_]*\.csv.*", "", _SLICE.sub("", place.path.name))


def newest(places: list[Place]) -> tuple[tuple[Place, ...], int]:
    """Return the parts of the last export, in order, and the number of older exports. Names have the time of export."""
    exports: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        name = place.path.name
        exports["" if _ITERATION.search(name) else _SLICE.sub("", name)].append(place)
    parts = exports[max(exports)]
    return tuple(sorted(parts, key=lambda part: [*map(int, re.findall(r"\d+", part.path.name))])), len(exports) - 1


def devices(places: Iterable[Place]) -> list[int]:
    """Return the devices in the tables or in their names."""
    found: set[str] = set()
    for place in places:
        table = opened(place)
        if match := _ITERATION.search(place.path.name):
            found.add(match[1])
        elif "device" in table.columns:
            found.update(tables.known(cell) for (cell,) in table.rows("device", remarks=[]))
    return sorted(int(device) for device in found if re.fullmatch("[0-9]{1,9}", device))


def read_all(kind: str, places: Iterable[Place], read: Read, device: int | None, remarks: list[str] | None) -> None:
    """Add the rows of *device* (None: all) to *read*. *places* are parts of a table; for *remarks* see `Table.rows`."""
    add_rows = {"kernels": _kernels, "tasks": _tasks, "statistic": _statistic, "operators": _operators, "apis": _apis}[
        kind
    ]
    for place in places:
        table = opened(place)
        match = _ITERATION.search(place.path.name)
        read.has_steps = "step" in table.columns or match is not None
        if match is None:
            add_rows(table, read, device, "", remarks)
        elif device in (None, int(match[1])):
            add_rows(table, read, None, match[2], remarks)


def _kernels(table: tables.Table, read: Read, device: int | None, step: str, remarks: list[str] | None) -> None:
    flops = [column for column in table.columns if column.endswith("fops")]
    moved = [column for column in table.columns if column.endswith("main memory datas")]
    times, flop, byte = Times[Key](read), defaultdict[Key, float](float), defaultdict[Key, float](float)
    columns = ("device", *_DESCRIBED, "duration", *flops, *moved)
    at, seen = columns.index("duration"), set[str]()
    for number, row in enumerate(table.rows(*columns, remarks=remarks), 2):
        if device is not None and tables.known(row[0]) != str(device):
            continue
        try:
            time = float(row[at])
        except ValueError:
            time = nan
        if time != time:
            time = tables.duration(table, number, "duration", row[at], read.untimed)
        seen.add(row[0])
        key = row[1:at]
        times[key].append(time)
        if flops or moved:
            work = [_number(table, number, column, cell) for column, cell in zip(columns[at + 1 :], row[at + 1 :])]
            flop[key] += sum(work[: len(flops)])
            byte[key] += sum(work[len(flops) :])
    devices = sorted({tables.known(cell) for cell in seen} - {""})
    if len(devices) > 1 and device is None:
        read.remarks.append(f"the kernels of {len(devices)} devices are added up: {', '.join(devices)}")
    ns, kb = tables.unit(table, "duration", _NS), tables.unit(table, moved[0], _BYTES) if moved else nan
    for key, values in times.items():
        label = (step, *key[1:]) if step else key
        read.add_times(label, values, ns, flop[key] if flops else nan, byte[key] * kb)


def _tasks(table: tables.Table, read: Read, device: int | None, step: str, remarks: list[str] | None) -> None:
    ns, left_out = tables.unit(table, "duration", _NS), LeftOut()
    rows = table.rows("device", "name", "core", "duration", remarks=remarks)
    for number, (on, name, core, cell) in enumerate(rows, 2):
        if device is not None and tables.known(on) != str(device):
            continue
        if not is_kernel(core, name):
            left_out.add(core)
            continue
        time = tables.duration(table, number, "duration", cell, read.untimed) * ns
        read.add((step, name, "", core, *_NOT_DESCRIBED), 1, (time, time, time))
    read.remarks += left_out.remarks()


def _statistic(table: tables.Table, read: Read, device: int | None, step: str, remarks: list[str] | None) -> None:
    columns, ns = ("total time", "min time", "max time"), tables.unit(table, "total time", _NS)
    rows = table.rows("device", "type", "core", "count", *columns, remarks=remarks)
    for number, (on, kind, core, count, *cells) in enumerate(rows, 2):
        if device is None or tables.known(on) == str(device):
            total = tables.duration(table, number, "total time", cells[0], read.untimed) * ns
            least, most = (_number(table, number, *cell) * ns for cell in zip(columns[1:], cells[1:]))
            key = (step, kind, kind, core, *_NOT_DESCRIBED)
            read.add(key, tables.count(table, number, "count", count), (total, least, most))


def _operators(table: tables.Table, read: Read, device: int | None, step: str, remarks: list[str] | None) -> None:
    columns = ("device self duration", "host self duration")
    units = [tables.unit(table, column, _NS) for column in columns]
    stacks = ["call stack"] if read.sites and "call stack" in table.columns else []
    rows = table.rows("name", "input shapes", *columns, *stacks, remarks=remarks)
    for number, (name, shapes, *cells) in enumerate(rows, 2):
        times = [
            tables.duration(table, number, column, cell, read.untimed) * unit
            for column, cell, unit in zip(columns, cells, units)
        ]
        key = (step, name, name, "", shapes, *_NOT_DESCRIBED[1:], *cells[len(columns) :])
        read.add(key, 1, (times[0],) * 3, (times[1],) * 3)


def _apis(table: tables.Table, read: Read, device: int | None, step: str, remarks: list[str] | None) -> None:
    ns = tables.unit(table, "time", _NS)
    rows = table.rows("level", "api name", "count", "time", "min", "max", remarks=remarks)
    for number, (level, name, count, time, *cells) in enumerate(rows, 2):
        host_ns = tables.duration(table, number, "time", time, read.untimed) * ns
        least, most = (_number(table, number, *cell) * ns for cell in zip(("min", "max"), cells))
        key = (step, name, name, level, *_NOT_DESCRIBED)
        read.add(key, tables.count(table, number, "count", count), UNTIMED, (host_ns, least, most))


def step_times(place: Place, device: int | None) -> dict[str, tuple[float, float]]:
    """Return (computing, wall time) of each step of a step_trace_time.csv, in us."""
    table = opened(place)
    table.require("step", *_STEP_TIMES)
    found = {}
    for number, (on, step, *cells) in enumerate(table.rows("device", "step", *_STEP_TIMES), 2):
        if device is None or tables.known(on) in ("", str(device)):
            times = [_number(table, number, column, cell) for column, cell in zip(_STEP_TIMES, cells)]
            found[tables.known(step)] = times[0], sum(times)
    return found


def peak_memory(place: Place, column: str) -> int | None:
    """Return the largest number of allocated bytes, from a memory_record or an operator_memory."""
    table = opened(place)
    table.require(column)
    cells = enumerate((cell for (cell,) in table.rows(column)), 2)
    most = max((tables.number(table, number, column, cell) or 0 for number, cell in cells), default=0)
    return round(most * tables.unit(table, column, _BYTES)) or None


def _number(table: tables.Table, row: int, column: str, cell: str) -> float:
    value = tables.number(table, row, column, cell)
    return nan if value is None else value
