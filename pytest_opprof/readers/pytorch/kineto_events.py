"""The events of a Kineto trace, packed: what `kineto` makes records of, and where its format is described.

A million events are 30 MB of columns; as objects they would be ten times as much.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

from msgspec import Raw, Struct, defstruct
from msgspec import field as named

from ...ops import vocabulary
from ...ops.dtypes import of_pytorch_event
from ...ops.names import Meaning
from ...ops.pytorch_events import Role, logged, meaning_as, role
from ...profile.op_key import Shape
from .rows import Rows

_OP, _LAUNCH, _ACTIVITY, _INSTANT = 1, 2, 3, 4
_KINDS = {
    **dict.fromkeys(["cpu_op", "Operator", "user_annotation"], _OP),
    **dict.fromkeys(["Runtime", "cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "hip_runtime"], _LAUNCH),
    **dict.fromkeys(["privateuse1_runtime", "privateuse1_driver", "mtia_runtime"], _LAUNCH),
    **dict.fromkeys(["kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"], _ACTIVITY),
    **dict.fromkeys(["", "cpu_instant_event"], _INSTANT),
}
"""What the categories mean; others (arrows from launch to kernel, Python functions, overhead) are passed over."""
_STARTS_NOTHING = re.compile(
    r"(?:cuda|cu|hip)(?:Event(?:Query|Record)|Occupancy|PeekAtLastError|\w*Get|\w*IsCapturing)"
)
"""Calls of the driver that no kernel comes from: nine in ten of some files."""
_COPIES = frozenset(vocabulary.CASTS["torch"].split())


class Arguments(Struct, gc=False, frozen=True):
    """What is wanted of ``args``. The shapes stay JSON, since only few of a million differ."""

    serial: int = named(name="External id", default=0)
    correlation: int = 0
    device: int | str = 0
    stream: int | str = 0
    nbytes: int = named(name="bytes", default=-1)
    dims: Raw = named(name="Input Dims", default=Raw(b""))
    types: Raw = named(name="Input type", default=Raw(b""))
    sequence: int = named(name="Sequence number", default=-1)
    total: int = named(name="Total Allocated", default=-1)
    allocated: int = named(name="Bytes", default=0)
    device_type: int = named(name="Device Type", default=0)
    device_id: int = named(name="Device Id", default=-1)


class Event(Struct, gc=False, tag_field="ph", tag="X"):
    """Times are us. The fields are in the order of the files, in which they are found fastest."""

    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = math.inf
    dur: float = math.nan
    args: Arguments = Arguments()


class ExactEvent(Event, gc=False, tag="X"):
    """For times whose digits a float does not hold; it takes three times as long."""

    ts: Decimal = Decimal("inf")  # type: ignore[assignment]


class PassedOver(Struct, gc=False, tag_field="ph"):
    """An arrow or a name: four events in ten, of which nothing is decoded."""

    cat: ClassVar[str] = "passed over"


OTHERS = (
    *(defstruct(f"PassedOver_{phase}", [], bases=(PassedOver,), tag=phase, gc=False) for phase in "stfM"),
    *(defstruct(f"Event_{phase}", [], bases=(Event,), tag=phase, gc=False) for phase in "iIBECbneSTpFPNODVvRc"),
)
"""Events of other phases (``ph``)."""


class Tensors(NamedTuple):
    """What the tensors of a call are; fields as those of `SavedOp`."""

    input_shapes: tuple[Shape, ...] | None = None
    output_shapes: tuple[Shape, ...] | None = None
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """Calls that are alike."""

    name: str
    category: str
    dims: bytes
    """``Input Dims`` as it stands in the file."""
    types: bytes
    numbered: bool
    """Whether autograd gave them sequence numbers."""
    logged: Collection[str] = field(compare=False)
    """What torch.compile has in its log, of all that was recorded."""

    @cached_property
    def is_copy(self) -> bool:
        """Whether it is an op that is a cast when its two dtypes differ."""
        return self.name in _COPIES

    @cached_property
    def tensors(self) -> tuple[tuple[Shape | None, str], ...]:
        """The shape and dtype of each input that is a tensor, those in lists included; "" is not known."""
        found: list[tuple[Shape | None, str]] = []
        for kind, shape in zip(_list(self.types), _list(self.dims)):
            if kind == "TensorList" and isinstance(shape, list):
                found += [(_shape(each), "") for each in shape]
            elif isinstance(kind, str) and (dtype := of_pytorch_event(kind)):
                found.append((_shape(shape), dtype))
        return tuple(found)

    @property
    def inputs_and_outputs(self) -> Tensors:
        """The shapes and dtypes that are known. A copy's first argument is where it goes."""
        shapes, dtypes = zip(*self.tensors) if self.tensors else ((), ())
        ends = 1 if self.is_copy and len(shapes) > 1 else 0
        known = bool(self.types) and None not in shapes
        return Tensors(
            shapes[ends : 2 * ends or None] if known else None,
            shapes[:ends] if known and ends else None,
            dtypes[ends : 2 * ends or None],
            dtypes[:ends],
        )

    @cached_property
    def annotates(self) -> bool:
        """Whether it is a `record_function`. In 2021 those had the category of ops; no op has a # in its name."""
        return self.category == "user_annotation" or (self.category == "Operator" and "#" in self.name)

    @cached_property
    def role(self) -> Role:
        """What it is."""
        return role(self.name, self.annotates, self.numbered, self.name in self.logged)

    @cached_property
    def meaning(self) -> Meaning | None:
        """What it counts as; None for what is no op, as an annotation."""
        if self.role in (Role.ANNOTATION, Role.COMPILES):
            return None
        return meaning_as(self.role, self.name, tuple(dtype for _, dtype in self.tensors[:2]) if self.is_copy else ())


