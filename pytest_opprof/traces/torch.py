"""PyTorch: the Chrome trace of `torch.profiler` (Kineto), `export_chrome_trace` or `tensorboard_trace_handler`.

An object with ``schemaVersion``, ``deviceProperties``, ``distributedInfo`` and ``traceEvents``; gzip or not. ``ts`` and
``dur`` are us: integers up to 2023, with ns as decimals since. Events with ``ph`` = ``X``, by ``cat`` (2021's name in
brackets):

- ``cpu_op`` (``Operator``): an op, nested in time on its ``pid`` and ``tid``. ``args``: ``External id`` (grows with
  time), and with record_shapes ``Input Dims`` and ``Input type``.
- ``user_annotation`` (``Operator``): `record_function` and the like. ``ProfilerStep#N`` is a step.
- ``cuda_runtime``, ``cuda_driver`` (``Runtime``), ``xpu_runtime`` ...: a call of the driver, with ``correlation``.
- ``kernel``, ``gpu_memcpy``, ``gpu_memset`` (``Kernel``, ``Memcpy``, ``Memset``): what a device did, with the
  ``correlation`` of the call that launched it, ``device`` and ``stream``. Their ``External id`` is not used: in files
  of 2023 it is the correlation, and looks like the id of an op that has nothing to do with it.

and the instant events ``[memory]`` with ``Total Allocated`` and ``Device Type`` (0 is the CPU). FLOPs and the version
of PyTorch are not in the file.

Without device events the CPU is the device: device time is self CPU time, as `key_averages` gives it. With them it is
the time of the kernels that the op launched, from the innermost op around the launch; self CPU time is host time, calls
of the driver included. Copies between host and device, memsets and synchronisations are records of their own, since
they count wherever they happen; a plain copy that is a memcpy is counted as that. What was launched before the
recording began is ``(unlinked)``, what no op launched ``(no op)``.

Read: files of PyTorch 1.8 (2021) to 2.13 (2026), CPU, V100, A100 and H100.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..environment import Environment
from ..errors import TraceError
from ..names import Kind, stable
from ..torch_events import Role, compiler_kernels
from ..trace import UNLINKED, KernelRecord, OpRecord, OpTrace, is_nccl
from ..vocabulary import COMPILE, COPY
from . import Options
from .events import head, read_events
from .nesting import Forest, Tree
from .place import Place

if TYPE_CHECKING:
    from .kineto import Call, Events, Kernel

TITLE = "PyTorch profiler trace"
_Home = tuple[int, "Tree | None", int]
"""The step, tree and call that something was launched from."""
NO_OP = "(no op)"
"""In place of an op: the launch was outside of all."""
_CATEGORIES = frozenset(["cpu_op", "kernel", "cuda_runtime", "Operator", "Kernel", "Runtime", "python_function"])
_STEP = re.compile(r"ProfilerStep#(\d+)")
_MOVES = (
    # A copy to another device of its kind is one on the device.
    (re.compile(r"Memcpy (?:DtoD|PtoP)\b.*"), "MemcpyDtoD"),
    (re.compile(r"Memcpy HtoD\b.*"), "MemcpyHtoD"),
    (re.compile(r"Memcpy DtoH\b.*"), "MemcpyDtoH"),
    (re.compile(r"Memset\b.*"), "Memset"),
)
_SYNCHRONIZE = "Synchronize"
_DIGITS_END = 1 << 43
"""us from which a float has no digits left for ns."""


def recognises(place: Place) -> bool:
    """Tell by the header, or by the categories of the first events."""
    found = head(place)
    if found is None or found.bare:
        return False
    return "schemaVersion" in found.header or any(str(event.get("cat")) in _CATEGORIES for event in found.events)


def ranks(place: Place) -> list[int | None]:
    """Return the rank that ``distributedInfo`` gives; None for a process by itself."""
    found = head(place)
    info = found.header.get("distributedInfo") if found else None
    rank = info.get("rank") if isinstance(info, dict) else None
    return [rank if type(rank) is int else None]


def read(place: Place, options: Options) -> OpTrace:
    """Return what the trace holds. Raises TraceError."""
    # Imported here: it imports msgspec, which detecting a format does not need.
    from .kineto import OTHERS, Event, Events, ExactEvent

    header: dict[str, object] = {}
    remarks: list[str] = []
    events = Events()
    event_type = ExactEvent if _needs_exact_times(place) else Event
    try:
        for some in read_events(place, event_type, header, options.partial, remarks, OTHERS):
            events.take(some)
        if events.calls or events.kernels:
            return _Reading(events, header, remarks).trace()
    except OverflowError:
        raise TraceError(f"{place}: an event has no time, or a number beyond 64 bits; the file is damaged") from None
    raise TraceError(f"{place}: holds neither ops (category cpu_op) nor kernels; was anything run in the recording?")


def _needs_exact_times(place: Place) -> bool:
    found = head(place)
    times = [event.get("ts") for event in found.events] if found else []
    return any(isinstance(time, float) and time > _DIGITS_END and not time.is_integer() for time in times)


@dataclass(frozen=True)
class _Steps:
    """The steps of a recording. What lies before the first is its, what lies between two is the earlier one's."""

    labels: tuple[str, ...]
    starts: tuple[int, ...]
    durations: tuple[int, ...]

    @classmethod
    def of(cls, events: Events) -> _Steps:
        """Find them among the annotations."""
        labels = {number: match[1] for number, call in enumerate(events.calls) if (match := _STEP.fullmatch(call.name))}
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


