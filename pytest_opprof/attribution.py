"""Who owns an event: nested events to counted ops, so that nothing counts twice and self times add up to the total.

Profilers report `aten::linear` > `aten::addmm` > `aten::copy_` as three events. One op was run, a MatMul: its event is
*counted*, the others are part of it and their self times are its. A cast inside still counts, since it is what a budget
hunts for. The rules, by `names.Kind`:

- COMPUTE inside COMPUTE, COPY or MOVE is part of it; elsewhere it counts.
- MOVE counts everywhere, except inside an op of its own name.
- COPY counts unless a COMPUTE, COPY or MOVE op needs it for its own work.
- VIEW and ALLOCATION inside any op are part of it. A VIEW that had to copy is the Copy it made.
- UNKNOWN counts under its raw name, except inside a known op or itself; what is inside counts as well.
- WRAPPER stands for the first counted op inside (a view only if there is nothing else), else it is part of the op
  around it, else an op of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from .names import Kind, Meaning

_WORKERS = (Kind.COMPUTE, Kind.COPY, Kind.MOVE)
_STANDS_FOR_INSIDE = frozenset([Kind.WRAPPER, Kind.VIEW, Kind.ALLOCATION])
_NOBODY = -1


def owners(parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning]) -> list[int]:
    """Return for each event the index of the counted event that it belongs to; a counted event owns itself.

    *parents* holds the index of the enclosing event, -1 at the top; events come before the events inside them.
    *name* holds each event's index into *meanings*. Three passes of plain list work: about 1 us an event.
    """
    hosts = _hosts(parents, name, meanings)
    first_work, first_view = _first_inside(parents, name, meanings, hosts)
    stands_for_inside = [meaning.kind in _STANDS_FOR_INSIDE for meaning in meanings]
    wrapper = [meaning.kind is Kind.WRAPPER for meaning in meanings]
    result: list[int] = []
    for event, (parent, host, work) in enumerate(zip(parents, hosts, first_work)):
        if work not in (_NOBODY, event) and stands_for_inside[name[event]]:
            owner = work
        elif host == event:
            owner = event
        elif first_view[event] != _NOBODY and wrapper[name[event]]:
            owner = first_view[event]
        elif host != _NOBODY:
            owner = result[host]
        else:
            owner = event if parent == _NOBODY else result[parent]
        result.append(owner)
    return result


def _hosts(parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning]) -> list[int]:
    """Return for each event itself if it counts, else the counted event around it, else -1."""
    decided: dict[tuple[int, int], bool] = {}
    hosts: list[int] = []
    for event, parent in enumerate(parents):
        host = hosts[parent] if parent != _NOBODY else _NOBODY
        case = (name[event], name[host] if host != _NOBODY else _NOBODY)
        counts = decided.get(case)
        if counts is None:
            inside = meanings[case[1]] if host != _NOBODY else None
            counts = decided[case] = _counts(meanings[case[0]], inside)
        hosts.append(event if counts else host)
    return hosts


def _counts(meaning: Meaning, inside: Meaning | None) -> bool:
    match meaning.kind:
        case Kind.WRAPPER | Kind.ALLOCATION:
            return False
        case Kind.MOVE:
            return inside is None or inside.op != meaning.op
        case Kind.VIEW:
            return inside is None
        case Kind.COMPUTE | Kind.COPY:
            return inside is None or inside.kind not in _WORKERS
        case Kind.UNKNOWN:
            # A function whose `.out` form runs inside it has the same name: one call.
            return inside is None or (inside.kind is Kind.UNKNOWN and inside.op != meaning.op)


def _first_inside(
    parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning], hosts: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return for each event the first counted event in its subtree (itself included): of work, and of views."""
    is_view = [meaning.kind is Kind.VIEW for meaning in meanings]
    work = [_NOBODY] * len(parents)
    view = [_NOBODY] * len(parents)
    # Backwards, so that the earliest sibling is the last to write.
    for event in range(len(parents) - 1, -1, -1):
        if hosts[event] == event:
            (view if is_view[name[event]] else work)[event] = event
        parent = parents[event]
        if parent != _NOBODY:
            if work[event] != _NOBODY:
                work[parent] = work[event]
            if view[event] != _NOBODY:
                view[parent] = view[event]
    return work, view
