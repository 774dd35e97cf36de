"""A saved profile as it was read: every op with all the facts that its source knows, and no others.

Readers make it; `questions.query` answers questions about it; `SavedProfile.profile` converts it into the OpProfile of
a live measurement, so that budgets and comparisons are the plugin's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ..ops import names
from ..ops.cuda_kernels import is_nccl
from ..ops.signature import Shape, Signature
from .environment import Environment
from .op_key import By, CallSite, OpKey

if TYPE_CHECKING:
    from .op_profile import OpProfile

# Label of the step with the events outside of every step; always the last one.
OUTSIDE = "outside"
# In place of an op: the launch is not in the profile.
UNLINKED = names.UNLINKED
# Names in Ascend's column of cores that mean communication: before CANN 8.3, and from it on.
COMMUNICATION_PLACES = frozenset(["HCCL", "COMMUNICATION"])


class Whole(NamedTuple):
    """The times of a record's counted calls with all events inside them; fields like those of `SavedOp`."""

    device_ns: float | None = None
    host_ns: float | None = None
    least_ns: float | None = None
    most_ns: float | None = None
    host_least_ns: float | None = None
    host_most_ns: float | None = None


class SavedOp(NamedTuple):
    """One op, or all its equal calls in one step (same name, type, shapes, dtypes, place).

    Times are ns (fractional if the source is finer), sums over *calls*. None and empty mean: unknown. A NamedTuple, not
    a dataclass: a profile has up to 10**5 of them, and it is three times as fast to make.
    """

    name: str
    """The source's name of this op or operator: a node's name, ``conv(data,w)[58]``, ``aten::mm``."""
    type: str
    """The raw op type: ``ConvolutionForward``, ``MatMulV3``, ``aten::mm``."""
    id: str = ""
    step: int = 0
    """Index into `SavedProfile.steps`."""
    calls: int = 1
    device_ns: float | None = None
    """Self time on the device; on a CPU profile, the CPU is the device."""
    host_ns: float | None = None
    """Self time on the host (dispatch, launch), if the source separates it from the device's."""
    device_launch_ns: float | None = None
    """The part of *device_ns* before the first kernel began (MegEngine's ``kern``): waiting and launching."""
    host_launch_ns: float | None = None
    least_ns: float | None = None
    """Device time of the shortest call; None if only the sum is known."""
    most_ns: float | None = None
    computation: float | None = None
    """Floating-point operations."""
    memory: float | None = None
    """Bytes read and written."""
    input_shapes: tuple[Shape, ...] | None = None
    """() is a scalar."""
    output_shapes: tuple[Shape, ...] | None = None
    input_dtypes: tuple[str, ...] = ()
    """In the source's spelling."""
    output_dtypes: tuple[str, ...] = ()
    input_formats: tuple[str, ...] = ()
    """Memory layouts: ``NCHW``, ``NC1HWC0``."""
    output_formats: tuple[str, ...] = ()
    place: str = ""
    """Where it ran: core type, stream or computing node."""
    op: str = ""
    """The canonical op these calls count as, if it differs from that of *type* by itself: nested ops."""
    counted: int | None = None
    """The number of calls that count as calls of the op, not as a part of another one; None: all of them."""
    host_least_ns: float | None = None
    """Host time of the shortest call; None if only the sum is known."""
    host_most_ns: float | None = None
    whole: Whole | None = None
    """None if it equals the times here, or if the source does not know the nesting."""
    site: CallSite | None = None
    """The source line of these calls."""


class SavedKernel(NamedTuple):
    """All launches of one kernel by one op in one step."""

    name: str
    launched_by: str
    """The op, or `UNLINKED`."""
    step: int = 0
    calls: int = 1
    device_ns: float = 0
    place: str = ""


class Collective(NamedTuple):
    """Work that ranks do together, in which none finishes before the last one has come."""

    op: str
    """``AllReduce``, ``AllGather``, ``ReduceScatter``, ``AllToAll`` or ``Barrier``."""
    group: str | None
    """The ranks that do it together, the same text on all of them; None if unknown."""
    step: int = 0
    duration_ns: float = 0
    kind: str = ""
    """The name of such groups in the program, ``tp`` or ``dp``; empty if unknown."""


