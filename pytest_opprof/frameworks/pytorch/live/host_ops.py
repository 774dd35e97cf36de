"""The ops on the host: their nesting, the work of torch.compile, and the GPU work of each."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import itemgetter

from ....ops.cuda_kernels import is_nccl, moved
from ....ops.names import Kind
from ....profile.columns import ABSENT
from ....profile.events.attribution import NOBODY, owners
from ....profile.events.event_log import EventLog
from ....profile.events.nesting import innermost, nested
from ..events import COMPILING, KINDS, NO_OPS, Compiler, Role, is_made_by, logged, may_work, meaning_as, role
from ..tree import ops_inside
from ..work import called_again
from .kineto import Activity, Call, Op
from .sites import NODE, SITE, Sites

# The op of a copy that does nothing but a memcpy; the memcpy is counted in its place.
_MEMCPY = "cudaMemcpyAsync"


class _Thread:
    """The ops of a thread. Of torch.compile's work, only the compiled frames are among them."""

    def __init__(self, ops: Iterable[Op], roles: Iterable[Role]) -> None:
        """*ops* are ordered by time."""
        self.ops: list[Op] = []
        self.compiler = Compiler()
        self.compiling: set[int] = set()
        """The numbers of the outermost ops in which torch.compile worked."""
        for op, what in zip(ops, roles):
            if what in COMPILING and op.start >= self.compiler.until:
                self.compiling.add(op.number)
            if not self.compiler.leaves_out(op.start, op.end, what):
                self.ops.append(op)
        self._starts, self._ends = [op.start for op in self.ops], [op.end for op in self.ops]
        self.parents, _ = nested(self._starts, self._ends)

    def innermost(self, call: Call) -> Op | None:
        """Return the innermost op around *call*, or around its begin."""
        found = innermost(self._starts, self._ends, self.parents, call.start, call.end)
        return None if found == NOBODY else self.ops[found]


