"""The events of a Kineto trace, packed: what `traces.torch` makes records of, and where its format is described.

A million events are 30 MB of columns; as objects they would be ten times as much.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from msgspec import Raw, Struct
from msgspec import field as named

from .. import vocabulary
from ..names import Meaning, meaning, stable
from ..trace import Shape
from .nesting import Thread

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
_DTYPES = {
    "double": "float64",
    "float": "float32",
    "c10::Half": "float16",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "unsigned short int": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "unsigned long int": "uint64",
    "bool": "bool",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
"""C++ names of dtypes to PyTorch's own; the rest of c10's are the same in lower case (``c10::BFloat16``)."""


class Arguments(Struct, gc=False, frozen=True):
    """What is wanted of ``args``. The shapes stay JSON, since only few of a million differ."""

    serial: int = named(name="External id", default=0)
    correlation: int = 0
    device: int | str = 0
    stream: int | str = 0
    nbytes: int = named(name="bytes", default=-1)
    dims: Raw = named(name="Input Dims", default=Raw(b""))
    types: Raw = named(name="Input type", default=Raw(b""))
    total: int = named(name="Total Allocated", default=-1)
    device_type: int = named(name="Device Type", default=0)


class Event(Struct, gc=False):
    """Times are us."""

    cat: str = ""
    name: str = ""
    ts: float = math.inf
    dur: float = -1.0
    pid: int | str = 0
    tid: int | str = 0
    args: Arguments = Arguments()


class ExactEvent(Event, gc=False):
    """For times whose digits a float does not hold; it takes three times as long."""

    ts: Decimal = Decimal("inf")  # type: ignore[assignment]


@dataclass(frozen=True)
class Call:
    """Calls that are alike."""

    name: str
    category: str
    dims: bytes
    """``Input Dims`` as it stands in the file."""
    types: bytes

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
            elif isinstance(kind, str) and (dtype := _dtype(kind)):
                found.append((_shape(shape), dtype))
        return tuple(found)

    @cached_property
    def meaning(self) -> Meaning | None:
        """What it counts as; None for an annotation.

        torch.compile's graph call is annotated, but holds the time of kernels that are not reported one by one.
        """
        # In 2021 annotations had the category of ops; no op has a # in its name.
        annotated = self.category == "user_annotation" or (self.category == "Operator" and "#" in self.name)
        if annotated and not self.name.startswith("## Call CompiledFxGraph"):
            return None
        return meaning(stable(self.name), tuple(dtype for _, dtype in self.tensors[:2]) if self.is_copy else ())


class Kernel(NamedTuple):
    """What a device did, and where."""

    name: str
    category: str
    device: int | str
    stream: int | str


def _column() -> array[int]:
    return array("q")


@dataclass(eq=False)
class Launches:
    """Calls of the driver, in columns."""

    correlations: array[int] = field(default_factory=_column)
    starts: array[int] = field(default_factory=_column)
    durations: array[int] = field(default_factory=_column)
    threads: array[int] = field(default_factory=_column)
    names: array[int] = field(default_factory=_column)


@dataclass(eq=False)
class Activities:
    """What devices did, in columns."""

    correlations: array[int] = field(default_factory=_column)
    starts: array[int] = field(default_factory=_column)
    durations: array[int] = field(default_factory=_column)
    kernels: array[int] = field(default_factory=_column)
    nbytes: array[int] = field(default_factory=_column)


class Events:
    """All that a file says, in ns since some whole microsecond."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []
        self.calls: list[Call] = []
        self.launches = Launches()
        self.launch_names: list[str] = []
        self.activities = Activities()
        self.kernels: list[Kernel] = []
        self.peaks: dict[int, int] = {}
        """The most bytes that were allocated at once, by type of device (0 is the CPU)."""
        self.timeless = 0
        """Events left out because they have no duration, or a negative one."""
        self._base: int | None = None
        self._number: dict[Any, int] = {}
        """Of threads, names of launches and kernels."""
        self._calls: dict[str, dict[str, dict[bytes, int]]] = defaultdict(lambda: defaultdict(dict))
        """By category, name and shapes."""

    def take(self, events: Iterable[Event]) -> None:
        """Add events. Raises OverflowError for one without a time, and for numbers beyond 64 bits."""
        # One loop, without calls: it runs a million times.
        kind_of, calls, joined = _KINDS.get, self._calls, b"".join
        pid: object = None
        tid: object = None
        for event in events:
            kind = kind_of(event.cat)
            if kind is None:
                continue
            name = event.name
            if kind == _INSTANT:
                if name == "[memory]":
                    self._allocated(event.args)
                continue
            if kind == _LAUNCH and _starts_nothing(name):
                continue
            if event.dur < 0:
                self.timeless += 1
                continue
            if self._base is None:
                # Whole: what is left after the point is then exact.
                self._base = int(event.ts)
            start = round((event.ts - self._base) * 1000)
            duration = round(event.dur * 1000)
            if kind == _ACTIVITY:
                self._did(event, start, duration)
                continue
            if event.tid != tid or event.pid != pid:
                tid, pid = event.tid, event.pid
                number = self._thread(pid, tid)
                thread = self.threads[number]
                add_start, add_duration = thread.starts.append, thread.durations.append
                add_serial, add_call = thread.serials.append, thread.calls.append
            if kind == _LAUNCH:
                self._launched(event, start, duration, number)
                continue
            args = event.args
            alike = calls[event.cat][name]
            inputs = joined((args.dims, args.types))
            call = alike.get(inputs)
            if call is None:
                call = alike[inputs] = len(self.calls)
                self.calls.append(Call(name, event.cat, bytes(args.dims), bytes(args.types)))
            add_start(start)
            add_duration(duration)
            add_serial(args.serial)
            add_call(call)

    def _thread(self, pid: int | str, tid: int | str) -> int:
        number = self._number.setdefault(("thread", pid, tid), len(self.threads))
        if number == len(self.threads):
            self.threads.append(Thread())
        return number

    def _launched(self, event: Event, start: int, duration: int, thread: int) -> None:
        name = self._number.setdefault(event.name, len(self.launch_names))
        if name == len(self.launch_names):
            self.launch_names.append(event.name)
        self.launches.correlations.append(event.args.correlation)
        self.launches.starts.append(start)
        self.launches.durations.append(duration)
        self.launches.threads.append(thread)
        self.launches.names.append(name)

    def _did(self, event: Event, start: int, duration: int) -> None:
        args = event.args
        kernel = Kernel(event.name, event.cat, args.device, args.stream)
        number = self._number.setdefault(kernel, len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(kernel)
        self.activities.correlations.append(args.correlation)
        self.activities.starts.append(start)
        self.activities.durations.append(duration)
        self.activities.kernels.append(number)
        self.activities.nbytes.append(args.nbytes)

    def _allocated(self, args: Arguments) -> None:
        if args.total >= 0:
            self.peaks[args.device_type] = max(args.total, self.peaks.get(args.device_type, 0))


@lru_cache(1000)
def _starts_nothing(name: str) -> bool:
    return bool(_STARTS_NOTHING.match(name))


def _list(text: bytes) -> list[Any]:
    try:
        value = json.loads(text or b"[]")
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _shape(dims: object) -> Shape | None:
    """Return the shape, or None where it is not one (symbolic dimensions)."""
    return tuple(dims) if isinstance(dims, list) and all(type(size) is int for size in dims) else None


def _dtype(kind: str) -> str:
    """Return the name of a tensor's dtype; nothing for what is no tensor (``Scalar``, ``ScalarList``)."""
    if kind.startswith("c10::"):
        return _DTYPES.get(kind, kind.removeprefix("c10::").lower())
    return _DTYPES.get(kind, "")
