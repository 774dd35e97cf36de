"""Events of threads to ops: which is inside which (by time), their self times, and which op each one counts as.

A profile of 10**6 events repeats a few trees of calls: `aten::linear` > `aten::t`, `aten::addmm`, again and again. What
counts as what in a tree is decided once (`attribution.owners`); its occurrences are only added up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import add

from ..attribution import owners
from ..names import Meaning

_DEPTHS = 1 << 32
"""A node of a tree is its call times this plus its depth."""
_NEVER = 1 << 65
"""After every end: starts and durations have 64 bits."""


def _column() -> array[int]:
    return array("q")


@dataclass(eq=False)
class Thread:
    """What one thread did, in columns of 8 bytes an event."""

    starts: array[int] = field(default_factory=_column)
    durations: array[int] = field(default_factory=_column)
    serials: array[int] = field(default_factory=_column)
    """Numbers that grow with time: they order what starts in the same microsecond."""
    calls: array[int] = field(default_factory=_column)
    """What was called: indices into the meanings that `Forest` gets."""

    def in_order(self) -> Iterable[tuple[int, int, int]]:
        """Return (start, duration, call) of the events in order of time, each before those inside it."""
        starts, serials, durations, calls = self.starts, self.serials, self.durations, self.calls
        following = zip(starts, serials, islice(starts, 1, None), islice(serials, 1, None))
        if all(start < later or (start == later and serial < next_) for start, serial, later, next_ in following):
            return zip(starts, durations, calls)
        order = sorted(range(len(starts)), key=lambda i: (starts[i], serials[i], -durations[i], calls[i]))
        return ((starts[i], durations[i], calls[i]) for i in order)


@dataclass(eq=False)
class Tree:
    """An outermost call and all inside it; its occurrences in one step together."""

    step: int
    calls: list[int]
    """In order of time, each before those inside it."""
    parents: list[int]
    """-1 for the outermost."""
    owners: list[int]
    """Which of them each counts as (`attribution.owners`)."""
    repeats: dict[int, int]
    """Events that are the only one inside one of their own name, and that one: PyTorch takes both for one call."""
    first_ns: list[int]
    """When each began the first time."""
    occurrences: array[int] = field(default_factory=_column)
    """The self times of each event in one occurrence after the other."""

    @property
    def times(self) -> int:
        """The number of occurrences."""
        return len(self.occurrences) // len(self.calls)

    def self_ns(self) -> list[Sequence[int]]:
        """Return the self times of each event, one for each occurrence; those of repeats are in what they repeat."""
        columns: list[Sequence[int]] = [self.occurrences[event :: len(self.calls)] for event in range(len(self.calls))]
        for event, column in enumerate(columns):
            if min(column) < 0:  # a profiler's rounding may make the inside longer than the outside
                columns[event] = [max(ns, 0) for ns in column]
        for event, around in reversed(self.repeats.items()):
            columns[around] = list(map(add, columns[around], columns[event]))
        return columns


@dataclass(eq=False)
class Spans:
    """When each call of a thread ran."""

    starts: array[int] = field(default_factory=_column)
    ends: array[int] = field(default_factory=_column)
    trees: list[Tree] = field(default_factory=list)
    """One for each outermost call."""
    roots: array[int] = field(default_factory=_column)
    """The indices of those."""

    def innermost(self, start: int, end: int) -> tuple[Tree, int] | None:
        """Return the innermost call that ran from *start* to *end*, else at *start*: its tree and index in it."""
        last = bisect_right(self.starts, start) - 1
        place = bisect_right(self.roots, last) - 1
        if place < 0:
            return None
        tree, root = self.trees[place], self.roots[place]
        for moment in (end, start):
            event = last - root
            while event >= 0 and self.ends[root + event] < moment:
                event = tree.parents[event]
            if event >= 0:
                return tree, event
        return None


class Forest:
    """The trees of all threads. Filled by `grow`, one thread after the other."""

    def __init__(self, meanings: Sequence[Meaning | None], names: Sequence[str], steps: Sequence[int]) -> None:
        """*meanings* and raw *names* of each call; one without a meaning is an annotation, no op.

        *steps* are the times at which they begin; what lies before the first belongs to it.
        """
        self.trees: dict[tuple[int, ...], Tree] = {}
        self._meanings = meanings
        self._names = names
        self._later_steps = [*steps[1:], _NEVER]

    def grow(self, thread: Thread) -> Spans:
        """Add the calls of a thread. An event is inside the one that runs when it begins and does not end before it."""
        spans = Spans()
        add_start, add_end = spans.starts.append, spans.ends.append
        is_annotation = [meaning is None for meaning in self._meanings]
        # The innermost event: when it ends, and its index in the tree, -1 for an annotation around the tree. Then the
        # same of those around it.
        until, node = _NEVER, -1
        ends: list[int] = []
        nodes: list[int] = []
        key: list[int] = []
        self_ns: list[int] = []
        level = step = 0
        for start, duration, call in thread.in_order():
            end = start + duration
            while start >= until or end > until:
                until, node = ends.pop(), nodes.pop()
            ends.append(until)
            nodes.append(node)
            until = end
            if node >= 0:
                self_ns[node] -= duration
            elif is_annotation[call]:
                continue
            else:
                self._close(spans, key, self_ns)
                while start >= self._later_steps[step]:
                    step += 1
                key, self_ns, level = [step], [], len(ends)
            node = len(self_ns)
            key.append(call * _DEPTHS + len(ends) - level)
            self_ns.append(duration)
            add_start(start)
            add_end(end)
        self._close(spans, key, self_ns)
        return spans

    def _close(self, spans: Spans, key: list[int], self_ns: list[int]) -> None:
        if not key:
            return
        first = len(spans.starts) - len(self_ns)
        tree = self.trees.get(nodes := tuple(key))
        if tree is None:
            tree = self.trees[nodes] = self._tree(nodes, spans.starts[first:].tolist())
        tree.occurrences.extend(self_ns)
        spans.trees.append(tree)
        spans.roots.append(first)

    def _tree(self, key: tuple[int, ...], starts: list[int]) -> Tree:
        calls = [node // _DEPTHS for node in key[1:]]
        parents = _parents([node % _DEPTHS for node in key[1:]])
        owner = self._owners(calls, parents)
        inside = Counter(parents)
        repeats = {
            event: parent
            for event, parent in enumerate(parents)
            if inside[parent] == 1
            and parent >= 0
            and self._names[calls[event]] == self._names[calls[parent]]
            and owner[event] != event
        }
        return Tree(key[0], calls, parents, owner, repeats, starts)

    def _owners(self, calls: list[int], parents: list[int]) -> list[int]:
        """Return the owner of each call; annotations own themselves, and what is inside them is as if they were not."""
        ops = [event for event, call in enumerate(calls) if self._meanings[call] is not None]
        number = {event: index for index, event in enumerate(ops)}
        number[-1] = -1
        for event, parent in enumerate(parents):
            number.setdefault(event, number[parent])
        meanings = [meaning for call in calls if (meaning := self._meanings[call]) is not None]
        owned = owners([number[parents[event]] for event in ops], range(len(ops)), meanings)
        result = list(range(len(calls)))
        for event, owner in zip(ops, owned):
            result[event] = ops[owner]
        return result


def _parents(depths: list[int]) -> list[int]:
    around: list[int] = []
    parents: list[int] = []
    for event, depth in enumerate(depths):
        del around[depth:]
        parents.append(around[-1] if around else -1)
        around.append(event)
    return parents
