"""Record one window: fences around it and at its marks, and all records in between, or an error.

``msptiActivityFlushAll`` hands over only records that the driver has delivered; the rest comes later (20 ms are
requested). Completeness therefore shows only in a record: the records of an NPU come in the order in which it ran them.
A fence is launched before and after the window, and MSPTI is flushed until its record is there. Fences at marks
separate intervals: MSPTI numbers launches one by one over all threads, so a launch in an interval has a number between
those of two fences. No clocks are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from .acl import Acl, Fence
from .mspti import BUFFER_BYTES, MOST_BUFFERS, Mspti
from .mspti_records import KERNEL, NODE_API, Table, decode

# The longest wait for the record of a fence. A driver delivers every 20 ms, or when its buffer is full.
PATIENCE_S = 10.0
PAUSE_S = 0.002
# The least number of flushes, because a process without CPU time has not really waited.
_LEAST_FLUSHES = 10
_TAKEN = (
    "Another profiler may have taken the records (msprof, torch_npu's or MindSpore's profiler), or libmspti was loaded"
    " after the NPU was set up: start pytest with LD_PRELOAD=$ASCEND_HOME_PATH/lib64/libmspti.so"
)
_LOST = (
    "MSPTI lost {lost} of {launched} kernels: it numbered their launches, and there are no records of them{names}."
    " A graph that is captured inside a window looks the same: capture it before, in a fixture or a round of warm-up"
)


@dataclass(frozen=True)
class Recorded:
    """The recording of a window, without the fences."""

    records: Mapping[int, Table]
    begin: int
    """The number of the fence before the window."""
    end: int
    marks: NDArray[np.uint64]
    """The numbers of the fences at its marks."""
    mark_start: NDArray[np.uint64]
    """When these ran, in ns on the clock of the NPU."""


class Session:
    """A window on one NPU, with the subscription of this process."""

    def __init__(self, mspti: Mspti, acl: Acl, fence: Fence) -> None:
        self._mspti = mspti
        self._acl = acl
        self._fence = fence
        self._marks = 0
        self._begin = 0
        self._device: int | None = None
        """The number of the NPU in records; with ASCEND_RT_VISIBLE_DEVICES the program's number differs."""
        self._owes = False
        """Whether records of launched fences are still missing."""

    def open(self, settle: Callable[[], None]) -> None:
        """Begin: wait for earlier work, and discard its records.

        *settle* waits for work that a framework has not given to the NPU yet. Raises BackendError if no record comes.
        """
        self._wait(settle)
        self._mspti.flush()  # discards earlier records
        self._mspti.overflowed, self._mspti.keeps, self._owes = False, True, True
        try:
            self._fence.launch()
            fences = self._fences(self._drained(1))
            last = int(fences["correlation"].argmax())
            self._begin, self._device = int(fences["correlation"][last]), int(fences["device"][last])
        except BaseException:
            self.leave()
            raise

    def mark(self, settle: Callable[[], None]) -> None:
        """End one interval and begin the next."""
        self._wait(settle)
        self._fence.launch()
        self._marks += 1

    def leave(self) -> None:
        """Discard records from now on, however the window ended."""
        self._mspti.keeps = False
        self._mspti.taken()
        if self._owes:
            self._owes = False
            self._fence.switch()

    def close(self, settle: Callable[[], None]) -> Recorded:
        """End, and return the records. Raises BackendError if one is missing, or if another NPU ran kernels."""
        self._wait(settle)
        self._fence.launch()
        records = self._drained(self._marks + 1)
        fences = self._fences(records)
        order = np.argsort(fences["correlation"], kind="stable")
        numbers, start = fences["correlation"][order], fences["start"][order]
        self._check(records, numbers)
        self._owes = False
        kernels = records[KERNEL]
        others = ~self._is_fence(kernels)
        nodes = ~np.isin(records[NODE_API]["correlation"], numbers)
        return Recorded(
            {
                **records,
                KERNEL: {name: column[others] for name, column in kernels.items()},
                NODE_API: {name: column[nodes] for name, column in records[NODE_API].items()},
            },
            self._begin,
            int(numbers[-1]),
            numbers[:-1],
            start[:-1],
        )

    def _wait(self, settle: Callable[[], None]) -> None:
        settle()
        with self._acl.on(self._fence.device):
            self._acl.synchronize()

    def _is_fence(self, kernels: Table) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.isin(kernels["stream"], self._fence.numbers())
        if self._device is not None:
            found &= kernels["device"] == self._device
        return found

    def _fences(self, records: Mapping[int, Table]) -> Table:
        kernels = records[KERNEL]
        return {name: column[self._is_fence(kernels)] for name, column in kernels.items()}

    def _drained(self, fences: int) -> Mapping[int, Table]:
        """Return all records up to that of the last of *fences* fences."""
        buffers: list[bytes] = []
        seen, flushes, deadline = 0, 0, time.monotonic() + PATIENCE_S
        while True:
            self._mspti.flush()
            flushes += 1
            if self._mspti.overflowed:
                raise BackendError(
                    f"MSPTI dropped records: more than fit into {MOST_BUFFERS * BUFFER_BYTES >> 20} MiB, or into this"
                    " machine's memory. Measure less in one window: fewer rounds, or windows inside the test"
                )
            if found := self._mspti.taken():
                buffers += found
                seen += int(self._is_fence(decode(found)[KERNEL]).sum())
            if seen >= fences:
                break
            if flushes >= _LEAST_FLUSHES and time.monotonic() > deadline:
                what = "no fence" if not seen else f"{seen} of {fences} fences"
                raise BackendError(f"MSPTI recorded {what} within {PATIENCE_S:g} s. {_TAKEN}")
            time.sleep(PAUSE_S)
        return decode(buffers)

    def _check(self, records: Mapping[int, Table], fences: NDArray[np.uint64]) -> None:
        """Check that each number between the fences has a record, of one NPU. Raises BackendError if one is missing.

        If copies are recorded, calls of the runtime have numbers as well, so that only the fences can be checked. After
        a lost record MSPTI may give its number, and name, to another kernel 65,536 launches later.
        """
        if others := sorted({*records[KERNEL]["device"].tolist()} - {self._device}):
            raise BackendError(
                f"kernels ran on NPU {', '.join(map(str, others))} too, and whether all of them were recorded is known"
                f" of NPU {self._device} alone: use one NPU a process, as ranks do"
            )
        if len(fences) != self._marks + 1:
            raise BackendError(
                f"the fence, launched {self._marks + 1} times, was recorded as {len(fences)} kernels: expected one"
                " each. Tell us what opprof selfcheck --device npu prints"
            )
        if self._mspti.sees_copies:
            return
        numbers = records[KERNEL]["correlation"].astype(np.int64)
        launched = np.arange(self._begin + 1, int(fences[-1]) + 1)
        if len(lost := np.setdiff1d(launched, numbers)):
            nodes = records[NODE_API]
            names = [self._mspti.text(int(each)) for each in nodes["name"][np.isin(nodes["correlation"], lost)]]
            said = ", ".join(dict.fromkeys(names[:5]))
            raise BackendError(
                _LOST.format(lost=len(lost), launched=len(launched) - len(fences), names=f" ({said})" if said else "")
            )
