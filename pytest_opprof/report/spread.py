"""How ranks differ, as text and for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ..escaping import terminal
from ..machine.ranks import ranks_named
from ..units import format_change, format_ns, format_share, plural
from ..verdict.spread import FLOOR_NS, SHARE, TOTALS, OpCalls, Spread, Waits
from . import listing

TITLES = dict(zip(TOTALS, ("device time", "host time", "communication", "wall time")))


def text(found: Spread, ranks: Sequence[int] | Sequence[str], side: str, top: int, style: str) -> Iterator[str]:
    """Yield the lines. *ranks* are the numbers of the ranks, or what else to call the profiles; *top* ops are shown."""
    named = _naming(ranks)
    shown = [name for name in TOTALS if any(getattr(each, name) is not None for each in found.totals)]
    steps = [] if found.same_steps else ["steps"]
    rows = [
        [
            terminal(str(rank)),
            *([str(each.steps)] if steps else []),
            *("-" if (ns := getattr(each, name)) is None else format_ns(ns, 4) for name in shown),
        ]
        for rank, each in zip(ranks, found.totals)
    ]
    what = "rank" if _are_numbers(ranks) else "profile"
    yield from (plural(len(ranks), what), "")
    yield listing.tabulated([what, *steps, *(TITLES[name] for name in shown)], rows, style)
    if found.between:
        rows = [
            [
                TITLES[name],
                f"{format_ns(each.least_ns, 4)} ({named([each.fastest])})",
                format_ns(each.median_ns, 4),
                f"{format_ns(each.most_ns, 4)} ({named([each.slowest])})",
                format_change(each.least_ns, each.most_ns),
            ]
            for name, each in found.between.items()
        ]
        yield from ("", listing.tabulated(["", "min", "median", "max", "difference"], rows, style))
    yield ""
    if not found.same_steps:
        yield "the ranks have different numbers of steps, so calls and times differ by that; --steps chooses the same"
    if found.calls:
        yield f"calls differ between ranks, of {plural(len(found.calls), 'op')}:"
        yield from ("", _calls_table(found.calls[: top or None], named, style))
        yield from (*_left_out(len(found.calls), top), "")
    else:
        yield "all ranks call the same ops, each as often"
    if found.times:
        yield from _times(found, named, side, top, style)
    if isinstance(found.waits, str):
        yield from ("", found.waits)
    elif found.waits:
        yield from _waits(found.waits, what, ranks, named, style)


def _times(found: Spread, named: Callable[[Sequence[int]], str], side: str, top: int, style: str) -> Iterator[str]:
    yield (
        f"{side} times that differ by more than {format_share(SHARE)} and {format_ns(FLOOR_NS)} between ranks, of"
        f" {plural(len(found.times), 'op')}:"
    )
    rows = [
        [
            listing.short(row.op),
            f"{format_ns(row.between.least_ns)} ({named([row.between.fastest])})",
            format_ns(row.between.median_ns),
            f"{format_ns(row.between.most_ns)} ({named([row.between.slowest])})",
            format_change(row.between.least_ns, row.between.most_ns),
        ]
        for row in found.times[: top or None]
    ]
    yield from ("", listing.tabulated(["op", "min", "median", "max", "difference"], rows, style))
    yield from _left_out(len(found.times), top)


def _waits(
    waits: Waits, what: str, ranks: Sequence[object], named: Callable[[Sequence[int]], str], style: str
) -> Iterator[str]:
    numbers = range(len(ranks))
    held_up = waits.held_up_ns
    slowest = max(numbers, key=held_up.__getitem__)
    last = waits.came_last[slowest]
    yield ""
    yield f"who waited for whom, in {plural(waits.collectives, 'collective')}: " + (
        f"most for {named([slowest])}, which came last in {last}; others waited {format_ns(held_up[slowest])} for it"
        if last
        else f"none came {format_ns(FLOOR_NS)} later than the others"
    )
    yield ""
    rows = []
    for rank in numbers:
        for_whom = max(numbers, key=waits.waited_ns[rank].__getitem__)
        mostly = f"{named([for_whom])}: {format_ns(waits.waited_ns[rank][for_whom])}"
        rows.append(
            [
                terminal(str(ranks[rank])),
                format_ns(waits.taken_ns[rank]),
                format_ns(sum(waits.waited_ns[rank])),
                mostly if waits.waited_ns[rank][for_whom] else "-",
                f"{waits.came_last[rank]} of {waits.collectives}",
                format_ns(held_up[rank]),
            ]
        )
    yield listing.tabulated([what, "in collectives", "waited", "mostly for", "came last", "others waited"], rows, style)


def plain(found: Spread, ranks: Sequence[int] | Sequence[str], side: str) -> dict[str, Any]:
    """Return it for JSON; ranks are those of the numbers, in the order of *ranks*."""
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
        "waits": asdict(found.waits) if isinstance(found.waits, Waits) else None,
        **({"remark": found.waits} if isinstance(found.waits, str) else {}),
    }


def _plain(between: Any, ranks: Sequence[int] | Sequence[str]) -> dict[str, Any]:
    return {**asdict(between), "fastest": ranks[between.fastest], "slowest": ranks[between.slowest]}


def _are_numbers(ranks: Sequence[int] | Sequence[str]) -> bool:
    return all(isinstance(rank, int) for rank in ranks)


def _naming(ranks: Sequence[Any]) -> Callable[[Sequence[int]], str]:
    """Return what says a list of indices of *ranks*."""
    if _are_numbers(ranks):
        return lambda indices: ranks_named([ranks[index] for index in indices])
    return lambda indices: ", ".join(terminal(ranks[index]) for index in indices)


def _calls_table(rows: Sequence[OpCalls], named: Callable[[Sequence[int]], str], style: str) -> str:
    """Return the table; ranks that are alike in all rows are one column."""
    columns: dict[tuple[int, ...], list[int]] = {}
    for rank, calls in enumerate(zip(*(row.calls for row in rows))):
        columns.setdefault(calls, []).append(rank)
    cells = [[listing.short(row.op), *map(str, calls)] for row, calls in zip(rows, zip(*columns))]
    return listing.tabulated(["op", *map(named, columns.values())], cells, style)


def _left_out(number: int, top: int) -> list[str]:
    return [f"... and {plural(number - top, 'more op')} (-t 0 shows them)"] if 0 < top < number else []
