"""Nest calls by time: their trees, their self times, and the op that each counts as.

A profile of 10**6 events repeats a few trees of calls: `aten::linear` > `aten::t`, `aten::addmm`, again and again. The
op of each call of a tree is decided once (`attribution.owners`); the times of its occurrences are only added up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import add, lt

from ....ops.names import Meaning
from ....profile.events.attribution import NOBODY
from ....profile.events.nesting import NEVER, TooDeep, innermost, nested
from ..events import COMPILING, Compiler, Role, asks
from ..tree import owners_of
from .rows import Rows, packed

# Calls in one outermost call; while it is open, each takes 0.2 KB.
MOST_INSIDE = 1_000_000
# Numbers in a list before it is packed; packed numbers take a fifth of the memory.
_MOST_UNPACKED = 1 << 12
_LARGE = 1 << 8
_ALONE = [NOBODY]


def _in_order(thread: Rows) -> Iterable[tuple[int, int, int]]:
    """Return (start, duration, call) of the events in order of time, each before the events inside it.

    Serials grow with time: they order events that start in the same microsecond.
    """
    starts, durations, serials, calls = thread.columns()
    if not _is_in_order(starts, serials):
        order = sorted(range(len(starts)), key=lambda i: (starts[i], serials[i], -durations[i], calls[i]))
        return ((starts[i], durations[i], calls[i]) for i in order)
    return zip(starts, durations, calls)


def _is_in_order(starts: array[int], serials: array[int]) -> bool:
    if all(map(lt, starts, islice(starts, 1, None))):
        return True  # the common case, in a quarter of the time
    following = zip(starts, serials, islice(starts, 1, None), islice(serials, 1, None))
    return all(start < later or (start == later and serial < next_) for start, serial, later, next_ in following)


@dataclass(eq=False)
class Tree:
    """An outermost call and the calls inside it: the *events* of the tree. It holds all its occurrences in one step."""

    step: int
    calls: Sequence[int]
    """The index of the call of each event, in order of time; each event comes before the events inside it."""
    parents: Sequence[int]
    """The event around each event; -1 for the outermost."""
    owners: Sequence[int]
    """The event that each event counts as (`attribution.owners`); itself if it is no op."""
    homes: Sequence[int]
    """The event in whose record each event is: itself; for annotations and repeats the nearest other event around."""
    nothing: set[int]
    """The events that are no op."""
    repeats: dict[int, int]
    """The event around, for an event with the same name that is alone in it: PyTorch takes both for one call."""
    first_ns: Sequence[int]
    """When each event began for the first time."""
    occurrences: array[int]
    """The self times of all events, one occurrence after the other."""
    count: int = 0
    """The number of occurrences."""
    launched: array[int] | None = None
    """The device time that each event launched, laid out like *occurrences*; None: nothing was launched."""

    def counted_call(self, event: int) -> int:
        """Return the call that an event counts as."""
        return self.calls[self.homes[self.owners[event]]]

    def took(self, event: int, occurrence: int, ns: int) -> None:
        """Subtract *ns* from the self time of an event: the time of a call that is not in the tree."""
        self.occurrences[occurrence * len(self.calls) + event] -= ns

    def launch(self, event: int, occurrence: int, ns: int) -> None:
        """Add device time to the launches of an event."""
        if self.launched is None:
            self.launched = array("q", bytes(8 * len(self.occurrences)))
        self.launched[occurrence * len(self.calls) + event] += ns

    def device_ns(self) -> list[Sequence[int]]:
        """Return the device times of each event, one for each occurrence; a home includes those of its events."""
        launched = self.launched
        if launched is None:
            return [(0,) * self.count] * len(self.calls)
        columns: list[Sequence[int]] = [launched[event :: len(self.calls)] for event in range(len(self.calls))]
        for event, home in enumerate(self.homes):
            if home != event:
                columns[home] = list(map(add, columns[home], columns[event]))
        return columns

    def self_ns(self) -> list[Sequence[int]]:
        """Return the self times of each event, one for each occurrence; the event around a repeat includes the
        repeat's.
        """
        columns: list[Sequence[int]] = [self.occurrences[event :: len(self.calls)] for event in range(len(self.calls))]
        for event, column in enumerate(columns):
            if min(column) < 0:  # by rounding, calls may take longer than the call around them
                columns[event] = [max(ns, 0) for ns in column]
        for event, around in reversed(self.repeats.items()):
            columns[around] = list(map(add, columns[around], columns[event]))
        return columns


class Spans:
    """The calls of a thread in the order of time, to find the one that ran at a time."""

    def __init__(self) -> None:
        self._starts = packed([])
        self._ends = packed([])
        self._trees: list[Tree] = []
        """The tree of each outermost call."""
        self._numbers = packed([])
        """The occurrence of its tree that each outermost call is."""
        self._roots = packed([])
        """The index of each outermost call in the columns above."""
        self._first = packed([])
        """The start time of each outermost call."""
        self.compiler = Compiler()

    def add(self, tree: Tree, starts: list[int], ends: list[int]) -> None:
        """Add an outermost call and the calls inside it: the last occurrence of *tree*."""
        self._trees.append(tree)
        self._numbers.append(tree.count - 1)
        self._roots.append(len(self._starts))
        self._first.append(starts[0])
        self._starts.fromlist(starts)
        self._ends.fromlist(ends)

    def innermost(self, start: int, end: int) -> tuple[Tree, int, int] | None:
        """Return the tree, event and occurrence of the innermost call that ran from *start* to *end*, else at *start*.

        None if there is no such call.
        """
        place = bisect_right(self._first, start) - 1
        if place < 0:
            return None
        tree, root = self._trees[place], self._roots[place]
        event = innermost(self._starts, self._ends, tree.parents, start, end, root)
        return None if event == NOBODY else (tree, event, self._numbers[place])


class Forest:
    """The trees of all threads. `grow` adds one thread after the other."""

    def __init__(
        self,
        meanings: Sequence[Meaning | None],
        names: Sequence[str],
        steps: Sequence[int],
        roles: Sequence[Role],
        left_out: Collection[int],
        comms: Collection[int] = (),
    ) -> None:
        """*meanings*, raw *names* and *roles* are those of each call. A call without a meaning is an annotation, no op.

        *steps* are the times at which steps begin; time before the first belongs to it. The work of torch.compile is
        left out, by the roles. Calls in *left_out* are removed from the trees, but not the calls inside them; so are
        *comms* inside ops that call the same collective.
        """
        self.trees: dict[tuple[int, ...] | bytes, Tree] = {}
        self._meanings = meanings
        self._names = names
        self._later_steps = [*steps[1:], NEVER]
        self._compiling = {call: role for call, role in enumerate(roles) if role in COMPILING}
        self._left_out = left_out
        self._comms = comms
        self._asks = {call for call, name in enumerate(names) if comms and asks(name)}

    def grow(self, thread: Rows, spans: Spans | None) -> None:
        """Add the calls of a thread, also to *spans*; its rows are start, duration, serial and index of the call.

        A call is inside the innermost one that runs when it begins and does not end before it.
        """
        occurrences: dict[Tree, list[int]] = defaultdict(list)
        is_annotation = [meaning is None for meaning in self._meanings]
        until = -NEVER
        step = 0
        # The latest outermost call, and the calls inside it.
        calls: list[int] = []
        starts: list[int] = []
        ends: list[int] = []

        def close() -> None:
            if ends[0] >= 1 << 63:
                raise OverflowError("a number beyond 64 bits")
            # A call alone needs no search.
            around, self_ns = nested(starts, ends) if len(ends) > 1 else (_ALONE, [ends[0] - starts[0]])
            tree = self._tree(step, calls, around, starts)
            own = occurrences[tree]
            own += self_ns
            if len(own) > _MOST_UNPACKED:
                tree.occurrences += packed(own)
                own.clear()
            if spans:
                spans.add(tree, starts, ends)

        events = _in_order(thread)
        if self._compiling or self._left_out or self._comms:
            events = self._of_program(events, spans.compiler if spans else Compiler())
        for start, duration, call in events:
            end = start + duration
            if start >= until or end > until:
                if is_annotation[call]:
                    until = -NEVER
                    continue  # an annotation around trees is in none of them
                if calls:
                    close()
                while start >= self._later_steps[step]:
                    step += 1
                calls, starts, ends = [], [], []
                until = end
            if len(calls) == MOST_INSIDE:
                raise TooDeep(f"has more than {MOST_INSIDE:,} calls in one call, which no program makes")
            calls.append(call)
            starts.append(start)
            ends.append(end)
        if calls:
            close()
        for tree, own in occurrences.items():
            tree.occurrences += packed(own)

    def _of_program(self, events: Iterable[tuple[int, int, int]], compiler: Compiler) -> Iterable[tuple[int, int, int]]:
        """Yield *events* without left-out ones and torch.compile's; report to *compiler* when that worked."""
        asked = -NEVER
        for event in events:
            start, duration, call = event
            if call in self._comms and start + duration <= asked:
                continue
            if call in self._asks:
                asked = max(asked, start + duration)
            role = self._compiling.get(call)
            if role:
                if compiler.leaves_out(start, start + duration, role):
                    continue
            elif start < compiler.until or call in self._left_out:
                continue
            yield event

    def _tree(self, step: int, calls: list[int], parents: list[int], starts: list[int]) -> Tree:
        """Return the tree of a step with these calls and parents, and count an occurrence of it."""
        key = [step, *calls, *parents]
        # A tuple of a large tree would take five times the memory.
        nodes = tuple(key) if len(key) < _LARGE else packed(key).tobytes()
        tree = self.trees.get(nodes)
        if tree is None:
            tree = self.trees[nodes] = self._planted(step, calls, parents, starts)
        tree.count += 1
        return tree

    def _planted(self, step: int, calls: list[int], parents: list[int], starts: list[int]) -> Tree:
        owner = owners_of(parents, [self._meanings[call] for call in calls])
        nothing = {event for event, number in enumerate(owner) if number == NOBODY}
        owner = [event if number == NOBODY else number for event, number in enumerate(owner)]
        inside = [0] * (len(parents) + 1)  # the last is for the parent -1
        for parent in parents:
            inside[parent] += 1
        repeats = {
            event: parent
            for event, parent in enumerate(parents)
            if inside[parent] == 1
            and parent >= 0
            and self._names[calls[event]] == self._names[calls[parent]]
            and owner[event] != event
        }
        homes: list[int] = []
        for event, (call, parent) in enumerate(zip(calls, parents)):
            homes.append(homes[parent] if self._meanings[call] is None or event in repeats else event)
        columns = packed(calls), packed(parents), packed(owner), packed(homes)
        return Tree(step, *columns, nothing, repeats, packed(starts), packed([]))
