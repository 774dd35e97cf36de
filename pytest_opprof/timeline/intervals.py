"""Sets of times: intervals that are in order and do not touch. Whole ns, so that sums are exact."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the times that are in any of *intervals*, given in any order.

    >>> union([(5, 9), (0, 3), (2, 4), (7, 7)])
    [(0, 4), (5, 9)]
    """
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = found[-1][0], end
        elif end > start:
            found.append((start, end))
    return found


def common(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """Return the times that are in both unions.

    >>> common([(0, 4), (5, 9)], [(3, 6), (8, 20)])
    [(3, 4), (5, 6), (8, 9)]
    """
    found: list[Interval] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < end:
            found.append((start, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """Return the times of the union *one* that are not in the union *other*.

    >>> without([(0, 10)], [(2, 3), (5, 12)])
    [(0, 2), (3, 5)]
    """
    if not one:
        return []
    ends = [one[0][0], *(time for interval in other for time in interval), one[-1][1]]
    gaps = [(start, end) for start, end in zip(ends[::2], ends[1::2]) if start < end]
    return common(one, gaps)


def within(intervals: Sequence[Interval], start: int, end: int) -> list[Interval]:
    """Return the times of a union from *start* to *end*; looks at no others.

    >>> within([(0, 4), (5, 9), (12, 15)], 3, 12)
    [(3, 4), (5, 9)]
    """
    found: list[Interval] = []
    index = max(bisect_left(intervals, (start,)) - 1, 0)
    while index < len(intervals) and intervals[index][0] < end:
        first, last = max(intervals[index][0], start), min(intervals[index][1], end)
        if first < last:
            found.append((first, last))
        index += 1
    return found


def length(intervals: Iterable[Interval]) -> int:
    """Return the length of a union."""
    return sum(end - start for start, end in intervals)
