"""PyTorch: the Chrome trace of `torch.profiler` (Kineto), `export_chrome_trace` or `tensorboard_trace_handler`.

An object with ``schemaVersion`` (a trace without was not written by PyTorch), ``deviceProperties``,
``distributedInfo`` and ``traceEvents``; gzip or not. ``ts`` and ``dur`` are us: integers up to 2023, with ns as
decimals since. Events with ``ph`` = ``X``, by ``cat`` (2021's name in brackets):

- ``cpu_op`` (``Operator``): an op, nested in time on its ``pid`` and ``tid``. ``args``: ``External id`` (grows with
  time), and with record_shapes ``Input Dims`` and ``Input type``.
- ``user_annotation`` (``Operator``): `record_function` and the like. ``ProfilerStep#N`` is a step.
- ``cuda_runtime``, ``cuda_driver`` (``Runtime``), ``xpu_runtime`` ...: a call of the driver, with ``correlation``.
- ``kernel``, ``gpu_memcpy``, ``gpu_memset`` (``Kernel``, ``Memcpy``, ``Memset``): what a device did, with the
  ``correlation`` of the call that launched it, ``device`` and ``stream``. Their ``External id`` is not used: in files
  of 2023 it is the correlation, and looks like the id of an op that has nothing to do with it.

and the instant events ``[memory]`` with ``Device Type`` (0: the CPU) and ``Total Allocated`` (in 2021 ``Bytes`` only).
FLOPs and the version of PyTorch are not in the file.

Without device events the CPU is the device: device time is self CPU time, as `key_averages` gives it. With them it is
the time of the kernels that the op launched, from the innermost op around the launch; self CPU time is host time, calls
of the driver included. Copies between host and device, memsets and synchronisations are records of their own, since
they count wherever they happen; a plain copy that is a memcpy is counted as that. What was launched before the
recording began (correlations grow with time) is ``(unlinked)`` and outside of every step, what no op launched
``(no op)``.

Read: files of PyTorch 1.8 (2021) to 2.13 (2026), CPU, V100, A100 and H100.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import TraceError
from ...ops.cuda_calls import starts_device_work, without_api_version
from ...ops.cuda_kernels import moved
from ...ops.names import stable
from ...ops.pytorch_events import STEP, Role, compiler_kernels, is_made_by, may_work
from ...ops.vocabulary import COMPILE
from ...profile.environment import Environment
from ...profile.nesting import TooDeep
from ...profile.saved import OUTSIDE, UNLINKED, SavedKernel, SavedOp, SavedProfile, Whole
from ..shared.durations import Untimed
from ..shared.events import CUT, head, read_events
from ..shared.options import Options, as_number
from ..shared.place import Place
from .nesting import Forest, Spans, Tree

if TYPE_CHECKING:
    from .kineto_events import Call, Events, Kernel

TITLE = "PyTorch profiler trace"
_UNKNOWN = "Chrome trace of an unknown profiler"
_Home = tuple[int, "Tree | None", int]
"""The step, tree and call that something was launched from."""
NO_OP = "(no op)"
"""In place of an op: the launch was outside of all."""
_CATEGORIES = frozenset(["cpu_op", "kernel", "cuda_runtime", "Operator", "Kernel", "Runtime", "python_function"])
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
    return [as_number(info.get("rank")) if isinstance(info, dict) else None]


def read(place: Place, options: Options) -> SavedProfile:
    """Return what the trace holds. Raises TraceError."""
    # Imported here: it imports msgspec, which detecting a format does not need.
    from .kineto_events import OTHERS, Event, Events, ExactEvent

    header: dict[str, object] = {}
    remarks: list[str] = []
    events, untimed = Events(), Untimed(options.partial)
    event_type = ExactEvent if _needs_exact_times(place) else Event
    try:
        for some in read_events(place, event_type, header, options.partial, remarks, OTHERS):
            events.take(some)
        if events.timeless:
            untimed.add(place, events.first_timeless, events.timeless, left_out=True)
        remarks += untimed.remarks()
        if events.add_up_allocations():
            remarks.append("the file has no totals of memory: its peak is above what was allocated when it begins")
        if events.calls or events.kernels:
            return _Reading(events, header, remarks, any(remark.startswith(CUT) for remark in remarks)).trace()
    except OverflowError:
        raise TraceError(f"{place}: an event has no time, or a number beyond 64 bits; the file is damaged") from None
    except TooDeep as error:
        raise TraceError(f"{place}: {error}") from None
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


@dataclass(slots=True)
class _Spread:
    """How long calls took, ns."""

    total: int = 0
    least: int | None = None
    most: int | None = None

    def join(self, total: int, least: int, most: int) -> None:
        """Add calls that took *total* together."""
        self.total += total
        self.least = least if self.least is None or least < self.least else self.least
        self.most = most if self.most is None or most > self.most else self.most


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
    host: _Spread = field(default_factory=_Spread)
    device: _Spread = field(default_factory=_Spread)
    whole_host: _Spread = field(default_factory=_Spread)
    whole_device: _Spread = field(default_factory=_Spread)
    has_parts: bool = False
    launches: bool = False
    """Whether some of the calls launched kernels that took time."""
    nbytes: int = 0

    def called(self, start: int, calls: int, counts: bool) -> None:
        """Add calls, of which the first began at *start*."""
        self.first_ns = min(self.first_ns, start)
        self.calls += calls
        self.counted += calls if counts else 0

    def is_made_by(self, move: str) -> bool:
        """Tell whether the calls are copies that the device makes by a memcpy, which is counted in their place."""
        return bool(self.call and self.call.meaning and is_made_by(self.call.meaning, move))


class _Reading:
    """From events to records."""

    def __init__(self, events: Events, header: dict[str, object], remarks: list[str], is_cut: bool) -> None:
        self.events = events
        self.header = header
        self.remarks = remarks
        self.steps = _Steps.of(events)
        self.by_pytorch = "schemaVersion" in header
        self.driver_types = [_driver_type(name) for name in events.launch_names]
        self.devices = {kernel.device for kernel in events.kernels}
        started = any(map(starts_device_work, self.driver_types))
        self.on_device = bool(events.kernels) or started or (is_cut and bool(self._gpus()))
        self.rows: dict[tuple[object, ...], _Row] = {}
        self.launched: dict[tuple[int, str, int], list[int]] = {}
        """(step, op, number of the kernel) to [calls, ns, first start]."""
        self.made: defaultdict[tuple[Tree, int], dict[int, int]] = defaultdict(dict)
        """The occurrences of a call in which the device made the copy that it is, and the number of that memcpy."""
        self.calls = Counter[tuple[int, str]]()
        """Of the driver that start device work, by step and name."""
        self.outside = False
        """Whether something was launched before the recording."""
        self.lost = 0
        self.left_out = 0
        self.compiling: set[int] = set()
        """The correlations of what torch.compile launched."""
        meanings = [call.meaning for call in events.calls]
        names = [call.name for call in events.calls]
        roles = [call.role for call in events.calls]
        machinery = {n for n, call in enumerate(events.calls) if call.role is Role.ANNOTATION and not call.annotates}
        self.forest = Forest(meanings, names, self.steps.starts, roles, machinery)
        self.spans = {thread: Spans() for thread in set(events.launches.columns()[3])}
        for number, thread in enumerate(events.threads):
            self.forest.grow(thread, self.spans.get(number))
        events.threads.clear()  # what was made of them takes as much memory again
        self.homes = {tree: self._homes(tree) for tree in self.forest.trees.values()}
        self.rows_of = {tree: self._rows(tree) for tree in self.forest.trees.values()}

    def trace(self) -> SavedProfile:
        """Return all of it."""
        if self.on_device:
            self._link(self._driver_calls())
            self._name_workers()
        for tree in self.forest.trees.values():
            self._time(tree)
        self._remark()
        rows = sorted(self.rows.items(), key=lambda item: (item[1].first_ns, item[1].name, repr(item[0])))
        return SavedProfile(
            source=TITLE if self.by_pytorch else _UNKNOWN,
            environment=Environment((("torch", ""),) if self.by_pytorch else (), device=self._device(), arch=""),
            records=tuple(self._record(row) for _, row in rows),
            steps=(*(self.steps.labels or ("",)), *((OUTSIDE,) if self.outside else ())),
            step_ns=self.steps.durations or None,
            kernels=tuple(self._kernels()) if self.events.kernels else None,
            launches=tuple(SavedOp(call, call, step=step, calls=n) for (step, call), n in sorted(self.calls.items())),
            peak_memory=self.events.peaks[max(self.events.peaks)] if self.events.peaks else None,
            untold=("Cast", "Copy") if self._shapeless() else (),
            remarks=tuple(self.remarks),
        )

    def _homes(self, tree: Tree) -> list[int]:
        """Return for each event itself, or for annotations and repeats the event around that has their record."""
        homes: list[int] = []
        for event, number in enumerate(tree.calls):
            inside = self.events.calls[number].meaning is None or event in tree.repeats
            homes.append(homes[tree.parents[event]] if inside else event)
        return homes

    def _rows(self, tree: Tree) -> list[_Row]:
        """Add the calls of a tree to their rows; return the row of each."""
        rows: list[_Row] = []
        for event, home in enumerate(self.homes[tree]):
            if home != event:
                rows.append(rows[home])
                continue
            call = self.events.calls[tree.calls[event]]
            owner = self.events.calls[tree.calls[tree.owners[event]]].meaning
            op = owner.op if owner else ""
            key = tree.step, call.name, call.tensors, op
            row = self.rows.get(key)
            if row is None:
                row = _Row(tree.step, call.name, stable(call.name), tree.first_ns[event], call, op)
                self.rows[key] = row
            counts = tree.owners[event] == event and event not in tree.nothing
            row.called(tree.first_ns[event], tree.count, counts)
            rows.append(row)
        return rows

    def _time(self, tree: Tree) -> None:
        """Add the times of each event to its row, and to that of the call that counts for it."""
        rows = self.rows_of[tree]
        inside: dict[int, list[int]] = {}
        for event, home in enumerate(self.homes[tree]):
            if home == event:
                owner = tree.owners[event]
                # A wrapper that works itself is no part of the op that it is around.
                inside.setdefault(owner if rows[owner].op == rows[event].op else event, []).append(event)
        for owner, events in inside.items():
            rows[owner].has_parts = rows[owner].has_parts or len(events) > 1
        made = {owner: self.made[tree, owner] for owner in inside if (tree, owner) in self.made}
        host = tree.self_ns()
        _add(host, inside, made, [(row.host, row.whole_host) for row in rows])
        for owner, copies in made.items():
            for occurrence, number in copies.items():
                ns = sum(host[event][occurrence] for event in inside[owner])
                rows[owner].whole_host.total -= ns
                self._row_ofmoved(tree.step, number).whole_host.total += ns
        if self.events.kernels:
            device = tree.device_ns(self.homes[tree])
            _add(device, inside, made, [(row.device, row.whole_device) for row in rows])

    def _row(self, step: int, name: str, type: str, start: int, calls: int = 1, place: str = "") -> _Row:
        """Return the row of what is no call of an op, with *calls* more in it."""
        row = self.rows.setdefault((step, name, type, place), _Row(step, name, type, start, place=place))
        row.called(start, calls, counts=True)
        return row

    def _row_ofmoved(self, step: int, number: int) -> _Row:
        """Return the row of a memcpy that an op called for."""
        kernel = self.events.kernels[number]
        return self.rows[step, kernel.name, moved(kernel.name), self._place(kernel)]

    def _driver_calls(self) -> dict[int, int]:
        """Add the calls of the driver that wait or start device work; return the index of each by its correlation.

        A call may be there twice, as that of one library inside that of another: the outer one is it.
        """
        correlations, starts, durations, threads, numbers = self.events.launches.columns()
        outer: dict[int, int] = {}
        for index, correlation in enumerate(correlations):
            if correlation and starts[index] < starts[outer.setdefault(correlation, index)]:
                outer[correlation] = index
        did = set(self.events.activities.columns()[0])
        for index, (correlation, number) in enumerate(zip(correlations, numbers)):
            first = outer.get(correlation, index)
            if first != index and starts[index] <= starts[first] + durations[first]:
                continue
            if self.spans[threads[index]].compiler.ran_at(starts[index]):
                self.compiling.add(correlation)
                continue
            type_ = self.driver_types[number]
            if type_ == _SYNCHRONIZE:
                self._synchronized(self.events.launch_names[number], starts[index], durations[index], threads[index])
            elif type_:
                self.calls[self.steps.at(starts[index]), type_] += 1
                self.lost += "LaunchKernel" in type_ and correlation not in did
        self.compiling.discard(0)  # of what has none
        return outer

    def _synchronized(self, name: str, start: int, ns: int, thread: int) -> None:
        """Add a call that waits: no work of the op that it is in."""
        step, tree, event, occurrence = self._home(start, ns, thread)
        self._row(step, name, _SYNCHRONIZE, start).host.join(ns, ns, ns)
        if tree:
            tree.took(event, occurrence, ns)

    def _home(self, start: int, ns: int, thread: int) -> tuple[int, Tree | None, int, int]:
        """Return the step, the tree, the event and the occurrence that something was called from."""
        tree, event, occurrence = self.spans[thread].innermost(start, start + ns) or (None, 0, 0)
        return (tree.step if tree else self.steps.at(start)), tree, event, occurrence

    def _link(self, calls: dict[int, int]) -> None:
        """Give what the devices did to the ops that launched it."""
        _, starts, durations, threads, _ = self.events.launches.columns()
        moves = [moved(kernel.name) for kernel in self.events.kernels]
        begin = min(calls, default=0)
        alike: dict[tuple[_Home | int, int], list[int]] = {}
        for correlation, start, duration, number, nbytes in zip(*self.events.activities.columns()):
            if correlation in self.compiling:
                self.left_out += 1
                continue
            home: _Home | int
            index = calls.get(correlation, -1)
            if index < 0:
                home = self._unlinked(start, before=0 < correlation < begin)
            else:
                step, tree, event, occurrence = self._home(starts[index], durations[index], threads[index])
                home = step, tree, event
                if tree and not moves[number]:
                    tree.launch(event, occurrence, duration)
                elif tree and self.rows_of[tree][tree.owners[event]].is_made_by(moves[number]):
                    self.made[tree, tree.owners[event]][occurrence] = number
            found = alike.get((home, number))
            if found is None:
                found = alike[home, number] = [0, start, 0, duration, duration, 0]
            found[0] += 1
            found[1] = min(found[1], start)
            found[2] += duration
            found[3] = min(found[3], duration)
            found[4] = max(found[4], duration)
            found[5] += max(nbytes, 0)
        for (launched_from, number), (count, first, ns, least, most, nbytes) in alike.items():
            self._did(launched_from, number, moves[number], count, first, (ns, least, most), nbytes)

    def _unlinked(self, start: int, before: bool) -> int:
        """Return the step of what was launched outside of the recording."""
        self.outside = self.outside or before
        return max(len(self.steps.labels), 1) if before else self.steps.at(start)

    def _did(
        self,
        home: _Home | int,
        number: int,
        move: str,
        calls: int,
        start: int,
        taken: tuple[int, int, int],
        nbytes: int,
    ) -> None:
        """Add alike activities of a device; *home* is the step where their launch is unknown."""
        kernel = self.events.kernels[number]
        step, tree, event = (home, None, 0) if isinstance(home, int) else home
        row = self.rows_of[tree][event] if tree else None
        launched_by = row.name if row else UNLINKED if isinstance(home, int) else NO_OP
        launched = self.launched.setdefault((step, launched_by, number), [0, 0, start])
        launched[0] += calls
        launched[1] += taken[0]
        launched[2] = min(launched[2], start)
        if row and not move:
            row.launches = row.launches or taken[0] > 0
            return
        if tree and (copy := self.rows_of[tree][tree.owners[event]]).is_made_by(move):
            copy.counted = max(copy.counted - calls, 0)
        did = self._row(step, kernel.name, move or launched_by, start, calls, self._place(kernel))
        did.nbytes += nbytes if move else 0
        did.device.join(*taken)

    def _name_workers(self) -> None:
        """Make a wrapper that launched kernels itself the op of its calls: functions of autograd, `_foreach` ops."""
        meanings = [(row, row.call.meaning) for row in self.rows.values() if row.call]
        wrappers = [(row, found) for row, found in meanings if found and may_work(found)]
        working = {row.type for row, _ in wrappers if row.launches}
        for row, found in wrappers:
            if row.type in working:
                row.op, row.counted = found.op, row.calls

    def _record(self, row: _Row) -> SavedOp:
        times = self._times(row, row.host, row.device)
        whole = None
        if row.call and (row.has_parts or row.counted < row.calls):
            whole = self._times(row, row.whole_host, row.whole_device)
        elif row.whole_host.total:
            whole = times._replace(host_ns=row.whole_host.total)
        return SavedOp(
            name=row.name,
            type=row.type,
            step=row.step,
            calls=row.calls,
            **times._asdict(),
            memory=row.nbytes or None,
            **(row.call.inputs_and_outputs._asdict() if row.call else {}),
            place=row.place,
            op=row.op,
            counted=row.counted,
            whole=whole,
        )

    def _times(self, row: _Row, host: _Spread, device: _Spread) -> Whole:
        if not self.on_device:
            if row.op == COMPILE:  # work of the host, in no device time
                return Whole()
            return Whole(host.total, None, host.least, host.most)
        waits = row.type == _SYNCHRONIZE
        on_device = bool(self.events.kernels) and not waits and row.op != COMPILE
        on_host = waits or row.call is not None
        return Whole(
            device.total if on_device else None,
            host.total if on_host else None,
            device.least if on_device else None,
            device.most if on_device else None,
            host.least if on_host else None,
            host.most if on_host else None,
        )

    def _kernels(self) -> Iterator[SavedKernel]:
        kernels = self.events.kernels
        by_time = sorted(self.launched.items(), key=lambda item: (item[1][2], item[0][:2], repr(kernels[item[0][2]])))
        for (step, launched_by, number), (calls, ns, _) in by_time:
            kernel = kernels[number]
            yield SavedKernel(kernel.name, launched_by, step, calls, ns, self._place(kernel))

    def _place(self, kernel: Kernel) -> str:
        stream = f"stream {kernel.stream}"
        return stream if len(self.devices) == 1 else f"device {kernel.device} {stream}"

    def _device(self) -> str:
        """Return the model of the device."""
        if not self.on_device:
            return "cpu"
        used = {str(device) for device in self.devices}
        # Where what the devices did was lost, any of them may have done it.
        found = [device for device in self._gpus() if not used or str(device.get("id")) in used]
        return " + ".join(sorted({str(device.get("name", "")) for device in found} - {""})) or "gpu"

    def _gpus(self) -> list[dict[str, object]]:
        """Return what the head of the file says of the devices of the machine."""
        found = self.header.get("deviceProperties")
        return [device for device in found if isinstance(device, dict)] if isinstance(found, list) else []

    def _remark(self) -> None:
        if not self.by_pytorch:
            self.remarks.append(
                "it does not say who wrote it (PyTorch's traces have a schemaVersion): events of category cpu_op are"
                " taken for ops, those of kernel, gpu_memcpy and gpu_memset for what a device did"
            )
        unlinked = sum(calls for (_, op, _), (calls, _, _) in self.launched.items() if op == UNLINKED)
        if unlinked:
            outside = f", those from before it in no step but {OUTSIDE!r}" if self.outside else ""
            self.remarks.append(
                f"{unlinked} of {len(self.events.activities)} device activities were launched outside of the"
                f" recording: they have no op, and are listed as {UNLINKED}{outside}"
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

    def _shapeless(self) -> bool:
        return any(call.is_copy and not call.types for call in self.events.calls)

    def _overlap(self) -> list[str]:
        """Say how long the devices worked: kernels of several streams overlap."""
        _, starts, durations, numbers, _ = self.events.activities.columns()
        devices = [kernel.device for kernel in self.events.kernels]
        until: dict[int | str, int] = {}
        busy = 0
        for index in sorted(range(len(starts)), key=starts.__getitem__):
            start, device = starts[index], devices[numbers[index]]
            end = start + durations[index]
            before = until.get(device, start)
            if end > before:
                busy += end - (start if start > before else before)
                until[device] = end
        together = sum(durations)
        if busy == together:
            return []
        return [f"the device was busy for {busy / 1e6:.3f} ms; its activities add up to {together / 1e6:.3f} ms"]


def _add(
    columns: Sequence[Sequence[int]],
    inside: Mapping[int, list[int]],
    made: Mapping[int, Container[int]],
    spreads: Sequence[tuple[_Spread, _Spread]],
) -> None:
    """Add what each event took to its own spread, and to that of the call that it is *inside*.

    The occurrences of a call that something else *made* are none of its calls, but take time.
    """
    for owner, events in inside.items():
        for event in events:
            own = _summed(columns[event])
            spreads[event][0].join(*own)
        taken = columns[owner]
        if len(events) > 1:
            taken = list(map(sum, zip(*map(columns.__getitem__, events))))
            own = _summed(taken)
        whole = spreads[owner][1]
        if owner not in made:
            whole.join(*own)
            continue
        whole.total += own[0]
        if calls := [ns for occurrence, ns in enumerate(taken) if occurrence not in made[owner]]:
            whole.join(0, min(calls), max(calls))


def _summed(taken: Sequence[int]) -> tuple[int, int, int]:
    """Return all together, the shortest and the longest."""
    if len(taken) == 1:
        return (taken[0],) * 3
    return sum(taken), min(taken), max(taken)


def _driver_type(name: str) -> str:
    """Return the type of a call of the driver that is a record; nothing for others."""
    plain = without_api_version(name)
    if plain.endswith(_SYNCHRONIZE):
        return _SYNCHRONIZE
    return plain if starts_device_work(plain) else ""
