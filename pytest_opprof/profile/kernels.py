"""Kernels, copies and sets of a window: the op, the number of runs, the time, the place and the launch shape of each.

A window may have a million, few of which differ: they are columns, and equal ones are one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops.signature import Shape
from .columns import numbered
from .op_key import OpKey

# In place of an unknown stream or time.
UNKNOWN = -1
_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class KernelStats:
    """A kernel as one op ran it, on one device with one grid and block."""

    kernel: str
    op: str
    device: int
    streams: tuple[int, ...]
    """All streams on which it ran: a program that alternates among 32 of them has one row. Empty if unknown."""
    grid: Shape | None
    """x, y and z; None for copies and sets, and if unknown."""
    block: Shape | None
    fewest_calls: int
    """In the step with the fewest."""
    most_calls: int
    fastest_ns: int | None
    """The device's own time, of all calls in the fastest step that had any; None if some were not timed."""


@dataclass(frozen=True, eq=False)
class Events:
    """The events of a log that are kernels, copies and sets: columns."""

    event: NDArray[np.int64]
    place: NDArray[np.int32]
    """See `places`."""
    device_ns: NDArray[np.int64]
    """The device's own time, whatever time the event has; `UNKNOWN` if it was not timed."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """The work of devices: columns."""

    step: NDArray[np.integer]
    key: NDArray[np.integer]
    """Index into a table of `OpKey`."""
    place: NDArray[np.int32]
    """See `places`."""
    calls: NDArray[np.int64]
    device_ns: NDArray[np.int64]

    def summed(self) -> Kernels:
        """Return the kernels with one row for all equal ones."""
        first, number = _alike([self.step, self.key, *self.place])
        return Kernels(
            self.step[first],
            self.key[first],
            self.place[:, first],
            _sums(number, self.calls),
            _times(number, self.device_ns),
        )

    def in_steps(self, numbers: NDArray[np.int32], steps: int) -> Kernels:
        """Return the kernels of the window's *steps*; *numbers* are the numbers of the steps here."""
        step = numbers[self.step]
        kept = (step >= 0) & (step < steps)
        return Kernels(step[kept], self.key[kept], self.place[:, kept], self.calls[kept], self.device_ns[kept])

    def stats(self, keys: Sequence[OpKey], steps: int) -> tuple[KernelStats, ...]:
        """Return a row for each different kernel, op, device, grid or block, the most expensive first."""
        device, stream, *shape = self.place
        kernels, kernel_of_key = numbered([(key.raw, key.op) for key in keys])
        kernel = kernel_of_key[self.key]
        first, number = _alike([kernel, device, *shape])
        columns = (first, *self._by_step(number, len(first), steps))
        rows = zip(*(column.tolist() for column in columns), _streams(number, stream, len(first)))
        found = [
            KernelStats(
                kernels[kernel[row]][0],
                kernels[kernel[row]][1],
                int(device[row]),
                used,
                _shape(self.place[2:5, row]),
                _shape(self.place[5:, row]),
                fewest,
                most,
                None if ns == UNKNOWN else ns,
            )
            for row, fewest, most, ns, used in rows
        ]
        return tuple(sorted(found, key=lambda stats: (-(stats.fastest_ns or 0), -stats.most_calls, stats.kernel)))

    def _by_step(
        self, number: NDArray[np.int64], kernels: int, steps: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the fewest and most calls of each kernel in a step, and its time in the fastest step with any."""
        first, number_in_step = _alike([number, self.step])
        kernel, calls = number[first], _sums(number_in_step, self.calls)
        fewest, most, fastest = np.full(kernels, _MOST - 1), np.zeros(kernels, np.int64), np.full(kernels, _MOST - 1)
        np.minimum.at(fewest, kernel, calls)
        np.maximum.at(most, kernel, calls)
        np.minimum.at(fastest, kernel, _times(number_in_step, self.device_ns))
        return np.where(np.bincount(kernel, minlength=kernels) < steps, 0, fewest), most, fastest


def places(device: NDArray[Any], stream: NDArray[Any], shape: Iterable[NDArray[Any]] = ()) -> NDArray[np.int32]:
    """Return places and launch shapes of kernels, a column each; rows: device, stream, grid x, y, z, block x, y, z.

    A grid of 0: none. CUPTI's number of an unknown stream, 2**32 - 1, becomes `UNKNOWN`.
    """
    found = np.zeros((8, len(device)), np.int32)
    for row, column in zip(found, (device, stream, *shape)):
        row[:] = column.astype(np.int32)
    return found


def busy_ns(start: NDArray[np.int64], end: NDArray[np.int64]) -> int:
    """Return the busy time of a device, given the starts of its work, in order, and the ends: overlaps count once."""
    before = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(end - np.maximum(start, before), 0).sum())


def of_events(events: Events, step: NDArray[np.integer], key: NDArray[np.integer]) -> Kernels:
    """Return the kernels among events, given the step and the key of each event of the log."""
    at, calls = events.event, np.ones(len(events.event), np.int64)
    return Kernels(step[at], key[at], events.place, calls, events.device_ns).summed()


def together(parts: Sequence[Kernels | None], keys: Sequence[NDArray[np.int32]]) -> Kernels | None:
    """Return the kernels of all *parts* as one, with the new numbers of the keys of each; None for none."""
    known = [(kernels, numbers) for kernels, numbers in zip(parts, keys) if kernels is not None]
    if not known:
        return None
    return Kernels(
        np.concatenate([kernels.step for kernels, _ in known]),
        np.concatenate([numbers[kernels.key] for kernels, numbers in known]),
        np.concatenate([kernels.place for kernels, _ in known], axis=1),
        np.concatenate([kernels.calls for kernels, _ in known]),
        np.concatenate([kernels.device_ns for kernels, _ in known]),
    ).summed()


def _alike(columns: Iterable[NDArray[np.integer]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each group of equal rows, and for each row the number of its group."""
    number, different = np.int64(0), 1
    for column in columns:
        if not len(column):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        least, most = int(column.min()), int(column.max())
        if different * (most - least + 1) >= _MOST:
            values, number = np.unique(number, return_inverse=True)
            different = len(values)
        # One number instead of a row: sorting one column once is 0.1 us a row, sorting rows 10 times that.
        number = number * (most - least + 1) + (column.astype(np.int64) - least)
        different *= most - least + 1
    _, first, number = np.unique(number, return_index=True, return_inverse=True)
    return first, number


def _sums(number: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    sums = np.zeros(number.max(initial=-1) + 1, np.int64)
    np.add.at(sums, number, values)
    return sums


def _times(number: NDArray[np.int64], device_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of times, if all are known."""
    sums = _sums(number, device_ns)
    sums[number[device_ns == UNKNOWN]] = UNKNOWN
    return sums


def _streams(number: NDArray[np.int64], stream: NDArray[np.int32], kernels: int) -> list[tuple[int, ...]]:
    found: list[set[int]] = [set() for _ in range(kernels)]
    for kernel, used in zip(number.tolist(), stream.tolist()):
        if used != UNKNOWN:
            found[kernel].add(used)
    return [tuple(sorted(used)) for used in found]


def _shape(sizes: NDArray[np.int32]) -> Shape | None:
    return tuple(sizes.tolist()) if sizes.any() else None
