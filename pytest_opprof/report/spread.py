"""How ranks differ, as text and for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..machine.ranks import MANY, ranks_named
from ..questions.spread import FLOOR_NS, SHARE, TOTALS, Between, Group, OpCalls, Spread, Waits
from ..units import format_ns, format_share, plural
from .escaping import terminal
from .tables import COUNT, EXACT_TIME, NAME, OP, RELATIVE, TIME, Column, Kind, Style, Table

_ALL = "-t 0 shows them"
_NAMED = 40
"""Characters of the numbers of ranks: more are counted."""
_NAMES = 4
"""Names of profiles: more are counted."""
_COUNTS = 2
"""Counts of an op that are listed beside the most frequent one."""
TITLES = dict(zip(TOTALS, ("device time", "host time", "communication", "wall time")))


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks that are compared: their numbers, or the names of profiles without."""

    names: Sequence[Any]

    @property
    def called(self) -> str:
        """The word for one of them."""
        return "rank" if self._are_numbers else "profile"

    @property
    def _are_numbers(self) -> bool:
        return all(isinstance(name, int) for name in self.names)

    def named(self, indices: Sequence[int]) -> str:
        """Return the ranks at *indices*, which rise: ``ranks 0-3``, ``16 ranks, 3 to 123``."""
        chosen = [self.names[index] for index in indices]
        if not self._are_numbers:
            many = len(chosen) > _NAMES
            return plural(len(chosen), self.called) if many else ", ".join(terminal(str(name)) for name in chosen)
        name = ranks_named(chosen)
        return name if len(name) <= _NAMED else f"{len(chosen)} ranks, {chosen[0]} to {chosen[-1]}"

    def time_of(self, kind: Kind) -> Kind:
        """Return the kind of a time and the rank that has it: ``1.2 ms (rank 3)``."""
        return Kind(write=lambda pair: f"{kind.write(pair[0])} ({self.named([pair[1]])})")


def text(found: Spread, names: Sequence[int] | Sequence[str], side: str, top: int, style: Style) -> Iterator[str]:
    """Yield the lines. *names* are the numbers of the ranks, or of profiles without; *top* ops are shown, 0 is all."""
    ranks = Ranks(names)
    every, are_many = range(len(names)), len(names) > MANY
    shown = slice(top or None) if are_many else slice(None)
    more = len(names) - len(every[shown])
    yield from (f"{plural(len(names), ranks.called)}{_by(found) if are_many else ''}", "")
    yield style.text(_totals(found, ranks, (found.slowest_first if are_many else every)[shown]))
    yield from style.left_out(more, ranks.called, _ALL)
    if found.between:
        rows = [[TITLES[name], *_between(each)] for name, each in found.between.items()]
        yield from ("", style.text(Table([Column(""), *_between_columns(ranks, EXACT_TIME)], rows)))
    yield ""
    if not found.same_steps:
        yield "the ranks have different numbers of steps, so calls and times differ by that; --steps chooses the same"
    if found.calls:
        yield f"{plural(len(found.calls), 'op')} with other calls on some ranks:"
        yield from ("", style.text(calls_table(found.calls[: top or None], ranks)))
        yield from (*(style.left_out(len(found.calls) - top, "op", _ALL) if top > 0 else ()), "")
    else:
        yield "all ranks call the same ops, equally often"
    if found.times:
        yield (
            f"{plural(len(found.times), 'op')} with {side} times that differ by more than {format_share(SHARE)} and"
            f" {format_ns(FLOOR_NS)} between ranks:"
        )
        rows = [[row.op, *_between(row.between)] for row in found.times[: top or None]]
        yield from ("", style.text(Table([Column("op", NAME), *_between_columns(ranks, TIME)], rows)))
        yield from style.left_out(len(found.times) - top, "op", _ALL) if top > 0 else ()
    if isinstance(found.waits, str):
        yield from ("", found.waits)
    elif found.waits:
        latest = (found.latest_first if are_many else every)[shown]
        yield from ("", _who_waited(found.waits, ranks), "", style.text(_waits(found.waits, ranks, latest)))
        yield from style.left_out(more, ranks.called, _ALL)
        if groups := found.waits.told_groups:
            yield from ("", f"{plural(len(groups), 'group')} of ranks, the longest waiting first:", "")
            yield style.text(_groups(groups[: top or None], ranks))
            yield from style.left_out(len(groups) - top, "group", _ALL) if top > 0 else ()


def _by(found: Spread) -> str:
    return f", the one with the longest {TITLES[found.lead]} first" if found.lead else ""


def _totals(found: Spread, ranks: Ranks, indices: Sequence[int]) -> Table:
    shown = [name for name in TOTALS if any(getattr(each, name) is not None for each in found.totals)]
    steps = [] if found.same_steps else [Column("steps", COUNT)]
    columns = [Column(ranks.called, OP), *steps, *(Column(TITLES[name], EXACT_TIME) for name in shown)]
    rows = [
        [ranks.names[rank], *([each.steps] if steps else []), *(getattr(each, name) for name in shown)]
        for rank in indices
        for each in [found.totals[rank]]
    ]
    return Table(columns, rows)


def _between_columns(ranks: Ranks, kind: Kind) -> list[Column]:
    of_rank = ranks.time_of(kind)
    return [Column("min", of_rank), Column("median", kind), Column("max", of_rank), Column("difference", RELATIVE)]