@dataclass(frozen=True)
class SavedProfile:
    """A saved profile of one process (one rank)."""

    source: str
    """The program that wrote it: ``MegEngine graph profile``."""
    environment: Environment
    records: tuple[SavedOp, ...]
    """In the order of the source, or of first appearance."""
    steps: tuple[str, ...] = ("",)
    """The label of each step, as the source numbers them; one empty label for a profile without steps."""
    step_ns: tuple[float, ...] | None = None
    """Wall time of each step but `OUTSIDE`, which has none."""
    kernels: tuple[SavedKernel, ...] | None = None
    """None if the source has no kernels beside its ops."""
    launches: tuple[SavedOp, ...] = ()
    """Calls of the driver that start device work, if they are no records: without times, which the ops have."""
    collectives: tuple[Collective, ...] = ()
    """In the order in which they began; if they are records as well, only ones that no record describes."""
    peak_memory: int | None = None
    """Bytes allocated at the worst moment, of the device; on a CPU profile, the CPU is the device."""
    host_peak_memory: int | None = None
    """The same of the host, if a device did the work."""
    untold: tuple[str, ...] = ()
    """Canonical ops that this source cannot tell from others; ``*``: all except those in the records."""
    inferred_types: bool = False
    """Whether op types were guessed from kernel names, because the source has none."""
    remarks: tuple[str, ...] = ()
    """Remarks for the user: a failed cross-check, launches without a kernel, missing parts."""
    is_cut: bool = False
    """Whether it was read in part: from a file that was cut, lacks times, or is contradicted by other files."""

    def profile(self, aliases: Mapping[str, str] | None = None, by: By = "type") -> OpProfile:
        """Return the profile for budgets and comparisons, its ops being canonical ops.

        *by* splits ops further (`assembly.told_apart`). If there are steps, events outside of them are left out.
        Communication has calls but no time: in one step recorded eight times it took 69 to 106 ms, its ops' 8.87 ms
        within 0.7 %.
        """
        # Imported here, with NumPy behind it: looking at a profile needs neither.
        import numpy as np

        from .columns import ABSENT, Columns
        from .events.assembly import Part, built, told_apart
        from .memory import MemoryUse

        def column(values: Iterable[float | None]) -> np.typing.NDArray[np.int64]:
            return np.array([ABSENT if value is None else round(value) for value in values], np.int64)

        steps = self.steps[:-1] if len(self.steps) > 1 and self.steps[-1] == OUTSIDE else self.steps
        launches = [launch._replace(counted=0) for launch in self.launches]
        records = [record for record in (*self.records, *launches) if record.step < len(steps)]
        columns = Columns(
            key=np.arange(len(records), dtype=np.int32),
            step=np.array([record.step for record in records], np.int32),
            counted=column(record.calls if record.counted is None else record.counted for record in records),
            events=column(record.calls for record in records),
            device_ns=column(None if communicates(record) else record.device_ns for record in records),
            bytes=column(record.memory for record in records),
            flops=column(record.computation for record in records),
        )
        if all(record.computation is None for record in records):
            columns = replace(columns, flops=None)
        ops: dict[tuple[object, ...], tuple[str, str]] = {}
        keys = [_key(record, aliases, ops) for record in records]
        host_ns = map(round, self.step_ns[: len(steps)]) if self.step_ns else (ABSENT,) * len(steps)
        profile = built(self.environment, host_ns, Part(keys, columns))
        if self.peak_memory is not None:
            profile = replace(profile, memory=(MemoryUse(self.peak_memory, allocations=None),) * len(steps))
        if self.host_peak_memory is not None:
            profile = replace(profile, host_memory=(self.host_peak_memory,) * len(steps))
        return told_apart(profile, by)

    @property
    def has_sites(self) -> bool:
        """Whether any op has a source line."""
        return any(record.site is not None for record in self.records)

    @classmethod
    def of(cls, profile: OpProfile, source: str) -> SavedProfile:
        """Convert a live window into the profile that is saved of it: equal events are one record.

        `profile` turns it back into the same ops, with the same numbers in each step.
        """
        import numpy as np

        from .columns import ABSENT

        columns = profile.columns
        alike, row = np.unique(columns.step.astype(np.int64) * len(profile.keys) + columns.key, return_inverse=True)

        def sums(values: np.typing.NDArray[np.int64] | None, all_known: bool) -> list[int | None]:
            if values is None:
                return [None] * len(alike)
            known = np.bincount(row, values != ABSENT, len(alike))
            enough = known == np.bincount(row, minlength=len(alike)) if all_known else known > 0
            found = np.zeros(len(alike), np.int64)
            np.add.at(found, row, np.where(values == ABSENT, 0, values))
            return [value if is_known else None for value, is_known in zip(found.tolist(), enough.tolist())]

        numbers = zip(
            alike.tolist(),
            sums(columns.events, True),
            sums(columns.counted, True),
            sums(columns.device_ns, False),
            sums(columns.bytes, True),
            sums(columns.flops, False),
        )
        records = []
        for number, calls, counted, device_ns, nbytes, flops in numbers:
            step, key = number // len(profile.keys), profile.keys[number % len(profile.keys)]
            records.append(
                SavedOp(
                    name=key.name or key.raw,
                    type=key.raw,
                    step=step,
                    calls=calls or 0,
                    device_ns=device_ns,
                    computation=flops,
                    memory=nbytes,
                    input_shapes=key.signature.input_shapes,
                    output_shapes=key.signature.output_shapes,
                    input_dtypes=key.signature.input_dtypes or (),
                    output_dtypes=key.signature.output_dtypes or (),
                    input_formats=key.signature.input_formats or (),
                    output_formats=key.signature.output_formats or (),
                    place=key.place or "",
                    op=key.op,
                    counted=None if counted == calls else counted,
                    site=key.site,
                )
            )
        return cls(
            source=source,
            environment=profile.environment,
            records=tuple(records),
            steps=("",) if profile.steps == 1 else tuple(str(step + 1) for step in range(profile.steps)),
            step_ns=None if ABSENT in profile.host_ns else profile.host_ns,
            kernels=_kernels_of(profile),
            peak_memory=max(profile.peak_memory) if profile.peak_memory else None,
            remarks=tuple(dict.fromkeys(remark.text for _, remark in profile.remarks)),
        )


