"""Handle a call without a duration (a blank cell, N/A, NaN, null, or no field at all): one rule for all readers.

A missing duration is not zero: a sum without it is too small, and a limit on time would pass. It is therefore an error.
With ``--partial`` the call is counted without a time, and a remark says so. An event of a timeline is left out, because
without its end its contents are unknown.
"""

from __future__ import annotations

from typing import Protocol

from ...errors import TraceError
from .place import Place


class Timed(Protocol):
    """An event of a timeline; times are us, NaN if missing."""

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
        """Note *count* calls; *where* is the place of the first. Raises TraceError unless the profile is read in
        part.
        """
        if not self._partial:
            what = "leaves it out" if left_out else "counts the call without a time"
            raise TraceError(
                f"{place}: a duration is missing or not a number: {where}. No sum would be right without it: record it"
                f" again. --partial {what}"
            )
        what = "left out" if left_out else "counted, in no sum"
        self._first = self._first or f"{what}; the first: {where} of {place.path.name}"
        self._count += count

    def lacks(self, place: Place, event: Timed, matters: object) -> bool:
        """Return True if an event has no time, and note it if it *matters*. Raises TraceError like `add`."""
        if event.dur == event.dur and event.ts == event.ts:
            return False
        if matters:
            self.add(place, f"{event.name[:80]!r} at {event.ts} us", left_out=True)
        return True

    def remarks(self) -> list[str]:
        """Return the remark on all noted calls, if there are any."""
        return [f"{self._count} durations are missing or not numbers: {self._first}"] if self._count else []
