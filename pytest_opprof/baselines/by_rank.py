"""Entries of a window that differ between ranks: by rank, those that are alike together (``"0"``, ``"1-3"``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from ..machine.ranks import spelled
from ..profile.op_counts import facts_in_all
from .entry import WindowBaseline

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def of_rank(entry: WindowBaseline | None, rank: int) -> WindowBaseline | None:
    """Return what *entry* keeps of a rank; None if nothing."""
    if entry is None or not entry.ranks:
        return entry
    return next((each for ranks, each in entry.ranks.items() if any(rank in part for part in numbers(ranks))), None)


def combined(entries: Sequence[WindowBaseline | None]) -> WindowBaseline | None:
    """Return one entry for those of all ranks, by their number; None where no rank has one.

    Ranks make the same calls in most tests: then it is one for all, with ranges of what else differs (the memory that
    is held at the end of a round is that of buffers which another thread is still to free). Else it is that of the
    first rank that has one, and has all of them.
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
    """Return the ranks that `spelled` wrote. Raises ValueError for other text.

    >>> numbers("0,2-4")
    [range(0, 1), range(2, 5)]
    """
    found = []
    for part in ranks.split(","):
        match = _RANGE.fullmatch(part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{ranks!r} is no list of ranks, such as '0' or '1-3'")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def problem(keys: Iterable[str], size: int) -> str:
    """Return what is wrong with the keys of a file for so many ranks; empty if nothing."""
    try:
        parts = sorted((part for ranks in keys for part in numbers(ranks)), key=lambda part: part.start)
    except ValueError as error:
        return str(error)
    if parts and parts[-1].stop > size:
        return f"rank {parts[-1].stop - 1} is none of {size}"
    for before, after in pairwise(parts):
        if after.start < before.stop:
            return f"rank {after.start} is there twice"
    return ""
