"""Which line asked for an op: marks in the profiler's own stream, and the numbers that autograd gives.

A tracer of lines sets a mark whenever the program comes to another line, so an op belongs to the last mark before it.
Nothing of PyTorch is hooked: it dispatches as ever, and what it runs has the same counts. (Its own `with_stack` has no
line for operators such as ``x * 2``; dispatch modes change what runs.) What autograd runs belongs to the line of the
forward op with the same sequence number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from ....profile.event_log import EventLog

SITE = "opprof::site "
"""Followed by the number of a node."""
NODE = "autograd::engine::evaluate_function: "
"""Stands around the ops of one node of autograd, and has the sequence number of the forward op that made it."""


def marker() -> Callable[[int], None]:
    """Return what sets a mark for a line. It takes 0.6 us."""
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
    """A node of autograd that runs."""

    end_ns: int
    site: int
    is_backward: bool
    """Whether the line is that of the forward op."""
    entered: int
    """The last mark before it."""


def _here(now: int, node: _Node | None) -> tuple[int, bool]:
    """Return the line, and whether autograd works for it. Python code that a node runs has lines of its own."""
    return (node.site, node.is_backward) if node is not None and node.entered == now else (now, False)


class _Autograd:
    """Which forward op a node of autograd works for."""

    def __init__(self) -> None:
        self.forward: dict[Hashable, tuple[int, bool]] = {}
        """By sequence number: the line of the last op that has it made the node that will have it."""

    def comes_to(self, raw: str, end_ns: int, number: Hashable, now: int, node: _Node | None) -> _Node | None:
        """Return the node in which what is inside of an op runs. Ops come in the order of time, in *node* or in none.

        *number* is its sequence number, None for none; *now* the last mark before it.
        """
        here = _here(now, node)
        if raw.startswith(NODE):
            # What accumulates a gradient has no number: it is of the node around it, or of the line of backward().
            site, is_backward = self.forward.get(number, here)
            return _Node(end_ns, site, is_backward or number in self.forward, now)
        if number is not None:
            self.forward[number] = here
        return node


class _Thread:
    """Where a thread is."""

    def __init__(self) -> None:
        self.now = 0
        """Its last mark; a thread that nobody traces has none."""
        self.nodes: list[_Node] = []


class Sites:
    """The line of each event, told in the order of time of each thread."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._threads: defaultdict[int, _Thread] = defaultdict(_Thread)
        self._thread = self._marked = self._threads[0]
        self._autograd = _Autograd()
        self._interval: dict[Hashable, int] = {}
        """By thread and sequence number: the interval of that op."""

    def in_thread(self, number: int, marked: int | None = None) -> None:
        """Say that the next events are of another thread; if it has no marks, it is where the *marked* one is."""
        self._thread = self._threads[number]
        self._marked = self._thread if marked is None else self._threads[marked]

    def comes_to(self, raw: str, start_ns: int, end_ns: int, number: Hashable = None, interval: int = 0) -> None:
        """Say that an event is next; *number* is its sequence number, with the thread that counts it."""
        if raw.startswith(SITE):
            self._thread.now = int(raw[len(SITE) :])
            return
        nodes = self._thread.nodes
        while nodes and start_ns >= nodes[-1].end_ns:
            nodes.pop()
        around = nodes[-1] if nodes else None
        node = self._autograd.comes_to(raw, end_ns, number, self._marked.now, around)
        if node is not None and node is not around:
            nodes.append(node)
        elif number is not None:
            self._interval[number] = interval

    def asked(self, index: int) -> None:
        """Say that the event is in the log, at *index*."""
        self._log.asked_at(index, *self._here)

    def end(self, thread: int, made: range) -> None:
        """Say that this was all, and which numbers the nodes have that the *thread* made."""
        forward = self._autograd.forward
        for key in ((thread, number) for number in made):
            if key in forward:
                self._log.fact_at("grad_nodes", self._interval[key], *forward[key])

    def allocated(self, interval: int) -> None:
        """Say that memory is allocated now."""
        self._log.fact_at("allocations", interval, *self._here)

    @property
    def _here(self) -> tuple[int, bool]:
        return _here(self._marked.now, self._thread.nodes[-1] if self._thread.nodes else None)


class Allocating:
    """The lines that allocate, told call by call in the order of one thread."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._now = 0
        self._nodes: list[_Node | None] = [None]
        self._autograd = _Autograd()

    def enter(self, raw: str, event: Any) -> None:
        """Say that a call begins."""
        node = self._nodes[-1]
        if raw.startswith(SITE):
            self._now = int(raw[len(SITE) :])
        else:
            number = event.sequence_nr()
            key = None if number < 0 else (event.fwd_thread_id() or event.thread_id(), number)
            node = self._autograd.comes_to(raw, 0, key, self._now, node)
        self._nodes.append(node)

    def leave(self) -> None:
        """Say that the innermost call ends."""
        if len(self._nodes) > 1:
            self._nodes.pop()

    def allocated(self, interval: int) -> None:
        """Say that memory is allocated now."""
        self._log.fact_at("allocations", interval, *_here(self._now, self._nodes[-1]))