def _between(each: Between) -> list[Any]:
    least, most = (each.least_ns, each.fastest), (each.most_ns, each.slowest)
    return [least, each.median_ns, most, (each.least_ns, each.most_ns)]


def calls_table(rows: Sequence[OpCalls], ranks: Ranks) -> Table:
    """Return the table of calls; ranks that are alike in all rows are one column.

    More columns than `MANY` are three: the calls of most ranks, and which ranks have others.
    """
    columns: dict[tuple[int, ...], list[int]] = {}
    for rank, calls in enumerate(zip(*(row.calls for row in rows))):
        columns.setdefault(calls, []).append(rank)
    if len(columns) > MANY:
        headings = [Column("op", NAME), Column("most ranks", COUNT), Column("others")]
        return Table(headings, [[row.op, *_most_and_others(row, ranks)] for row in rows], keys=1)
    headings = [Column("op", NAME), *(Column(ranks.named(alike), COUNT) for alike in columns.values())]
    return Table(headings, [[row.op, *calls] for row, calls in zip(rows, zip(*columns))], keys=1)


def _most_and_others(row: OpCalls, ranks: Ranks) -> tuple[int, str]:
    """Return the calls on most ranks, and in words the other counts, the one of the fewest ranks first."""
    by_count: dict[int, list[int]] = {}
    for rank, count in enumerate(row.calls):
        by_count.setdefault(count, []).append(rank)
    *others, (most, _) = sorted(by_count.items(), key=lambda each: len(each[1]))
    said = [f"{count} on {ranks.named(alike)}" for count, alike in others[:_COUNTS]]
    rest = sum(len(alike) for _, alike in others[_COUNTS:])
    return most, ", ".join([*said, *([f"other counts on {plural(rest, ranks.called)}"] if rest else [])])


def _who_waited(waits: Waits, ranks: Ranks) -> str:
    held_up = waits.held_up_ns
    slowest = max(range(len(ranks.names)), key=held_up.__getitem__)
    last = waits.came_last[slowest]
    return f"who waited for whom, in {plural(waits.collectives, 'collective')}: " + (
        f"most for {ranks.named([slowest])}, which came last in {last}; others waited {format_ns(held_up[slowest])}"
        " for it"
        if last
        else f"none came {format_ns(FLOOR_NS)} later than the others"
    )


def _waits(waits: Waits, ranks: Ranks, indices: Sequence[int]) -> Table:
    columns = [
        Column(ranks.called, OP),
        Column("in collectives", TIME),
        Column("waited", TIME),
        Column("mostly for", Kind(write=lambda pair: f"{ranks.named([pair[0]])}: {format_ns(pair[1])}")),
        Column("came last", Kind(write=lambda last: f"{last} of {waits.collectives}")),
        Column("others waited", TIME),
    ]
    held_up = waits.held_up_ns
    rows = [
        [
            ranks.names[rank],
            waits.taken_ns[rank],
            sum(waits.waited_ns[rank].values()),
            waits.mostly_for(rank),
            waits.came_last[rank],
            held_up[rank],
        ]
        for rank in indices
    ]
    return Table(columns, rows)


def _groups(groups: Sequence[Group], ranks: Ranks) -> Table:
    columns = [
        Column("group", OP),
        Column("ranks", Kind(write=ranks.named)),
        Column("collectives", COUNT),
        Column("waited", TIME),
        Column("mostly for", Kind(write=lambda rank: ranks.named([rank]))),
    ]
    rows = [
        [each.kind, each.ranks, each.collectives, each.waited_ns, each.latest if each.waited_ns else None]
        for each in groups
    ]
    return Table(columns, rows)


def plain(found: Spread, ranks: Sequence[int] | Sequence[str], side: str) -> dict[str, Any]:
    """Return it for JSON; ranks are named by their numbers, in the order of *ranks*."""
    between = {name: _plain(each, ranks) for name, each in found.between.items()}
    return {
        "ranks": list(ranks),
        "totals": [{"rank": rank, **asdict(each)} for rank, each in zip(ranks, found.totals)],
        "between": between,
        "calls": [{"op": row.op, "calls": list(row.calls)} for row in found.calls],
        "times": [
            {"op": row.op, "side": side, "times_ns": list(row.times_ns), **_plain(row.between, ranks)}
            for row in found.times
        ],
        "in_steps": asdict(found.in_steps) if found.in_steps else None,
        "waits": _plain_waits(found.waits, ranks) if isinstance(found.waits, Waits) else None,
        **({"remark": found.waits} if isinstance(found.waits, str) else {}),
    }


def _plain_waits(waits: Waits, ranks: Sequence[int] | Sequence[str]) -> dict[str, Any]:
    return {
        **asdict(waits),
        "waited_ns": [{str(ranks[rank]): ns for rank, ns in waited.items()} for waited in waits.waited_ns],
        "groups": [
            {**asdict(group), "ranks": [ranks[rank] for rank in group.ranks], "latest": ranks[group.latest]}
            for group in waits.groups
        ],
    }


def _plain(between: Any, ranks: Sequence[int] | Sequence[str]) -> dict[str, Any]:
    return {**asdict(between), "fastest": ranks[between.fastest], "slowest": ranks[between.slowest]}
