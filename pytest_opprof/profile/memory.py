"""Allocations: how much memory is in use, and from which lines of the program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from .op_key import CallSite

# The quantities whose lines are those of allocations in use, at the peak and at the end, with their bytes.
IN_USE = ("peak_memory", "held_memory")
# Of less memory with a known line the lines of all allocations are shown instead.
_MOST_KNOWN = 0.8


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Allocation in one interval or step, in bytes above its beginning."""

    peak: int | None = 0
    """None if some allocation had an unknown size."""
    net: int = 0
    allocations: int | None = 0
    """The number of allocations; None if only the bytes are known."""

    def then(self, later: MemoryUse) -> MemoryUse:
        """Return the use of this stretch of time followed by *later*."""
        peak = None if self.peak is None or later.peak is None else max(self.peak, self.net + later.peak)
        unknown = self.allocations is None or later.allocations is None
        allocations = None if unknown else (self.allocations or 0) + (later.allocations or 0)
        return MemoryUse(peak, self.net + later.net, allocations)


class FactSite(NamedTuple):
    """The source line of one unit of a quantity: of an allocation, or of an op recorded for backward."""

    fact: str
    step: int
    site: CallSite | None
    """None if unknown, and of memory that is freed."""
    size: int | None = None
    """The bytes allocated; freed, if negative; None if unknown."""
    call: int = 0
    """The number of the framework's call that allocates or frees; 0: the program does, or it is unknown."""


def in_use(allocations: Sequence[FactSite], *, at_peak: bool) -> Sequence[FactSite]:
    """Return the *allocations* of one step in use at its peak, or at its end; none if the lines of most are unknown.

    PyTorch's list of allocations has no addresses. A call that frees memory frees what it allocated itself. Else, of
    memory of one size from several lines, any may be what is freed: after ``b = f(a); del a`` either could be left.
    """
    if any(each.size is None for each in allocations):
        return ()
    sizes = list(accumulate((each.size or 0 for each in allocations), initial=0))
    last = max(range(len(sizes)), key=sizes.__getitem__) if at_peak else len(allocations)
    live: dict[int, Counter[CallSite | None]] = {}  # by size, the allocations in use of each line
    of_call: dict[tuple[int, int], list[CallSite | None]] = {}
    for _, _, site, signed, call in allocations[:last]:
        size = abs(signed or 0)
        lines, own = live.setdefault(size, Counter()), of_call.setdefault((call, size), [])
        if signed and signed > 0:
            lines[site] += 1
            own.append(site)
            continue
        freed = own.pop() if call and own else None
        if not freed:
            if len(lines) > 1:
                lines = live[size] = Counter({None: lines.total()})
            freed = next(iter(lines), None)
        lines[freed if freed in lines else None] -= 1
        live[size] = +lines
    found = [
        FactSite("", 0, site, size)
        for size, lines in live.items()
        for site, number in lines.items()
        for _ in range(number)
    ]
    known = sum(each.size or 0 for each in found if each.site)
    return found if known >= _MOST_KNOWN * sum(each.size or 0 for each in found) else ()
