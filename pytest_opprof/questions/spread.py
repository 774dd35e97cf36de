"""Compare the ranks of one run by their saved profiles: pure functions of these.

Calls are exact, so any difference is reported. Times are not: a difference below `SHARE` and `FLOOR_NS` is ignored, as
in ``opprof diff``. Events outside all steps are left out, as there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..profile.saved import OUTSIDE, Collective, SavedProfile, communicates, op_of
from . import query
from .question import Question, Side, in_step_numbers

# Of the time of the fastest rank.
SHARE = 0.1
FLOOR_NS = 20_000
# A collective of HCCL: the op, its group and its number in the group, the same on all ranks.
_HCOM = re.compile(r"hcom_(allReduce|allGather|reduceScatter|all[tT]oAll|alltoall)\w*?__(\w+?)_(\d+)_\d+")


@dataclass(frozen=True, slots=True)
class RankTotals:
    """The sums of one rank. None: its source does not know."""

    steps: int
    device_time_ns: float | None
    """Without communication."""
    host_time_ns: float | None
    communication_ns: float | None
    wall_time_ns: float | None
    """Of all its steps."""


TOTALS = ("device_time_ns", "host_time_ns", "communication_ns", "wall_time_ns")


@dataclass(frozen=True, slots=True)
class Between:
    """The range of a number over all ranks; *fastest* and *slowest* are indices of ranks."""

    least_ns: float
    median_ns: float
    most_ns: float
    fastest: int
    slowest: int


@dataclass(frozen=True, slots=True)
class OpCalls:
    """The calls of an op on each rank, in the order of ranks."""

    op: str
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpTimes:
    """The time of an op on each rank, and its range; 0 for a rank that did not run it."""

    op: str
    times_ns: tuple[float, ...]
    between: Between


@dataclass(frozen=True, slots=True)
class InSteps:
    """The times of each rank in each step."""

    steps: tuple[str, ...]
    """The label of each step."""
    total: str
    """The name of the total that is summed: one of `TOTALS`."""
    time_ns: tuple[tuple[float, ...], ...]
    """By rank, and by step."""


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate with each other."""

    kind: str
    """``tp`` or ``dp``, as the program called it; empty if unknown."""
    ranks: tuple[int, ...]
    collectives: int
    waited_ns: float
    """By all of them, together."""
    latest: int
    """The rank that the others waited for most."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Who waited for whom. The rank with the shortest time in a collective came last, and the others waited for it by
    their extra time: all end at about the same time, the assumption of HolisticTraceAnalysis for its stragglers.
    """

    collectives: int
    """The number of collectives with at least two ranks."""
    taken_ns: tuple[float, ...]
    """The time of the collectives on each rank."""
    waited_ns: tuple[Mapping[int, float], ...]
    """The time that each rank waited, by the rank that it waited for: of thousands it waits for few."""
    came_last: tuple[int, ...]
    """The number of collectives in which each rank came last, and another waited `FLOOR_NS` or more."""
    in_steps_ns: tuple[tuple[float, ...], ...]
    """The time that each rank waited in each step."""
    groups: tuple[Group, ...]
    """The groups of at least two ranks, the ones that waited longest first."""

    @property
    def held_up_ns(self) -> tuple[float, ...]:
        """The time that the others waited for each rank, together."""
        sums = [0.0] * len(self.waited_ns)
        for waited in self.waited_ns:
            for rank, ns in waited.items():
                sums[rank] += ns
        return tuple(sums)

    @property
    def told_groups(self) -> tuple[Group, ...]:
        """The groups, if there are several, or the program has a name for the only one."""
        return self.groups if len(self.groups) > 1 or self.groups[0].kind else ()

    def mostly_for(self, rank: int) -> tuple[int, float] | None:
        """Return the rank that *rank* waited for most, and how long; None if for none."""
        return max(self.waited_ns[rank].items(), key=lambda each: each[1], default=None)


@dataclass(frozen=True, slots=True)
class Spread:
    """What ranks have in common, and where they differ."""

    totals: tuple[RankTotals, ...]
    between: dict[str, Between]
    """By the name of a total; without totals that a rank does not know."""
    calls: tuple[OpCalls, ...]
    """Ops whose calls differ between ranks, the largest difference first."""
    times: tuple[OpTimes, ...]
    """Ops that take notably longer on some rank, the largest difference first; no communication, which is waiting."""
    waits: Waits | str | None
    """Who waited for whom, or why that is unknown; None if ranks do nothing together."""
    in_steps: InSteps | None
    """None if some rank has no time, or the ranks have different numbers of steps."""

    @property
    def same_steps(self) -> bool:
        """Whether all ranks have the same number of steps; otherwise their calls and times are not comparable."""
        return len({each.steps for each in self.totals}) == 1

    @property
    def lead(self) -> str | None:
        """The name of the total by which ranks are slow: the first one that all of them know."""
        return next((total for total in TOTALS if total in self.between), None)

    @property
    def slowest_first(self) -> list[int]:
        """All ranks, the slowest first; in their order if some has no time."""
        by = [(getattr(each, self.lead) if self.lead else 0) for each in self.totals]
        return sorted(range(len(by)), key=lambda rank: -by[rank])

    @property
    def latest_first(self) -> list[int]:
        """All ranks, the one that others waited for most first; empty if that is unknown."""
        held_up = self.waits.held_up_ns if isinstance(self.waits, Waits) else ()
        return sorted(range(len(held_up)), key=lambda rank: -held_up[rank])