@dataclass(eq=False)
class _Row:
    """A record in the making: calls that are alike, in one step, that count as the same op."""

    step: int
    name: str
    type: str
    first_ns: int
    call: Call | None = None
    """None where it is no call of an op, but what a device or the driver did."""
    op: str = ""
    place: str = ""
    calls: int = 0
    counted: int = 0
    host_ns: int = 0
    device_ns: int = 0
    least_ns: int | None = None
    most_ns: int = 0
    nbytes: int = 0

    def called(self, start: int, self_ns: Sequence[int], counts: bool) -> None:
        """Add calls, of which the first began at *start*."""
        self.first_ns = min(self.first_ns, start)
        self.calls += len(self_ns)
        self.counted += len(self_ns) if counts else 0
        self.host_ns += sum(self_ns)
        self.least_ns = min(self_ns) if self.least_ns is None else min(self.least_ns, min(self_ns))
        self.most_ns = max(self.most_ns, max(self_ns))

    def happened(self, start: int, calls: int) -> None:
        """Add calls that are counted, of which the first began at *start*."""
        self.first_ns = min(self.first_ns, start)
        self.calls += calls
        self.counted += calls

    def stands_aside_for(self, move: str, calls: int) -> None:
        """Leave the counting of copies to the memcpys that they are."""
        if self.call and self.call.meaning and self.call.meaning.op in (COPY, move):
            self.counted = max(self.counted - calls, 0)


