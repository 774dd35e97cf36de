"""Answer questions about a saved profile: filter, aggregate, order, take the top. Pure functions of its records.

Each option has the meaning of MegEngine's ``profile_analyze``, where that has it: filters do not change totals, time
bounds apply to each op before aggregation, FLOPS of an aggregate are the aggregated computation over the aggregated
time, and the cumulative time sums the rows that are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..ops import dtypes, names
from ..profile.op_key import line_of, with_dtypes
from ..profile.saved import SavedKernel, SavedOp, SavedProfile, Whole, communicates, dtypes_of, op_of
from .question import COLUMNS, End, Line, Question, Side

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class CopyTime:
    """Copies and host-device transfers among the selected ops."""

    calls: int
    total_ns: float | None
    launch_ns: float | None


_COPIES = frozenset(["Copy", "MemcpyHtoD", "MemcpyDtoH", "MemcpyDtoD"])


def is_present(saved: SavedProfile, name: str) -> bool:
    """Return True if an op of the profile has this type, canonical or raw."""
    return any(record.type == name or op_of(record) == name for record in saved.records)


def is_untold(saved: SavedProfile, name: str) -> bool:
    """Return True if *name* may hide behind another name in this profile."""
    if name in saved.untold or "*" not in saved.untold:
        return name in saved.untold
    moves = name.startswith("Mem") or name == "Synchronize"
    return names.meaning(name).op in names.canonical_ops() and not moves and not is_present(saved, name)


def input_dtypes(saved: SavedProfile) -> list[str]:
    """Return the sorted dtypes of the inputs, each in one spelling."""
    return sorted({dtypes.dtype(dtype) for record in saved.records for dtype in record.input_dtypes} - {""})


def total(saved: SavedProfile, side: Side) -> float | None:
    """Return the summed time of all ops except communication, in ns; None if the source has no time of that side."""
    return _sum(_time(record, side, "end") for record in saved.records if not communicates(record))


def has_times(saved: SavedProfile, side: Side) -> bool:
    """Return True if the profile has a `total` of that side."""
    return any(_time(record, side, "end") is not None and not communicates(record) for record in saved.records)


def is_timed(saved: SavedProfile) -> bool:
    """Return True if the profile has a `total` of any side."""
    return has_times(saved, "device") or has_times(saved, "host")


def communication(saved: SavedProfile) -> float | None:
    """Return the summed device time of transfers between devices."""
    return _sum(record.device_ns for record in saved.records if communicates(record))


def select(saved: SavedProfile, question: Question) -> list[SavedOp]:
    """Return the matching records, with steps joined.

    An op with a time on the other side only does not belong to the requested side.
    """
    records = _as_asked(_joined(saved, question.by_site), question)
    if is_timed(saved):
        records = [record for record in records if _is_of_side(record, question)]
    return [record for record in records if _matches(record, question)]


def untimed(saved: SavedProfile) -> Iterator[str]:
    """Yield a remark if some ops of a timed profile have no time: no sum contains them."""
    without = [record for record in saved.records if record.device_ns is None and record.host_ns is None]
    if without and len(without) < len(saved.records):
        calls = sum(record.calls for record in without)
        yield f"{calls} calls have no time and are left out of sums; the first is of {op_of(without[0])}"


def _as_asked(records: list[SavedOp], question: Question) -> list[SavedOp]:
    """Return *records*; those requested by canonical op as calls of it.

    A request by raw type or name returns every event, with its exclusive time.
    """
    if question.name is not None or not (
        question.types or question.aggregate_by in ("op", "place") or question.by_site or question.by_dtype
    ):
        return records
    by_op = [not question.types or op_of(record) in question.types for record in records]
    calls = iter(as_calls([record for record, is_call in zip(records, by_op) if is_call]))
    return [next(calls) if is_call else record for record, is_call in zip(records, by_op)]


def as_calls(records: Sequence[SavedOp]) -> list[SavedOp]:
    """Return *records* with calls and times as calls of their canonical ops, parts included: 0 for a part.

    If no record of an op counts, it is the host's work for an op (a launch) or a loop around ops; every event is a
    call.
    """
    alone = {op_of(record) for record in records if record.counted == 0 and record.whole is None}
    alone -= {op_of(record) for record in records if record.counted != 0} if alone else set()
    return [_as_call(record, alone) for record in records]


def _as_call(record: SavedOp, alone: set[str]) -> SavedOp:
    if record.counted is None or (record.whole is None and op_of(record) in alone):
        return record._replace(counted=None)
    whole = {} if record.whole is None else record.whole._asdict()
    return record._replace(calls=record.counted, counted=None, whole=None, **whole)


def _is_shown(record: SavedOp, question: Question) -> bool:
    """Return True unless the record is a part whose time is already in the whole call."""
    return bool(record.calls or _time(record, question.side, question.time))


def _is_of_side(record: SavedOp, question: Question) -> bool:
    nowhere = record.device_ns is None and record.host_ns is None and question.time == "end"
    return nowhere or _time(record, question.side, question.time) is not None


def answer(saved: SavedProfile, question: Question) -> list[Line]:
    """Return the rows: selected, aggregated, ordered and cut to the top."""
    return answered(saved, question)[0]


def answered(saved: SavedProfile, question: Question) -> tuple[list[Line], int]:
    """Return the rows of `answer`, and the number of rows that the cut to the top left out."""
    selected = select(saved, question)
    whole = total(saved, question.side)
    if question.order_by == "time" and not question.aggregate_by:
        # The same as below, but without building 10**5 lines to show three.
        shown = [record for record in selected if _is_shown(record, question)]
        top = _ordered(
            shown,
            lambda record: _time(record, question.side, question.time),
            lambda record: _is_beside(record, question),
            question,
        )
        return _accumulated([_line([record], question) for record in top], whole), len(shown) - len(top)
    groups = [group for group in _groups(selected, question) if any(_is_shown(record, question) for record in group)]
    every = [_line(group, question) for group in groups]
    lines = _ordered(every, COLUMNS[question.order_by], lambda line: line.communication, question)
    return _accumulated(lines, whole), len(every) - len(lines)


def _ordered(
    rows: list[Row], key: Callable[[Row], Any], is_beside: Callable[[Row], bool], question: Question
) -> list[Row]:
    """Return the top of *rows*, unknown keys last in either direction; ties keep their order.

    Rows that *is_beside* the total follow the rows inside it when ordered by time.
    """
    keys = [key(row) for row in rows]
    known = [index for index, value in enumerate(keys) if value is not None]
    known.sort(key=keys.__getitem__, reverse=not question.ascending)
    ordered = known + [index for index, value in enumerate(keys) if value is None]
    if question.order_by in ("time", "share", "cumulative"):
        ordered.sort(key=lambda index: is_beside(rows[index]))
    return [rows[index] for index in (ordered[: question.top] if question.top else ordered)]


def selection(saved: SavedProfile, question: Question) -> list[Line]:
    """Return all matches as one row and their communication as another; nothing without a filter."""
    plain = replace(question, aggregate_by="all", aggregate="sum", order_by="time", ascending=False, top=0)
    everything = Question(side=question.side, time=question.time, aggregate_by="all")
    if plain == everything:
        return []
    lines = [_line(group, plain) for group in _groups(select(saved, question), plain)]
    return _accumulated(sorted(lines, key=lambda line: line.communication), total(saved, question.side))


def copy_time(saved: SavedProfile, question: Question) -> CopyTime:
    """Return the time of the copies among the selected ops; a host copy done by the device counts for the device."""
    copies = as_calls([record for record in select(saved, question) if op_of(record) in _COPIES])
    return CopyTime(
        sum(record.calls for record in copies),
        _sum(_time(record, question.side, "end") for record in copies),
        _sum(_time(record, question.side, "kern") for record in copies),
    )


def kernels(saved: SavedProfile, name: re.Pattern[str] | None = None, types: Sequence[str] = ()) -> list[SavedKernel]:
    """Return the kernels with a matching name and launching type, steps joined, the most expensive first."""
    ops = _launchers(saved) if types else {}
    joined: dict[tuple[str, str, str], SavedKernel] = {}
    for kernel in saved.kernels or ():
        called = {kernel.launched_by, *ops.get(kernel.launched_by, ())}
        if (name is None or name.search(kernel.name)) and (not types or not called.isdisjoint(types)):
            key = kernel.name, kernel.launched_by, kernel.place
            sum_ = joined.get(key, kernel._replace(calls=0, device_ns=0))
            joined[key] = kernel._replace(calls=sum_.calls + kernel.calls, device_ns=sum_.device_ns + kernel.device_ns)
    return sorted(joined.values(), key=lambda kernel: -kernel.device_ns)


def launching(saved: SavedProfile) -> list[str]:
    """Return the canonical ops that launched kernels, by the cost of their kernels."""
    ops = _launchers(saved)
    return list(dict.fromkeys(next(iter(ops[kernel.launched_by]), kernel.launched_by) for kernel in kernels(saved)))


def _launchers(saved: SavedProfile) -> dict[str, dict[str, None]]:
    """Return the canonical ops and raw types of each kernel launcher, by its name."""
    found: dict[str, dict[str, None]] = {kernel.launched_by: {} for kernel in saved.kernels or ()}
    for record in saved.records:
        for name in {record.name, record.type} & found.keys():
            found[name] |= dict.fromkeys((op_of(record), record.type))
    return found


def launch_ns(record: SavedOp, side: Side) -> float | None:
    """Return the time up to the first kernel, if the source has it."""
    return _time(record, side, "kern")


def _matches(record: SavedOp, question: Question) -> bool:
    ns = _time(record, question.side, question.time)
    return (
        (question.name is None or question.name.search(record.name) is not None)
        and (not question.types or record.type in question.types or op_of(record) in question.types)
        and (not question.input_dtype or dtypes.dtype(question.input_dtype) in map(dtypes.dtype, record.input_dtypes))
        and (question.least_ns is None or (ns is not None and ns >= question.least_ns))
        and (question.most_ns is None or (ns is not None and ns <= question.most_ns))
    )


def _time(record: SavedOp, side: Side, end: End) -> float | None:
    if side == "device":
        return record.device_ns if end == "end" else record.device_launch_ns
    return record.host_ns if end == "end" else record.host_launch_ns


def _is_beside(record: SavedOp, question: Question) -> bool:
    """Return True if the record is communication, whose time is not part of the device total."""
    return question.side == "device" and communicates(record)


def _joined(saved: SavedProfile, by_site: bool) -> list[SavedOp]:
    """Return the records with steps joined and, unless *by_site*, with source lines joined."""
    if len(saved.steps) == 1 and (by_site or not saved.has_sites):
        return list(saved.records)
    by_identity: dict[SavedOp, list[SavedOp]] = {}
    for record in saved.records:
        by_identity.setdefault(_identity(record, by_site), []).append(record)
    return [_sum_of(records) for records in by_identity.values()]


def _identity(record: SavedOp, by_site: bool) -> SavedOp:
    return record._replace(
        site=record.site if by_site else None,
        step=0,
        calls=0,
        counted=None,
        device_ns=None,
        host_ns=None,
        device_launch_ns=None,
        host_launch_ns=None,
        least_ns=None,
        most_ns=None,
        host_least_ns=None,
        host_most_ns=None,
        whole=None,
        computation=None,
        memory=None,
    )


def _sum_of(records: Sequence[SavedOp]) -> SavedOp:
    counted = [record.calls if record.counted is None else record.counted for record in records]
    whole = _times_of(as_calls(records)) if any(record.whole for record in records) else None
    return records[0]._replace(
        step=0,
        calls=sum(record.calls for record in records),
        counted=sum(counted),
        **_times_of(records)._asdict(),
        device_launch_ns=_sum(record.device_launch_ns for record in records),
        host_launch_ns=_sum(record.host_launch_ns for record in records),
        whole=whole,
        computation=_sum(record.computation for record in records),
        memory=_sum(record.memory for record in records),
    )


def _times_of(records: Sequence[SavedOp]) -> Whole:
    return Whole(
        device_ns=_sum(record.device_ns for record in records),
        host_ns=_sum(record.host_ns for record in records),
        least_ns=_extreme("min", records, "device"),
        most_ns=_extreme("max", records, "device"),
        host_least_ns=_extreme("min", records, "host"),
        host_most_ns=_extreme("max", records, "host"),
    )


def _groups(records: Sequence[SavedOp], question: Question) -> list[list[SavedOp]]:
    if not question.aggregate_by:
        return [[record] for record in records]
    groups: dict[tuple[str, str], list[SavedOp]] = {}
    sites = {record.site for record in records} if question.by_site else ()
    lines = {site: line_of(site, question.shown) for site in sites}
    for record in records:
        groups.setdefault((_group_of(record, question), lines.get(record.site, "")), []).append(record)
    return list(groups.values())


def _group_of(record: SavedOp, question: Question) -> str:
    if question.aggregate_by == "all":
        # Communication is a group of its own, since the total does not include it.
        return "communication" if _is_beside(record, question) else "all"
    if question.by_dtype:
        return with_dtypes(op_of(record), dtypes_of(record))
    if question.aggregate_by == "place":
        return f"{record.place} beside" if _is_beside(record, question) else record.place
    return record.type if question.aggregate_by == "type" else op_of(record)


def _line(group: Sequence[SavedOp], question: Question) -> Line:
    one = group[0] if not question.aggregate_by else None
    time = _aggregated_time(group, question) if not one else _time(one, question.side, question.time)
    computation = _aggregated(group, [record.computation for record in group], question) or None
    memory = _aggregated(group, [record.memory for record in group], question)
    return Line(
        name=one and one.name,
        op=_group_of(group[0], question) if question.by_dtype else _common(map(op_of, group)),
        type=_group_of(group[0], question) if question.aggregate_by == "all" else _common(r.type for r in group),
        id=(one and one.id) or None,
        calls=sum(record.calls for record in group),
        time_ns=time,
        share=None,
        cumulative_ns=None,
        computation=computation,
        flops=_rate(computation, time),
        memory=memory,
        bandwidth=_rate(memory, time),
        input_shapes=one and one.input_shapes,
        output_shapes=one and one.output_shapes,
        input_dtypes=one.input_dtypes if one else (),
        output_dtypes=one.output_dtypes if one else (),
        place=(group[0].place if one or question.aggregate_by == "place" else None) or None,
        communication=all(_is_beside(record, question) for record in group),
        site=line_of(group[0].site, question.shown) if question.by_site else None,
    )


def _aggregated_time(group: Sequence[SavedOp], question: Question) -> float | None:
    if question.aggregate in ("max", "min"):
        return _extreme(question.aggregate, group, question.side, question.time)
    return _aggregated(group, [_time(record, question.side, question.time) for record in group], question)


def _aggregated(group: Sequence[SavedOp], values: Sequence[float | None], question: Question) -> float | None:
    """Return the aggregate of the known values; the mean is over all calls, so that mean times calls is the sum."""
    whole = _sum(values)
    if whole is None or not question.aggregate_by or question.aggregate == "sum":
        return whole
    if question.aggregate == "mean":
        calls = sum(record.calls for record in group)
        return whole / calls if calls else None
    known = [value / record.calls for record, value in zip(group, values) if value is not None and record.calls]
    return (max if question.aggregate == "max" else min)(known, default=None)


def _extreme(how: str, records: Sequence[SavedOp], side: Side, time: End = "end") -> float | None:
    """Return the time of the shortest (``min``) or longest call; None unless it is known for every call."""
    values = [_of_a_call(record, how, side, time) for record in records if record.calls]
    known = [value for value in values if value is not None]
    return (max if how == "max" else min)(known) if known and len(known) == len(values) else None


def _of_a_call(record: SavedOp, how: str, side: Side, time: End) -> float | None:
    if record.calls == 1 or time == "kern":
        return _time(record, side, time) if record.calls == 1 else None
    if side == "device":
        return record.most_ns if how == "max" else record.least_ns
    return record.host_most_ns if how == "max" else record.host_least_ns


def _accumulated(lines: Iterable[Line], whole: float | None) -> list[Line]:
    result, running = [], 0.0
    for line in lines:
        if line.time_ns is None or line.communication:
            result.append(line)
            continue
        running += line.time_ns
        result.append(replace(line, share=line.time_ns / whole if whole else None, cumulative_ns=running))
    return result


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rate(amount: float | None, ns: float | None) -> float | None:
    if amount is None or ns is None or (amount == 0 and ns == 0):
        return None
    return amount * 1e9 / ns if ns else float("inf")


def _common(values: Iterable[str]) -> str | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
