"""The times of ranges that a program marks: ``record_function``, NVTX, ``Optimizer.step``, the loading of data."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from itertools import accumulate

from .intervals import Interval, length, union, within
from .spans import WORK, Kind, Lane, Span


@dataclass(frozen=True, slots=True)
class RangeTimes:
    """All ranges of one name, on all threads."""

    name: str
    calls: int
    total_ns: int
    """While any of them ran: a range inside one of the same name counts once."""
    ops: int
    """Ops inside on the same thread, that are in no other op inside the range."""
    op_ns: int
    """The time of these ops."""
    device_ns: int | None
    """The work of devices that was launched while the range ran; None if launches are unknown."""
    idle_ns: int | None
    """While it ran and no device worked; None if no device is in the recording."""


@dataclass(slots=True)
class _Range:
    """One range."""

    name: str
    start: int
    end: int
    around: _Range | None
    """The innermost range around it, with no op between."""
    is_again: bool
    """Whether one of the ranges around it has its name, and thus its ops, too."""
    ops: int = 0
    op_ns: int = 0


def ranges(spans: Iterable[Span], steps: Container[str] | None = None) -> list[RangeTimes]:
    """Return the ranges, the longest first; only ranges that begin in one of *steps*, if given."""
    begun: list[_Range] = []
    busy: list[Interval] = []
    launched: list[tuple[int, int]] = []
    """The launch and duration of each work of a device."""
    windows: list[Interval] = []
    around: list[tuple[int, _Range | None]] = []
    """The ranges and ops (None) that run on the thread, with their ends."""
    names: list[Counter[str]] = [Counter()]
    """The number of running ranges of each name: outside of all ops, and inside of each running op."""
    on: Lane | None = None
    for span in spans:
        if span.lane != on:
            on, around, names = span.lane, [], [Counter()]
        if span.lane.on_device and span.kind in WORK:
            busy.append((span.start_ns, span.end_ns))
        if span.launched_ns is not None:
            launched.append((span.launched_ns, span.duration_ns))
        if span.kind is Kind.STEP and steps is not None and span.name in steps:
            windows.append((span.start_ns, span.end_ns))
        if span.kind not in (Kind.RANGE, Kind.OP):
            continue
        while around and (span.start_ns >= around[-1][0] or span.end_ns > around[-1][0]):
            if (over := around.pop()[1]) is None:
                names.pop()
            else:
                names[-1][over.name] -= 1
        inside = around[-1][1] if around else None
        if span.kind is Kind.RANGE:
            begun.append(_Range(span.name, span.start_ns, span.end_ns, inside, names[-1][span.name] > 0))
            names[-1][span.name] += 1
            around.append((span.end_ns, begun[-1]))
            continue
        if inside is not None:
            inside.ops += 1
            inside.op_ns += span.duration_ns
        names.append(Counter())
        around.append((span.end_ns, None))
    for each in reversed(begun):  # from the innermost on, so that a file of ranges in ranges takes no longer
        if each.around is not None:
            each.around.ops += each.ops
            each.around.op_ns += each.op_ns
    if steps is not None:
        chosen = union(windows)
        begun = [each for each in begun if within(chosen, each.start, each.start + 1)]
    by_name: defaultdict[str, list[_Range]] = defaultdict(list)
    for each in begun:
        by_name[each.name].append(each)
    working = union(busy)
    launched.sort()
    moments = [moment for moment, _ in launched]
    until = [0, *accumulate(ns for _, ns in launched)]

    def times(name: str, each: list[_Range]) -> RangeTimes:
        ran = union((one.start, one.end) for one in each)
        asked = sum(until[bisect_left(moments, end)] - until[bisect_left(moments, start)] for start, end in ran)
        return RangeTimes(
            name,
            calls=len(each),
            total_ns=length(ran),
            ops=sum(one.ops for one in each if not one.is_again),
            op_ns=sum(one.op_ns for one in each if not one.is_again),
            device_ns=asked if launched else None,
            idle_ns=sum(end - start - length(within(working, start, end)) for start, end in ran) if working else None,
        )

    return sorted((times(name, each) for name, each in by_name.items()), key=lambda row: (-row.total_ns, row.name))
