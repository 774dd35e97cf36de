"""Which ops hold the memory of a device when most of it is in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ..ops.vocabulary import ALLOCATIONS
from .running import running
from .spans import Kind, Memory, Span, Timeline

_NEVER = -(1 << 63)
_Begun = tuple[int, str]
"""When an op or a range began, and its name."""


@dataclass(frozen=True, slots=True)
class Held:
    """Memory that ops of one name got in one range, and that was still in use at the peak."""

    op: str
    """Its raw name; "" for what no op got: tensors of the program itself."""
    range: str
    """The innermost range around the ops; "" outside of all."""
    size: int
    allocations: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment when most memory of a device was in use."""

    device: str
    time_ns: int
    size: int
    held: list[Held]
    """The largest first."""

    @property
    def before(self) -> int:
        """Bytes that were in use when the recording began; less where the program freed some of them."""
        return self.size - sum(each.size for each in self.held)


@dataclass(slots=True)
class _Change:
    """A change of the memory in use, and the ops and ranges that ran when it happened."""

    time_ns: int
    size: int
    op: _Begun = (_NEVER, "")
    range: _Begun = (_NEVER, "")


def peak(device: str, memory: Memory, timeline: Timeline) -> Peak | None:
    """Return what held the *memory* of a device at its peak; None where none was in use.

    Each allocation is one of the op that began last on any thread of the host. A source tells no addresses: memory that
    is freed is taken to be the newest of its size, as autograd and temporaries free theirs.
    """
    most = max(memory.sizes, default=0)
    if most <= 0:
        return None
    last = memory.sizes.index(most)
    # The first size may hold any amount from before the recording, so that it is nobody's.
    pairs = zip(memory.times_ns[1 : last + 1], memory.sizes, memory.sizes[1:])
    changes = [_Change(time, after - before) for time, before, after in pairs if after != before]
    has_host = any(not lane.on_device for lane in timeline.lanes)  # else the CPU is the device
    _name(changes, (span for span in timeline if not (has_host and span.lane.on_device)))
    live: defaultdict[int, list[_Change]] = defaultdict(list)
    for each in changes:
        if each.size > 0:
            live[each.size].append(each)
        elif live[-each.size]:
            live[-each.size].pop()
    held: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for size, here in live.items():
        for each in here:
            held[each.op[1], each.range[1]].append(size)
    rows = [Held(op, around, sum(each), len(each)) for (op, around), each in held.items()]
    rows.sort(key=lambda row: (-row.size, row.op, row.range))
    return Peak(device, memory.times_ns[last], most, rows)


def _name(changes: list[_Change], spans: Iterable[Span]) -> None:
    """Write into *changes*, which are in the order of time, the op and the range that began last around each."""

    def inside(around: tuple[_Begun, _Begun] | None, span: Span) -> tuple[_Begun, _Begun]:
        op, marked = around or ((_NEVER, ""), (_NEVER, ""))
        begun = span.start_ns, span.name
        if span.kind is Kind.RANGE:
            return op, begun
        return (op if span.name in ALLOCATIONS else begun), marked

    named = (span for span in spans if span.kind in (Kind.OP, Kind.RANGE))
    for index, (op, marked) in running(named, [each.time_ns for each in changes], inside):
        each = changes[index]
        each.op = op if op[0] >= each.op[0] else each.op
        each.range = marked if marked[0] >= each.range[0] else each.range
