"""The events of XLA's profiles, in columns: executed instructions and ops of TensorFlow, steps, calls from Python."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ...files.programs import Types

# The beginning of the name of a device's plane.
DEVICE = "/device:"
# In place of the number of an execution, which a GPU does not record. Several kernels may belong to one.
KERNEL = "of kernel"
_CALL = re.compile(r"PjitFunction\((.*)\)")
_NO_NAME = re.compile(r"[^\w.\-]+")
_NO_RUN = frozenset(["-1", str(2**64 - 1)])


class Known(NamedTuple):
    """The facts of an instruction, if the profile has its text: on a TPU."""

    opcode: str = ""
    """Empty if only the name tells the type: of a fusion."""
    counts: bool = True
    """Whether it is an op."""
    flops: float | None = None
    """Of a call, as are the bytes."""
    nbytes: float | None = None
    inputs: Types = Types()
    outputs: Types = Types()


class Op(NamedTuple):
    """An instruction of a module, or an op of TensorFlow."""

    name: str
    module: str
    process: int
    type: str = ""
    """The type in TensorFlow; empty for an instruction."""
    known: Known = Known()


class Span(NamedTuple):
    """The time of a step, or of a call of a function."""

    start: int
    duration: int
    label: str


@dataclass
class Events:
    """The events of ops, in columns; times in ns."""

    ops: dict[Op, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    runs: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number of each execution, by module and run_id."""
    which: array[int] = field(default_factory=lambda: array("q"))
    called: array[int] = field(default_factory=lambda: array("q"))
    """The index of the event's own name."""
    run: array[int] = field(default_factory=lambda: array("q"))
    threads: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    durations: array[int] = field(default_factory=lambda: array("q"))
    steps: list[Span] = field(default_factory=list)
    calls: defaultdict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    """The calls from Python, by module."""
    processes: dict[int, str] = field(default_factory=dict)
    thread_numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    """The number of events of devices that name no op, by process."""
    on_host: int = 0
    """The number of instructions that the host ran itself, left out because a device ran others."""

    def ran(self, op: Op, called: str, run_id: str, thread: tuple[int, int], start: int, duration: int) -> None:
        """Add an event of an op."""
        if run_id in _NO_RUN or not run_id:
            run_id = f"{'of event' if run_id else KERNEL} {len(self.which)}"
        run = (op.module, run_id)
        self.which.append(self.ops.setdefault(op, len(self.ops)))
        self.called.append(self.names.setdefault(called, len(self.names)))
        self.run.append(self.runs.setdefault(run, len(self.runs)))
        self.threads.append(self.thread_numbers.setdefault(thread, len(self.thread_numbers)))
        self.starts.append(start)
        self.durations.append(duration)

    @cached_property
    def numbered(self) -> list[bool]:
        """Whether each execution is a whole one, not a single kernel of one."""
        return [not number.startswith(KERNEL) for _, number in self.runs]

    def without_launches(self) -> Events:
        """Return the events of devices, if a device ran instructions: the host's events of these only launch them."""
        process = {number for number, name in self.processes.items() if name.startswith(DEVICE)}
        ops = [op.type == "" and op.process not in process for op in self.ops]
        if all(ops) or not any(op.process in process and not op.type for op in self.ops):
            return self
        kept = [at for at, which in enumerate(self.which) if not ops[which]]
        left = [at for at, which in enumerate(self.which) if ops[which]]
        wanted, names = list(self.ops), list(self.names)
        found = Events(steps=self.steps, calls=self.calls, processes=self.processes, left_out=self.left_out)
        runs, threads = list(self.runs), list(self.thread_numbers)
        for at in kept:
            found.which.append(found.ops.setdefault(wanted[self.which[at]], len(found.ops)))
            found.called.append(found.names.setdefault(names[self.called[at]], len(found.names)))
            found.run.append(found.runs.setdefault(runs[self.run[at]], len(found.runs)))
            thread = threads[self.threads[at]]
            found.threads.append(found.thread_numbers.setdefault(thread, len(found.thread_numbers)))
            found.starts.append(self.starts[at])
            found.durations.append(self.durations[at])
        found.on_host = sum(names[self.called[at]] == wanted[self.which[at]].name for at in left)
        return found

    def noted(self, name: str, step: str, start: int, duration: int) -> None:
        """Add an event of the host if it is a step, or a call of a compiled function."""
        if step:
            self.steps.append(Span(start, duration, f"{name} {step}"))
        elif match := _CALL.fullmatch(name):
            self.calls[_module(match[1])].append(Span(start, duration, ""))


def _module(function: str) -> str:
    """Return the name of the module: ``jit__lambda`` for ``<lambda>``."""
    return "jit_" + _NO_NAME.sub("_", function).rstrip("_")
