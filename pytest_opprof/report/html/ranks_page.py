"""The page of saved profiles of several ranks: how they differ, and who waited for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...units import format_change, format_ns
from ...verdict.spread import FLOOR_NS, SHARE, TOTALS, OpTimes, Spread, Waits
from ..spread import TITLES
from .page import rendered

_OPS: Final = 1000


def html(
    found: Spread,
    ranks: Sequence[str],
    name: str,
    source: str,
    remarks: Sequence[str] = (),
    without_kernels: Sequence[str] = (),
) -> str:
    """Return the page; *ranks* are their names, *name* is the user's name for all of them.

    *without_kernels* are the ranks that have no table of kernels, where others have one.
    """
    first = next((total for total in TOTALS if total in found.between), None)
    lead = found.between[first] if first else None
    waits = found.waits if isinstance(found.waits, Waits) else None
    return rendered(
        "ranks.html.j2",
        found=found,
        ranks=ranks,
        name=name,
        source=source,
        remarks=[*remarks, *([found.waits] if isinstance(found.waits, str) else [])],
        lacking=[
            *_lacking(found, ranks),
            *([f"{_some(without_kernels)} no table of kernels"] if without_kernels else []),
        ],
        headline=f"{ranks[lead.slowest]} takes {format_ns(lead.most_ns)} of {TITLES[first]}" if lead and first else "",
        least=lead,
        totals=[(total, TITLES[total]) for total in TOTALS if any(getattr(each, total) for each in found.totals)],
        calls=found.calls[:_OPS],
        times=[(row, _difference(row, ranks)) for row in found.times[:_OPS]],
        waits=waits,
        share=SHARE,
        floor_ns=FLOOR_NS,
    )


def _lacking(found: Spread, ranks: Sequence[str]) -> Iterator[str]:
    """Yield which ranks do not know a total that others know."""
    for total in TOTALS:
        without = [rank for rank, each in zip(ranks, found.totals) if getattr(each, total) is None]
        if without and len(without) < len(ranks):
            yield f"{_some(without)} no {TITLES[total]}"


def _some(ranks: Sequence[str]) -> str:
    return f"{', '.join(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _difference(row: OpTimes, ranks: Sequence[str]) -> str:
    """Return how much longer the slowest rank takes; where some do not run the op, which of them do."""
    run = [rank for rank, ns in zip(ranks, row.times_ns) if ns]
    if len(run) == len(ranks):
        return format_change(row.between.least_ns, row.between.most_ns)
    if len(run) <= len(ranks) / 2:
        return f"only on {', '.join(run)}"
    return f"not on {', '.join(rank for rank in ranks if rank not in run)}"
