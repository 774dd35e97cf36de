"""The times of a window's events, in columns: recorded only if a trace is to be written (`Options.moments`)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns import Columns

# A process (each backend has its own: ``torch 2.13.0``, ``device 0``), a thread or stream, and whether of a device.
Lane = tuple[str, str, bool]
# Start, end and thread of an event; the thread is empty for that of the test.
Told = tuple[int, int, str]


@dataclass(frozen=True, eq=False)
class Moments:
    """Starts and ends of events: a row for each event with known times, in ns on the clock that times steps."""

    step: NDArray[np.int32]
    key: NDArray[np.int32]
    """Index into a table of `OpKey`."""
    counted: NDArray[np.int64]
    """1 for a call of its op, 0 for a part of one."""
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    lane: NDArray[np.int32]
    lanes: tuple[Lane, ...]

    def in_steps(self, numbers: NDArray[np.int32], steps: int) -> Moments:
        """Return the rows of the window's *steps*; *numbers* are the numbers of the steps here."""
        step = numbers[self.step]
        kept = (step >= 0) & (step < steps)
        return Moments(
            step[kept],
            self.key[kept],
            self.counted[kept],
            self.start_ns[kept],
            self.end_ns[kept],
            self.lane[kept],
            self.lanes,
        )


def of_events(
    told: Mapping[int, Told],
    columns: Columns,
    process: str,
    streams: Mapping[int, tuple[int, int]],
    later_ns: Sequence[int],
) -> Moments:
    """Return the times of the events of a log, all of which are in *columns*.

    *streams* has device and stream of the events that ran on one, *later_ns* the offset of the steps' clock, by
    interval.
    """
    event = np.array([*told], np.int64)
    start, end = (np.array([each[side] for each in told.values()], np.int64) for side in (0, 1))
    lanes: dict[Lane, int] = {}
    lane = np.zeros(len(event), np.int32)
    for row, (number, (_, _, thread)) in enumerate(told.items()):
        where: Lane = process, thread or "thread of the test", False
        if number in streams:
            device, stream = streams[number]
            where = f"device {device}", f"stream {stream}" if stream >= 0 else "stream unknown", True
        lane[row] = lanes.setdefault(where, len(lanes))
    step = columns.step[event]
    later = np.array(later_ns, np.int64)[step]
    return Moments(step, columns.key[event], columns.counted[event], start + later, end + later, lane, tuple(lanes))


def later_ns(own_ns: Sequence[int], marked_ns: Sequence[int], begins_range: Container[int]) -> list[int]:
    """Return the offset of *marked_ns* from a log's own clock, by interval; both are of the mark that begins each.

    A range may begin inside an op, so only the other marks, where steps begin, set the offset.
    """
    later = [0]
    for interval, (own, marked) in enumerate(zip(own_ns, marked_ns), start=1):
        later.append(later[-1] if interval in begins_range else marked - own)
    return later


def together(parts: Sequence[Moments | None], keys: Sequence[NDArray[np.int32]]) -> Moments | None:
    """Return the rows of all *parts*, with the new numbers of the keys of each; None for none."""
    known = [(moments, numbers) for moments, numbers in zip(parts, keys) if moments is not None]
    if not known:
        return None
    lanes = {lane: None for moments, _ in known for lane in moments.lanes}
    number = {lane: index for index, lane in enumerate(lanes)}
    return Moments(
        np.concatenate([moments.step for moments, _ in known]),
        np.concatenate([numbers[moments.key] for moments, numbers in known]),
        np.concatenate([moments.counted for moments, _ in known]),
        np.concatenate([moments.start_ns for moments, _ in known]),
        np.concatenate([moments.end_ns for moments, _ in known]),
        np.concatenate([np.array([number[lane] for lane in each.lanes], np.int32)[each.lane] for each, _ in known]),
        tuple(lanes),
    )
