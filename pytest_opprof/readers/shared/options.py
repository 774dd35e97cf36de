"""How a saved profile is to be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How a profile is to be read."""

    partial: bool = False
    """Read what is whole of a file that was cut, and say in `SavedProfile.remarks` how much is missing."""
    rank: int | None = None
    """Which rank, of a place with several."""


def as_number(value: object) -> int | None:
    """Return the number of a rank or a device, which profilers write as a number or as text; None for what is none.

    >>> as_number(2), as_number("2"), as_number(-1), as_number(True)
    (2, 2, None, None)
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        return int(value)
    return value if type(value) is int and 0 <= value < 10**9 else None