def _kernels_of(profile: OpProfile) -> tuple[SavedKernel, ...] | None:
    """Return the timed kernels; None if unknown."""
    from .kernels import UNKNOWN

    found = profile.on_device
    if found is None:
        return None
    columns = (found.key, found.step, found.calls, found.device_ns, found.place[0], found.place[1])
    return tuple(
        SavedKernel(profile.keys[key].raw, profile.keys[key].op, step, calls, ns, f"device {device} stream {stream}")
        for key, step, calls, ns, device, stream in zip(*(column.tolist() for column in columns))
        if ns != UNKNOWN
    )


def communicates(record: SavedOp) -> bool:
    """Return True if the op moves data between devices: its time is mostly waiting for the others."""
    return record.place in COMMUNICATION_PLACES or _communicates(record.type)


@lru_cache(1 << 14)  # few differ, and each is asked for five times
def _communicates(type_: str) -> bool:
    return type_.startswith("hcom_") or is_nccl(type_)


def op_of(record: SavedOp, aliases: Mapping[str, str] | None = None) -> str:
    """Return the canonical op of *record*, or its raw type if the vocabulary has none."""
    if record.op:
        return record.op
    return names.meaning(record.type, (*record.input_dtypes[:1], *record.output_dtypes[:1]), aliases).op


def dtypes_of(record: SavedOp) -> str | None:
    """Return the dtypes of *record*'s inputs and outputs, as `Signature.dtypes` has them."""
    return _signature(record).dtypes


def _signature(record: SavedOp) -> Signature:
    return Signature(
        record.input_dtypes or None,
        record.output_dtypes or None,
        record.input_shapes,
        record.output_shapes,
        record.input_formats or None,
        record.output_formats or None,
    )


def _key(record: SavedOp, aliases: Mapping[str, str] | None, known: dict[tuple[object, ...], tuple[str, str]]) -> OpKey:
    """Return the key of *record*; *known* are the op and the raw name of earlier records: few of 10**5 differ."""
    inputs, outputs = record.input_dtypes, record.output_dtypes
    alike = record.op, record.type, inputs[:1], outputs[:1]
    names_of = known.get(alike)
    if names_of is None:
        names_of = known[alike] = op_of(record, aliases), names.stable(record.type)
    op, raw = names_of
    return OpKey(op, raw, _signature(record), record.name, record.place or None, record.site)
