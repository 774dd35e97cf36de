"""Find the garbage cycles that keep most memory."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from ...graphs import components
from ...machine.garbage import references, referents


class Kept(NamedTuple):
    """Cycles of one kind, such as one for each request."""

    members: Sequence[object] = ()
    """All objects that lead to each other in the heaviest of them."""
    nbytes: int = 0
    """The memory that they keep all together, without memory that cycles of other kinds keep, too."""


def heaviest(garbage: Sequence[object]) -> Kept:
    """Return the cycles in the *garbage* that keep most memory; nothing without a cycle.

    What no collector tracks counts if it was made since Python's memory is traced: the program may hold older things.
    """
    every, refers = references(garbage)
    cycles = _cycles(refers)
    sizes = _sizes([[every[at] for at in kept] for _, kept in cycles])
    kinds: dict[frozenset[object], list[int]] = {}
    for number, (members, _) in enumerate(cycles):
        kinds.setdefault(frozenset(_kind(every[at]) for at in members), []).append(number)
    if not kinds:
        return Kept()
    most = max(kinds.values(), key=lambda same: sum(sizes[number] for number in same))
    members, _ = cycles[max(most, key=sizes.__getitem__)]
    return Kept([every[at] for at in members], sum(sizes[number] for number in most))


def _sizes(cycles: Sequence[Sequence[object]]) -> list[int]:
    """Return the bytes of the things that each cycle keeps, and of all in them that no collector tracks; of data that
    several cycles keep none.
    """
    sizes = [sum(map(_size, kept)) for kept in cycles]
    keepers: dict[int, int | None] = {}
    for number, kept in enumerate(cycles):
        for each in (one for thing in kept for one in _untracked(thing)):
            if id(each) not in keepers:
                sizes[number] += _size(each)
                keepers[id(each)] = number
            elif (keeper := keepers[id(each)]) not in (None, number):
                sizes[keeper] -= _size(each)
                keepers[id(each)] = None
    return sizes


def _untracked(thing: object) -> Iterator[object]:
    """Yield the things below one that no collector tracks: no cycle, and no part of one."""
    left, seen = [thing], set[int]()
    while left:
        for each in referents(left.pop()):
            if id(each) not in seen and not gc.is_tracked(each) and tracemalloc.get_object_traceback(each):
                seen.add(id(each))
                yield each
                left.append(each)


def _cycles(refers: Mapping[int, Sequence[int]]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Return the members of each cycle, and all things that it alone keeps."""
    every = [*reversed(components(refers))]  # those that lead to others come first
    number = {at: each for each, members in enumerate(every) for at in members}
    cycles: dict[int, tuple[list[int], list[int]]] = {}
    keepers: dict[int, int | None] = {}
    """By component, the cycle that leads to it; None if several do."""
    for each, members in enumerate(every):
        following = {number[to] for at in members for to in refers[at]}
        if each in following:
            cycles[each], keepers[each] = (members, []), each
        keeper = keepers.get(each)
        if keeper is not None:
            cycles[keeper][1].extend(members)
        for one in following - {each}:
            keepers[one] = keeper if keepers.get(one, keeper) == keeper else None
    return [*cycles.values()]


def _kind(thing: object) -> object:
    """Return the code of a frame or function, else the type of a thing."""
    if isinstance(thing, FrameType):
        return thing.f_code
    return thing.__code__ if isinstance(thing, FunctionType) else type(thing)


def _size(thing: Any) -> int:
    with suppress(Exception):  # a class may have its own method for that
        return sys.getsizeof(thing)
    return 0
