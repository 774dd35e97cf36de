"""Hints about a saved profile: avoidable costs, the largest first, each with its numbers and its row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ..ops.vocabulary import CAST, VIEWS
from ..profile.op_key import with_dtypes
from ..profile.saved import SavedOp, SavedProfile, communicates, dtypes_of, op_of
from ..questions import query
from ..timeline.breakdown import Breakdown
from ..timeline.ranges import RangeTimes
from ..units import format_ns, format_share, plural

Row = Literal["breakdown", "ranges", "kernels", "casts"]
_LEAST: Final = 0.05
"""The smallest share of the step, or of the device's work, that is worth a hint."""
_LEAST_CASTS: Final = 0.01
_SHORT_NS: Final = 5_000
"""A launch takes the host about 5 us (PyTorch on an A100): shorter kernels cannot keep a device busy."""
_FEW: Final = 100
"""Kernels of which it means nothing that most are short."""
_LOADS = re.compile(r"data_?(loader|set)|get_?next|next_batch", re.IGNORECASE)
"""Ranges in which a program waits for data: PyTorch, MindSpore and TensorFlow name them so."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A cost that a program can avoid."""

    advice: str
    numbers: str
    row: Row
    """The table that has them."""
    name: str
    """The row of that table."""
    ns: float
    """The larger, the earlier it is shown."""


def hints(saved: SavedProfile, whole: Breakdown | None, marked: Sequence[RangeTimes]) -> list[Hint]:
    """Return the hints, the most expensive first; *whole* is the busiest device over all steps, *marked* are ranges."""
    found = [*_of_device(whole, marked), *_pageable(saved), *_casts(saved)]
    loads = sum(hint.ns for hint in found if hint.row == "ranges")
    if whole and (idle := (whole.not_asked_ns or 0) - loads) > _LEAST * whole.total_ns:
        found.append(_late(saved, whole, idle))
    return sorted(found, key=lambda hint: -hint.ns)


def _of_device(whole: Breakdown | None, marked: Sequence[RangeTimes]) -> Iterator[Hint]:
    if whole is None or not whole.total_ns:
        return
    name = whole.step or whole.device
    if whole.communication_ns > _LEAST * whole.total_ns:
        yield Hint(
            "Overlap communication with computing",
            f"{_of(whole.communication_ns, whole.total_ns)} is communication while the device computes nothing; another"
            f" {format_ns(whole.overlapped_ns)} overlaps with computing",
            "breakdown",
            name,
            whole.communication_ns,
        )
    loads = [each for each in marked if _LOADS.search(each.name) and each.idle_ns]
    if loads and (idle := loads[0].idle_ns or 0) > _LEAST * whole.total_ns:
        yield Hint(
            "Load data before the step needs it: more workers, prefetching",
            f"the device is idle for {_of(idle, whole.total_ns)} while {loads[0].name} runs"
            f" ({plural(loads[0].calls, 'call')}, {format_ns(loads[0].total_ns)})",
            "ranges",
            loads[0].name,
            idle,
        )


def _pageable(saved: SavedProfile) -> Iterator[Hint]:
    """Yield a hint on copies from memory that is not pinned: these wait for a copy inside of the host first."""
    copies = [kernel for kernel in query.kernels(saved) if "pageable" in kernel.name.lower()]
    ns, whole = sum(kernel.device_ns for kernel in copies), query.total(saved, "device")
    if whole and ns > _LEAST * whole:
        calls = sum(kernel.calls for kernel in copies)
        yield Hint(
            "Pin the memory of the host that is copied (pin_memory)",
            f"{plural(calls, 'copy').replace('copys', 'copies')} of pageable memory take{'s' if calls == 1 else ''}"
            f" {_of(ns, whole)} of device time",
            "kernels",
            copies[0].name,
            ns,
        )


def _late(saved: SavedProfile, whole: Breakdown, idle_ns: float) -> Hint:
    """Return a hint on a device that waits for launches: for short kernels, or for a host that does something else."""
    every = query.kernels(saved)
    short = [kernel for kernel in every if kernel.device_ns < _SHORT_NS * kernel.calls]
    number, calls = sum(kernel.calls for kernel in short), sum(kernel.calls for kernel in every)
    idle = (
        f"the device is idle for {_of(whole.not_asked_ns or 0, whole.total_ns)} because the host had launched nothing"
    )
    if calls >= _FEW and number > calls / 2:
        return Hint(
            "Launch fewer, larger kernels: fuse ops, compile, use a graph",
            f"{number} of {calls} kernels take less than {format_ns(_SHORT_NS)} each, and {idle}",
            "kernels",
            max(short, key=lambda kernel: kernel.calls).name,
            idle_ns,
        )
    return Hint(
        "Launch earlier: look for waits for the device and for Python between ops",
        idle,
        "breakdown",
        whole.step or whole.device,
        idle_ns,
    )


def _casts(saved: SavedProfile) -> Iterator[Hint]:
    """Yield a hint on the op whose inputs need most casts: an op next to a cast that reads its shape and dtype."""
    records = [record for record in saved.records if record.counted != 0 and not communicates(record)]
    casts = [record for record in records if op_of(record) == CAST]
    fed: defaultdict[str, list[SavedOp]] = defaultdict(list)
    for cast, neighbours in _between(records):
        made = cast.output_dtypes[:1], (cast.output_shapes or cast.input_shapes or (None,))[0]
        for reader in neighbours:
            if made[0] and made[0][0] in reader.input_dtypes and made[1] in (reader.input_shapes or ()):
                fed[op_of(reader)].append(cast)
                break
    if not fed:
        return
    op, most = max(fed.items(), key=lambda item: (sum(cast.calls for cast in item[1]), item[0]))
    calls, ns = sum(cast.calls for cast in most), sum(cast.device_ns or 0 for cast in most)
    whole, every = query.total(saved, "device"), sum(cast.calls for cast in casts)
    if calls > 1 and (ns > _LEAST_CASTS * whole if whole else calls > every / 2):
        names = list(dict.fromkeys(with_dtypes(CAST, dtypes_of(cast)) for cast in most))
        yield Hint(
            f"Keep the inputs of {op} in one dtype",
            f"{calls} of {plural(every, 'cast')} make inputs of {op}: {', '.join(names)}"
            + (f"; they take {_of(ns, whole)} of device time" if whole else ""),
            "casts",
            names[0],
            ns,
        )


def _between(records: Sequence[SavedOp]) -> Iterator[tuple[SavedOp, list[SavedOp]]]:
    """Yield each cast with the op that follows it and the one before it, views and other casts left out."""
    before: SavedOp | None = None
    waiting: list[tuple[SavedOp, list[SavedOp]]] = []
    for record in records:
        op = op_of(record)
        if op == CAST:
            waiting.append((record, [before] if before else []))
        elif op not in VIEWS:
            yield from ((cast, [record, *others]) for cast, others in waiting)
            before, waiting = record, []
    yield from waiting


def _of(ns: float, whole: float) -> str:
    return f"{format_ns(ns)} of {format_ns(whole)} ({format_share(ns / whole, 2)})"
