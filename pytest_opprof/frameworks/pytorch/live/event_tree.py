"""Convert Kineto's event tree into a log: the ops of each recorded thread."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ....ops.names import Kind, meaning, stable
from ....profile.columns import ABSENT
from ....profile.events.event_log import EventLog
from ...live.contract import Options
from ..events import COMPILING, KINDS, MEMORY, WAITS, Role, logged, role, transfers
from ..formulas import FACTORIES, HAVE_FLOPS, NEEDS_ATTRIBUTES, SEQUENCES
from ..work import COPIES, Argument, Tensor, Works, called_again, work
from .marks import MARK
from .sites import NODE, Sites

# The place of an event: outside working ops, inside one, or inside one with unknown FLOPs.
_FREE, _INSIDE, _INSIDE_UNKNOWN = range(3)
_NEVER_COUNT = frozenset([Kind.WRAPPER, Kind.ALLOCATION, Kind.GRAPH])
_WORKERS = frozenset([Kind.COMPUTE, Kind.COPY, Kind.MOVE])


# The work of the events of earlier windows, by the key of `TreeReader._work`.
_DONE = Works()


class _Raw(NamedTuple):
    """Facts about all events of one name."""

    name: int
    """The log's name for such an event if nothing else about it matters: a part of another."""
    kind: Kind | None
    """How it counts, if its name does not tell."""
    works: bool
    """Whether the events inside are parts of it."""
    looked_at: tuple[bool, bool, bool]
    """By the place of an event: whether its arguments are needed. Reading them takes 2 us."""
    makes: bool
    """Whether it makes a tensor, possibly of another dtype than its input."""
    needs_attributes: bool
    by_inputs: bool
    """Whether its inputs alone tell its work, if there is a tensor among them."""


