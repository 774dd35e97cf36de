"""MindSpore's profiler on Ascend, 2.4 and earlier. `folder` says where the files are.

``aicore_intermediate_0_detail.csv``, by op:
    ``full_op_name`` (also ``full_kernel_name``, ``full_kernel_time``); the mean time of a call in ``execution_time`` or
    ``task_duration``; ``execution_frequency``: calls (not in the oldest files); ``task_type``: the core (from 2.2 on,
    where the ops of the AI CPU are in this table too).
``aicore_intermediate_0_type.csv``, by op type (``op_type`` or ``kernel_type``):
    ``total_time`` or ``execution_time``, both totals; ``execution_frequency``. A cross-check of the first table, or
    read where that is missing. ``percent`` is never read: it is a share of 100 or of 1, and does not add up.
``aicpu_intermediate_0.csv``, each call on the AI CPU, read where the first table does not have them:
    ``op_type``; ``dispatch_time`` (the host); ``execution_time`` (the oldest files have only ``total_time``, the sum).
``framework_raw_0.csv``, by task:
    the name as above; ``op_type``, or else ``kernel_type`` (beside an ``op_type`` it is the core); ``op_info``: JSON of
    ``input_0``, ``output_0``, ... with ``shape``, ``data_type`` (without ``NUMBER_TYPE_``) and ``format``.
``cpu_*``:
    ops that ran on the CPU: host times, see `cpu`.

Times are ms. The files have no steps. MindSpore 2.5 and later write other files: see the package `ascend`.

Seen: test data of MindInsight, 2020 to 2024. ``aicpu_intermediate`` and ``task_type`` were not in them, and are read as
MindSpore's source writes them (integrator.py, ascend_op_generator.py).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from ....errors import TraceError
from ....ops.signature import Shape
from ....profile.saved import COMMUNICATION_PLACES, SavedOp, SavedProfile
from ...files import tables
from ...files.format import Format, Options
from ...files.place import Place
from ..file_lines import op_type
from . import folder as common
from .cpu import host_records

_NAMES = {"full op name": "name", "full kernel name": "name", "full kernel time": "name"}
_DETAIL = {**_NAMES, "execution time": "mean", "task duration": "mean"}
_TYPE = {
    "op type": "type",
    "kernel type": "type",
    "execution time": "total",
    "total time": "total",
    "task time": "total",
}
_TENSOR = re.compile(r"(in|out)put_(\d{1,4})", re.IGNORECASE)
_SHAPE = re.compile(r"(?:-?\d{1,18}(?:, ?-?\d{1,18})*)?")
# The data type that MindSpore writes from 2.2 on for CANN's N/A.
_NOT_KNOWN = "0"


def recognises(place: Place) -> bool:
    """Return True if the folder holds the ops of an AI core."""
    return place.is_folder and not common.is_newer(place) and common.home_of(place, common.ASCEND_FILES) is not None


def ranks(place: Place) -> list[int]:
    """Return the ranks whose files are here."""
    return common.ranks_of(place, common.ASCEND_FILES)


def read(place: Place, options: Options) -> SavedProfile:
    """Read the ops of one rank. Raises TraceError."""
    session = common.open_session(place, common.ASCEND_FILES, options)
    detail = session.file("aicore_intermediate_{}_detail.csv")
    types = session.file("aicore_intermediate_{}_type.csv")
    nodes = _nodes(session)
    records = _details(session, detail, nodes) if detail else []
    if types:
        told = _types(session, types)
        if detail:
            session.require_rows(detail, records, types, told)
            computed = [record for record in records if record.place not in COMMUNICATION_PLACES]
            session.check(types.path.name, common.sums(told, "type"), common.sums(computed, "type"))
        records = records or told
    guessed = any(record.name not in nodes for record in records) and detail is not None
    records += _aicpu(session, detail) + host_records(session)
    return session.trace("Ascend", records, inferred_types=guessed)


class _Node(NamedTuple):
    """The facts of framework_raw about an op, as fields of its SavedOp."""

    type: str
    input_shapes: tuple[Shape, ...] | None = None
    output_shapes: tuple[Shape, ...] | None = None
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    input_formats: tuple[str, ...] = ()
    output_formats: tuple[str, ...] = ()


def _nodes(session: common.Session) -> dict[str, _Node]:
    """Return the facts about each op, by name; only the type if its calls differ."""
    place = session.file("framework_raw_{}.csv")
    if place is None:
        return {}
    table = tables.table(place, _NAMES)
    kind = "op type" if "op type" in table.columns else "kernel type"
    table.require("name", kind, "op info")
    nodes: dict[str, _Node] = {}
    for row, (name, told, info) in session.rows(table, "name", kind, "op info"):
        node = _node(place, row, told or op_type(name), info)
        nodes[name] = node if nodes.get(name, node) == node else _Node(node.type)
    return nodes


def _node(place: Place, row: int, kind: str, info: str) -> _Node:
    try:
        tensors = _decoder().decode(info or "{}")
        shapes = {name: _shape(tensor.shape) for name, tensor in tensors.items()}
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise TraceError(f"{place}: row {row} has op_info {info[:60]!r}, which is not understood ({error})") from None
    matches = sorted((int(match[2]), match[0]) for name in tensors if (match := _TENSOR.fullmatch(name)))
    inputs, outputs = ([name for _, name in matches if name.lower().startswith(side)] for side in ("input", "output"))
    if not matches or any(tensor.data_type == _NOT_KNOWN for tensor in tensors.values()):
        return _Node(kind)
    return _Node(
        kind,
        tuple(shapes[name] for name in inputs),
        tuple(shapes[name] for name in outputs),
        tuple(tensors[name].data_type.removeprefix("NUMBER_TYPE_") for name in inputs),
        tuple(tensors[name].data_type.removeprefix("NUMBER_TYPE_") for name in outputs),
        tuple(tensors[name].format for name in inputs),
        tuple(tensors[name].format for name in outputs),
    )


@cache
def _decoder() -> Any:
    import msgspec

    class Tensor(msgspec.Struct):
        format: str = ""
        data_type: str = ""
        shape: list[int] | str = ""

    return msgspec.json.Decoder(dict[str, Tensor])


def _shape(shape: list[int] | str) -> Shape:
    text = shape if isinstance(shape, str) else ",".join(map(str, shape))
    if not _SHAPE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no shape")
    return tuple(map(int, text.split(","))) if text else ()


def _details(session: common.Session, place: Place, nodes: dict[str, _Node]) -> list[SavedOp]:
    table = tables.table(place, _DETAIL)
    table.require("name", "mean")
    counted = "execution frequency" in table.columns
    if not counted:
        session.remarks.append(f"{place.path.name} has no execution_frequency: each op counts once, with its mean time")
    records: list[SavedOp] = []
    for row, (name, mean, frequency, core) in session.rows(table, "name", "mean", "execution frequency", "task type"):
        calls = common.count(table, row, "execution frequency", frequency) if counted else 1
        known = nodes.get(name) or _Node(op_type(name))
        ns = session.nanoseconds(table, row, "mean", mean, calls)
        records.append(SavedOp(name=name, calls=calls, device_ns=ns, place=core, **known._asdict()))
    return records


def _types(session: common.Session, place: Place) -> list[SavedOp]:
    table = tables.table(place, _TYPE)
    table.require("type", "total", "execution frequency")
    return [
        SavedOp(
            name=kind,
            type=kind,
            calls=common.count(table, row, "execution frequency", frequency),
            device_ns=session.nanoseconds(table, row, "total", total),
        )
        for row, (kind, total, frequency) in session.rows(table, "type", "total", "execution frequency")
    ]


def _aicpu(session: common.Session, detail: Place | None) -> list[SavedOp]:
    """Return the ops of the AI CPU, if the table of ops lacks them."""
    place = session.file("aicpu_intermediate_{}.csv")
    others = tables.table(detail, _DETAIL).columns if detail else {}
    if place is None or "task type" in others:
        return []
    if "execution frequency" not in others:
        session.remarks.append(f"{place.path.name} is left out: it counts all calls, and the table of ops does not")
        return []
    table = tables.table(place, {})
    columns = ("op type", "dispatch time", "execution time")
    table.require("op type")
    found: dict[tuple[str, bool, bool], list[list[int]]] = {}
    for row, (name, *cells) in session.rows(table, *columns):
        host, device = (session.nanoseconds(table, row, *column) for column in zip(columns[1:], cells))
        found.setdefault((name, host is not None, device is not None), []).append([host or 0, device or 0])
    return [
        SavedOp(
            name=name,
            type=op_type(name),
            calls=len(times),
            host_ns=sum(host for host, _ in times) if on_host else None,
            device_ns=sum(device for _, device in times) if on_device else None,
            place="AI_CPU",
        )
        for (name, on_host, on_device), times in found.items()
    ]


FORMAT = Format("MindSpore on Ascend, to 2.4", recognises, read, ranks=ranks)
