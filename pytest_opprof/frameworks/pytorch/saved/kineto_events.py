"""The events and steps of a Kineto trace, in columns. `kineto` describes the format.

A million events take 30 MB; as objects they would take ten times as much.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from msgspec import Raw, Struct, defstruct
from msgspec import field as named

from ....ops.cuda_kernels import is_nccl
from ....timeline.spans import Memory
from ...files.chrome_events import STEP
from ..events import COMMS, MEMORY, collective, logged
from ..formulas import USE_ATTRIBUTES
from .calls import Call, json_text
from .rows import Rows

# The category of work on Meta's accelerators. Their device is the process of the event.
MTIA = "mtia_ccp_events"
_MTIA_WAITS = frozenset(["event_wait", "event_record"])
# In place of the index of a call: no index yet, or an index for each value of the arguments.
_NEW, _BY_VALUES = -1, -2
_OP, _LAUNCH, _ACTIVITY, _INSTANT = 1, 2, 3, 4
# The kind of each category. Others (arrows from launch to kernel, Python functions, overhead) are passed over.
_KINDS = {
    **dict.fromkeys(["cpu_op", "Operator", "user_annotation"], _OP),
    **dict.fromkeys(["Runtime", "cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "hip_runtime"], _LAUNCH),
    **dict.fromkeys(["privateuse1_runtime", "privateuse1_driver", "mtia_runtime"], _LAUNCH),
    **dict.fromkeys(["kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", MTIA], _ACTIVITY),
    **dict.fromkeys(["", "cpu_instant_event"], _INSTANT),
}
# Calls of the driver that launch nothing: in some files nine in ten.
_STARTS_NOTHING = re.compile(
    r"(?:cuda|cu|hip)(?:Event(?:Query|Record)|Occupancy|PeekAtLastError|\w*Get|\w*IsCapturing)"
)


# The limit of calls, and of activities; they take 0.3 GiB.
MOST_EVENTS = 10_000_000
# The limit of different calls, kernels on streams, threads and devices; a million of them would take 2 GiB. Traces of
# training have some 10**4.
MOST_DIFFERENT = 100_000


class TooMany(ValueError):
    """A number beyond that of any recording."""


class Arguments(Struct, gc=False, frozen=True):
    """The ``args`` that are read. Shapes stay JSON: of a million only few differ."""

    serial: int = named(name="External id", default=0)
    correlation: int = 0
    device: int | str = 0
    stream: int | str = 0
    nbytes: int = named(name="bytes", default=-1)
    size: int = -1
    direction: str = ""
    """Of a copy of MTIA, as is the size: ``HOST_TO_DEVICE``."""
    dims: Raw = named(name="Input Dims", default=Raw(b""))
    types: Raw = named(name="Input type", default=Raw(b""))
    values: Raw = named(name="Concrete Inputs", default=Raw(b""))
    sequence: int = named(name="Sequence number", default=-1)
    group: Raw = named(name="Process Group Name", default=Raw(b""))
    ranks: Raw = named(name="Process Group Ranks", default=Raw(b""))
    collective: Raw = named(name="Collective name", default=Raw(b""))
    total: int = named(name="Total Allocated", default=-1)
    allocated: int = named(name="Bytes", default=0)
    device_type: int = named(name="Device Type", default=0)
    device_id: int = named(name="Device Id", default=-1)


class Event(Struct, gc=False, tag_field="ph", tag="X"):
    """An event; times are us. The fields have the order of the files, in which they are decoded fastest."""

    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = math.inf
    dur: float = math.nan
    args: Arguments = Arguments()


class ExactEvent(Event, gc=False, tag="X"):
    """An event with a time that a float does not hold. Decoding takes three times as long."""

    ts: Decimal = Decimal("inf")  # type: ignore[assignment]


class PassedOver(Struct, gc=False, tag_field="ph"):
    """An arrow or a name: four events in ten. Nothing of them is decoded."""

    cat: ClassVar[str] = "passed over"


# The types of events with another phase (``ph``).
OTHERS = (
    *(defstruct(f"PassedOver_{phase}", [], bases=(PassedOver,), tag=phase, gc=False) for phase in "stfM"),
    *(defstruct(f"Event_{phase}", [], bases=(Event,), tag=phase, gc=False) for phase in "iIBECbneSTpFPNODVvRc"),
)


class Kernel(NamedTuple):
    """A kernel, copy or memset, and where it ran."""

    name: str
    category: str
    device: int | str
    stream: int | str


class Events:
    """The columns of a file. Times are ns since the whole microsecond of the first event."""

    def __init__(self) -> None:
        self.threads: list[Rows] = []
        """For each thread a row for each event: start, duration, serial, index of the call."""
        self.calls: list[Call] = []
        self.launches = Rows(5)
        """Calls of the driver: correlation, start, duration, thread, index of the name."""
        self.launch_names: list[str] = []
        self.activities = Rows(5)
        """Work of the devices: correlation, start, duration, index of the kernel, bytes (-1: unknown)."""
        self.kernels: list[Kernel] = []
        self.allocations: defaultdict[tuple[int, int], Rows] = defaultdict(lambda: Rows(3))
        """By type (0 is the CPU) and number of the device: absolute time, bytes (negative: freed), bytes in use from
        then on (negative: not recorded)."""
        self.logged: set[str] = set()
        """The names of events that torch.compile wrote into its own log."""
        self.transfers: list[tuple[int, int, tuple[str, bytes, bytes, bytes]]] = []
        """Kernels of NCCL: start, duration, and the name with, as JSON, the collective, the name of the group and its
        ranks."""
        self.timeless = 0
        """Events that are left out because their duration is missing or negative."""
        self.first_timeless = ""
        self._base: float | None = None
        self._thread_numbers: dict[tuple[int | str, int | str], int] = {}
        self._call_numbers: dict[tuple[str, str, bytes], int] = {}
        """By category, name, and JSON of shapes, dtypes and values."""
        self._launch_numbers: dict[str, int] = {}
        """-1 for calls that launch nothing."""
        self._kernel_numbers: dict[tuple[str, str, int | str, int | str], int] = {}
        self._called = 0
        self._communicate: set[int] = set()
        self._transfer_texts: dict[tuple[str, bytes, bytes, bytes], tuple[str, bytes, bytes, bytes]] = {}
        """The texts of `transfers`, each once: few differ, and the ranks of a group are a long text."""

    def take(self, events: Iterable[Event]) -> None:
        """Add events. Raises OverflowError for one without a time, and for numbers beyond 64 bits."""
        # One loop with few calls, since it is repeated a million times.
        kind_of, joined = _KINDS.get, b"".join
        calls, launch_numbers, kernel_numbers = self._call_numbers, self._launch_numbers, self._kernel_numbers
        communicate = self._communicate
        threads: dict[int, list[int]] = defaultdict(list)
        launches: list[int] = []
        activities: list[int] = []
        base = self._base
        pid: object = None
        tid: object = None
        for event in events:
            cat = event.cat
            kind = kind_of(cat)
            if kind is None:
                continue
            name = event.name
            if kind == _INSTANT:
                if name == MEMORY:
                    self._allocated(event.ts, event.args)
                continue
            if kind == _LAUNCH:
                known = launch_numbers.get(name)
                launch = self._launch(name) if known is None else known
                if launch < 0:
                    continue
            if not event.dur >= 0:
                self.timeless += 1
                self.first_timeless = self.first_timeless or f"{name[:80]!r} at {event.ts} us"
                continue
            if base is None:
                base = self.base_of(event)
            start = round((event.ts - base) * 1000)
            duration = round(event.dur * 1000)
            args = event.args
            if kind == _ACTIVITY:
                device, nbytes = args.device, args.nbytes
                if cat == MTIA:
                    if name in _MTIA_WAITS:
                        continue
                    device, nbytes = event.pid, args.size
                    name = f"Memcpy {args.direction} ({name})" if args.direction else name
                kernel = kernel_numbers.get((name, cat, device, args.stream))
                if kernel is None:
                    kernel = self._kernel(name, cat, device, args.stream)
                activities += (args.correlation, start, duration, kernel, nbytes)
                if kernel in communicate:
                    told = name, bytes(args.collective), bytes(args.group), bytes(args.ranks)
                    self.transfers.append((start, duration, self._transfer_texts.setdefault(told, told)))
                continue
            if event.tid != tid or event.pid != pid:
                tid, pid = event.tid, event.pid
                thread = self._thread(pid, tid)
                called = threads[thread]
            if kind == _LAUNCH:
                launches += (args.correlation, start, duration, thread, launch)
                continue
            alike = (cat, name, joined((args.dims, args.types)))
            call = calls.get(alike, _NEW)
            if call < 0:
                call = self._call(event, alike)
            called += (start, duration, args.serial, call)
        self.launches.add(launches)
        self.activities.add(activities)
        for thread, called in threads.items():
            self.threads[thread].add(called)
            self._called += len(called) // 4
        if max(self._called, len(self.activities), len(self.launches)) > MOST_EVENTS:
            raise TooMany(f"holds more than {MOST_EVENTS:,} events. Record fewer steps")

    def base_of(self, event: Event) -> float:
        """Return the base of all times: the first *event*'s, a whole number, so that differences are exact."""
        if self._base is None:
            self._base = type(event.ts)(int(event.ts))
        return self._base

    def _thread(self, pid: int | str, tid: int | str) -> int:
        number = self._thread_numbers.setdefault((pid, tid), _bounded(len(self.threads), "threads"))
        if number == len(self.threads):
            self.threads.append(Rows(4))
        return number

    def _call(self, event: Event, alike: tuple[str, str, bytes]) -> int:
        """Return the index of a new call, or of one that differs from *alike* calls by its values."""
        args, name, values = event.args, event.name, b""
        if name in USE_ATTRIBUTES or name == COMMS:
            self._call_numbers[alike] = _BY_VALUES
            values = bytes(args.values if name != COMMS else args.collective)
            alike = (*alike[:2], alike[2] + b"\0" + values)
        number = self._call_numbers.setdefault(alike, _bounded(len(self.calls), "ops and shapes"))
        if number == len(self.calls):
            numbered, written = args.sequence >= 0, (bytes(args.dims), bytes(args.types))
            name = (collective(json_text(values)) or name) if name == COMMS else name
            self.calls.append(Call(name, event.cat, *written, numbered, self.logged, values))
            self.logged |= logged([name])
        return number

    def _launch(self, name: str) -> int:
        bounded = _bounded(len(self.launch_names), "calls of the driver")
        number = self._launch_numbers[name] = -1 if _STARTS_NOTHING.match(name) else bounded
        if number >= 0:
            self.launch_names.append(name)
        return number

    def _kernel(self, *kernel: Any) -> int:
        number = self._kernel_numbers[kernel] = _bounded(len(self.kernels), "kernels and streams")
        self.kernels.append(Kernel(*kernel))
        if is_nccl(self.kernels[-1].name):
            self._communicate.add(number)
        return number

    def _allocated(self, time: float, args: Arguments) -> None:
        row = round(time * 1000), args.allocated, args.total
        self.allocations[args.device_type, args.device_id].add(row)
        _bounded(len(self.allocations), "devices")

    @property
    def thread_names(self) -> list[tuple[int | str, int | str]]:
        """The process and the thread of each of the *threads*."""
        return list(self._thread_numbers)

    @property
    def lacks_totals(self) -> bool:
        """Whether allocations lack the total in use (2021)."""
        return any(min(rows.columns()[2]) < 0 for rows in self.allocations.values())

    def memory(self) -> dict[tuple[int, int], Memory]:
        """Return the memory in use by type (0 is the CPU) and number of the device.

        If the file has no totals, memory is zero at its begin. Raises OverflowError.
        """
        found, base_ns = {}, round((self._base or 0) * 1000)
        for device, rows in self.allocations.items():
            times, sizes, totals = rows.columns()
            in_order = sorted(range(len(times)), key=times.__getitem__)
            is_told = min(totals) >= 0
            used = map((totals if is_told else sizes).__getitem__, in_order)
            found[device] = Memory(
                array("q", (times[index] - base_ns for index in in_order)),
                array("q", used if is_told else accumulate(used)),
            )
        return found

    def busy_ns(self) -> int:
        """Return the busy time of the devices: activities that overlap on several streams count once."""
        _, starts, durations, numbers, _ = self.activities.columns()
        devices = [kernel.device for kernel in self.kernels]
        until: dict[int | str, int] = {}
        busy = 0
        for index in sorted(range(len(starts)), key=starts.__getitem__):
            start, device = starts[index], devices[numbers[index]]
            end = start + durations[index]
            before = until.get(device, start)
            if end > before:
                busy += end - (start if start > before else before)
                until[device] = end
        return busy