class Kernel(NamedTuple):
    """What a device did, and where."""

    name: str
    category: str
    device: int | str
    stream: int | str


class Events:
    """All that a file says, in ns since some whole microsecond."""

    def __init__(self) -> None:
        self.threads: list[Rows] = []
        """Of each: start, duration, serial and index of the call."""
        self.calls: list[Call] = []
        self.launches = Rows(5)
        """Correlation, start, duration, thread and index of the name."""
        self.launch_names: list[str] = []
        self.activities = Rows(5)
        """Correlation, start, duration, index of the kernel, and bytes (-1: not known)."""
        self.kernels: list[Kernel] = []
        self.peaks: dict[int, int] = {}
        """The most bytes that were allocated at once, by type of device (0 is the CPU)."""
        self.allocations: defaultdict[tuple[int, int], Rows] = defaultdict(lambda: Rows(2))
        """Time and bytes of each (freed: negative), by type and number of the device; where no total is given."""
        self.logged: set[str] = set()
        """What torch.compile has in its log."""
        self.timeless = 0
        """Events left out because they have no duration, or a negative one."""
        self.first_timeless = ""
        self._base: float | None = None
        self._thread_numbers: dict[tuple[int | str, int | str], int] = {}
        self._call_numbers: dict[tuple[str, str, bytes], int] = {}
        """By category, name and shapes."""
        self._launch_numbers: dict[str, int] = {}
        """-1: of no interest."""
        self._kernel_numbers: dict[tuple[str, str, int | str, int | str], int] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Add events. Raises OverflowError for one without a time, and for numbers beyond 64 bits."""
        # One loop, with few calls: it runs a million times.
        kind_of, joined = _KINDS.get, b"".join
        calls, launch_numbers, kernel_numbers = self._call_numbers, self._launch_numbers, self._kernel_numbers
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
                if name == "[memory]":
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
                # Whole: what is left after the point is then exact.
                base = self._base = type(event.ts)(int(event.ts))
            start = round((event.ts - base) * 1000)
            duration = round(event.dur * 1000)
            args = event.args
            if kind == _ACTIVITY:
                kernel = kernel_numbers.get((name, cat, args.device, args.stream))
                if kernel is None:
                    kernel = self._kernel(name, cat, args.device, args.stream)
                activities += (args.correlation, start, duration, kernel, args.nbytes)
                continue
            if event.tid != tid or event.pid != pid:
                tid, pid = event.tid, event.pid
                thread = self._thread(pid, tid)
                called = threads[thread]
            if kind == _LAUNCH:
                launches += (args.correlation, start, duration, thread, launch)
                continue
            alike = (cat, name, joined((args.dims, args.types)))
            call = calls.get(alike)
            if call is None:
                call = calls[alike] = len(self.calls)
                numbered = args.sequence >= 0
                self.calls.append(Call(name, cat, bytes(args.dims), bytes(args.types), numbered, self.logged))
                self.logged |= logged([name])
            called += (start, duration, args.serial, call)
        self.launches.add(launches)
        self.activities.add(activities)
        for thread, called in threads.items():
            self.threads[thread].add(called)

    def _thread(self, pid: int | str, tid: int | str) -> int:
        number = self._thread_numbers.setdefault((pid, tid), len(self.threads))
        if number == len(self.threads):
            self.threads.append(Rows(4))
        return number

    def _launch(self, name: str) -> int:
        number = self._launch_numbers[name] = -1 if _STARTS_NOTHING.match(name) else len(self.launch_names)
        if number >= 0:
            self.launch_names.append(name)
        return number

    def _kernel(self, *kernel: Any) -> int:
        number = self._kernel_numbers[kernel] = len(self.kernels)
        self.kernels.append(Kernel(*kernel))
        return number

    def _allocated(self, time: float, args: Arguments) -> None:
        if args.total >= 0:
            self.peaks[args.device_type] = max(args.total, self.peaks.get(args.device_type, 0))
        else:
            self.allocations[args.device_type, args.device_id].add((round(time * 1000), args.allocated))

    def add_up_allocations(self) -> bool:
        """Find the peaks above the beginning where the file has no totals (2021); tell whether that was so."""
        for (kind, _), rows in self.allocations.items():
            times, sizes = rows.columns()
            in_order = sorted(range(len(times)), key=times.__getitem__)
            peak = max(accumulate(map(sizes.__getitem__, in_order), initial=0))
            self.peaks[kind] = max(peak, self.peaks.get(kind, 0))
        return bool(self.allocations)


def _list(text: bytes) -> list[Any]:
    try:
        value = json.loads(text or b"[]")
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _shape(dims: object) -> Shape | None:
    """Return the shape, or None where it is not one (symbolic dimensions)."""
    return tuple(dims) if isinstance(dims, list) and all(type(size) is int for size in dims) else None
