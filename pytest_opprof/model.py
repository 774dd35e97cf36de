"""What was measured: EventLog (filled by a backend) -> OpProfile (columns) -> OpStats (one op's numbers, per step)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from . import names
from .attribution import NOBODY, owners
from .environment import Environment
from .errors import UsageError
from .kernels import Events, Kernels, KernelStats, of_events, together

ABSENT = -1
"""A time, size or FLOP count that the source does not know. Never zero: zero is a measurement."""
ALWAYS = -1
"""In place of a step: what is said of the whole."""


class EventLog:
    """What one backend recorded: an append-only builder of an OpProfile.

    The recorder calls `mark` where a step or window begins or ends; each event belongs to the interval between two
    marks. Names are kept raw: `freeze` alone decides what they mean.
    """

    def __init__(
        self,
        environment: Environment,
        on_mark: Callable[[], None] | None = None,
        knows: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """*on_mark* is called at each mark; *knows* tells which raw names exist in the framework, recorded or not."""
        self.environment = environment
        self.knows = knows
        self.interval = 0
        self.range_marks: set[int] = set()
        """The intervals that begin where a range of the user's does."""
        self.inside_ops: set[int] = set()
        """Those of them that begin inside an op, where the backend can tell."""
        self.knows_flops = False
        self.knows_memory = False
        self.busy_ns: dict[int, int] | None = None
        """How long devices were busy in each interval; None where nothing tells."""
        self.on_device: Events | None = None
        """Which events are kernels, copies and sets of devices; None where nothing tells."""
        self.disturbed: list[str] = []
        """What else decided how long the device took: it was throttled, or others used it."""
        self.unseen: list[str] = []
        """Where the program went on unseen: functions, each with the module and line that called it."""
        self._on_mark = on_mark
        self._names: dict[tuple[str, tuple[str, ...], str, names.Kind | None], int] = {}
        self._name: list[int] = []
        self._parent: list[int] = []
        self._interval: list[int] = []
        self._duration_ns: list[int] = []
        self._bytes: list[int] = []
        self._flops: dict[int, int] = {}
        self._compiling: list[tuple[int, int]] = []
        self._memory: list[tuple[int, int | None]] = []
        self._remarks: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._name)

    def mark(self, of_range: bool = False) -> None:
        """Begin the next interval."""
        self.interval += 1
        if of_range:
            self.range_marks.add(self.interval)
        if self._on_mark:
            self._on_mark()

    def name(self, raw: str, dtypes: tuple[str, ...] = (), op: str = "", kind: names.Kind | None = None) -> int:
        """Return the index to give to `add` for events called *raw* (with these source and destination dtypes).

        *op* is what *raw* does where a table of names cannot tell, but the backend can; *raw* itself says that it is
        an op by itself, whatever it is elsewhere. *kind* is how such an op by itself counts.
        """
        return self._names.setdefault((raw, dtypes, op, kind), len(self._names))

    def add(
        self, name: int, duration_ns: int, parent: int = -1, interval: int | None = None, nbytes: int = ABSENT
    ) -> int:
        """Append an event and return its index, to be the *parent* of the events inside it.

        *duration_ns* includes what happens inside, *nbytes* is what it read and wrote; ABSENT where not known.
        """
        self._bytes.append(nbytes)
        self._name.append(name)
        self._duration_ns.append(duration_ns)
        self._parent.append(parent)
        self._interval.append(self.interval if interval is None else interval)
        return len(self._name) - 1

    def extend(
        self,
        name: NDArray[np.integer],
        duration_ns: NDArray[np.integer],
        parent: NDArray[np.integer],
        interval: NDArray[np.integer],
        nbytes: NDArray[np.integer],
    ) -> None:
        """Append many events at once, one in each row of the columns; see `add`. 0.1 us an event."""
        columns = (self._name, self._duration_ns, self._parent, self._interval, self._bytes)
        for column, values in zip(columns, (name, duration_ns, parent, interval, nbytes)):
            column.extend(values.tolist())

    def computed(self, event: int, flops: int) -> None:
        """Say how many floating-point operations *event* did, what happens inside it included."""
        self._flops[event] = flops

    def compiling(self, event: int, ns: int) -> None:
        """Say that *ns* of *event* went into compiling, which is work of the host, and of no op."""
        self._compiling.append((event, ns))

    def allocated(self, size: int | None, interval: int | None = None) -> None:
        """Say that *size* bytes were allocated at once (freed, if negative); None if it is not known how many."""
        self._memory.append((self.interval if interval is None else interval, size))

    def remark(self, text: str, interval: int = ALWAYS) -> None:
        """Say something that the user should know: of an interval where it is one of several rounds, or of all."""
        self._remarks.append((interval, text))

    def freeze(self, aliases: Mapping[str, str] | None = None) -> OpProfile:
        """Return the profile, its steps being the intervals; *aliases* add to the vocabulary."""
        raws = [names.stable(raw) for raw, _, _, _ in self._names]
        meanings = [_meaning(raw, dtypes, op, kind, aliases) for raw, (_, dtypes, op, kind) in zip(raws, self._names)]
        name, event = np.array(self._name, np.int32), np.arange(len(self))
        owner = np.array(owners(self._parent, self._name, meanings), np.int64)
        counted = owner == event
        owner = np.where(owner == NOBODY, event, owner)
        op_names, op_of_meaning = numbered([meaning.op for meaning in meanings])
        raw_names, raw_of_name = numbered(raws)
        op, raw, step = op_of_meaning[name[owner]], raw_of_name[name], np.array(self._interval, np.int32)
        return OpProfile(
            environment=self.environment,
            op_names=op_names,
            raw_names=raw_names,
            op=op,
            raw=raw,
            counted=counted.astype(np.int64),
            events=np.ones(len(name), np.int64),
            device_ns=self._self_ns(),
            bytes=np.array(self._bytes, np.int64),
            flops=self._column(self._outermost_flops()) if self.knows_flops else None,
            step=step,
            host_ns=(0,) * (self.interval + 1),
            memory=_memory_by_interval(self._memory, self.interval + 1) if self.knows_memory else None,
            knows=self.knows,
            busy_ns=None if self.busy_ns is None else tuple(map(self.busy_ns.get, range(self.interval + 1), repeat(0))),
            on_device=None if self.on_device is None else of_events(self.on_device, step, raw, op),
            remarks=tuple(self._remarks),
            disturbed=tuple(self.disturbed),
            unseen=tuple(self.unseen),
        )

    def _self_ns(self) -> NDArray[np.int64]:
        """Return each event's duration less those of the events inside it."""
        duration = np.array(self._duration_ns, np.int64)
        parent = np.array(self._parent, np.int64)
        inside = np.zeros_like(duration)
        has_parent = parent >= 0
        np.add.at(inside, parent[has_parent], np.maximum(duration[has_parent], 0))
        for event, ns in self._compiling:
            inside[event] += ns
        # A profiler's rounding may make the inside longer than the outside by some ns.
        return np.where(duration == ABSENT, ABSENT, np.maximum(duration - inside, 0))

    def _column(self, values: Mapping[int, int]) -> NDArray[np.int64]:
        column = np.full(len(self), ABSENT, np.int64)
        column[list(values)] = list(values.values())
        return column

    def _outermost_flops(self) -> dict[int, int]:
        """Return FLOPs by event, without those already counted by an event around it."""
        counted: list[bool] = []
        for event, parent in enumerate(self._parent):
            counted.append(event in self._flops or (parent >= 0 and counted[parent]))
        return {
            event: n for event, n in self._flops.items() if self._parent[event] < 0 or not counted[self._parent[event]]
        }


