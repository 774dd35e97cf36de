"""The records of a Kineto trace: equal calls or activities of one step, with their number and times."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....ops.cuda_kernels import canonical, moved
from ....ops.names import stable
from ....ops.vocabulary import COMPILE
from ....profile.op_key import CallSite
from ....profile.saved import UNLINKED, SavedKernel, SavedOp, Whole
from ..events import may_work
from ..work import called_again
from .calls import Call
from .kineto_launches import SYNCHRONIZE, Home, Launches, Work
from .nesting import Tree

if TYPE_CHECKING:
    from .kineto_events import Events, Kernel

# In place of an op: the launch was outside of all ops.
_NO_OP = "(no op)"


@dataclass(slots=True)
class _Spread:
    """The times of some calls, ns."""

    total: int = 0
    least: int | None = None
    most: int | None = None

    def join(self, total: int, least: int, most: int) -> None:
        """Add calls with their sum, minimum and maximum."""
        self.total += total
        self.least = least if self.least is None or least < self.least else self.least
        self.most = most if self.most is None or most > self.most else self.most


@dataclass(eq=False)
class _Row:
    """A record in the making: calls of one step with the same signature and canonical op."""

    step: int
    name: str
    type: str
    first_ns: int
    call: Call | None = None
    """None for activities of a device and calls of the driver."""
    op: str = ""
    place: str = ""
    site: CallSite | None = None
    """Of activities of a device; a call has its own."""
    calls: int = 0
    counted: int = 0
    host: _Spread = field(default_factory=_Spread)
    device: _Spread = field(default_factory=_Spread)
    whole_host: _Spread = field(default_factory=_Spread)
    whole_device: _Spread = field(default_factory=_Spread)
    has_parts: bool = False
    """Whether other calls count as parts of some of these."""
    launches: bool = False
    """Whether some of the calls launched kernels that took time."""
    nbytes: int = 0

    def called(self, start: int, calls: int, counts: bool) -> None:
        """Add calls, the first of which began at *start*; *counts*: whether they count as calls of the op."""
        self.first_ns = min(self.first_ns, start)
        self.calls += calls
        self.counted += calls if counts else 0


class Records:
    """The records in the making, and the kernel launches of each op."""

    def __init__(self, events: Events, trees: Iterable[Tree], on_device: bool) -> None:
        """Add the calls of the *trees*. With *on_device* device time is that of kernels, else self CPU time."""
        self._events = events
        self._on_device = on_device
        self._one_device = len({kernel.device for kernel in events.kernels}) == 1
        self._rows: dict[tuple[object, ...], _Row] = {}
        self._launched: dict[tuple[int, str, int], list[int]] = {}
        """[calls, ns, first start] by (step, op, index of the kernel)."""
        self._rows_of = {tree: self._called(tree) for tree in trees}

    def _called(self, tree: Tree) -> list[_Row]:
        """Add the calls of a tree to their rows; return the row of each."""
        rows: list[_Row] = []
        calls = [self._events.calls[number] for number in tree.calls]
        for outer, inner in called_again(tree.parents, [call.name for call in calls]).items():
            calls[outer] = calls[inner]
        for event, home in enumerate(tree.homes):
            if home != event:
                rows.append(rows[home])
                continue
            call = calls[event]
            owner = self._events.calls[tree.calls[tree.owners[event]]].meaning
            op = owner.op if owner else ""
            # Calls on the same tensors may do different work: a convolution with another stride.
            key = tree.step, call.name, call.tensors, call.work, op, call.site
            row = self._rows.get(key)
            if row is None:
                row = _Row(tree.step, call.name, stable(call.name), tree.first_ns[event], call, op)
                self._rows[key] = row
            counts = tree.owners[event] == event and event not in tree.nothing
            row.called(tree.first_ns[event], tree.count, counts)
            rows.append(row)
        return rows

    def add(self, launches: Launches) -> None:
        """Add the work of the devices, and the calls that waited for them."""
        for (step, name), work in launches.waits.items():
            self._row(step, name, SYNCHRONIZE, work).host.join(work.total_ns, work.least_ns, work.most_ns)
        for (home, number), work in launches.activities.items():
            self._did(home, number, work)
        # Functions of autograd and `_foreach` ops are wrappers of the ops inside. One that launched kernels itself is
        # the op of its calls.
        meanings = [(row, row.call.meaning) for row in self._rows.values() if row.call]
        wrappers = [(row, found) for row, found in meanings if found and may_work(found)]
        working = {row.type for row, _ in wrappers if row.launches}
        for row, found in wrappers:
            if row.type in working:
                row.op, row.counted = found.op, row.calls

    def _did(self, home: Home | int, number: int, work: Work) -> None:
        """Add activities of a device; *home* is only the step if their launch is unknown."""
        kernel = self._events.kernels[number]
        move = moved(kernel.name)
        step, tree, event = (home, None, 0) if isinstance(home, int) else home
        row = self._rows_of[tree][event] if tree else None
        launched_by = row.name if row else UNLINKED if isinstance(home, int) else _NO_OP
        launched = self._launched.setdefault((step, launched_by, number), [0, 0, work.first_ns])
        launched[0] += work.count
        launched[1] += work.total_ns
        launched[2] = min(launched[2], work.first_ns)
        if row and not move:
            row.launches = row.launches or work.total_ns > 0
            return
        if tree and self._events.calls[tree.counted_call(event)].is_made_by(move):
            copy = self._rows_of[tree][tree.owners[event]]
            copy.counted = max(copy.counted - work.count, 0)
        site = self._site(tree, tree.owners[event]) if tree else None
        # Work outside of all ops is an op by itself: kernels of a replayed CUDA graph, of CuPy, of Triton.
        op = canonical(kernel.name) if launched_by == _NO_OP and not move else ""
        did = self._row(
            step, kernel.name, move or (kernel.name if op else launched_by), work, self._place(kernel), site
        )
        did.op = op
        did.nbytes += work.nbytes if move else 0
        did.device.join(work.total_ns, work.least_ns, work.most_ns)

    def _site(self, tree: Tree, event: int) -> CallSite | None:
        call = self._rows_of[tree][event].call
        return call.site if call else None

    def _row(self, step: int, name: str, type: str, work: Work, place: str = "", site: CallSite | None = None) -> _Row:
        """Add *work* without a call of an op to its row; return the row."""
        new = _Row(step, name, type, work.first_ns, place=place, site=site)
        row = self._rows.setdefault((step, name, type, place, site), new)
        row.called(work.first_ns, work.count, counts=True)
        return row

    def time(self, tree: Tree, copies: Mapping[tuple[Tree, int], Mapping[int, int]]) -> None:
        """Add the times of each event to its row, and to the row of the call that it counts as.

        *copies* are those of `Launches`.
        """
        rows = self._rows_of[tree]
        inside: dict[int, list[int]] = {}
        for event, home in enumerate(tree.homes):
            if home == event:
                owner = tree.owners[event]
                # A wrapper that launched kernels itself is no part of the op around it.
                inside.setdefault(owner if rows[owner].op == rows[event].op else event, []).append(event)
        for owner, events in inside.items():
            rows[owner].has_parts = rows[owner].has_parts or len(events) > 1
        made = {owner: copies[tree, owner] for owner in inside if (tree, owner) in copies}
        host = tree.self_ns()
        _add(host, inside, made, [(row.host, row.whole_host) for row in rows])
        for owner, memcpys in made.items():
            for occurrence, number in memcpys.items():
                ns = sum(host[event][occurrence] for event in inside[owner])
                rows[owner].whole_host.total -= ns
                kernel = self._events.kernels[number]
                site = self._site(tree, owner)
                row = self._rows[tree.step, kernel.name, moved(kernel.name), self._place(kernel), site]
                row.whole_host.total += ns
        if self._events.kernels:
            _add(tree.device_ns(), inside, made, [(row.device, row.whole_device) for row in rows])

    def ops(self) -> Iterator[SavedOp]:
        """Yield the records in the order in which they began."""
        for _, row in sorted(self._rows.items(), key=lambda item: (item[1].first_ns, item[1].name, repr(item[0]))):
            times = self._times(row, row.host, row.device)
            whole = None
            if row.call and (row.has_parts or row.counted < row.calls):
                whole = self._times(row, row.whole_host, row.whole_device)
            elif row.whole_host.total:
                whole = times._replace(host_ns=row.whole_host.total)
            work = row.call.work if row.call and row.call.types and row.counted else None
            yield SavedOp(
                name=row.name,
                type=row.type,
                step=row.step,
                calls=row.calls,
                **times._asdict(),
                memory=row.nbytes or (work.nbytes * row.counted if work and work.nbytes is not None else None),
                computation=work.flops * row.counted if work and work.flops is not None else None,
                **(row.call.inputs_and_outputs._asdict() if row.call else {}),
                place=row.place,
                op=row.op,
                counted=row.counted,
                whole=whole,
                site=row.call.site if row.call else row.site,
            )

    def _times(self, row: _Row, host: _Spread, device: _Spread) -> Whole:
        if not self._on_device:
            if row.op == COMPILE:  # compiling is work of the host, and no device time
                return Whole()
            return Whole(host.total, None, host.least, host.most)
        waits = row.type == SYNCHRONIZE
        on_device = bool(self._events.kernels) and not waits and row.op != COMPILE
        on_host = waits or row.call is not None
        return Whole(
            device.total if on_device else None,
            host.total if on_host else None,
            device.least if on_device else None,
            device.most if on_device else None,
            host.least if on_host else None,
            host.most if on_host else None,
        )

    def kernels(self) -> Iterator[SavedKernel]:
        """Yield the launched kernels, in the order in which they began."""
        kernels = self._events.kernels
        by_time = sorted(self._launched.items(), key=lambda item: (item[1][2], item[0][:2], repr(kernels[item[0][2]])))
        for (step, launched_by, number), (calls, ns, _) in by_time:
            kernel = kernels[number]
            yield SavedKernel(kernel.name, launched_by, step, calls, ns, self._place(kernel))

    def _place(self, kernel: Kernel) -> str:
        stream = f"stream {kernel.stream}"
        return stream if self._one_device else f"device {kernel.device} {stream}"


def _add(
    columns: Sequence[Sequence[int]],
    inside: Mapping[int, list[int]],
    made: Mapping[int, Container[int]],
    spreads: Sequence[tuple[_Spread, _Spread]],
) -> None:
    """Add the times of each event to its own spread, and to that of the call that it counts as (*inside* it).

    If a memcpy *made* the copy, the occurrence is no call of the op: its time is in the sum, not in minimum and
    maximum.
    """
    for owner, events in inside.items():
        for event in events:
            own = _summed(columns[event])
            spreads[event][0].join(*own)
        taken = columns[owner]
        if len(events) > 1:
            taken = list(map(sum, zip(*map(columns.__getitem__, events))))
            own = _summed(taken)
        whole = spreads[owner][1]
        if owner not in made:
            whole.join(*own)
            continue
        whole.total += own[0]
        if calls := [ns for occurrence, ns in enumerate(taken) if occurrence not in made[owner]]:
            whole.join(0, min(calls), max(calls))


def _summed(taken: Sequence[int]) -> tuple[int, int, int]:
    """Return the sum, the minimum and the maximum."""
    if len(taken) == 1:
        return (taken[0],) * 3
    return sum(taken), min(taken), max(taken)
