"""Ops inside ops: the one tree of PyTorch's events, without the annotations around some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ops.names import Meaning
from ...profile.events.attribution import NOBODY, owners


def ops_inside(parents: Iterable[int], are_ops: Iterable[bool]) -> tuple[list[int], list[int]]:
    """Return the number of each event among the ops, and the op around each op.

    An event that is no op has the number of the op around it, `NOBODY` for none. Each event comes before those inside.

    >>> ops_inside([-1, 0, 1], [True, False, True])
    ([0, 0, 1], [-1, 0])
    """
    numbers, around = list[int](), list[int]()
    for parent, is_op in zip(parents, are_ops):
        number = NOBODY if parent == NOBODY else numbers[parent]
        if is_op:
            around.append(number)
            number = len(around) - 1
        numbers.append(number)
    return numbers, around


def owners_of(parents: Sequence[int], meanings: Sequence[Meaning | None]) -> list[int]:
    """Return the event that each event counts as: `attribution.owners`, among events some of which are no ops.

    An event without a meaning is not an op: it owns itself, and changes nothing for the events inside.
    """
    numbers, around = ops_inside(parents, [meaning is not None for meaning in meanings])
    ops = [event for event, meaning in enumerate(meanings) if meaning is not None]
    # The rule is applied once to each pair of meanings, because there are few.
    alike: dict[Meaning, int] = {}
    kinds = [alike.setdefault(meaning, len(alike)) for meaning in meanings if meaning is not None]
    owned = owners(around, kinds, list(alike))
    result = list(range(len(meanings)))
    for event in ops:
        owner = owned[numbers[event]]
        result[event] = NOBODY if owner == NOBODY else ops[owner]
    return result
