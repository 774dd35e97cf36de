"""Entries of a window that differ between ranks: by rank, equal ones together (``"0"``, ``"1-3"``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ...machine.ranks import spelled
from ...profile.op_counts import facts_in_all
from ..entry import WindowBaseline

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def of_rank(entry: WindowBaseline | None, rank: int) -> WindowBaseline | None:
    """Return a rank's part of *entry*; None if there is none."""
    if entry is None or not entry.ranks:
        return entry
    return next((each for ranks, each in entry.ranks.items() if any(rank in part for part in numbers(ranks))), None)


def combined(entries: Sequence[WindowBaseline | None]) -> WindowBaseline | None:
    """Return one entry for all ranks, given theirs by number; None if no rank has one.

    Ranks make the same calls in most tests: there is then one entry for all, with ranges of other facts (the memory
    held at the end of a round differs, since another thread is still to free some buffers). Otherwise it is the entry
    of the first rank that has one, and contains all of them.
    """
    alike: list[tuple[list[int], list[WindowBaseline]]] = []
    for rank, entry in enumerate(entries):
        if entry is None:
            continue
        same = next((each for each in alike if each[1][0].ops == entry.ops), None)
        if same is None:
            alike.append(([rank], [entry]))
        else:
            same[0].append(rank)
            same[1].append(entry)
    found = {
        spelled(ranks): replace(those[0], times={}, ranks={}, facts=facts_in_all([each.facts for each in those]))
        for ranks, those in alike
    }
    if not found:
        return None
    first = next(iter(found.values()))
    return first if len(alike[0][0]) == len(entries) else replace(first, ranks=found)


def numbers(ranks: str) -> list[range]:
    """Parse the ranks that `spelled` wrote. Raises ValueError for other text.

    >>> numbers("0,2-4")
    [range(0, 1), range(2, 5)]
    """
    found = []
    for part in ranks.split(","):
        match = _RANGE.fullmatch(part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{ranks!r} is not a list of ranks: write '0' or '1-3'")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def problem(keys: Iterable[str], size: int) -> str:
    """Return the error in the keys of a file for *size* ranks; empty if there is none."""
    try:
        parts = sorted((part for ranks in keys for part in numbers(ranks)), key=lambda part: part.start)
    except ValueError as error:
        return str(error)
    if parts and parts[-1].stop > size:
        return f"rank {parts[-1].stop - 1} is none of {size}"
    for before, after in pairwise(parts):
        if after.start < before.stop:
            return f"rank {after.start} occurs twice"
    return ""
