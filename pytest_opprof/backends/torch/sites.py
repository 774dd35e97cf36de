"""Which line asked for an op: marks in the profiler's own stream, and the numbers that autograd gives.

A tracer of lines sets a mark whenever the program comes to another line, so an op belongs to the last mark before it.
Nothing of PyTorch is hooked: it dispatches as ever, and what it runs has the same counts. (Its own `with_stack` has no
line for operators such as ``x * 2``; dispatch modes change what runs.) What autograd runs belongs to the line of the
forward op with the same sequence number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...profile.event_log import EventLog

if TYPE_CHECKING:
    from .kineto import Op

SITE = "opprof::site "
"""Followed by the number of a node."""
_NODE = "autograd::engine::evaluate_function: "
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


def sites_of(ops: Sequence[Op], parents: Sequence[int], marks: Sequence[Op]) -> list[tuple[int, bool]]:
    """Return the line of each op of several threads, and whether autograd works for it.

    *parents* holds the index of the op around each, -1 for none. A thread without *marks*, as that of backward passes
    where there is a GPU, is where the thread with marks is.
    """
    by_thread: dict[int, list[tuple[int, int]]] = {}
    for mark in marks:
        by_thread.setdefault(mark.thread, []).append((mark.start, int(mark.name[len(SITE) :])))
    traced = sorted(marks, key=lambda mark: mark.start)[0].thread if marks else 0
    forward: dict[tuple[int, int], tuple[int, bool]] = {}
    nodes: list[_Node | None] = [None] * len(ops)
    found = [(0, False)] * len(ops)
    for mine in by_thread.values():
        mine.sort()
    for index in sorted(range(len(ops)), key=lambda index: (ops[index].start, index)):
        op, parent = ops[index], parents[index]
        mine = by_thread.get(op.thread) or by_thread.get(traced, [])
        last = bisect_right(mine, (op.start, 1 << 62)) - 1
        now = mine[last][1] if last >= 0 else 0
        node = nodes[parent] if parent >= 0 else None
        here = (node.site, node.is_backward) if node and node.entered == now else (now, False)
        if op.name.startswith(_NODE):
            is_known = op.sequence is not None and op.sequence in forward
            here = (forward[op.sequence][0], True) if op.sequence is not None and is_known else here
            node = _Node(op.end, *here, now)
        elif op.sequence is not None:
            forward[op.sequence] = here
        nodes[index], found[index] = node, here
    return found


class _Node(NamedTuple):
    """A node of autograd that runs."""

    end_ns: int
    site: int
    is_backward: bool
    """Whether the line is that of the forward op."""
    entered: int
    """The last mark before it."""


class Sites:
    """The line of each event, told in the order of time."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._now = 0
        self._nodes: list[_Node] = []
        self._forward: dict[int, tuple[int, bool]] = {}
        """By sequence number: the line of the last op that has it made the node that will have it."""
        self._interval: dict[int, int] = {}
        """By sequence number: the interval of that op."""

    def comes_to(self, raw: str, event: Any, interval: int) -> None:
        """Say that *event* is next, which is called *raw*."""
        if raw.startswith(SITE):
            self._now = int(raw[len(SITE) :])
            return
        start_ns = event.start_time_ns
        while self._nodes and start_ns >= self._nodes[-1].end_ns:
            self._nodes.pop()
        number = getattr(event.extra_fields, "sequence_number", -1)
        if raw.startswith(_NODE):
            # What accumulates a gradient has no number: it is of the node around it, or of the line of backward().
            site, is_backward = self._forward.get(number, self._here)
            self._nodes.append(_Node(event.end_time_ns, site, is_backward or number in self._forward, self._now))
        elif number >= 0:
            self._forward[number], self._interval[number] = self._here, interval

    def asked(self, index: int) -> None:
        """Say that the event is in the log, at *index*."""
        self._log.asked_at(index, *self._here)

    def end(self, first: int, after_last: int) -> None:
        """Say that this was all, and which numbers the nodes have that were made."""
        for number in range(first, after_last):
            if number in self._forward:
                self._log.fact_at("grad_nodes", self._interval[number], *self._forward[number])

    def allocated(self, interval: int) -> None:
        """Say that memory is allocated now."""
        self._log.fact_at("allocations", interval, *self._here)

    @property
    def _here(self) -> tuple[int, bool]:
        """The line, and whether autograd works for it. Python code that a node runs has lines of its own."""
        if self._nodes and self._nodes[-1].entered == self._now:
            return self._nodes[-1].site, self._nodes[-1].is_backward
        return self._now, False
