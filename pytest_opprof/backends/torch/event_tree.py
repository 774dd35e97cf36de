"""Kineto's event tree -> events of a log: the ops of the thread that opened the window."""

from __future__ import annotations

from bisect import bisect_right
from math import prod
from typing import Any

from ...ops.pytorch_events import KINDS, Role, logged, role
from ...ops.vocabulary import CASTS
from ...profile.columns import ABSENT
from ...profile.event_log import EventLog
from ..contract import Options
from .marks import MARK

_COPIES = frozenset(CASTS["torch"].split())


class TreeReader:
    """Appends the ops of an event tree to a log; `pytorch_events.Role` says what else is in a tree."""

    def __init__(self, log: EventLog, options: Options) -> None:
        from torch._C._profiler import RecordScope, _EventType

        self.log = log
        self.options = options
        self.marks: list[int] = []
        self.cuts_ops = False
        """Whether a mark is inside an op: then ops inside that op may be in a later interval."""
        self.correlations: dict[int, int] = {}
        self._user_scope = RecordScope.USER_SCOPE
        self._allocation = _EventType.Allocation
        self._roles: dict[str, Role] = {MARK: Role.ANNOTATION}

    def find_marks(self, tree: list[Any]) -> None:
        """Collect the times of the marks, which may be inside annotations."""
        for event in tree:
            if event.name == MARK:
                self.marks.append(event.start_time_ns)
            elif self._role(event) is Role.ANNOTATION:
                self.find_marks(event.children)
        self.marks.sort()

    def find_marks_inside_ops(self, tree: list[Any]) -> None:
        """Collect the marks inside ops, too: in autograd's functions and hooks a range may begin, but no step."""
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
        log, with_flops, with_memory = self.log, self.options.flops, self.options.memory
        names: dict[str, int] = {}
        stack = [(event, -1, 0) for event in reversed(tree)]
        while stack:
            event, parent, interval = stack.pop()
            if parent < 0 or self.cuts_ops:
                interval = bisect_right(self.marks, event.start_time_ns)
            if with_memory and event.tag == self._allocation:
                log.allocated(event.extra_fields.alloc_size, interval)
                continue
            raw = event.name
            # `names` has only names that always mean the same.
            name = names.get(raw)
            if name is not None:
                index = log.add(name, event.duration_time_ns, parent, interval)
            elif raw in _COPIES:
                index = self._add_copy(event, parent, interval)
            else:
                what = self._role(event)
                if what in (Role.COMPILES, Role.FRAME):
                    self._compile(event, parent, interval)
                    continue
                if what is Role.ANNOTATION:
                    index = parent
                else:
                    names[raw] = log.name(raw, kind=KINDS.get(what))
                    index = log.add(names[raw], event.duration_time_ns, parent, interval)
            if with_flops and index != parent:
                self.correlations[event.correlation_id] = index
            children = event.children
            if children:
                stack.extend([(child, index, interval) for child in reversed(children)])

    def _add_copy(self, event: Any, parent: int, interval: int) -> int:
        tensors = [tensor for tensor in event.extra_fields.inputs[:2] if hasattr(tensor, "dtype")]
        dtypes = tuple(str(tensor.dtype).removeprefix("torch.") for tensor in reversed(tensors))
        nbytes = sum(prod(tensor.sizes) * tensor.dtype.itemsize for tensor in tensors) if len(tensors) == 2 else ABSENT
        return self.log.add(self.log.name(event.name, dtypes), event.duration_time_ns, parent, interval, nbytes)

    def _compile(self, compiling: Any, parent: int, interval: int) -> None:
        """Append the frames that were compiled, and take the time of *compiling* off the op around it."""
        if parent >= 0:
            self.log.compiling(parent, compiling.duration_time_ns)
        stack = [compiling]
        while stack:
            event = stack.pop()
            if self._role(event) is Role.FRAME:
                self.log.add(self.log.name(event.name), ABSENT, parent, interval)
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
