"""The page of saved profiles of several ranks: how they differ, and who waited for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...machine.ranks import MANY
from ...questions.spread import FLOOR_NS, SHARE, TOTALS, OpTimes, Spread, Waits
from ...units import format_change, format_ns
from ..spread import TITLES, Ranks, calls_table
from . import marks
from .heat_map import HeatMap, heat_map
from .page import rendered

_OPS: Final = 1000
_OPS_OF_MANY: Final = 300
"""Of more ranks than `MANY`: the page stays below 1 MB."""
_RANKS: Final = 1000
_SHOWN: Final = 10
"""Of many ranks or groups, the slowest ones and the latest ones; the table of all is closed."""
_STEPS: Final = 100


def html(
    found: Spread,
    names: Sequence[int] | Sequence[str],
    name: str,
    source: str,
    remarks: Sequence[str] = (),
    without_kernels: Sequence[int] = (),
) -> str:
    """Return the page; *names* are the numbers of the ranks, or of profiles without; *name* is for all of them.

    *without_kernels* are the ranks, by index, that have no table of kernels, where others have one.
    """
    of = Ranks(names)
    ranks = [of.named([rank]) for rank in range(len(names))]
    are_many = len(ranks) > MANY
    lead = found.between[found.lead] if found.lead else None
    waits = found.waits if isinstance(found.waits, Waits) else None
    ops = _OPS_OF_MANY if are_many else _OPS
    return rendered(
        "ranks.html.j2",
        found=found,
        ranks=ranks,
        of=of,
        are_many=are_many,
        name=name,
        source=source,
        remarks=[*remarks, *([found.waits] if isinstance(found.waits, str) else [])],
        lacking=[
            *_lacking(found, of),
            *([f"{_some(without_kernels, of)} no table of kernels"] if without_kernels else []),
        ],
        headline=f"{ranks[lead.slowest]} takes {format_ns(lead.most_ns)} of {TITLES[found.lead]}"
        if lead and found.lead
        else "",
        least=lead,
        totals=[(total, TITLES[total]) for total in TOTALS if any(getattr(each, total) for each in found.totals)],
        heat_maps=list(_heat_maps(found, ranks)),
        slowest=found.slowest_first[:_SHOWN] if are_many else range(len(ranks)),
        latest=found.latest_first[:_SHOWN] if are_many else range(len(ranks)),
        every=found.slowest_first[:_RANKS],
        groups=waits.told_groups if waits else (),
        shown=_SHOWN,
        most_steps=_STEPS,
        calls=calls_table(found.calls[:ops], of) if are_many else found.calls[:ops],
        times=[(row, _difference(row, of)) for row in found.times[:ops]],
        waits=waits,
        share=SHARE,
        floor_ns=FLOOR_NS,
    )


def _heat_maps(found: Spread, ranks: Sequence[str]) -> Iterator[tuple[str, str, str, tuple[float, float], HeatMap]]:
    """Yield the title of each heat map, what it says, its colour, the times of its scale, and the map."""
    if found.in_steps is None:
        return
    steps = [f"step {step}" if step else "" for step in found.in_steps.steps]
    times = found.in_steps.time_ns
    least, most = (end(end(each) for each in times) for end in (min, max))
    # As in tables: what differs by less is no difference.
    scale = least, least + max(most - least, SHARE * least, FLOOR_NS)
    title = TITLES[found.in_steps.total]
    yield (
        title[0].upper() + title[1:],
        "the stronger, the longer",
        marks.SORTS["computes"][0],
        scale,
        heat_map(times, ranks, steps, scale),
    )
    if isinstance(found.waits, Waits):
        waited = found.waits.in_steps_ns
        scale = 0.0, max(FLOOR_NS, *map(max, waited))
        yield (
            "Waited in collectives",
            "the ranks that others waited for are the faintest",
            marks.SORTS["communicates"][0],
            scale,
            heat_map(waited, ranks, steps, scale),
        )


def _lacking(found: Spread, of: Ranks) -> Iterator[str]:
    """Yield which ranks do not know a total that others know."""
    for total in TOTALS:
        without = [rank for rank, each in enumerate(found.totals) if getattr(each, total) is None]
        if without and len(without) < len(found.totals):
            yield f"{_some(without, of)} no {TITLES[total]}"


def _some(ranks: Sequence[int], of: Ranks) -> str:
    return f"{of.named(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _difference(row: OpTimes, of: Ranks) -> str:
    """Return how much longer the slowest rank takes; where some do not run the op, which of them do."""
    run = [rank for rank, ns in enumerate(row.times_ns) if ns]
    if len(run) == len(row.times_ns):
        return format_change(row.between.least_ns, row.between.most_ns)
    if len(run) <= len(row.times_ns) / 2:
        return f"only on {of.named(run)}"
    return f"not on {of.named([rank for rank, ns in enumerate(row.times_ns) if not ns])}"
