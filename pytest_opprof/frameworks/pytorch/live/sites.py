"""Find the source line of an op: by marks in the profiler's own stream, and by autograd's numbers.

A line tracer sets a mark whenever the program comes to another line, so an op belongs to the last mark before it.
Nothing of PyTorch is hooked: it dispatches as ever, and its ops have the same counts. (Its own `with_stack` has no line
for operators such as ``x * 2``; dispatch modes change which ops run.) Ops run by autograd belong to the line of the
forward op with the same sequence number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from ....profile.events.event_log import EventLog

# Followed by the number of a node.
SITE = "opprof::site "
# Surrounds the ops of one autograd node, and has the sequence number of the forward op that made it.
NODE = "autograd::engine::evaluate_function: "


def marker() -> Callable[[int], None]:
    """Return a function that sets a mark for a line. A mark takes 0.6 us."""
    from torch._C._profiler import _RecordFunctionFast

    marks: dict[int, Any] = {}

    def mark(node: int) -> None:
        found = marks.get(node)
        if found is None:
            found = marks[node] = _RecordFunctionFast(f"{SITE}{node}")
        found.__enter__()
        found.__exit__(None, None, None)

    return mark


class _Node(NamedTuple):
    """A running node of autograd."""

    end_ns: int
    site: int
    is_backward: bool
    """Whether the line is that of the forward op."""
    entered: int
    """The last mark before it."""


def _here(now: int, node: _Node | None) -> tuple[int, bool]:
    """Return the line, and whether autograd works for it. Python code run by a node has lines of its own."""
    return (node.site, node.is_backward) if node is not None and node.entered == now else (now, False)


class _Autograd:
    """The forward ops of autograd's nodes."""

    def __init__(self) -> None:
        self.forward: dict[Hashable, tuple[int, bool]] = {}
        """By sequence number: the line of the last op with this number, which makes the node of that number."""

    def comes_to(self, raw: str, end_ns: int, number: Hashable, now: int, node: _Node | None) -> _Node | None:
        """Return the node in which the events inside an op run. Ops come in the order of time, in *node* or in none.

        *number* is its sequence number, None for none; *now* the last mark before it.
        """
        here = _here(now, node)
        if raw.startswith(NODE):
            # Gradient accumulation has no number: it belongs to the node around it, or to the line of backward().
            site, is_backward = self.forward.get(number, here)
            return _Node(end_ns, site, is_backward or number in self.forward, now)
        if number is not None:
            self.forward[number] = here
        return node


class _Thread:
    """The position of a thread in the program."""

    def __init__(self) -> None:
        self.now = 0
        """Its last mark; a thread without a tracer has none."""
        self.nodes: list[_Node] = []


class Sites:
    """Finds the line of each event; events of a thread come in the order of time."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._threads: defaultdict[int, _Thread] = defaultdict(_Thread)
        self._thread = self._marked = self._threads[0]
        self._autograd = _Autograd()
        self._interval: dict[Hashable, int] = {}
        """By thread and sequence number: the interval of that op."""
        self._first: _Thread | None = None
        self.lack_threads = False
        """Whether lines of events in other threads than the first are unknown."""

    def in_thread(self, number: int, marked: int | None = None) -> None:
        """Switch to another thread; a thread without marks takes its lines from the *marked* one."""
        self._thread = self._threads[number]
        self._first = self._first or self._thread
        self._marked = self._thread if marked is None else self._threads[marked]

    def comes_to(self, raw: str, start_ns: int, end_ns: int, number: Hashable = None, interval: int = 0) -> None:
        """Announce the next event; *number* is its sequence number, with the thread that counts it."""
        if raw.startswith(SITE):
            self._thread.now = int(raw[len(SITE) :])
            return
        nodes = self._running(start_ns)
        around = nodes[-1] if nodes else None
        node = self._autograd.comes_to(raw, end_ns, number, self._marked.now, around)
        if node is not None and node is not around:
            nodes.append(node)
        elif number is not None:
            self._interval[number] = interval

    def at(self, start_ns: int) -> tuple[int, bool]:
        """Return the node of the line at a time after the last event, and whether autograd works for it."""
        self._running(start_ns)
        return self.here

    def asked(self, index: int) -> tuple[int, bool]:
        """Record the line of the event at *index* of the log, and return it as `at` does."""
        here = self.here
        self._log.asked_at(index, *here)
        self.lack_threads |= not here[0] and self._thread is not self._first
        return here

    def end(self, thread: int, made: range) -> None:
        """Finish, given the numbers of the nodes that the *thread* made."""
        forward = self._autograd.forward
        last: Hashable = None
        for key in ((thread, number) for number in made):
            # An op has the number of the next node, and may make several, as `y[0] = x` does.
            last = key if key in forward else last
            if last is not None:
                self._log.fact_at("grad_nodes", self._interval[last], *forward[last])

    def _running(self, at_ns: int) -> list[_Node]:
        nodes = self._thread.nodes
        while nodes and at_ns >= nodes[-1].end_ns:
            nodes.pop()
        return nodes

    @property
    def here(self) -> tuple[int, bool]:
        """The current line, and whether autograd works for it."""
        return _here(self._marked.now, self._thread.nodes[-1] if self._thread.nodes else None)


class Allocating:
    """The lines that allocate, from the calls of one thread in order."""

    def __init__(self) -> None:
        self._now = 0
        self._nodes: list[_Node | None] = [None]
        self._autograd = _Autograd()

    def enter(self, raw: str, event: Any) -> None:
        """Enter a call."""
        node = self._nodes[-1]
        if raw.startswith(SITE):
            self._now = int(raw[len(SITE) :])
        else:
            number = event.sequence_nr()
            key = None if number < 0 else (event.fwd_thread_id() or event.thread_id(), number)
            node = self._autograd.comes_to(raw, 0, key, self._now, node)
        self._nodes.append(node)

    def leave(self) -> None:
        """Leave the innermost call."""
        if len(self._nodes) > 1:
            self._nodes.pop()

    @property
    def here(self) -> tuple[int, bool]:
        """The current line, and whether autograd works for it."""
        return _here(self._now, self._nodes[-1])
