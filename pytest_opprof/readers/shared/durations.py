"""A duration that is no number: a blank cell, N/A, NaN, null, or none at all. The one rule for all readers.

It is not zero, and a sum without it is too small: a limit on time would pass. So it is an error. With ``--partial`` the
call counts without a time (an event of which nobody knows what is inside it is left out), and that is said.
"""

from __future__ import annotations

from typing import Protocol

from ...errors import TraceError
from .place import Place


class Timed(Protocol):
    """An event of a timeline; times are us, NaN where there is none."""

    name: str
    ts: int | float
    dur: int | float


class Untimed:
    """The calls of a profile that have no duration."""

    def __init__(self, partial: bool) -> None:
        self._partial = partial
        self._count = 0
        self._first = ""

    def add(self, place: Place, where: str, count: int = 1, left_out: bool = False) -> None:
        """Take note of calls, *where* the first is. Raises TraceError unless the profile is read in part."""
        if not self._partial:
            what = "leaves it out" if left_out else "counts the call without a time"
            raise TraceError(
                f"{place}: a duration is missing or no number: {where}. No sum would be right without it: record it"
                f" again. --partial {what}"
            )
        what = "left out" if left_out else "counted, in no sum"
        self._first = self._first or f"{what}; the first: {where} of {place.path.name}"
        self._count += count

    def lacks(self, place: Place, event: Timed, matters: object) -> bool:
        """Tell whether an event has no time; take note of it if it *matters*."""
        if event.dur == event.dur and event.ts == event.ts:
            return False
        if matters:
            self.add(place, f"{event.name[:80]!r} at {event.ts} us", left_out=True)
        return True

    def remarks(self) -> list[str]:
        """Return what there is to say of them."""
        return [f"{self._count} durations are missing or no numbers: {self._first}"] if self._count else []
