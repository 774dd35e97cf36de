"""The page of saved profiles of several ranks: how they differ, and who waited for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...units import format_ns
from ...verdict.spread import FLOOR_NS, SHARE, TOTALS, Spread, Waits
from ..spread import TITLES
from .page import rendered

_OPS: Final = 1000


def html(found: Spread, ranks: Sequence[str], name: str, source: str, remarks: Sequence[str] = ()) -> str:
    """Return the page; *ranks* are what to call them, *name* is what the user calls them together."""
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
        headline=f"{ranks[lead.slowest]} takes {format_ns(lead.most_ns)} of {TITLES[first]}" if lead and first else "",
        least=lead,
        totals=[(total, TITLES[total]) for total in TOTALS if any(getattr(each, total) for each in found.totals)],
        calls=found.calls[:_OPS],
        times=found.times[:_OPS],
        waits=waits,
        share=SHARE,
        floor_ns=FLOOR_NS,
    )