class TreeReader:
    """Appends the ops of an event tree to a log; `events.Role` describes the rest of a tree."""

    def __init__(self, log: EventLog, options: Options, flat: Callable[[], Sequence[Any]] = tuple) -> None:
        """*flat* returns the same events as `_KinetoEvent`: they have lists of numbers, which the tree lacks."""
        import torch
        from torch._C._profiler import RecordScope, _EventType, _TensorMetadata

        self.log = log
        self._flat = flat
        self._attributes_by_correlation: dict[int, Any] | None = None
        self._tensor = _TensorMetadata
        self._meta = torch.device("meta")
        self.on_meta: set[int] = set()
        """The outermost events that worked on fake or meta tensors, so that nothing was computed."""
        self._works: dict[tuple[object, ...], tuple[int, int, int | None]] = {}
        self.options = options
        self.grad_numbers = 0, 0
        """The number of autograd's first node in the recording, and the one after its last."""
        self.marks: list[int] = []
        self._thread = 0
        """The thread that set the marks, since it opened the window."""
        self.cuts_ops = False
        """Whether a mark is inside an op, so that ops inside that op may be in a later interval."""
        self._ops: list[str] = []
        """The raw name of each event in the log."""
        self._parents: list[int] = []
        self._user_scope = RecordScope.USER_SCOPE
        self._allocation = _EventType.Allocation
        self._roles: dict[str, Role] = {}

    def find_marks(self, tree: list[Any]) -> None:
        """Collect the times of the marks, which may be inside annotations."""
        for event in tree:
            name = event.name
            if name == MARK:
                self.marks.append(event.start_time_ns)
                self._thread = event.start_tid
            elif (self._roles.get(name) or self._role(event)) is Role.ANNOTATION:
                self.find_marks(event.children)
        self.marks.sort()

    def find_marks_inside_ops(self, tree: list[Any]) -> None:
        """Collect the marks inside ops, too: a range may begin in autograd's functions and hooks, a step may not."""
        outside, everywhere, stack = set(self.marks), list[int](), list(tree)
        while stack:
            event = stack.pop()
            if event.name == MARK:
                everywhere.append(event.start_time_ns)
            stack.extend(event.children)
        everywhere.sort()
        inside = {interval for interval, start in enumerate(everywhere, start=1) if start not in outside}
        if inside <= self.log.range_marks:
            self.marks, self.log.inside_ops, self.cuts_ops = everywhere, inside, True

    def walk(self, tree: list[Any]) -> None:
        """Append every op to the log in the order of time, an op before the ops inside it."""
        # One loop with few calls, and each attribute read once: PyTorch makes a new object for each access.
        log, marks, cuts_ops, on_meta = self.log, self.marks, self.cuts_ops, self.on_meta
        tensor, meta, with_moments, add = self._tensor, self._meta, self.options.moments, log.add
        sites = None if self.options.chains is None else Sites(log)
        thread, name_of_thread = self._thread, ""
        if sites is not None:
            sites.in_thread(thread)
            has_others = any(event.start_tid != thread for event in tree)
            forward_threads = self._forward_threads() if has_others else {}
        raws: dict[str, _Raw | None] = {}
        parents, ops, works = self._parents, self._ops, self._works
        tells_threads = sites is not None or with_moments
        outer, stack = iter(tree), list[tuple[Any, int, int, int]]()
        outermost = -1
        while True:
            if stack:
                event, parent, interval, place = stack.pop()
            elif (event := next(outer, None)) is not None:
                parent, interval, place = -1, 0, _FREE
            else:
                break
            raw, start = event.name, event.start_time_ns
            if parent < 0 or cuts_ops:
                interval = bisect_right(marks, start)
                if tells_threads and event.start_tid != thread:
                    thread = event.start_tid
                    name_of_thread = "" if thread == self._thread else f"thread {thread}"
                    if sites is not None:
                        sites.in_thread(thread)
            if raw == MEMORY and event.tag == self._allocation:
                self._allocated(event.extra_fields.alloc_size, interval, sites)
                continue
            if sites is not None:
                number = getattr(event.extra_fields, "sequence_number", -1)
                counted_by = forward_threads.get(event.correlation_id) or thread
                sites.comes_to(raw, start, event.end_time_ns, None if number == -1 else (counted_by, number), interval)
            known = raws.get(raw)
            if known is None and raw not in raws:
                what = self._role(event)
                if what in COMPILING:
                    self._compile(event, parent, interval, sites)
                    continue
                if raw == WAITS or transfers(raw):
                    self._communicates(raw, event, parent, bisect_right(marks, start))
                    continue
                known = raws[raw] = None if what is Role.ANNOTATION else self._raw(raw, what)
            children = event.children
            if known is None:
                stack += [(child, parent, interval, place) for child in reversed(children)]
                continue
            duration = event.duration_time_ns
            name, _, is_work, looked_at, _, _, by_inputs = known
            first, nbytes, flops = None, ABSENT, None
            if looked_at[_FREE] or looked_at[place]:
                inputs = getattr(event.extra_fields, "inputs", ())
                if looked_at[place] or (parent >= 0 and ops[parent] == raw):
                    # The key is flat, and made of the event's raw values, to be cheap.
                    key: list[object] = [raw]
                    for value in inputs:
                        kind = type(value)
                        if kind is tensor:
                            if first is None:
                                first = value
                            sizes = value.sizes
                            key.append(value.dtype)
                            key += sizes
                            if 3 < len(sizes) < 6:
                                key.append(tuple(value.strides))
                        elif kind is list:
                            key.append(tuple([(each.dtype, *each.sizes) for each in value if type(each) is tensor]))
                        else:
                            key.append(None)
                    found = works.get(tuple(key)) if by_inputs else None
                    name, nbytes, flops = found or self._work(event, inputs, known, key)
                    if is_work:
                        place = _INSIDE if flops is not None or raw in COPIES or place is _INSIDE else _INSIDE_UNKNOWN
                else:
                    first = next((value for value in inputs if type(value) is tensor), None)
            index = add(name, duration, parent, interval, nbytes)
            parents.append(parent)
            ops.append(raw)
            if flops is not None:
                log.computed(index, flops)
            if parent < 0:
                outermost = index
            # Fake tensors report another device, so the events inside tell.
            if first is not None and outermost not in on_meta and first.device == meta:
                on_meta.add(outermost)
            if sites is not None:
                sites.asked(index)
            if with_moments:
                log.ran(index, start, start + duration, name_of_thread)
            if children:
                stack += [(child, index, interval, place) for child in reversed(children)]

        for event, again in called_again(parents, ops).items():
            log.works_as(event, again)
        if sites is not None:
            sites.end(self._thread, range(*self.grad_numbers))
            if sites.lack_threads:
                log.lacks_lines_of_threads()

    def _allocated(self, size: int, interval: int, sites: Sites | None) -> None:
        if self.options.memory:
            self.log.allocated(size, interval, None if sites is None else sites.here)

    def is_left_out(self, raw: str) -> bool:
        """Return True if the events inside belong to no op: torch.compile's or a library's work."""
        return self._roles.get(raw) in COMPILING or raw == WAITS or transfers(raw)

    def _forward_threads(self) -> dict[int, int]:
        """Return the calling thread of each autograd node's forward op, by the node's correlation."""
        nodes = [event for event in self._flat() if event.name().startswith(NODE)]
        return {event.correlation_id(): event.fwd_thread_id() for event in nodes}

    def _raw(self, raw: str, what: Role) -> _Raw:
        told = KINDS.get(what)
        name, kind = self.log.name(raw, kind=told), told or meaning(stable(raw)).kind
        is_move = kind is Kind.MOVE or raw in COPIES
        counts = kind not in _NEVER_COUNT or raw in COPIES
        looked_at = counts, is_move, is_move or raw in HAVE_FLOPS
        makes, needs_attributes = raw in FACTORIES, raw in NEEDS_ATTRIBUTES or raw in SEQUENCES
        by_inputs = not (makes or needs_attributes)
        return _Raw(name, told, kind in _WORKERS, looked_at, makes, needs_attributes, by_inputs)

    def _work(self, event: Any, inputs: Sequence[Any], known: _Raw, key: list[object]) -> tuple[int, int, int | None]:
        """Return the log's name of an event with its *inputs*, its bytes and its FLOPs.

        *key* begins with its raw name; for each input it has what its work depends on, None for what is no tensor.
        """
        raw, attributes, made = event.name, tuple[object, ...](), None
        reads = any(key[1:]) and not known.makes  # a dtype, or a list that is not empty
        if known.needs_attributes:
            attributes = tuple(self._attributes(event, inputs))
            key.append(str(attributes))
        if not reads:
            made = self._made(event)
            key += "makes", made
        case = tuple(key)
        found = self._works.get(case)
        if found is None:
            done = _DONE.get(case)
            if done is None:
                arguments = [self._argument(value) for value in inputs] if reads else [made]
                done = _DONE.keep(case, work(raw, arguments, attributes))
            name = self.log.name(raw, done.dtypes, kind=known.kind, signature=done.signature)
            found = self._works[case] = name, ABSENT if done.nbytes is None else done.nbytes, done.flops
        return found

    def _argument(self, value: Any) -> Argument:
        if type(value) is self._tensor:
            return Tensor(str(value.dtype).removeprefix("torch."), tuple(value.sizes), tuple(value.strides))
        if type(value) is list:
            return tuple(each for each in map(self._argument, value) if isinstance(each, Tensor))
        return None

    def _made(self, event: Any) -> Tensor | None:
        """Return the tensor that an op made without reading one: the first that is written inside."""
        children = event.children
        for child in [each for each in children if each.name.endswith("_")] or children:
            for value in getattr(child.extra_fields, "inputs", ())[:1]:
                if type(value) is self._tensor:
                    made = self._argument(value)
                    return made if isinstance(made, Tensor) else None
        return None

    def _attributes(self, event: Any, inputs: Sequence[Any]) -> Sequence[object]:
        if event.name in SEQUENCES:
            return [None if type(value) is self._tensor else value for value in inputs]
        if self._attributes_by_correlation is None:
            self._attributes_by_correlation = {
                each.correlation_id(): each for each in self._flat() if each.name() in NEEDS_ATTRIBUTES
            }
        found = self._attributes_by_correlation.get(event.correlation_id)
        return () if found is None else found.concrete_inputs()

    def _communicates(self, raw: str, event: Any, parent: int, interval: int) -> None:
        """Subtract the event's time from the op around it: the work inside is a library's, in its own thread."""
        if parent >= 0:
            self.log.compiling(parent, event.duration_time_ns)
        if raw != WAITS:
            known = self.log.communication_ns = self.log.communication_ns or {}
            known[interval] = known.get(interval, 0) + event.duration_time_ns

    def _compile(self, compiling: Any, parent: int, interval: int, sites: Sites | None) -> None:
        """Append the compiled frames, and subtract the time of *compiling* from the op around it."""
        self.log.counts.get("grad_nodes", {}).pop(interval, None)  # tracing makes nodes, too
        if parent >= 0:
            self.log.compiling(parent, compiling.duration_time_ns)
        stack = [compiling]
        while stack:
            event = stack.pop()
            if self._role(event) is Role.FRAME:
                index = self.log.add(self.log.name(event.name), ABSENT, parent, interval)
                self._parents.append(parent)
                self._ops.append(event.name)
                if sites is not None:
                    sites.asked(index)
            else:
                stack.extend(event.children)

    def _role(self, event: Any) -> Role:
        found = self._roles.get(event.name)
        if found is None:
            # An event that is no op of torch (a call of Python, an allocation) has neither of these.
            scope = getattr(event.extra_fields, "scope", None)
            numbered = getattr(event.extra_fields, "sequence_number", -1) >= 0
            is_logged = event.name in logged(child.name for child in event.children[:1])
            found = self._roles[event.name] = role(event.name, scope == self._user_scope, numbered, is_logged)
        return found
