"""Events of threads to ops: which is inside which (by time), their self times, and which op each one counts as.

A profile of 10**6 events repeats a few trees of calls: `aten::linear` > `aten::t`, `aten::addmm`, again and again. What
counts as what in a tree is decided once (`attribution.owners`); its occurrences are only added up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import add

from ..attribution import NOBODY, owners
from ..names import Meaning
from .rows import Rows, packed

_NEVER = 1 << 65
"""After every end: starts and durations have 64 bits."""


def _in_order(thread: Rows) -> Iterable[tuple[int, int, int]]:
    """Return (start, duration, call) of the events in order of time, each before those inside it.

    Serials grow with time: they order what starts in the same microsecond.
    """
    columns = thread.columns()
    starts, (durations, serials, calls) = columns[0].tolist(), columns[1:]
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
    """Which of them each counts as (`attribution.owners`); itself where it is no op."""
    nothing: set[int]
    """Those that are no op."""
    repeats: dict[int, int]
    """Events that are the only one inside one of their own name, and that one: PyTorch takes both for one call."""
    first_ns: list[int]
    """When each began the first time."""
    occurrences: array[int]
    """The self times of each event in one occurrence after the other."""

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

    starts: Sequence[int]
    ends: Sequence[int]
    trees: Sequence[Tree]
    """One for each outermost call."""
    roots: Sequence[int]
    """The indices of those."""
    first: Sequence[int]
    """When they began."""
    compiled: Sequence[tuple[int, int]]
    """When the thread compiled: begins and ends, in order."""

    def compiles(self, time: int) -> bool:
        """Tell whether the thread compiled at *time*."""
        last = bisect_right(self.compiled, (time, _NEVER)) - 1
        return last >= 0 and time < self.compiled[last][1]

    def innermost(self, start: int, end: int) -> tuple[Tree, int] | None:
        """Return the innermost call that ran from *start* to *end*, else at *start*: its tree and index in it."""
        place = bisect_right(self.first, start) - 1
        if place < 0:
            return None
        tree, root = self.trees[place], self.roots[place]
        last = bisect_right(self.starts, start, root, root + len(tree.calls)) - 1
        for moment in (end, start):
            event = last - root
            while event >= 0 and self.ends[root + event] < moment:
                event = tree.parents[event]
            if event >= 0:
                return tree, event
        return None


class Forest:
    """The trees of all threads. Filled by `grow`, one thread after the other."""

    def __init__(
        self,
        meanings: Sequence[Meaning | None],
        names: Sequence[str],
        steps: Sequence[int],
        compilers: Collection[int],
        left_out: Collection[int],
    ) -> None:
        """*meanings* and raw *names* of each call; one without a meaning is an annotation, no op.

        *steps* are the times at which they begin; what lies before the first belongs to it. *compilers* are the calls
        that compile: what is inside those is left out, but for those of them that are ops. Calls that are *left_out*
        are as if they were not there.
        """
        self.trees: dict[tuple[int, ...], Tree] = {}
        self._meanings = meanings
        self._names = names
        self._later_steps = [*steps[1:], _NEVER]
        self._compilers = compilers
        self._left_out = left_out

    def grow(self, thread: Rows) -> Spans:
        """Add the calls of a thread: its rows are start, duration, serial and index of the call.

        An event is inside the one that runs when it begins and does not end before it.
        """
        starts: list[int] = []
        ends: list[int] = []
        roots: list[int] = []
        first: list[int] = []
        trees: list[Tree] = []
        occurrences: dict[Tree, list[int]] = defaultdict(list)
        is_annotation = [meaning is None for meaning in self._meanings]
        # The innermost event: when it ends, and its index in the tree; -1 outside of all.
        until, node = _NEVER, -1
        root = step = 0
        key: list[int] = []
        self_ns: list[int] = []
        compiled: list[tuple[int, int]] = []
        events = _in_order(thread)
        if self._compilers or self._left_out:
            events = self._of_program(events, compiled)
        for start, duration, call in events:
            end = start + duration
            while start >= until or end > until:
                node = key[2 * node + 2]
                until = ends[root + node] if node >= 0 else _NEVER
            if node >= 0:
                self_ns[node] -= duration
            elif is_annotation[call]:
                continue  # around a tree
            else:
                if key:
                    trees.append(tree := self._tree(key, starts, root))
                    occurrences[tree] += self_ns
                while start >= self._later_steps[step]:
                    step += 1
                root = len(starts)
                roots.append(root)
                first.append(start)
                key, self_ns = [step], []
            key += (call, node)
            node = len(self_ns)
            self_ns.append(duration)
            starts.append(start)
            ends.append(end)
            until = end
        if key:
            trees.append(tree := self._tree(key, starts, root))
            occurrences[tree] += self_ns
        for tree, own in occurrences.items():
            tree.occurrences += packed(own)
        return Spans(packed(starts), packed(ends), trees, packed(roots), packed(first), compiled)

    def _of_program(
        self, events: Iterable[tuple[int, int, int]], compiled: list[tuple[int, int]]
    ) -> Iterable[tuple[int, int, int]]:
        """Yield *events*, but not what is left out or inside one that compiles; append to *compiled* when that was."""
        until = op_until = -_NEVER
        for start, duration, call in events:
            if call in self._compilers:
                is_op = self._meanings[call] is not None
                if start >= until:
                    until = start + duration
                    compiled.append((start, until))
                elif not is_op or start < op_until:
                    continue
                op_until = start + duration if is_op else op_until
            elif start < until or call in self._left_out:
                continue
            yield start, duration, call

    def _tree(self, key: list[int], starts: list[int], root: int) -> Tree:
        """Return the tree that has the step and the (call, parent) of each event as its *key*."""
        nodes = tuple(key)
        tree = self.trees.get(nodes)
        if tree is None:
            tree = self.trees[nodes] = self._planted(key[0], key[1::2], key[2::2], starts[root:])
        return tree

    def _planted(self, step: int, calls: list[int], parents: list[int], starts: list[int]) -> Tree:
        owner = self._owners(calls, parents)
        nothing = {event for event, number in enumerate(owner) if number == NOBODY}
        owner = [event if number == NOBODY else number for event, number in enumerate(owner)]
        inside = Counter(parents)
        repeats = {
            event: parent
            for event, parent in enumerate(parents)
            if inside[parent] == 1
            and parent >= 0
            and self._names[calls[event]] == self._names[calls[parent]]
            and owner[event] != event
        }
        return Tree(step, calls, parents, owner, nothing, repeats, starts, packed([]))

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
            result[event] = NOBODY if owner == NOBODY else ops[owner]
        return result
