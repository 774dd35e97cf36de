"""The recording of one backend, event by event: `EventLog`, from which an `OpProfile` is made."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...ops import names
from ...ops.signature import UNKNOWN, Signature
from ...sites.chains import Chains
from ...sites.code import in_package, relative
from .. import moments
from ..columns import ABSENT, Columns, numbered
from ..environment import Environment
from ..kernels import Events, of_events
from ..memory import FactSite, MemoryUse
from ..op_key import CallSite, OpKey
from ..op_profile import ALWAYS, About, OpProfile, Remark
from .assembly import Part, built
from .attribution import NOBODY
from .trees import owners_of_trees


class _Name(NamedTuple):
    """The arguments of `EventLog.name`."""

    raw: str
    dtypes: tuple[str, ...]
    op: str
    kind: names.Kind | None
    signature: Signature

    def signature_of(self) -> Signature:
        """Return all known facts about its arguments."""
        if self.signature is not UNKNOWN or not self.dtypes:
            return self.signature
        return Signature(self.dtypes[:1], self.dtypes[1:] or None)


class EventLog:
    """The recording of one backend: an append-only builder of an OpProfile.

    The recorder calls `mark` at each beginning and end of a step or window; each event belongs to the interval between
    two marks. Names are kept raw: `freeze` alone decides their meaning.
    """

    def __init__(
        self,
        environment: Environment,
        on_mark: Callable[[], None] | None = None,
        knows: Callable[[str], bool] = lambda name: False,
        chains: Chains | None = None,
    ) -> None:
        """*on_mark* is called at each mark; *knows* returns whether a raw name exists in the framework, recorded or
        not.

        *chains* has the nodes for `asked_at`.
        """
        self.environment = environment
        self.knows = knows
        self.chains = chains
        self.interval = 0
        self.range_marks: set[int] = set()
        """The intervals that begin with a range of the user."""
        self.inside_ops: set[int] = set()
        """The ones among them that begin inside an op, if the backend can tell."""
        self.knows_flops = False
        self.knows_memory = False
        self.busy_ns: dict[int, int] | None = None
        """The busy time of devices in each interval; None if unknown."""
        self.communication_ns: dict[int, int] | None = None
        """The time of collectives in each interval, if it comes from another source than their own events."""
        self.counts: dict[str, dict[int, int]] = {}
        """By quantity (`verdict.quantities`) its amount in each interval, if known."""
        self._compiled_again = Counter[int]()
        self.on_device: Events | None = None
        """The events that are kernels, copies and sets of devices; None if unknown."""
        self.paused_ns = 0
        """The time that the window's thread waited for the backend, which is no time of the program."""
        self.disturbed: list[str] = []
        """Other influences on the device's time: throttling, or other users."""
        self.unmeasured: Mapping[str, str] = {}
        """By op, why its calls are not recorded here: a limit on it is an error."""
        self.unseen: list[str] = []
        """Functions in which the program ran on unseen, each with the calling module and line."""
        self.marked_ns: Sequence[int] | None = None
        """The start of each interval but the first, by the clock of `ran`; None if that is `time.perf_counter_ns`."""
        self._on_mark = on_mark
        self._names: dict[_Name, int] = {}
        # A list of Python's numbers takes 36 bytes an event instead of 8; a loop of JAX has 4 million.
        self._name, self._parent, self._interval, self._duration_ns, self._bytes = (array("q") for _ in range(5))
        self._flops: dict[int, int] = {}
        self._sites: dict[int, tuple[int, bool]] = {}
        self._fact_sites: list[tuple[str, int, tuple[int, bool] | None, int | None, int]] = []
        self._compiling: list[tuple[int, int]] = []
        self._memory: list[tuple[int, int | None]] = []
        self._uses: list[tuple[int, MemoryUse]] = []
        self._remarks: list[tuple[int, Remark]] = []
        self._remarks_of_packages: list[tuple[int, Remark]] = []
        self._compiled_at = ""
        """The first line of the first function of the project that was compiled again."""
        self._ran: dict[int, moments.Told] = {}

    def __len__(self) -> int:
        return len(self._name)

    def mark(self, of_range: bool = False) -> None:
        """Begin the next interval."""
        self.interval += 1
        if of_range:
            self.range_marks.add(self.interval)
        if self._on_mark:
            self._on_mark()

    def name(
        self,
        raw: str,
        dtypes: tuple[str, ...] = (),
        op: str = "",
        kind: names.Kind | None = None,
        signature: Signature = UNKNOWN,
    ) -> int:
        """Return the index to give to `add` for events called *raw*.

        *dtypes* are those of source and destination, which distinguish a cast from a copy. *signature* describes the
        arguments of such events.

        *op* is the op of *raw* if the backend knows it better than the table of names; *raw* itself makes it an op by
        itself, whatever it is elsewhere. *kind* is how such an op by itself counts.
        """
        return self._names.setdefault(_Name(raw, dtypes, op, kind, signature), len(self._names))

    def add(
        self, name: int, duration_ns: int, parent: int = -1, interval: int | None = None, nbytes: int = ABSENT
    ) -> int:
        """Append an event and return its index, to be the *parent* of the events inside it.

        *duration_ns* includes the events inside, *nbytes* are the bytes that it read and wrote; ABSENT if unknown. A
        part of its *parent* without a time of its own, as in a fused kernel, has ABSENT: it counts, the parent has the
        time.
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
        flops: NDArray[np.integer] | None = None,
        node: NDArray[np.integer] | None = None,
    ) -> None:
        """Append many events at once, one in each row of the columns; see `add`. 0.1 us an event.

        *flops* are as for `computed`, ABSENT if unknown; *node* is as for `asked_at`.
        """
        begin = len(self)
        columns = (self._name, self._duration_ns, self._parent, self._interval, self._bytes)
        for column, values in zip(columns, (name, duration_ns, parent, interval, nbytes)):
            column.frombytes(values.astype(np.int64).tobytes())
        if flops is not None:
            known = np.flatnonzero(flops != ABSENT)
            self._flops.update(zip((begin + known).tolist(), flops[known].tolist()))
        if node is not None:
            self._sites.update(zip(range(begin, len(self)), zip(node.tolist(), repeat(False))))

    def computed(self, event: int, flops: int) -> None:
        """Record the floating-point operations of *event*, including the events inside it."""
        self._flops[event] = flops

    def works_as(self, event: int, other: int) -> None:
        """Give *event* the signature of the *other* event, inside it."""
        self._name[event], self._bytes[event] = self._name[other], self._bytes[other]
        if other in self._flops:
            self._flops[event] = self._flops[other]

    def computed_nothing(self, events: Collection[int]) -> None:
        """Mark *events*, and the events inside them, as work that was not done: they have no time."""
        nothing = set(events)
        for event, parent in enumerate(self._parent):
            if event in nothing or parent in nothing:
                nothing.add(event)
                self._duration_ns[event] = ABSENT

    def asked_at(self, event: int, node: int, is_backward: bool = False) -> None:
        """Record the source line of *event*: a node of `chains`, 0 if none is the user's.

        *is_backward*: autograd called it, for the forward op of that line.
        """
        self._sites[event] = node, is_backward

    def fact_at(self, fact: str, interval: int, node: int, is_backward: bool) -> None:
        """Record the source line of a fact (``grad_nodes``, ``program_ops``), like `asked_at`."""
        self._fact_sites.append((fact, interval, (node, is_backward), None, 0))

    def compiling(self, event: int, ns: int) -> None:
        """Record that *ns* of *event* went into compiling or waiting for other ranks, which is work of no op."""
        self._compiling.append((event, ns))

    def ran(self, event: int, start_ns: int, end_ns: int, thread: str = "") -> None:
        """Record the start and end of *event*, if `Options.moments` requests them; see `marked_ns`.

        *thread* names the host's thread; empty for the window's own. An event in `on_device` ran there.
        """
        self._ran[event] = start_ns, end_ns, thread

    def allocated(
        self, size: int | None, interval: int | None = None, at: tuple[int, bool] | None = None, call: int = 0
    ) -> None:
        """Record an allocation of *size* bytes (freed, if negative); None if the size is unknown.

        *at* is its source line, as for `asked_at`, and *call* the number of the framework's call that allocates or
        frees; 0 if the program does, or if it is unknown.
        """
        interval = self.interval if interval is None else interval
        self._memory.append((interval, size))
        if self.chains is not None:
            self._fact_sites.append(("allocations", interval, at, size, call))

    def used(self, use: MemoryUse, interval: int) -> None:
        """Record the allocations of an *interval* as a whole, if single ones are unknown."""
        self._uses.append((interval, use))

    def forget_sizes(self) -> None:
        """Forget the sizes of allocations, not their number: the size in use depends on when another thread frees
        them.
        """
        self._memory = [(interval, None) for interval, size in self._memory if size is None or size > 0]
        self._fact_sites = [
            (fact, interval, at, None, 0)
            for fact, interval, at, size, _ in self._fact_sites
            if size is None or size > 0
        ]

    def remark(self, text: str, interval: int = ALWAYS, about: About = "ops") -> None:
        """Add a remark for the user, on one interval of several rounds, or on all."""
        self._remarks.append((interval, Remark(text, about)))

    def lacks_lines_of_threads(self) -> None:
        """Say that lines are unknown of ops in threads other than the one that opened the window."""
        why = "only the thread that opened the window is traced"
        self.remark(f"source lines of ops in other threads are unknown: {why}", about="lines")

    def compiled_again(self, why: str, at: str = "") -> None:
        """Record that a function is compiled again in this interval, and which one and why, in words.

        *at* is its file and line (``/home/me/engine.py:9``). The reasons of functions of packages come last: they are
        compiled again for the project's.
        """
        self._compiled_again[self.interval] += 1
        file, _, line = at.rpartition(":")
        if not file or in_package(file):
            self._remarks_of_packages.append((ALWAYS, Remark(why, "compilations")))
            return
        self.remark(why, about="compilations")
        self._compiled_at = self._compiled_at or f"{relative(file)}:{line}"

    def count_compiled_again(self) -> None:
        """Add their number in each interval until now to `counts`, also where there was none."""
        self.counts["recompilations"] = {each: self._compiled_again[each] for each in range(self.interval + 1)}

    def freeze(self, aliases: Mapping[str, str] | None = None, marked_ns: Sequence[int] = ()) -> OpProfile:
        """Return the profile, its steps being the intervals; *aliases* add to the vocabulary.

        *marked_ns* is the start of each interval but the first, by the clock that times steps.
        """
        raws = [names.stable(name.raw) for name in self._names]
        meanings = [_meaning(raw, name, aliases) for raw, name in zip(raws, self._names)]
        event = np.arange(len(self))
        owner = owners_of_trees(self._parent, self._name, meanings)
        counted = owner == event
        owner = np.where(owner == NOBODY, event, owner)
        device_ns, communication_ns = self._self_ns(), self.communication_ns
        kinds = [meaning.kind is names.Kind.COMMUNICATION for meaning in meanings]
        if any(kinds):
            waits = np.array(kinds, bool)[np.array(self._name, np.int64)[owner]]
            if communication_ns is None:
                communication_ns = self._sums(waits & (device_ns != ABSENT), device_ns)
            device_ns[waits] = ABSENT
        keys, key = self._keyed(raws, [meaning.op for meaning in meanings], owner)
        columns = Columns(
            key=key,
            step=np.array(self._interval, np.int32),
            counted=counted.astype(np.int64),
            events=np.ones(len(self), np.int64),
            device_ns=device_ns,
            bytes=np.array(self._bytes, np.int64),
            flops=self._owned(self._outermost_flops(), owner) if self.knows_flops else None,
        )
        on_device = None if self.on_device is None else of_events(self.on_device, columns.step, key)
        return replace(
            built(
                self.environment,
                (0,) * (self.interval + 1),
                Part(keys, columns, on_device, self._moments(columns, marked_ns)),
            ),
            memory=_memory_by_interval(self._memory, self._uses, self.interval + 1) if self.knows_memory else None,
            knows=self.knows,
            busy_ns=self._by_interval(self.busy_ns),
            communication_ns=self._by_interval(communication_ns),
            counts=self.counts,
            fact_sites=tuple(
                FactSite(fact, interval, at and CallSite(self.chains.frames(at[0]), at[1]), size, call)
                for fact, interval, at, size, call in self._fact_sites
                if self.chains is not None
            ),
            remarks=(*self._remarks, *self._remarks_of_packages),
            explained_at={"recompilations": self._compiled_at} if self._compiled_at else {},
            disturbed=tuple(self.disturbed),
            unmeasured=self.unmeasured,
            unseen=tuple(self.unseen),
        )

    def _moments(self, columns: Columns, marked_ns: Sequence[int]) -> moments.Moments | None:
        if not self._ran or not marked_ns:
            return None
        process = " + ".join(f"{name} {version}".strip() for name, version in self.environment.frameworks) or "ranges"
        found = self.on_device
        streams = {} if found is None else dict(zip(found.event.tolist(), zip(*found.place[:2].tolist())))
        told = dict(self._ran)
        for event, (parent, duration_ns) in enumerate(zip(self._parent, self._duration_ns)):
            if duration_ns == ABSENT and parent in told and event not in told and event not in streams:
                begin, _, thread = told[parent]  # a part without a time of its own, as in a fused kernel
                told[event] = begin, begin, thread
        own_ns = marked_ns if self.marked_ns is None else self.marked_ns
        later_ns = moments.later_ns(own_ns, marked_ns, self.range_marks)
        return moments.of_events(told, columns, process, streams, later_ns)

    def _keyed(
        self, raws: Sequence[str], ops: Sequence[str], owner: NDArray[np.int64]
    ) -> tuple[list[OpKey], NDArray[np.int32]]:
        """Return the keys, and that of each event, which counts as the op of its *owner*."""
        keys = [OpKey(op, raw, name.signature_of()) for raw, op, name in zip(raws, ops, self._names)]
        op_names, op_of_name = numbered(ops)
        name = np.array(self._name, np.int32)
        op = op_of_name[name[owner]]
        # Most events count as their own name means; only the others are handled one by one.
        others = np.flatnonzero(op != op_of_name[name])
        pairs, number = np.unique(name[others].astype(np.int64) * len(op_names) + op[others], return_inverse=True)
        name[others] = len(keys) + number
        for pair in pairs.tolist():
            of_name, of_owner = divmod(pair, len(op_names))
            keys.append(keys[of_name]._replace(op=op_names[of_owner]))
        return (keys, name) if self.chains is None else self._sited(keys, name)

    def _sited(self, keys: Sequence[OpKey], key: NDArray[np.int32]) -> tuple[list[OpKey], NDArray[np.int32]]:
        """Return the keys, and that of each event, split by source line."""
        assert self.chains is not None  # the caller asked
        sites, site = numbered([self._sites.get(event) for event in range(len(self))])
        pairs, number = np.unique(key.astype(np.int64) * len(sites) + site, return_inverse=True)
        found = []
        for of_key, of_site in (divmod(pair, len(sites)) for pair in pairs.tolist()):
            asked = sites[of_site]
            site_of = None if asked is None else CallSite(self.chains.frames(asked[0]), asked[1])
            found.append(keys[of_key]._replace(site=site_of))
        return found, number.astype(np.int32)

    def _self_ns(self) -> NDArray[np.int64]:
        """Return each event's duration minus the events inside it.

        Events inside an event without a time of its own are inside the one around that.
        """
        duration = np.array(self._duration_ns, np.int64)
        parent = np.array(self._parent, np.int64)
        while (untimed := (parent >= 0) & (duration[parent] == ABSENT)).any():
            parent[untimed] = parent[parent[untimed]]
        inside = np.zeros_like(duration)
        has_parent = parent >= 0
        np.add.at(inside, parent[has_parent], np.maximum(duration[has_parent], 0))
        for event, ns in self._compiling:
            inside[event] += ns
        # A profiler's rounding may make the inside longer than the outside by some ns.
        return np.where(duration == ABSENT, ABSENT, np.maximum(duration - inside, 0))

    def _by_interval(self, known: Mapping[int, int] | None) -> tuple[int, ...] | None:
        return None if known is None else tuple(map(known.get, range(self.interval + 1), repeat(0)))

    def _sums(self, chosen: NDArray[np.bool_], values: NDArray[np.int64]) -> dict[int, int]:
        """Return the sums of the *chosen* values by interval."""
        sums = np.zeros(self.interval + 1, np.int64)
        np.add.at(sums, np.array(self._interval, np.int64)[chosen], values[chosen])
        return dict(enumerate(sums.tolist()))

    def _owned(self, flops: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return FLOPs with those of parts assigned to their op, if the op has none itself."""
        parts = np.flatnonzero((flops != ABSENT) & (owner != np.arange(len(flops))))
        parts = parts[flops[owner[parts]] == ABSENT]
        flops[owner[parts]] = 0
        np.add.at(flops, owner[parts], flops[parts])
        flops[parts] = ABSENT
        return flops

    def _outermost_flops(self) -> NDArray[np.int64]:
        """Return the FLOPs of each event, without those already counted by an event around it."""
        found, parent = np.full(len(self), ABSENT, np.int64), np.array(self._parent, np.int64)
        events, is_known = np.array([*self._flops], np.int64), np.zeros(len(self), bool)
        is_known[events] = True
        around, is_inside = parent[events], np.zeros(len(events), bool)
        while (has_one := around >= 0).any():
            is_inside |= has_one & is_known[around]
            around = np.where(has_one, parent[around], NOBODY)
        found[events] = np.where(is_inside, ABSENT, np.array([*self._flops.values()], np.int64))
        return found


def _meaning(raw: str, name: _Name, aliases: Mapping[str, str] | None) -> names.Meaning:
    if raw in (aliases or {}):
        return names.meaning(raw, name.dtypes, aliases, name.signature.is_scalar)
    if name.op == raw or name.kind is not None:
        return names.Meaning(raw, name.kind or names.Kind.UNKNOWN)
    return names.meaning(name.op or raw, name.dtypes, aliases, name.signature.is_scalar)


def _memory_by_interval(
    allocations: Iterable[tuple[int, int | None]], known: Iterable[tuple[int, MemoryUse]], intervals: int
) -> tuple[MemoryUse, ...]:
    uses = [MemoryUse()] * intervals
    for interval, use in known:
        uses[interval] = uses[interval].then(use)
    for interval, size in allocations:
        use = MemoryUse(None, 0, 1) if size is None else MemoryUse(max(size, 0), size, int(size > 0))
        uses[interval] = uses[interval].then(use)
    return tuple(uses)
