"""The measurement: `OpProfile` (columns) -> `OpStats` (one op's numbers, per step)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .. import errors
from ..errors import UsageError
from ..ops import cuda_calls, names
from ..ops.dtypes import NAMES, dtype, is_dtype
from ..ops.signature import Signature
from .columns import ABSENT, Columns, numbered
from .environment import Environment
from .kernels import Kernels, KernelStats
from .memory import IN_USE, FactSite, MemoryUse, in_use
from .moments import Moments
from .op_key import CallSite, OpKey

# In place of a step: a remark on the whole.
ALWAYS = -1
About = Literal["ops", "lines", "processes", "compilations", "leaks", "host memory"]
# The quantities with lines that `OpProfile.fact_sites` tell.
WITH_SITES = ("grad_nodes", "allocations", "program_ops", *IN_USE)
# The quantities of `OpProfile.counts` that are no sum: a step has the value of its largest interval.
OF_THE_MOST = frozenset(["temporary_memory"])


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark for the user, and its subject: missing source lines, other processes whose ops are not seen, or why
    something was compiled again.
    """

    text: str
    about: About = "ops"


@dataclass(frozen=True, slots=True)
class OpStats:
    """One op (or any selection of events) in numbers, one per step; None if the source does not know."""

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
        """Device time in the fastest step; 0 if times are unknown."""
        return min(self.device_ns, default=0) if self.device_ns else 0


# ``MatMul[float64]``, ``Cast[*->float64]``.
_OF_DTYPE = re.compile(r"(?P<op>.+)\[(?P<dtypes>[A-Za-z*][\w*?]{2,}|[\w*?]+\s*->\s*[\w*?]+)\]", re.ASCII)


def has_dtypes(name: str) -> re.Match[str] | None:
    """Return the op and the dtypes of a *name* that has some; ``aten::[ab]mm`` and ``aten::m[mul]`` have none."""
    match = _OF_DTYPE.fullmatch(name)
    is_told = match and (re.search(r"[\d*?>]", match["dtypes"]) or is_dtype(match["dtypes"]))
    return match if is_told else None


# Ops that are nothing but FLOPs.
_PRODUCTS = frozenset("MatMul MatMulGrad Einsum Conv ConvGrad ConvTranspose Attention AttentionGrad".split())
# Ops whose products may be events inside them.
_RECURRENT = frozenset("LSTM LSTMGrad GRU GRUGrad RNN RNNGrad".split())


# Up to this many ops of NumPy take 30 ms, so the work of a test may be in the Python code around them: e3nn-jax lost
# the cache of a table of 2,000 ops.
_FEW_OPS = 10_000


def _knows_nothing(name: str) -> bool:
    return False


