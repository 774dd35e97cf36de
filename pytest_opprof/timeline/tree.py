"""The time of a profile as a tree: the ranges that a program marks, inside each other, and the ops in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from .chrome import of_steps
from .running import running
from .spans import WORK, Kind, Span, Timeline

_DEPTH = 12
"""Of ranges in ranges: a program that recurses marks any number."""
_NEVER = -(1 << 63)


@dataclass(slots=True, eq=False)
class Node:
    """All ranges, or ops, of one name in the same ranges. The root is around everything."""

    name: str = ""
    is_op: bool = False
    calls: int = 0
    ns: int = 0
    """Work of devices that was launched inside; on the host, how long it ran."""
    children: dict[tuple[str, bool], Node] = field(default_factory=dict)

    @property
    def has_ranges(self) -> bool:
        """Whether a range inside has any time: without one the tree is the list of ops."""
        return any(child.ns and not child.is_op for child in self.children.values())

    def child(self, span: Span) -> Node:
        """Return the node of *span* in this one."""
        key = span.name, span.kind is Kind.OP
        return self.children.setdefault(key, Node(*key))


_Path = tuple[int, tuple[Node, ...]]
"""When the last of the nodes began, and the nodes from the root on."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The root, and whose time the nodes have."""

    root: Node
    on_device: bool


def tree(timeline: Timeline, steps: Collection[str] | None = None) -> Tree:
    """Return the tree of a *timeline*; only of what ran in *steps* where these are given.

    It has device time where the launches of device work are known: a launch belongs to the range or op that began last
    on any thread of the host. Ops inside ops are a part of them.
    """

    def spans() -> Iterator[Span]:
        return of_steps(timeline, steps) if steps else iter(timeline)

    launches = sorted(
        (span.launched_ns, span.duration_ns)
        for span in spans()
        if span.lane.on_device and span.kind in WORK and span.launched_ns is not None
    )
    has_host = any(not lane.on_device for lane in timeline.lanes)  # else the CPU is the device
    root = Node()

    def inside(around: _Path | None, span: Span) -> _Path:
        path = around[1] if around else (root,)
        if path[-1].is_op or len(path) > _DEPTH:
            return span.start_ns, path
        node = path[-1].child(span)
        node.calls += 1
        if not launches:
            node.ns += span.duration_ns
            root.ns += span.duration_ns if len(path) == 1 else 0
        return span.start_ns, (*path, node)

    marked = (span for span in spans() if span.kind in (Kind.RANGE, Kind.OP) and not (has_host and span.lane.on_device))
    owners: list[_Path] = [(_NEVER, (root,))] * len(launches)
    for index, owner in running(marked, [time for time, _ in launches], inside):
        if owner[0] >= owners[index][0]:
            owners[index] = owner
    for (_, duration), (_, path) in zip(launches, owners):
        for node in path:
            node.ns += duration
    return Tree(root, bool(launches))