def _meaning(
    raw: str, dtypes: tuple[str, ...], op: str, kind: names.Kind | None, aliases: Mapping[str, str] | None
) -> names.Meaning:
    if raw in (aliases or {}):
        return names.meaning(raw, dtypes, aliases)
    by_itself = op == raw or kind is not None
    return names.Meaning(raw, kind or names.Kind.UNKNOWN) if by_itself else names.meaning(op or raw, dtypes, aliases)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Allocation in one interval or step, in bytes above its beginning."""

    peak: int | None = 0
    """None where something was allocated whose size is not known."""
    net: int = 0
    allocations: int | None = 0
    """How many there were; None where only the bytes are known."""

    def then(self, later: MemoryUse) -> MemoryUse:
        """Return the use of this stretch of time followed by *later*."""
        peak = None if self.peak is None or later.peak is None else max(self.peak, self.net + later.peak)
        unknown = self.allocations is None or later.allocations is None
        allocations = None if unknown else (self.allocations or 0) + (later.allocations or 0)
        return MemoryUse(peak, self.net + later.net, allocations)


@dataclass(frozen=True, slots=True)
class OpStats:
    """One op (or any selection of events) in numbers, one per step; None where the source does not know."""

    op: str
    calls: tuple[int, ...]
    device_ns: tuple[int, ...] | None = None
    """Self time on the device."""
    bytes: tuple[int, ...] | None = None
    """Bytes read and written."""
    flops: tuple[int, ...] | None = None

    @property
    def most_calls(self) -> int:
        """Calls in the worst step."""
        return max(self.calls, default=0)

    @property
    def fewest_calls(self) -> int:
        """Calls in the step with the fewest."""
        return min(self.calls, default=0)

    @property
    def fastest_ns(self) -> int:
        """Device time in the fastest step; 0 where times are unknown."""
        return min(self.device_ns, default=0) if self.device_ns else 0


@dataclass(frozen=True, eq=False)
class OpProfile:
    """One measured window.

    Columns, not objects: a training step is easily 10**5 events.
    """

    environment: Environment
    op_names: tuple[str, ...]
    raw_names: tuple[str, ...]
    op: NDArray[np.int32]
    """Index into *op_names* of the op that owns the event, one per event."""
    raw: NDArray[np.int32]
    """Index into *raw_names*, one per event."""
    counted: NDArray[np.int64]
    """How many calls of its op the event is: 0 for a part of one, more than 1 where a saved profile has only sums."""
    events: NDArray[np.int64]
    """How many events of its raw name it stands for: 1, more where a saved profile has only sums."""
    device_ns: NDArray[np.int64]
    """Self time; ABSENT where unknown."""
    bytes: NDArray[np.int64]
    """Bytes read and written; ABSENT where unknown."""
    flops: NDArray[np.int64] | None
    """Floating-point operations; None where they were not counted."""
    step: NDArray[np.int32]
    host_ns: tuple[int, ...]
    """Wall time of each step, ABSENT where unknown: their number is the number of steps."""
    memory: tuple[MemoryUse, ...] | None
    """Allocation in each step; None where it was not recorded."""
    knows: Callable[[str], bool]
    """Whether a raw name exists in the framework, recorded or not."""
    busy_ns: tuple[int, ...] | None = None
    """How long devices were busy in each step, where ops that overlap count once; None where not known."""
    on_device: Kernels | None = None
    """What `kernels` counts."""
    wait_ns: tuple[int, ...] = ()
    """How long threads were ready to run in each step without getting a CPU; empty where not known."""
    yardstick_ns: tuple[int, ...] = ()
    """How long a fixed piece of work took before each step; empty where not measured."""
    remarks: tuple[tuple[int, str], ...] = ()
    """What the backend has to say of a step, or of the whole: `ALWAYS`."""
    disturbed: tuple[str, ...] = ()
    """What else decided how long the device took, in words."""
    unseen: tuple[str, ...] = ()
    """Where the program went on unseen: functions, each with the module and line that called it."""

    @property
    def steps(self) -> int:
        """The number of steps (rounds); 1 for a window without."""
        return len(self.host_ns)

    @cached_property
    def ops(self) -> tuple[OpStats, ...]:
        """The numbers of each op, the most expensive first."""
        stats = [self._stats(name, self.op == index) for index, name in enumerate(self.op_names)]
        return tuple(sorted((s for s in stats if any(s.calls)), key=lambda s: (-s.fastest_ns, -s.most_calls, s.op)))

    @cached_property
    def total(self) -> OpStats:
        """The numbers of all ops; a conversion that converted nothing is none, and took its time outside of them."""
        is_op = np.bincount(self.op, self.counted, len(self.op_names)) > 0
        return self._stats("total", is_op[self.op], partly=True)

    @property
    def allocations(self) -> tuple[int, ...] | None:
        """How often memory was allocated in each step; None where not recorded."""
        return None if self.memory is None else _all_known([use.allocations for use in self.memory])

    @property
    def peak_memory(self) -> tuple[int, ...] | None:
        """The bytes allocated at the worst moment of each step, above its beginning; None where not recorded."""
        return None if self.memory is None else _all_known([use.peak for use in self.memory])

    @cached_property
    def kernels(self) -> tuple[KernelStats, ...] | None:
        """The kernels, copies and sets of devices, the most expensive first; None where none ran or nothing tells."""
        found = self.on_device and self.on_device.stats(self.raw_names, self.op_names, self.steps)
        return found or None

    @cached_property
    def launches(self) -> tuple[int, ...] | None:
        """How often the host gave the device a kernel or a graph of them, a step; None where not recorded."""
        chosen = [index for index, raw in enumerate(self.raw_names) if names.is_launch(raw)]
        if not chosen and not self.knows("cudaLaunchKernel"):
            return None
        return self._per_step(np.isin(self.raw, chosen), self.events)

    def stats(self, name: str, aliases: Mapping[str, str] | None = None, known: Collection[str] = ()) -> OpStats:
        """Return the numbers of *name*: a canonical op, a raw name or a glob.

        A glob that matches canonical ops (``Reduce*``) means those; any other is matched against raw names. Raw names
        count every event that the profiler reports. *known* adds names that are no mistake though absent here.

        Raises UsageError for a name that is neither in the vocabulary, nor in *known*, nor in the profile.
        """
        if any(character in name for character in "*?["):
            return self._glob(name, aliases or {}, known)
        # An op without a canonical name stands in the table under its raw name; asked for by it, all events count.
        if name in self.op_names and (name not in self.raw_names or name in names.canonical_ops()):
            return self._stats(name, self.op == self.op_names.index(name))
        if name in self.raw_names:
            return self._stats(name, self.raw == self.raw_names.index(name), every_event=True)
        if not names.is_known(name, aliases) and name not in known and not self.knows(name):
            raise names.unknown(name, {*names.canonical_ops(), *self.op_names, *self.raw_names, *known})
        return self._stats(name, np.zeros(len(self.op), bool))

    def top(self, k: int) -> tuple[OpStats, ...]:
        """Return the *k* most expensive ops by device time in their fastest step."""
        return self.ops[:k]

    def _glob(self, pattern: str, aliases: Mapping[str, str], known: Collection[str]) -> OpStats:
        if any(fnmatchcase(op, pattern) for op in (*names.canonical_ops(), *aliases.values())):
            chosen = [index for index, op in enumerate(self.op_names) if fnmatchcase(op, pattern)]
            return self._stats(pattern, np.isin(self.op, chosen))
        chosen = [index for index, raw in enumerate(self.raw_names) if fnmatchcase(raw, pattern)]
        if not chosen and not any(fnmatchcase(raw, pattern) for raw in (*names.raw_names(), *aliases, *known)):
            raise UsageError(f"{pattern!r} matches no op: none of the vocabulary, and none that ran")
        return self._stats(pattern, np.isin(self.raw, chosen), every_event=True)

    def _stats(self, name: str, mask: NDArray[np.bool_], every_event: bool = False, partly: bool = False) -> OpStats:
        """Return the numbers of the events in *mask*; times that only some calls have are none, unless *partly*."""
        weights = self.events if every_event else self.counted
        calls = mask & (weights > 0)
        return OpStats(
            name,
            self._per_step(calls, weights),
            self._sums(mask, self.device_ns, *((mask, np.any) if partly else (calls, np.all))),
            self._sums(mask, self.bytes, calls, np.all),
            None if self.flops is None else self._sums(mask, self.flops, mask, np.any),
        )

    def _sums(
        self,
        mask: NDArray[np.bool_],
        values: NDArray[np.int64],
        needed: NDArray[np.bool_],
        enough: Callable[[NDArray[np.bool_]], np.bool_],
    ) -> tuple[int, ...] | None:
        """Return the sums of what is known of *values*; None if of those *needed* not *enough* (all, any) are."""
        known = values != ABSENT
        if needed.any() and not enough(known[needed]):
            return None
        return self._per_step(mask & known, values)

    def _per_step(self, mask: NDArray[np.bool_], values: NDArray[np.int64]) -> tuple[int, ...]:
        sums = np.zeros(self.steps, np.int64)
        np.add.at(sums, self.step[mask], values[mask])
        return tuple(sums.tolist())


def assemble(
    parts: Sequence[tuple[OpProfile, Mapping[int, int]]],
    host_ns: Sequence[int],
    wait_ns: Sequence[int] = (),
    yardstick_ns: Sequence[int] = (),
) -> OpProfile:
    """Put a window together from what was recorded while it was open.

    Each part is a profile whose steps are intervals and a map from interval to the window's step; intervals that the
    map lacks are not the window's. *host_ns* is the wall time of each of its steps; a step beyond it was cut short.
    *wait_ns* is how long each of them waited for a CPU, *yardstick_ns* how long a fixed piece of work took before it,
    where that is known.
    """
    kept = [_select(profile, steps, len(host_ns)) for profile, steps in parts]
    by_frameworks = [profile for profile in kept if profile.environment.frameworks] or kept
    recorded = [profile for profile in by_frameworks if len(profile.op)] or by_frameworks
    op_names, op_maps = _merged([profile.op_names for profile in kept])
    raw_names, raw_maps = _merged([profile.raw_names for profile in kept])
    flops = [profile.flops for profile in kept if profile.flops is not None]
    return OpProfile(
        environment=Environment.together(profile.environment for profile in recorded),
        op_names=op_names,
        raw_names=raw_names,
        op=np.concatenate([numbers[profile.op] for numbers, profile in zip(op_maps, kept)]),
        raw=np.concatenate([numbers[profile.raw] for numbers, profile in zip(raw_maps, kept)]),
        counted=np.concatenate([profile.counted for profile in kept]),
        events=np.concatenate([profile.events for profile in kept]),
        device_ns=np.concatenate([profile.device_ns for profile in kept]),
        bytes=np.concatenate([profile.bytes for profile in kept]),
        # Known only if every backend that recorded knows it: half a sum would pass a limit.
        flops=np.concatenate(flops) if all(profile.flops is not None for profile in recorded) else None,
        step=np.concatenate([profile.step for profile in kept]),
        host_ns=tuple(host_ns),
        memory=_memory_by_step(parts, len(host_ns)) if all(p.memory is not None for p in recorded) else None,
        knows=lambda name: any(profile.knows(name) for profile in kept),
        busy_ns=_busy_by_step(parts, len(host_ns)),
        on_device=together([profile.on_device for profile in kept], raw_maps, op_maps),
        wait_ns=tuple(wait_ns) if len(wait_ns) == len(host_ns) else (),
        yardstick_ns=tuple(yardstick_ns) if len(yardstick_ns) == len(host_ns) else (),
        remarks=tuple(dict.fromkeys(remark for profile in kept for remark in profile.remarks)),
        disturbed=tuple(dict.fromkeys(what for profile in kept for what in profile.disturbed)),
        unseen=tuple(dict.fromkeys(where for profile in kept for where in profile.unseen)),
    )


def joined(profiles: Sequence[OpProfile]) -> OpProfile:
    """Return the profile whose steps are those of all *profiles*, in order."""
    parts, host_ns, wait_ns, yardstick_ns = [], list[int](), list[int](), list[int]()
    for profile in profiles:
        parts.append((profile, {step: step + len(host_ns) for step in range(profile.steps)}))
        host_ns.extend(profile.host_ns)
        wait_ns.extend(profile.wait_ns)
        yardstick_ns.extend(profile.yardstick_ns)
    return assemble(parts, host_ns, wait_ns, yardstick_ns)


def _select(profile: OpProfile, steps: Mapping[int, int], number_of_steps: int) -> OpProfile:
    numbers = np.full(profile.steps, -1, np.int32)
    numbers[list(steps)] = list(steps.values())
    step = numbers[profile.step]
    kept = (step >= 0) & (step < number_of_steps)
    return OpProfile(
        environment=profile.environment,
        op_names=profile.op_names,
        raw_names=profile.raw_names,
        op=profile.op[kept],
        raw=profile.raw[kept],
        counted=profile.counted[kept],
        events=profile.events[kept],
        device_ns=profile.device_ns[kept],
        bytes=profile.bytes[kept],
        flops=None if profile.flops is None else profile.flops[kept],
        step=step[kept],
        host_ns=profile.host_ns,
        memory=profile.memory,
        knows=profile.knows,
        busy_ns=profile.busy_ns,
        on_device=profile.on_device and profile.on_device.in_steps(numbers, number_of_steps),
        remarks=tuple(_remarks_of(profile.remarks, numbers, number_of_steps)),
        disturbed=profile.disturbed,
        unseen=profile.unseen,
    )


def _remarks_of(
    remarks: Iterable[tuple[int, str]], numbers: NDArray[np.int32], number_of_steps: int
) -> Iterator[tuple[int, str]]:
    for interval, text in remarks:
        if interval == ALWAYS:
            yield ALWAYS, text
        elif 0 <= numbers[interval] < number_of_steps:
            yield int(numbers[interval]), text


def _busy_by_step(parts: Sequence[tuple[OpProfile, Mapping[int, int]]], steps: int) -> tuple[int, ...] | None:
    known = [(profile.busy_ns, numbers) for profile, numbers in parts if profile.busy_ns is not None]
    sums = [0] * steps
    for busy_ns, numbers in known:
        for interval, step in numbers.items():
            if step < steps:
                sums[step] += busy_ns[interval]
    return tuple(sums) if known else None


def _memory_by_step(parts: Sequence[tuple[OpProfile, Mapping[int, int]]], steps: int) -> tuple[MemoryUse, ...]:
    uses = [MemoryUse()] * steps
    for profile, numbers in parts:
        for interval, step in sorted(numbers.items()):
            if profile.memory is not None and step < steps:
                uses[step] = uses[step].then(profile.memory[interval])
    return tuple(uses)


def _memory_by_interval(allocations: Iterable[tuple[int, int | None]], intervals: int) -> tuple[MemoryUse, ...]:
    uses = [MemoryUse()] * intervals
    for interval, size in allocations:
        use = MemoryUse(None, 0, 1) if size is None else MemoryUse(max(size, 0), size, int(size > 0))
        uses[interval] = uses[interval].then(use)
    return tuple(uses)


def _all_known(values: Sequence[int | None]) -> tuple[int, ...] | None:
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def numbered(texts: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the distinct *texts*, and for each its index among them."""
    index = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return tuple(index), np.array([index[text] for text in texts], np.int32)


def _merged(tables: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[NDArray[np.int32]]]:
    """Return the union of the name *tables*, and for each table the new numbers of its names."""
    union, numbers = numbered([text for table in tables for text in table])
    ends = np.cumsum([len(table) for table in tables])
    return union, np.split(numbers, ends[:-1])