def _bounded(number: int, what: str) -> int:
    """Return the next *number* unless it exceeds the limit. Raises TooMany."""
    if number >= MOST_DIFFERENT:
        raise TooMany(f"holds more than {MOST_DIFFERENT:,} different {what}, which no recording has; is it damaged?")
    return number


@dataclass(frozen=True)
class Steps:
    """The steps of a recording. Time before the first step belongs to it; time between two steps to the earlier one."""

    labels: tuple[str, ...]
    starts: tuple[int, ...]
    durations: tuple[int, ...]

    @classmethod
    def of(cls, events: Events) -> Steps:
        """Find the steps among the annotations."""
        labels = {number: match[1] for number, call in enumerate(events.calls) if (match := STEP.fullmatch(call.name))}
        found: dict[str, tuple[int, int]] = {}
        for thread in events.threads if labels else ():
            for start, duration, _, call in zip(*thread.columns()):
                if call in labels:
                    found[labels[call]] = min((start, duration), found.get(labels[call], (start, duration)))
        steps = sorted((start, label, duration) for label, (start, duration) in found.items())
        starts, names, durations = zip(*steps) if steps else ((), (), ())
        return cls(names, starts, durations)

    def at(self, time: int) -> int:
        """Return the index of the step at *time*."""
        return max(bisect_right(self.starts, time) - 1, 0)
