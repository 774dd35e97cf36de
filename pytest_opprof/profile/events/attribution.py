"""Decide the owner of an event: nested events become counted ops, so that nothing counts twice and self times add up.

Profilers report `aten::linear` > `aten::addmm` > `aten::copy_` as three events. One op was run, a MatMul: its event is
*counted*, the others are part of it and their self times are its. A cast inside still counts, because budgets look for
casts. The rules, by `names.Kind`:

- COMPUTE inside COMPUTE, COPY or MOVE is part of it; elsewhere it counts.
- MOVE counts everywhere, except inside an op of its own name.
- COPY counts unless a COMPUTE, COPY or MOVE op needs it for its own work.
- VIEW and ALLOCATION inside any op are part of it. A VIEW that had to copy is the Copy it made.
- UNKNOWN counts under its raw name, except inside a known op or itself; ops inside it count as well.
- WRAPPER stands for the first counted op inside (a view only if there is nothing else), else it is part of the op
  around it, else nothing: a conversion that converted nothing, a node of autograd without an op.
- GROUP stands for the first counted op inside too, but is an op if there is none, and no op around it.
- COMMUNICATION counts everywhere except inside other communication; work inside is part of it. It does not stand for
  the event around it: a node of autograd that starts it is no op.
- GRAPH counts everywhere, and the events inside count as if it were not there; an empty one is nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.names import Kind, Meaning
from ...ops.vocabulary import COMPILE

_WORKERS = (Kind.COMPUTE, Kind.COPY, Kind.MOVE, Kind.COMMUNICATION)
_AROUND = (Kind.GROUP, Kind.GRAPH)
_STANDS_FOR_INSIDE = frozenset([Kind.WRAPPER, Kind.GROUP, Kind.GRAPH, Kind.VIEW, Kind.ALLOCATION])
NOBODY = -1


def owners(parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning]) -> list[int]:
    """Return for each event the index of the counted event that it belongs to; a counted event owns itself.

    `NOBODY` owns events of no op. *parents* holds the index of the enclosing event, -1 at the top; events come before
    the events inside them. *name* holds each event's index into *meanings*. Some passes of plain list work: about 1 us
    an event, 0.2 us in a window whose events are mostly alone.
    """
    around = set(parents)
    nested = [event for event, parent in enumerate(parents) if parent != NOBODY or event in around]
    if 2 * len(nested) > len(parents):
        return _owners(parents, name, meanings)
    # An event that is alone is one as its name is.
    counts = [owner != NOBODY for owner in _owners([NOBODY] * len(meanings), range(len(meanings)), meanings)]
    result = [event if counts[number] else NOBODY for event, number in enumerate(name)]
    if nested:
        place = {event: index for index, event in enumerate(nested)}
        inside = [place.get(parents[event], NOBODY) for event in nested]
        for event, owner in zip(nested, _owners(inside, [name[event] for event in nested], meanings)):
            result[event] = NOBODY if owner == NOBODY else nested[owner]
    return result


def _owners(parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning]) -> list[int]:
    hosts = _hosts(parents, name, meanings)
    first_work, first_view = _first_inside(parents, name, meanings, hosts)
    stands_for_inside = [meaning.kind in _STANDS_FOR_INSIDE for meaning in meanings]
    stands_for_views = [meaning.kind in (Kind.WRAPPER, Kind.GROUP) for meaning in meanings]
    allocates = [meaning.kind is Kind.ALLOCATION for meaning in meanings]
    result: list[int] = []
    for event, (parent, host, work) in enumerate(zip(parents, hosts, first_work)):
        if work not in (NOBODY, event) and stands_for_inside[name[event]]:
            owner = work
        elif first_view[event] != NOBODY and stands_for_views[name[event]]:
            owner = first_view[event]
        elif host != NOBODY:
            owner = event if host == event else result[host]
        elif parent != NOBODY:
            owner = result[parent]
        else:
            owner = event if allocates[name[event]] else NOBODY
        result.append(owner)
    return result


def _hosts(parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning]) -> list[int]:
    """Return for each event itself if it counts, else the counted event around it, else -1."""
    decided: dict[tuple[int, int], bool] = {}
    hosts: list[int] = []
    empty = _empty_graphs(parents, name, meanings)
    for event, parent in enumerate(parents):
        host = hosts[parent] if parent != NOBODY else NOBODY
        case = (name[event], name[host] if host != NOBODY else NOBODY)
        counts = decided.get(case)
        if counts is None:
            inside = meanings[case[1]] if host != NOBODY else None
            counts = decided[case] = _counts(meanings[case[0]], inside)
        hosts.append(event if counts and event not in empty else host)
    return hosts


def _empty_graphs(parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning]) -> set[int]:
    """Return the graphs that ran nothing: a graph that only calls other graphs, or nothing, is a frame without
    tensors.
    """
    is_graph = [meaning.kind is Kind.GRAPH for meaning in meanings]
    if not any(is_graph):
        return set()
    is_op = [meaning.kind is not Kind.GRAPH and meaning.op != COMPILE for meaning in meanings]
    around: list[int] = []
    for event, parent in enumerate(parents):
        around.append(event if is_graph[name[event]] else around[parent] if parent != NOBODY else NOBODY)
    return set(around) - {graph for event, graph in enumerate(around) if is_op[name[event]]}


def _counts(meaning: Meaning, inside: Meaning | None) -> bool:
    match meaning.kind:
        case Kind.WRAPPER | Kind.ALLOCATION:
            return False
        case Kind.GRAPH:
            return True
        case Kind.COMMUNICATION:
            return inside is None or inside.kind is not Kind.COMMUNICATION
        case Kind.MOVE:
            return inside is None or inside.op != meaning.op
        case Kind.GROUP:
            return inside is None or inside.kind is Kind.GROUP
        case Kind.VIEW:
            return inside is None or inside.kind in _AROUND
        case Kind.COMPUTE | Kind.COPY:
            return inside is None or inside.kind not in _WORKERS
        case Kind.UNKNOWN:
            # A function whose `.out` form runs inside it has the same name: one call.
            return inside is None or (inside.kind in (Kind.UNKNOWN, *_AROUND) and inside.op != meaning.op)


def _first_inside(
    parents: Sequence[int], name: Sequence[int], meanings: Sequence[Meaning], hosts: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return for each event the first counted event in its subtree (itself included): of work, and of views."""
    is_view = [meaning.kind is Kind.VIEW for meaning in meanings]
    is_group = [meaning.kind is Kind.GROUP for meaning in meanings]
    stands = [meaning.kind is not Kind.COMMUNICATION for meaning in meanings]
    work = [NOBODY] * len(parents)
    view = [NOBODY] * len(parents)
    # Backwards, so that the earliest sibling is the last to write.
    for event in range(len(parents) - 1, -1, -1):
        if (
            hosts[event] == event
            and stands[name[event]]
            and not (is_group[name[event]] and max(work[event], view[event]) != NOBODY)
        ):
            (view if is_view[name[event]] else work)[event] = event
        parent = parents[event]
        if parent != NOBODY:
            if work[event] != NOBODY:
                work[parent] = work[event]
            if view[event] != NOBODY:
                view[parent] = view[event]
    return work, view