@dataclass(frozen=True, eq=False)
class OpProfile:
    """One measured window, live or read from a file; `assembly.built` makes it.

    Columns, not objects: a training step is easily 10**5 events.
    """

    environment: Environment
    keys: tuple[OpKey, ...]
    """The keys of the events, and of some that this profile lacks, because they ran beside it."""
    columns: Columns
    host_ns: tuple[int, ...]
    """Wall time of each step, ABSENT if unknown: their number is the number of steps."""
    memory: tuple[MemoryUse, ...] | None = None
    """Allocation in each step; None if it was not recorded."""
    host_memory: tuple[int, ...] | None = None
    """The bytes of the host in use at the worst moment of each step, if `memory` is that of a device."""
    knows: Callable[[str], bool] = _knows_nothing
    """Whether a raw name exists in the framework, recorded or not."""
    busy_ns: tuple[int, ...] | None = None
    """The busy time of devices in each step, overlapping ops counted once; None if unknown."""
    communication_ns: tuple[int, ...] | None = None
    """The time of collectives in each step, waiting included, which no op has; None if there were none."""
    counts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By quantity (`verdict.quantities`) the backends' counts beside the ops, in the steps where it is known."""
    left_behind: Mapping[str, int] = field(default_factory=dict)
    """The number of things that each call leaves behind, by type or kind; empty unless leaks were looked for."""
    explained: Mapping[str, str] = field(default_factory=dict)
    """By quantity of `counts`, its source in words."""
    explained_at: Mapping[str, str] = field(default_factory=dict)
    """By quantity of `counts`, the line of its source if one is known: ``engine.py:9``."""
    fact_sites: tuple[FactSite, ...] = ()
    """The source lines of quantities, in the order of time; empty if not requested."""
    on_device: Kernels | None = None
    """The input of `kernels`."""
    wait_ns: tuple[int, ...] = ()
    """The time that threads were ready to run in each step without getting a CPU; empty if unknown."""
    yardstick_ns: tuple[int, ...] = ()
    """The time of a fixed piece of work before each step; empty if not measured."""
    cpu_ns: tuple[tuple[int, int], ...] = ()
    """CPU time of the process, and of the thread of the test, in each step; empty where not measured."""
    repeated_ns: int | None = None
    """CPU time of the fastest of several later runs, in which nothing is recorded; None if there were none."""
    remarks: tuple[tuple[int, Remark], ...] = ()
    """The backend's remarks on a step, or on the whole: `ALWAYS`."""
    disturbed: tuple[str, ...] = ()
    """Other influences on the device's time, in words."""
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    """By op, why its calls were not recorded."""
    unseen: tuple[str, ...] = ()
    """Functions in which the program ran on unseen, each with the calling module and line."""
    moments: Moments | None = None
    """The times of events; None if not requested, or unknown."""
    ran_ns: tuple[tuple[int, int], ...] = ()
    """The start and end of each step, on the clock of `moments`; empty if not requested."""
    untold: tuple[str, ...] = ()
    """The frameworks without times of events, if these were requested."""

    @property
    def steps(self) -> int:
        """The number of steps (rounds); 1 for a window without steps."""
        return len(self.host_ns)

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was recorded, so that no count of it means anything."""
        return not len(self.columns)

    @property
    def shows_little(self) -> bool:
        """Whether no op ran, or few and only of NumPy: the code between them may be most of the work."""
        if self.is_empty:
            return True
        is_of_numpy = {name for name, _ in self.environment.frameworks} == {"numpy"}
        return is_of_numpy and self.total.most_calls <= _FEW_OPS

    @property
    def has_sites(self) -> bool:
        """Whether source lines were recorded."""
        return any(key.site is not None for key in self.keys)

    @property
    def op_names(self) -> tuple[str, ...]:
        """The ops, by canonical name if they have one."""
        return self._by_op[0]

    @property
    def raw_names(self) -> tuple[str, ...]:
        """The frameworks' names."""
        return self._by_raw[0]

    @cached_property
    def ops(self) -> tuple[OpStats, ...]:
        """The numbers of each op, the most expensive first."""
        stats = self._stats_of_ops()
        return tuple(sorted((s for s in stats if any(s.calls)), key=lambda s: (-s.fastest_ns, -s.most_calls, s.op)))

    @cached_property
    def total(self) -> OpStats:
        """The sums over all ops; a conversion that converted nothing is none, and took its time outside of them."""
        op_names, op = self._by_op
        is_op = np.bincount(op, self.columns.counted, len(op_names)) > 0
        return self._stats("total", is_op[op], partly=True)

    @property
    def allocations(self) -> tuple[int, ...] | None:
        """The number of allocations in each step; None if not recorded."""
        return None if self.memory is None else _all_known([use.allocations for use in self.memory])

    @property
    def peak_memory(self) -> tuple[int, ...] | None:
        """The bytes allocated at the worst moment of each step, above its beginning; None if not recorded."""
        return None if self.memory is None else _all_known([use.peak for use in self.memory])

    @property
    def held_memory(self) -> tuple[int, ...] | None:
        """The bytes allocated in each step and still held at its end; None if not recorded."""
        known = self.memory is not None and all(use.peak is not None for use in self.memory)
        return tuple(max(use.net, 0) for use in self.memory or ()) if known else None

    @property
    def wall_ns(self) -> tuple[int, ...] | None:
        """Wall time of each step; None unless it is known for all."""
        return None if ABSENT in self.host_ns else self.host_ns

    def counted(self, quantity: str) -> tuple[int, ...] | None:
        """Return a backend's count of a *quantity* in each step; None unless it is known for all."""
        known = self.counts.get(quantity)
        return None if known is None else _all_known([known.get(step) for step in range(self.steps)])

    @cached_property
    def kernels(self) -> tuple[KernelStats, ...] | None:
        """The kernels, copies and sets of devices, the most expensive first; None if none ran or they are unknown."""
        found = self.on_device and self.on_device.stats(self.keys, self.steps)
        return found or None

    @cached_property
    def launches(self) -> tuple[int, ...] | None:
        """The number of launches of kernels or graphs in each step; None if not recorded."""
        if not any(map(cuda_calls.is_launch, self.raw_names)) and not self.knows("cudaLaunchKernel"):
            return None
        return self._per_step(_events_of(self._by_raw, cuda_calls.is_launch), self.columns.events)

    def stats(self, name: str, aliases: Mapping[str, str] | None = None, known: Collection[str] = ()) -> OpStats:
        """Return the numbers of *name*: a canonical op, a raw name or a glob, optionally of some dtypes.

        A glob that matches canonical ops (``Reduce*``) means these; any other is matched against raw names. Raw names
        count every event that the profiler reports. *known* adds names that are no mistake though absent here.
        ``MatMul[float64]`` are the calls that read or write a float64, ``Cast[float32->*]`` the calls that read a
        float32; ``*`` alone is every op. They have no time: the events inside a call have dtypes of their own.

        Raises UsageError for a name that is neither in the vocabulary, nor in *known*, nor in the profile, for an
        unknown dtype, and if the dtypes of a call are unknown.
        """
        mask, every_event, of_dtype = self._asked(name, aliases, known)
        stats = self._stats(name, mask, every_event)
        return replace(stats, device_ns=None) if of_dtype else stats

    def _asked(
        self, name: str, aliases: Mapping[str, str] | None, known: Collection[str]
    ) -> tuple[NDArray[np.bool_], bool, bool]:
        """Return the result of `_events` or `_events_of_dtype`, and whether it is the latter."""
        if name not in self.op_names and name not in self.raw_names and (match := has_dtypes(name)):
            return *self._events_of_dtype(name, match["op"], match["dtypes"], aliases, known), True
        return *self._events(name, aliases, known), False

    def without_bytes(
        self, name: str | None, aliases: Mapping[str, str] | None = None, known: Collection[str] = ()
    ) -> list[str]:
        """Return the raw names of calls of *name* (None: any op) with unknown bytes, if some call has known ones."""
        columns, asked = self.columns, np.ones(len(self.columns), bool)
        every_event = False
        if name is not None:
            asked, every_event, _ = self._asked(name, aliases, known)
        unknown = asked & ((columns.events if every_event else columns.counted) > 0) & (columns.bytes == ABSENT)
        told = bool((columns.bytes != ABSENT).any())
        return sorted({self.keys[key].raw for key in np.unique(columns.key[unknown]).tolist()}) if told else []

    def why_unmeasured(self, name: str) -> str:
        """Return why the calls of an op, or of one that a glob matches, were not recorded; empty if they were."""
        return next((why for op, why in self.unmeasured.items() if fnmatchcase(op, name)), "")

    def _events(
        self, name: str, aliases: Mapping[str, str] | None, known: Collection[str]
    ) -> tuple[NDArray[np.bool_], bool]:
        """Return the events that *name* means, and whether each of them counts, not only the ones counted as ops."""
        if why := self.why_unmeasured(name):
            raise UsageError(f"{name!r} cannot be measured here: {why}")
        if any(character in name for character in "*?["):
            return self._glob(name, aliases or {}, known)
        # An op without a canonical name stands in the table under its raw name; by that name, all events count.
        if name in self.op_names and (name not in self.raw_names or name in names.canonical_ops()):
            return _events_of(self._by_op, name.__eq__), False
        if name in self.raw_names:
            return _events_of(self._by_raw, name.__eq__), True
        if not names.is_known(name, aliases) and name not in known and not self.knows(name):
            raise errors.unknown(name, {*names.canonical_ops(), *self.op_names, *self.raw_names, *known})
        return np.zeros(len(self.columns), bool), False

    def sites(
        self,
        name: str,
        aliases: Mapping[str, str] | None = None,
        known: Collection[str] = (),
        counted_only: bool = False,
    ) -> Mapping[tuple[CallSite | None, str], int]:
        """Return the calls of *name* (as for `stats`) in its worst step, by source line and by dtypes.

        They are in the order of the program. *name* may be one of `WITH_SITES`, too. The site is None if unknown.
        *counted_only*: of a raw name only the calls that are ops by themselves, as in `ops`.
        """
        if name in WITH_SITES:
            return Counter((each.site, "") for each in self._worst_of_fact(name))
        mask, weights = self._worst(name, aliases, known, counted_only)
        mask = mask & (weights > 0)
        number, first, key = np.unique(self.columns.key[mask], return_index=True, return_inverse=True)
        sums = np.bincount(key, weights[mask]).astype(np.int64).tolist()
        calls = Counter[tuple[CallSite | None, str]]()
        for index in np.argsort(first).tolist():
            of = self.keys[number[index]]
            calls[of.site, of.signature.dtypes or ""] += sums[index]
        return calls

    def work_by_site(
        self,
        name: str,
        aliases: Mapping[str, str] | None = None,
        known: Collection[str] = (),
        counted_only: bool = False,
    ) -> Mapping[CallSite | None, tuple[int | None, int | None]]:
        """Return the bytes and FLOPs of *name* in the step of `sites`, by source line; None: unknown."""
        if name in WITH_SITES:
            sizes = Counter[CallSite | None]()
            for each in self._worst_of_fact(name) if name in IN_USE else ():
                sizes[each.site] += each.size or 0
            return {at: (size, None) for at, size in sizes.items()}
        mask, weights = self._worst(name, aliases, known, counted_only)
        sites, site_of_key = numbered([key.site for key in self.keys])
        site = site_of_key[self.columns.key]
        calls = mask & (weights > 0)
        nbytes = self._by_site(site, len(sites), calls, self.columns.bytes, calls)
        flops: list[int | None] = [None] * len(sites)
        if self.columns.flops is not None:
            # FLOPs may belong to an event inside of the call.
            products = mask & (self.columns.counted > 0) & _events_of(self._by_op, _PRODUCTS.__contains__)
            flops = self._by_site(site, len(sites), mask, self.columns.flops, products)
        return {sites[index]: (nbytes[index], flops[index]) for index in np.unique(site[calls]).tolist()}

    def _worst_of_fact(self, name: str) -> Sequence[FactSite]:
        """Return the lines of one of `WITH_SITES` in its worst step."""
        steps: dict[int, list[FactSite]] = {}
        for each in self.fact_sites:
            if each.fact == ("allocations" if name in IN_USE else name):
                steps.setdefault(each.step, []).append(each)
        if name in IN_USE:
            found = (in_use(step, at_peak=name == "peak_memory") for step in steps.values())
            return max(found, key=lambda lines: sum(each.size or 0 for each in lines), default=())
        made = (
            [each for each in step if each.site and (each.size is None or each.size > 0)] for step in steps.values()
        )
        return max(made, key=len, default=())

    @staticmethod
    def _by_site(
        site: NDArray[np.int32],
        sites: int,
        mask: NDArray[np.bool_],
        values: NDArray[np.int64],
        needed: NDArray[np.bool_],
    ) -> list[int | None]:
        """Return the sum of *values* of each site; None if none is known, or one of the *needed* is not."""
        known = mask & (values != ABSENT)
        lacks = np.bincount(site[needed & (values == ABSENT)], minlength=sites) > 0
        is_known = (np.bincount(site[known], minlength=sites) > 0) & ~lacks
        sums = np.zeros(sites, np.int64)
        np.add.at(sums, site[known], values[known])
        return [number if told else None for number, told in zip(sums.tolist(), is_known.tolist())]

    def _worst(
        self, name: str, aliases: Mapping[str, str] | None, known: Collection[str], counted_only: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return the events that *name* means in the step with most calls of it, and the number of calls of each."""
        if counted_only and name in self.op_names:  # events of another op may have its name in the framework
            mask, every_event = _events_of(self._by_op, name.__eq__), False
        else:
            mask, every_event, _ = self._asked(name, aliases, known)
        weights = self.columns.events if every_event and not counted_only else self.columns.counted
        by_step = self._per_step(mask, weights)
        return (mask & (self.columns.step == by_step.index(max(by_step))) if by_step else mask), weights

    def top(self, k: int) -> tuple[OpStats, ...]:
        """Return the *k* most expensive ops by device time in their fastest step."""
        return self.ops[:k]

    @cached_property
    def _by_op(self) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The ops, and for each event the number of the one that owns it."""
        op_names, op_of_key = numbered([key.op for key in self.keys])
        return op_names, op_of_key[self.columns.key]

    @cached_property
    def _by_raw(self) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """The raw names, and for each event the number of its own."""
        raw_names, raw_of_key = numbered([key.raw for key in self.keys])
        return raw_names, raw_of_key[self.columns.key]

    @cached_property
    def calls_by_dtype(self) -> Mapping[str, Mapping[str, tuple[int, ...]]]:
        """By op and by dtypes (`Signature.dtypes`) the calls in each step, of ops with known dtypes."""
        groups, group_of_key = numbered([(key.op, key.signature.dtypes) for key in self.keys])
        sums = np.zeros((len(groups), self.steps), np.int64)
        np.add.at(sums, (group_of_key[self.columns.key], self.columns.step), self.columns.counted)
        calls: dict[str, dict[str, tuple[int, ...]]] = {}
        unknown = set[str]()
        for (op, dtypes), by_step in sorted(zip(groups, sums.tolist()), key=str):
            if any(by_step) and dtypes is None:
                unknown.add(op)
            elif any(by_step) and dtypes:
                calls.setdefault(op, {})[dtypes] = tuple(by_step)
        return {op: by_dtype for op, by_dtype in calls.items() if op not in unknown}

    def _events_of_dtype(
        self, name: str, op: str, dtypes: str, aliases: Mapping[str, str] | None, known: Collection[str]
    ) -> tuple[NDArray[np.bool_], bool]:
        """Return the events that are calls of *op* with some dtypes (``float64``, ``float32->*``), like `_events`."""
        if op == "*":  # allocating memory is no work on it
            chosen = _events_of(self._by_raw, lambda raw: names.meaning(raw).kind is not names.Kind.ALLOCATION)
            every_event = False
        else:
            chosen, every_event = self._events(op, aliases, known)
        reads, arrow, writes = (part.strip() for part in dtypes.partition("->"))
        for each in filter(None, (reads, writes)):
            if not any(fnmatchcase(dtype, _spelled(each)) for dtype in NAMES):
                raise errors.unknown(each, NAMES, "dtype")
        chosen &= (self.columns.events if every_event else self.columns.counted) > 0
        asked = np.unique(self.columns.key[chosen]).tolist()
        if unknown := sorted({self.keys[key].op for key in asked if _is_untold(self.keys[key].signature, op)}):
            frameworks = " + ".join(framework for framework, _ in self.environment.frameworks)
            raise UsageError(
                f"{name!r} cannot be counted: {frameworks} does not tell the dtypes of {', '.join(unknown[:5])}"
                f"{' and others' if len(unknown) > 5 else ''}. Name the ops that matter"
            )
        matching = [key for key in asked if _is_of(self.keys[key].signature, reads, arrow, writes)]
        return chosen & np.isin(self.columns.key, matching), every_event

    def _glob(self, pattern: str, aliases: Mapping[str, str], known: Collection[str]) -> tuple[NDArray[np.bool_], bool]:
        def matches(name: str) -> bool:
            return fnmatchcase(name, pattern)

        if any(map(matches, (*names.canonical_ops(), *aliases.values()))):
            return _events_of(self._by_op, matches), False
        if not any(map(matches, (*names.raw_names(), *aliases, *known, *self.raw_names))):
            raise UsageError(f"{pattern!r} matches no op: none of the vocabulary, and none that ran")
        return _events_of(self._by_raw, matches), True

    def _stats(self, name: str, mask: NDArray[np.bool_], every_event: bool = False, partly: bool = False) -> OpStats:
        """Return the numbers of the events in *mask*; times that only some calls have are dropped, unless *partly*."""
        columns = self.columns
        weights = columns.events if every_event else columns.counted
        calls = mask & (weights > 0)
        return OpStats(
            name,
            self._per_step(calls, weights),
            self._sums(mask, columns.device_ns, *((mask, np.any) if partly else (calls, np.all))),
            self._sums(calls, columns.bytes, calls, np.all),
            self._flops(mask),
        )

    def _stats_of_ops(self) -> list[OpStats]:
        """Return the `_stats` of each op, in one pass over the events: an op takes 10 us, not 90."""
        columns, (op_names, op) = self.columns, self._by_op
        number, steps = len(op_names), self.steps
        calls = columns.counted > 0

        def sums(rows: NDArray[np.bool_], values: NDArray[np.int64]) -> list[tuple[int, ...]]:
            found = np.zeros((number, steps), np.int64)
            np.add.at(found, (op[rows], columns.step[rows]), values[rows])
            return [*map(tuple, found.tolist())]

        def has(rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return np.bincount(op[rows], minlength=number) > 0

        def known(
            rows: NDArray[np.bool_], values: NDArray[np.int64], lacking: NDArray[np.bool_]
        ) -> list[tuple[int, ...] | None]:
            return [None if each else told for each, told in zip(lacking.tolist(), sums(rows, values))]

        timed, sized = columns.device_ns != ABSENT, columns.bytes != ABSENT
        times = known(timed, columns.device_ns, has(calls & ~timed))
        sizes = known(calls & sized, columns.bytes, has(calls & ~sized))
        flops: list[tuple[int, ...] | None] = [None] * number
        if columns.flops is not None:
            told = columns.flops != ABSENT
            is_product = np.array([name in _PRODUCTS for name in op_names], bool)
            flops = known(told, columns.flops, ~has(told) | (is_product & has(calls & ~told)))
        return [OpStats(*each) for each in zip(op_names, sums(calls, columns.counted), times, sizes, flops)]

    def _flops(self, mask: NDArray[np.bool_]) -> tuple[int, ...] | None:
        """Return the FLOPs of the events in *mask*; None if those of a product are unknown.

        Half of the FLOPs would pass a limit in silence.
        """
        flops = self.columns.flops
        if flops is None:
            return None
        told = flops != ABSENT
        products = mask & (self.columns.counted > 0) & _events_of(self._by_op, _PRODUCTS.__contains__)
        layers = [mask & _events_of(self._by_op, op.__eq__) for op in _RECURRENT.intersection(self.op_names)]
        lacks = (products & ~told).any() or any(layer.any() and not told[layer].any() for layer in layers)
        return None if lacks else self._sums(mask, flops, mask, np.any)

    def _sums(
        self,
        mask: NDArray[np.bool_],
        values: NDArray[np.int64],
        needed: NDArray[np.bool_],
        enough: Callable[[NDArray[np.bool_]], np.bool_],
    ) -> tuple[int, ...] | None:
        """Return the sums of the known *values*; None unless *enough* (all, any) of the *needed* ones are known."""
        known = values != ABSENT
        if needed.any() and not enough(known[needed]):
            return None
        return self._per_step(mask & known, values)

    def _per_step(self, mask: NDArray[np.bool_], values: NDArray[np.int64]) -> tuple[int, ...]:
        sums = np.zeros(self.steps, np.int64)
        np.add.at(sums, self.columns.step[mask], values[mask])
        return tuple(sums.tolist())


def _events_of(table: tuple[tuple[str, ...], NDArray[np.int32]], chosen: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Return a mask of the events with a *chosen* name of a *table* of names, and the number of each event's."""
    found, number = table
    return np.array([*map(chosen, found)], bool)[number]


def _spelled(dtype_or_glob: str) -> str:
    return dtype_or_glob if any(character in dtype_or_glob for character in "*?") else dtype(dtype_or_glob)


def _is_untold(signature: Signature, op: str) -> bool:
    """Return True if the dtypes of a call of *op* are unknown; for every op (``*``) lists alone do not count.

    Saved profiles of PyTorch have no dtypes of lists of tensors, but the op that made these tensors has its own.
    """
    given = signature.input_dtypes
    return signature.dtypes is None or (op != "*" and bool(given) and not any(given or ()))


def _is_of(signature: Signature, reads: str, arrow: str, writes: str) -> bool:
    """Return True if a call of the *signature* has such dtypes."""

    def has(dtypes: Sequence[str], wanted: str) -> bool:
        return any(fnmatchcase(each, _spelled(wanted)) for each in dtypes)

    if arrow:
        return has(signature.dtypes_in, reads) and has(signature.dtypes_out or signature.dtypes_in, writes)
    return has((*signature.dtypes_in, *signature.dtypes_out), reads)


def _all_known(values: Sequence[int | None]) -> tuple[int, ...] | None:
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None
