"""A number in one round: minimum and maximum over all rounds, and over several processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MOST = 10**18
ALLOWED = 'a whole number from 0 to 10**18, [least, most] or {"varies": [least, most]}'


class BadRange(ValueError):
    """A *value* of JSON that is no `Range`."""

    def __init__(self, why: str, value: object) -> None:
        super().__init__(why)
        self.value = value


class Range:
    """A number in one round: minimum and maximum over all rounds. A plain class: JSON has it as `plain`."""

    __slots__ = ("least", "most", "varies")

    def __init__(self, least: int, most: int | None = None, varies: bool = False) -> None:
        self.least = least
        self.most = least if most is None else most
        self.varies = varies
        """Whether it differed from process to process, so that the range is only a sample."""

    @classmethod
    def of(cls, by_round: Sequence[int]) -> Range:
        """Return the range of the numbers of all rounds."""
        return cls(min(by_round), max(by_round))

    @classmethod
    def of_plain(cls, value: object) -> Range:
        """Parse JSON's ``4``, ``[2, 4]`` or ``{"varies": [2, 4]}``. Raises BadRange for other values."""
        varies = isinstance(value, dict) and value.keys() == {"varies"}
        bounds: Any = value["varies"] if varies and isinstance(value, dict) else value
        if type(bounds) is int and not varies:
            bounds = [bounds, bounds]
        if not isinstance(bounds, list) or len(bounds) != 2 or not all(type(each) is int for each in bounds):
            raise BadRange(f"is {value!r:.40}; allowed: {ALLOWED}", value)
        if bounds[0] > bounds[1]:
            raise BadRange(f"is {bounds}: the least comes first", value)
        if bounds[0] < 0 or bounds[1] > MOST:
            raise BadRange(f"is {value!r:.40}; allowed: {ALLOWED}", value)
        return cls(bounds[0], bounds[1], varies)

    @property
    def plain(self) -> object:
        """Its form in JSON."""
        if self.varies:
            return {"varies": [self.least, self.most]}
        return self.most if self.least == self.most else [self.least, self.most]

    @property
    def lowest(self) -> int:
        """The smallest value in the worst round that is no change."""
        return max(2 * self.least - self.most, 0) if self.varies else self.most

    @property
    def highest(self) -> int:
        """The largest value that is no change: for a varying number, as far beyond the observed range as that is wide.

        A fourth draw exceeds three others in 25 of 100 cases, and by this much in 6 (of a normal distribution).
        """
        return 2 * self.most - self.least if self.varies else self.most

    def allows(self, now: Range) -> bool:
        """Return True if *now* is no change."""
        return self.lowest <= now.most <= self.highest

    def overlaps(self, base: Range) -> bool:
        """Return True if it differs from process to process, and is in the range of *base* in one of them.

        Sizes are then drawn at random, and the same draw can be more or less than another.
        """
        return self.varies and self.least <= base.most

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return f"{self.most}" if self.least == self.most else f"{self.least}..{self.most}"

    def __repr__(self) -> str:
        return f"Range({self.least}, {self.most}{', varies=True' if self.varies else ''})"

    @property
    def _key(self) -> tuple[int, int, bool]:
        return self.least, self.most, self.varies


def joined(processes: Sequence[Range]) -> Range:
    """Return the range of all *processes*; if the worst round is not the same in each, that of the worst rounds."""
    worst = [each.most for each in processes]
    varies = min(worst) < max(worst)
    return Range(min(worst if varies else (each.least for each in processes)), max(worst), varies)