def spread(ranks: Sequence[SavedProfile], side: Side = "device") -> Spread:
    """Compare at least two *ranks*: their totals, their calls of ops and the times of one *side*."""
    ranks = [_in_steps(saved) for saved in ranks]
    totals = tuple(
        RankTotals(
            len(saved.steps),
            query.total(saved, "device"),
            query.total(saved, "host"),
            query.communication(saved),
            sum(saved.step_ns) if saved.step_ns else None,
        )
        for saved in ranks
    )
    known = {name: [getattr(each, name) for each in totals] for name in TOTALS}
    between = {name: _between(values) for name, values in known.items() if None not in values}
    return Spread(
        totals,
        between,
        tuple(_calls(ranks)),
        tuple(_times(ranks, side)),
        _waits([_collectives(saved) for saved in ranks], max(len(saved.steps) for saved in ranks)),
        _in_each_step(ranks, between),
    )


def _in_steps(saved: SavedProfile) -> SavedProfile:
    if len(saved.steps) > 1 and saved.steps[-1] == OUTSIDE:
        return in_step_numbers(saved, range(len(saved.steps) - 1))
    return saved


def _in_each_step(ranks: Sequence[SavedProfile], between: Mapping[str, Between]) -> InSteps | None:
    total = next((name for name in TOTALS if name in between and name != "communication_ns"), None)
    if total is None or len({len(saved.steps) for saved in ranks}) > 1:
        return None
    if total == "wall_time_ns":
        return InSteps(ranks[0].steps, total, tuple(tuple(saved.step_ns or ()) for saved in ranks))
    times = []
    for saved in ranks:
        sums = [0.0] * len(saved.steps)
        for record in saved.records:
            ns = record.device_ns if total == "device_time_ns" else record.host_ns
            if ns and not communicates(record):
                sums[record.step] += ns
        times.append(tuple(sums))
    return InSteps(ranks[0].steps, total, tuple(times))


def _between(values: Sequence[float]) -> Between:
    least, most = min(values), max(values)
    return Between(least, median(values), most, values.index(least), values.index(most))


def _calls(ranks: Sequence[SavedProfile]) -> list[OpCalls]:
    counted: list[Counter[str]] = []
    for saved in ranks:
        counter = Counter[str]()
        for record in query.as_calls(saved.records):
            counter[op_of(record)] += record.calls
        counted.append(counter)
    ops = dict.fromkeys(op for counter in counted for op in counter)
    rows = [OpCalls(op, tuple(counter[op] for counter in counted)) for op in ops]
    differing = [row for row in rows if len(set(row.calls)) > 1]
    return sorted(differing, key=lambda row: min(row.calls) - max(row.calls))


def _times(ranks: Sequence[SavedProfile], side: Side) -> list[OpTimes]:
    if not all(query.has_times(saved, side) for saved in ranks):
        return []
    question = Question(side=side, aggregate_by="op")
    by_rank = [
        {line.op or "": line.time_ns or 0 for line in query.answer(saved, question) if not line.communication}
        for saved in ranks
    ]
    found = []
    for op in dict.fromkeys(op for times in by_rank for op in times):
        times_ns = tuple(times.get(op, 0) for times in by_rank)
        between = _between(times_ns)
        if between.most_ns - between.least_ns > max(SHARE * between.least_ns, FLOOR_NS):
            found.append(OpTimes(op, times_ns, between))
    return sorted(found, key=lambda row: row.between.least_ns - row.between.most_ns)


def _collectives(saved: SavedProfile) -> Sequence[Collective]:
    if saved.collectives:
        return saved.collectives
    found = [(match, record) for record in saved.records if (match := _HCOM.fullmatch(record.name))]
    return [
        Collective(match[1], match[2], record.step, record.device_ns)
        for match, record in sorted(found, key=lambda each: (each[1].step, int(each[0][3])))
        if record.device_ns is not None
    ]


def _waits(ranks: Sequence[Sequence[Collective]], steps: int) -> Waits | str | None:
    """Return who waited for whom in the collectives of *ranks*; within a group they match by order."""
    groups: defaultdict[str | None, dict[int, list[Collective]]] = defaultdict(dict)
    for rank, done in enumerate(ranks):
        for each in done:
            groups[each.group].setdefault(rank, []).append(each)
    together = [members for members in groups.values() if len(members) > 1]
    if not together:
        return None
    if None in groups:
        return "the profiles do not record which ranks communicate, so it is unknown who waited for whom"
    if any(
        len({tuple((each.op, each.step) for each in done) for done in members.values()}) > 1 for members in together
    ):
        return (
            "the profiles do not hold the same collectives, so it is unknown who waited for whom; record the same"
            " whole steps on all ranks"
        )
    number, taken, last = 0, [0.0] * len(ranks), [0] * len(ranks)
    waited: list[defaultdict[int, float]] = [defaultdict(float) for _ in ranks]
    in_steps = [[0.0] * steps for _ in ranks]
    found: list[Group] = []
    for members in together:
        held_up = dict.fromkeys(members, 0.0)
        for one in zip(*members.values()):
            times = {rank: each.duration_ns for rank, each in zip(members, one)}
            latest = min(times, key=times.__getitem__)
            number += 1
            last[latest] += max(times.values()) - times[latest] >= FLOOR_NS
            for rank, ns in times.items():
                taken[rank] += ns
                if ns > times[latest]:
                    waited[rank][latest] += ns - times[latest]
                    in_steps[rank][one[0].step] += ns - times[latest]
                    held_up[latest] += ns - times[latest]
        first = next(iter(members.values()))
        worst = max(held_up, key=held_up.__getitem__)
        found.append(Group(first[0].kind, tuple(members), len(first), sum(held_up.values()), worst))
    return Waits(
        number,
        tuple(taken),
        tuple(map(dict, waited)),
        tuple(last),
        tuple(map(tuple, in_steps)),
        tuple(sorted(found, key=lambda group: -group.waited_ns)),
    )