class _Reading:
    """From events to records."""

    def __init__(self, events: Events, header: dict[str, object], remarks: list[str]) -> None:
        self.events = events
        self.header = header
        self.remarks = remarks
        self.steps = _Steps.of(events)
        self.on_device = bool(events.kernels)
        self.rows: dict[tuple[object, ...], _Row] = {}
        self.devices = {kernel.device for kernel in events.kernels}
        self.launched: dict[tuple[int, str, int], list[int]] = {}
        """(step, op, number of the kernel) to [calls, ns, first start]."""
        self.lost = 0
        self.left_out = 0
        self.compiling: set[int] = set()
        """The correlations of what torch.compile launched."""
        meanings = [call.meaning for call in events.calls]
        names = [call.name for call in events.calls]
        compilers = {n for n, call in enumerate(events.calls) if call.role in (Role.COMPILES, Role.FRAME)}
        machinery = {n for n, call in enumerate(events.calls) if call.role is Role.ANNOTATION and not call.annotates}
        self.forest = Forest(meanings, names, self.steps.starts, compilers, machinery)
        self.spans = [self.forest.grow(thread) for thread in events.threads]
        self.rows_of = {tree: self._rows(tree) for tree in self.forest.trees.values()}

    def trace(self) -> OpTrace:
        """Return all of it."""
        if self.on_device:
            self._link(self._launches())
            self._name_workers()
        self._remark()
        rows = sorted(self.rows.items(), key=lambda item: (item[1].first_ns, item[1].name, repr(item[0])))
        return OpTrace(
            source=TITLE,
            environment=Environment((("torch", ""),), device=self._device(), arch=""),
            records=tuple(self._record(row) for _, row in rows),
            steps=self.steps.labels or ("",),
            step_ns=self.steps.durations or None,
            kernels=tuple(self._kernels()) if self.on_device else None,
            peak_memory=self.events.peaks[max(self.events.peaks)] if self.events.peaks else None,
            untold=("Cast", "Copy") if self._shapeless() else (),
            remarks=tuple(self.remarks),
        )

    def _rows(self, tree: Tree) -> list[_Row]:
        """Add the calls of a tree to their rows; return the row of each. Annotations have that of the op around."""
        rows: list[_Row] = []
        self_ns = tree.self_ns()
        for event, number in enumerate(tree.calls):
            call = self.events.calls[number]
            if call.meaning is None or event in tree.repeats:
                rows.append(rows[tree.parents[event]])
                continue
            owner = self.events.calls[tree.calls[tree.owners[event]]].meaning
            op = owner.op if owner else ""
            key = tree.step, call.name, call.tensors, op
            row = self.rows.get(key)
            if row is None:
                row = _Row(tree.step, call.name, stable(call.name), tree.first_ns[event], call, op)
                self.rows[key] = row
            counts = tree.owners[event] == event and event not in tree.nothing
            row.called(tree.first_ns[event], self_ns[event], counts)
            rows.append(row)
        return rows

    def _row(self, step: int, name: str, type: str, start: int, calls: int = 1, place: str = "") -> _Row:
        """Return the row of what is no call of an op, with *calls* more in it."""
        row = self.rows.setdefault((step, name, type, place), _Row(step, name, type, start, place=place))
        row.happened(start, calls)
        return row

    def _launches(self) -> dict[int, int]:
        """Return the index of the launch of each activity by correlation, -1: unknown; add the synchronisations."""
        names = self.events.launch_names
        synchronizes = [name.endswith(_SYNCHRONIZE) for name in names]
        found = dict.fromkeys(self.events.activities.columns()[0], -1)
        correlations, starts, durations, threads, numbers = self.events.launches.columns()
        for index, (correlation, name) in enumerate(zip(correlations, numbers)):
            if correlation and self.spans[threads[index]].compiles(starts[index]):
                self.compiling.add(correlation)
                continue
            if synchronizes[name]:
                self._synchronized(names[name], starts[index], durations[index], threads[index])
            if correlation not in found:
                self.lost += "LaunchKernel" in names[name]
            # A launch may be there twice, as the call of one library inside that of another.
            elif correlation and ((before := found[correlation]) < 0 or starts[index] < starts[before]):
                found[correlation] = index
        return found

    def _synchronized(self, name: str, start: int, ns: int, thread: int) -> None:
        step, tree, event = self._home(start, ns, thread)
        self._row(step, name, _SYNCHRONIZE, start).host_ns += ns
        if tree:
            self.rows_of[tree][event].host_ns -= ns

    def _home(self, start: int, ns: int, thread: int) -> _Home:
        tree, event = self.spans[thread].innermost(start, start + ns) or (None, 0)
        return (tree.step if tree else self.steps.at(start)), tree, event

    def _link(self, launches: dict[int, int]) -> None:
        """Give what the devices did to the ops that launched it."""
        _, starts, durations, threads, _ = self.events.launches.columns()
        alike: dict[tuple[_Home | int, int], list[int]] = {}
        for correlation, start, duration, number, nbytes in zip(*self.events.activities.columns()):
            if correlation in self.compiling:
                self.left_out += 1
                continue
            index = launches[correlation]
            home = self.steps.at(start) if index < 0 else self._home(starts[index], durations[index], threads[index])
            found = alike.get((home, number))
            if found is None:
                found = alike[home, number] = [0, 0, start, 0]
            found[0] += 1
            found[1] += duration
            if start < found[2]:
                found[2] = start
            if nbytes > 0:
                found[3] += nbytes
        for (launched_from, number), (calls, ns, first, nbytes) in alike.items():
            self._did(launched_from, number, calls, ns, first, nbytes)

    def _did(self, home: _Home | int, number: int, calls: int, ns: int, start: int, nbytes: int) -> None:
        """Add alike activities of a device; *home* is the step where their launch is unknown."""
        kernel = self.events.kernels[number]
        move = _move(kernel.name)
        step, tree, event = (home, None, 0) if isinstance(home, int) else home
        row = self.rows_of[tree][event] if tree else None
        launched_by = row.name if row else UNLINKED if isinstance(home, int) else NO_OP
        launched = self.launched.setdefault((step, launched_by, number), [0, 0, start])
        launched[0] += calls
        launched[1] += ns
        launched[2] = min(launched[2], start)
        if move:
            if tree:
                self.rows_of[tree][tree.owners[event]].stands_aside_for(move, calls)
            row = self._row(step, kernel.name, move, start, calls, self._place(kernel))
            row.nbytes += nbytes
        elif row is None:
            row = self._row(step, kernel.name, launched_by, start, calls, self._place(kernel))
        row.device_ns += ns

    def _name_workers(self) -> None:
        """Make a wrapper that launched kernels itself the op of its calls: functions of autograd, `_foreach` ops."""
        meanings = [(row, row.call.meaning) for row in self.rows.values() if row.call]
        wrappers = [(row, found) for row, found in meanings if found and found.kind in (Kind.WRAPPER, Kind.GROUP)]
        working = {row.type for row, _ in wrappers if row.device_ns}
        for row, found in wrappers:
            if row.type in working:
                row.op, row.counted = found.op, row.calls

    def _record(self, row: _Row) -> OpRecord:
        shapes, dtypes = zip(*tensors) if row.call and (tensors := row.call.tensors) else ((), ())
        ends = 1 if row.call and row.call.is_copy and len(shapes) > 1 else 0
        known = row.call is not None and bool(row.call.types) and None not in shapes
        on_cpu = not self.on_device
        compiles = row.op == COMPILE
        host_ns = max(row.host_ns, 0)
        return OpRecord(
            name=row.name,
            type=row.type,
            step=row.step,
            calls=row.calls,
            device_ns=None if compiles or row.type == _SYNCHRONIZE else host_ns if on_cpu else row.device_ns,
            host_ns=host_ns if self.on_device and (row.call or row.type == _SYNCHRONIZE) else None,
            least_ns=row.least_ns if on_cpu and not compiles else None,
            most_ns=row.most_ns if on_cpu and not compiles else None,
            memory=row.nbytes or None,
            # A copy's first argument is where it goes.
            input_shapes=shapes[ends : 2 * ends or None] if known else None,
            output_shapes=shapes[:ends] if known and ends else None,
            input_dtypes=dtypes[ends : 2 * ends or None],
            output_dtypes=dtypes[:ends],
            place=row.place,
            op=row.op,
            counted=row.counted,
        )

    def _kernels(self) -> Iterator[KernelRecord]:
        kernels = self.events.kernels
        by_time = sorted(self.launched.items(), key=lambda item: (item[1][2], item[0][:2], repr(kernels[item[0][2]])))
        for (step, launched_by, number), (calls, ns, _) in by_time:
            kernel = kernels[number]
            yield KernelRecord(kernel.name, launched_by, step, calls, ns, self._place(kernel))

    def _place(self, kernel: Kernel) -> str:
        stream = f"stream {kernel.stream}"
        return stream if len(self.devices) == 1 else f"device {kernel.device} {stream}"

    def _device(self) -> str:
        """Return the model of the device."""
        found = self.header.get("deviceProperties")
        known = [device for device in found if isinstance(device, dict)] if isinstance(found, list) else []
        used = [device for device in known if any(device.get("id") == each for each in self.devices)]
        models = {str(device.get("name", "")) for device in used} - {""}
        return " + ".join(sorted(models)) or ("gpu" if self.on_device else "cpu")

    def _remark(self) -> None:
        unlinked = sum(calls for (_, op, _), (calls, _, _) in self.launched.items() if op == UNLINKED)
        if unlinked:
            self.remarks.append(
                f"{unlinked} of {len(self.events.activities)} device activities were launched outside of the"
                f" recording: they have no op, and are listed as {UNLINKED}"
            )
        if self.left_out:
            self.remarks.append(compiler_kernels(self.left_out))
        if self.lost:
            self.remarks.append(
                f"{self.lost} kernel launches have no kernel in the file: it ended before them, or they were captured"
                " into a graph"
            )
        if self.on_device:
            self.remarks += self._overlap()
        if self._shapeless():
            self.remarks.append(
                "shapes were not recorded (record_shapes=True), so that casts cannot be told from copies"
            )
        if self.events.timeless:
            self.remarks.append(f"{self.events.timeless} events without a duration, or a negative one, were left out")

    def _shapeless(self) -> bool:
        return any(call.is_copy and not call.types for call in self.events.calls)

    def _overlap(self) -> list[str]:
        """Say how long the devices worked: kernels of several streams overlap."""
        _, starts, durations, numbers, _ = self.events.activities.columns()
        devices = [kernel.device for kernel in self.events.kernels]
        until: dict[int | str, int] = {}
        busy = 0
        for start, duration, number in sorted(zip(starts, durations, numbers)):
            device, end = devices[number], start + duration
            before = until.get(device, start)
            if end > before:
                busy += end - (start if start > before else before)
                until[device] = end
        together = sum(durations)
        if busy == together:
            return []
        return [f"the device was busy for {busy / 1e6:.3f} ms; its activities add up to {together / 1e6:.3f} ms"]


def _move(kernel: str) -> str:
    """Return the op that a copy, a memset or a communication is; nothing for a kernel that computes."""
    if is_nccl(kernel):
        return kernel.partition("(")[0]
    return next((op for pattern, op in _MOVES if pattern.match(kernel)), "")