class HostOps:
    """The ops of all threads, and the GPU work of each."""

    def __init__(self, ops: Sequence[Op], calls: Sequence[Call]) -> None:
        self.ops: list[Op] = []
        """Without annotations: ops inside one are inside the op around it."""
        self.parents: list[int] = []
        self.around: dict[int, int] = {}
        """The index of the op around a call, by the call's correlation."""
        self.compiled: list[tuple[int, Op]] = []
        """Each op in which torch.compile worked, after the index of the op around it."""
        self.compiler_calls: set[int] = set()
        """The correlations of the calls that torch.compile made."""
        self._calls = calls
        self._logged = logged(op.name for op in ops)
        self._roles: dict[str, Role] = {}
        self._marks = [op for op in ops if op.name.startswith(SITE)]
        self._nest(ops, calls)
        alike: dict[tuple[str, tuple[str, ...], bool], int] = {}
        numbers = [alike.setdefault((op.name, op.dtypes, op.signature.is_scalar), len(alike)) for op in self.ops]
        meanings = [meaning_as(self._roles[name], name, dtypes, is_scalar) for name, dtypes, is_scalar in alike]
        self._meanings = [meanings[number] for number in numbers]
        self._owners = owners(self.parents, numbers, meanings)
        self._device_ns = [0] * len(self.ops)
        self._does = [""] * len(self.ops)
        """The function of each op, if its name does not tell."""
        self._workers: set[str] = set()
        """The names of wrappers and groups that launched kernels themselves."""

    def _nest(self, ops: Iterable[Op], calls: Sequence[Call]) -> None:
        by_thread: defaultdict[int, list[Op]] = defaultdict(list)
        for op in sorted(ops, key=lambda op: (op.start, op.number)):
            by_thread[op.thread].append(op)
        threads = {thread: _Thread(own, map(self._role, own)) for thread, own in by_thread.items()}
        events, parents = list[Op](), list[int]()
        for thread in threads.values():
            first = len(events)
            parents += [NOBODY if parent == NOBODY else first + parent for parent in thread.parents]
            events += thread.ops
        are_ops = [self._role(op) not in NO_OPS for op in events]
        numbers, self.parents = ops_inside(parents, are_ops)
        self.ops = [*compress(events, are_ops)]
        compiling = {number for thread in threads.values() for number in thread.compiling}
        self.compiled = [
            (NOBODY if parent == NOBODY else numbers[parent], op)
            for op, parent in zip(events, parents)
            if op.number in compiling
        ]
        place = {op.number: number for op, number in zip(events, numbers)}
        for call in calls:
            op_around = threads[call.thread].innermost(call) if call.thread in threads else None
            self.around[call.correlation] = NOBODY if op_around is None else place[op_around.number]
            if call.thread in threads and threads[call.thread].compiler.ran_at(call.start):
                self.compiler_calls.add(call.correlation)
        # Kineto's links are more reliable than times. It has none for a call outside of all ops.
        self.around.update({call.correlation: place[call.op] for call in calls if call.op in place})

    def _role(self, op: Op) -> Role:
        if op.name not in self._roles:
            self._roles[op.name] = role(op.name, op.annotates, op.sequence is not None, op.name in self._logged)
        return self._roles[op.name]

    def did(self, done: Activity, home: int) -> None:
        """Assign the work *done* to the op at the index *home*."""
        move = moved(done.name)
        if not (move and is_nccl(done.name)):  # a collective's time is mostly waiting for other ranks
            self._device_ns[home] += done.duration_ns
        if move:
            self._is_memcpy(home, move)
        elif may_work(self._meanings[home]):
            self._workers.add(self.ops[home].name)

    def _is_memcpy(self, home: int, move: str) -> None:
        """Count the memcpy in place of the op, if the op is a plain copy."""
        owner = self._owners[home]
        if not is_made_by(self._meanings[owner], move):
            return
        while home != NOBODY:
            if is_made_by(self._meanings[home], move):
                self._does[home] = _MEMCPY
            home = NOBODY if home == owner else self.parents[home]

    def append_to(self, log: EventLog, marks: Sequence[int], *, on_device: bool, moments: bool = False) -> int:
        """Append the ops to *log*, with their device time if *on_device*; return the index of the first.

        *moments*: also record when they ran.
        """
        first, intervals = len(log), list[int]()
        times = self._inclusive() if on_device else [op.duration_ns for op in self.ops]
        for index, (op, parent, time) in enumerate(zip(self.ops, self.parents, times)):
            is_outermost = parent == NOBODY
            intervals.append(bisect_right(marks, op.start) if is_outermost else intervals[parent])
            what = self._roles[op.name]
            kind = Kind.GRAPH if op.name in self._workers else KINDS.get(what)
            name = log.name(op.name, op.dtypes, self._does[index], kind, op.signature)
            time = ABSENT if what is Role.FRAME else time
            nbytes = ABSENT if self._does[index] else op.nbytes  # the memcpy in its place has the bytes
            event = log.add(name, time, NOBODY if is_outermost else first + parent, intervals[index], nbytes)
            if op.flops is not None:
                log.computed(event, op.flops)
            if moments:
                log.ran(event, op.start, op.end, f"thread {op.thread}")
        for outer, inner in called_again(self.parents, [op.name for op in self.ops]).items():
            log.works_as(first + outer, first + inner)
        for around, compiled in self.compiled if not on_device else ():
            if around != NOBODY:
                log.compiling(first + around, compiled.duration_ns)
        return first

    def tell_sites(
        self, log: EventLog, first: int, marks: Sequence[int], grad_numbers: tuple[int, int]
    ) -> dict[int, tuple[int, bool]]:
        """Record the source line of each op, the *first* of them at this index of *log*; return those of the calls.

        By correlation: the node of the line, and whether autograd made the call. *grad_numbers*: autograd's next number
        at the begin and at the end of the window, in the thread that opened it.

        With a GPU, a thread of backward passes has no marks, and takes its lines from the thread with marks; the lines
        of other threads are unknown. A call in no op (a wait, a replayed graph, a kernel of CuPy) has the last mark.
        """
        sites = Sites(log)
        marked = {mark.thread for mark in self._marks}
        backward = {op.thread for op in self.ops if op.name.startswith(NODE)} - marked
        in_order: list[tuple[int, int, Op | Call]] = sorted(
            [
                *((mark.start, -1, mark) for mark in self._marks),
                *((op.start, index, op) for index, op in enumerate(self.ops)),
                *((call.start, len(self.ops), call) for call in self._calls if self.around[call.correlation] == NOBODY),
            ],
            key=itemgetter(0, 1),
        )
        traced = next((mark.thread for _, index, mark in in_order if index < 0), None)
        of_op, of_call = dict[int, tuple[int, bool]](), dict[int, tuple[int, bool]]()
        for _, index, event in in_order:
            sites.in_thread(event.thread, traced if event.thread in backward else None)
            if isinstance(event, Call):
                of_call[event.correlation] = sites.at(event.start)
                continue
            sites.comes_to(event.name, event.start, event.end, event.sequence, bisect_right(marks, event.start))
            if index >= 0:
                of_op[index] = sites.asked(first + index)
        for call in self._calls:
            if (op := self.around[call.correlation]) != NOBODY:
                of_call[call.correlation] = of_op[op]
        # Kineto numbers threads in two ways: of the two only autograd's stands beside its numbers.
        for thread in {op.sequence[0] for op in self.ops if op.sequence and op.thread == traced}:
            sites.end(thread, range(*grad_numbers))
        return of_call

    def _inclusive(self) -> list[int]:
        times = list(self._device_ns)
        for index in range(len(times) - 1, -1, -1):
            if self.parents[index] != NOBODY:
                times[self.parents[index]] += times[index]
        return times
