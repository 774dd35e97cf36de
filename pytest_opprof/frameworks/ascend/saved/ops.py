"""The ops of CANN's tables and databases: parse a row, add up equal calls, and make records.

Tables and databases write the same: shapes as ``"32,3,224,224;64"`` (``;`` separates tensors, an empty part is a
scalar), dtypes as ``FLOAT;DT_BF16``, formats as ``NCHW``, ``NC1HWC0`` or ``FORMAT_ND``, and ``N/A`` or nothing for
unknown values.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from math import fsum, nan
from typing import TypeVar

from ....errors import TraceError
from ....ops.signature import Shape
from ....profile.op_key import CallSite
from ....profile.saved import COMMUNICATION_PLACES, OUTSIDE, SavedOp
from ....sites.chains import Frame
from ....sites.recorded import recorded
from ...files.durations import Untimed
from ...files.place import Place
from ...files.tables import known
from ..work import flops as flops_of
from ..work import nbytes

# Different ops in one profile, each 1 KiB.
MOST_RECORDS = 1_000_000

# Step, name, type, core; shapes, dtypes and formats of the inputs, then of the outputs; if lines are requested, the
# call stack: the cells as written.
Key = tuple[str, ...]
_FRAME = re.compile(r"\s*\"?(.*)\((\d{1,9})\): (.*?)\"?;?\s*$")
AnyKey = TypeVar("AnyKey")
UNTIMED = (nan, nan, nan)


@dataclass
class Read:
    """The content of one profile read so far."""

    place: Place
    framework: str
    """The framework that wrote it: ``torch_npu``, ``mindspore``, or "" for msprof."""
    file: str
    has_steps: bool = False
    sites: bool = False
    """Whether source lines are requested."""
    groups: dict[tuple[Key, bool, bool], list[float]] = field(default_factory=dict)
    """For all equal calls: their number; sum, minimum and maximum ns of the device, then of the host; FLOPs; bytes.

    NaN is unknown. The two flags of the key say whether the time on the device and that on the host are known."""
    untimed: Untimed = field(default_factory=lambda: Untimed(partial=False))
    chip: str = ""
    information: dict[str, object] = field(default_factory=dict)
    peak_memory: int | None = None
    remarks: list[str] = field(default_factory=list)

    def add(
        self,
        key: Key,
        calls: float,
        device: tuple[float, float, float],
        host: tuple[float, float, float] = UNTIMED,
        flops: float = nan,
        moved: float = nan,
    ) -> None:
        """Add calls to their group; *device* and *host* are the sum, minimum and maximum of their times, in ns."""
        group = key, device[0] == device[0], host[0] == host[0]
        sums = self.groups.get(group)
        if sums is None:
            self.check(len(self.groups))
            self.groups[group] = [calls, *device, *host, flops, moved]
            return
        for at, (ns, least, most) in ((1, device), (4, host)):
            sums[at : at + 3] = [sums[at] + ns, min(sums[at + 1], least), max(sums[at + 2], most)]
        sums[0] += calls
        sums[7] += flops
        sums[8] += moved

    def add_times(self, key: Key, values: array[float], ns: int, flops: float = nan, moved: float = nan) -> None:
        """Add calls with their times *values*, in units of *ns*; NaN is unknown. Raises TraceError for an invalid
        time.
        """
        if (total := sum(values)) != total:
            known = array("d", [value for value in values if value == value])
            self.add(key, len(values) - len(known), UNTIMED)
            values = known
        if not values:
            return
        least, most = min(values), max(values)
        if least < 0 or most >= 1e15:
            wrong = least if least < 0 else most
            raise TraceError(f"{self.place}: {key[1][:80]!r} has a duration of {wrong}; expected one from 0 to 1e15")
        self.add(key, len(values), (fsum(values) * ns, least * ns, most * ns), flops=flops, moved=moved)

    def check(self, ops: int) -> None:
        """Raise TraceError if a profile that has *ops* can take no more."""
        if ops >= MOST_RECORDS:
            raise TraceError(f"{self.place}: holds more than {MOST_RECORDS} different ops; record fewer steps")

    def step_of(self, cell: str) -> str:
        """Return the label of a step."""
        return known(cell) or (OUTSIDE if self.has_steps else "")

    def steps(self) -> dict[str, int]:
        """Return the index of each step, in the order of the source; the last one is for ops outside of all steps."""
        labels = dict.fromkeys(self.step_of(key[0]) for key, *_ in self.groups)
        return {label: index for index, label in enumerate(sorted(labels, key=OUTSIDE.__eq__))}

    def records(self) -> list[SavedOp]:
        """Return the records."""
        steps = self.steps()
        return [_record(key, steps[self.step_of(key[0])], sums) for (key, *_), sums in self.groups.items()]

    def guessed(self) -> int:
        """Return the number of calls without an op type."""
        return int(sum(sums[0] for (key, *_), sums in self.groups.items() if not known(key[2])))


class Times(dict[AnyKey, "array[float]"]):
    """The durations of each group. Keeping all of them and adding them up at the end is faster than adding each."""

    def __init__(self, read: Read) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, key: AnyKey) -> array[float]:
        self._read.check(len(self))
        self[key] = array("d")
        return self[key]


def type_of(name: str) -> str:
    """Guess the op type from the name of a kernel, by the naming rules of CANN and the frameworks.

    >>> type_of("aclnnInplaceRelu_Relu_Relu"), type_of("trans_TransData_7"), type_of("Default/net/Cast-op10")
    ('Relu', 'TransData', 'Cast')
    """
    kernel = name.rpartition("/")[2]
    if kernel.startswith("hcom_"):
        return re.sub(r"__.*", "_", kernel, flags=re.DOTALL)
    if kernel.startswith("atomic_memset"):
        return "MemSet"
    if kernel.startswith("aclnn") or kernel.endswith("_MemSet"):
        return kernel.rpartition("_")[2] or kernel
    kernel = re.sub(r"-op\d+$|_\d+$", "", kernel.removeprefix("trans_"))
    # Graphs number their nodes: Conv2D12 is a Conv2D, MatMulV23 a MatMulV2.
    return re.sub(r"(V\d|[^V\d])\d+$", r"\1", kernel) or name


def _record(key: Key, step: int, sums: list[float]) -> SavedOp:
    name, kind, core, inputs, input_dtypes, input_formats, outputs, output_dtypes, output_formats = map(
        known, key[1:10]
    )
    calls, ns, least, most, host_ns, host_least, host_most, flops, moved = sums
    in_shapes, out_shapes = _shapes(inputs), _shapes(outputs)
    in_dtypes, out_dtypes = _parts(input_dtypes), _parts(output_dtypes)
    in_formats, out_formats = _parts(input_formats), _parts(output_formats)
    type_ = kind or type_of(name)
    if in_shapes is not None and out_shapes is not None and core not in COMMUNICATION_PLACES:
        # The profiler's own measurement is better.
        if moved != moved:
            known_bytes = nbytes((*in_shapes, *out_shapes), (*in_dtypes, *out_dtypes))
            moved = nan if known_bytes is None else known_bytes * calls
        if flops != flops:
            known_flops = flops_of(type_, in_shapes, out_shapes, (*in_formats, *out_formats))
            flops = nan if known_flops is None else known_flops * calls
    return SavedOp(
        name=name,
        type=type_,
        step=step,
        calls=int(calls),
        device_ns=exact(ns),
        host_ns=exact(host_ns),
        least_ns=exact(least),
        most_ns=exact(most),
        computation=exact(flops),
        memory=exact(moved),
        input_shapes=in_shapes,
        output_shapes=out_shapes,
        input_dtypes=in_dtypes,
        output_dtypes=out_dtypes,
        input_formats=in_formats,
        output_formats=out_formats,
        place=core,
        host_least_ns=exact(host_least),
        host_most_ns=exact(host_most),
        site=_site(key[10]) if len(key) > 10 else None,
    )


@lru_cache(1 << 14)
def _site(stack: str) -> CallSite | None:
    """Return the line of a call stack, ``/a/nets.py(12): forward;`` and below it its caller; None without one."""
    frames = [Frame(match[1], match[3], int(match[2])) for line in stack.split(";\n") if (match := _FRAME.match(line))]
    return CallSite(recorded(frames)) if frames else None


def exact(value: float) -> float | None:
    """Return a sum of times, which have three decimals of a us, as whole ns; None for NaN."""
    if value != value:
        return None
    rounded = round(value, 3)
    return int(rounded) if rounded == int(rounded) else rounded


@lru_cache(1 << 14)
def _shapes(text: str) -> tuple[Shape, ...] | None:
    if not text:
        return None
    try:
        # operator_details.csv has a newline after each semicolon.
        parts = "".join(text.split()).strip('"').split(";")
        return tuple(tuple(map(int, part.split(","))) if part else () for part in parts)
    except ValueError:
        return None


@lru_cache(1 << 14)
def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(";")) if text else ()
