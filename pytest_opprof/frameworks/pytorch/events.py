"""Classify an event of PyTorch's profiler: an op, a wrapper around ops, or machinery. One rule for live and saved.

The profiler calls all of these ops: ops of the dispatcher (``namespace::name``), functions of autograd (they have a
sequence number), kernels made by inductor, and the framework's marks of its own work. Only `record_function` can be
told apart, by its scope. torch.compile marks each stretch of compiling as ``... (dynamo_timed)``; from 2.13 on a second
event surrounds it, named like the entry in torch.compile's own log, with ``NAME_data: ..., compile_id=...`` inside.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum, auto

from ...ops.names import Kind, Meaning, meaning, stable
from ...ops.vocabulary import COMPILE, COPY, GRAPH

_LOGGED = re.compile(r"(.+)_data: (?:.*, )?compile_id=.*", re.DOTALL)
# Events around ops, or around nothing: the lookup and call of a compiled graph, the dispatcher calling Python, the
# arguments of a collective, `torch.utils.checkpoint`, opprof's own marks.
_MACHINERY = re.compile(
    r"TorchDynamo .*|Pregraph bytecode|AOTDispatcher .*|PythonDispatchMode|PythonSubclass|record_param_comms"
    r"|CheckpointFunction|opprof::\w+(?: \d+)?"
)

# Memory that PyTorch gave to the program, or got back.
MEMORY = "[memory]"
# The event with the arguments of a collective.
COMMS = "record_param_comms"
_COLLECTIVES = "allreduce allgather reducescatter alltoall barrier broadcast reduce gather scatter send recv".split()
_ASKS = ("c10d::", "_c10d_functional")
# The marks of a torch.distributed library for its work, in a thread of its own.
_TRANSFERS = re.compile(r"(?:gloo|mpi|nccl|ucc|xccl|hccl):\w+")
# An op that only waits for communication.
WAITS = "_c10d_functional::wait_tensor"
_NODE = re.compile(r"autograd::engine::evaluate_function: .*|torch::autograd::.*|(?:torch::jit::.*::)?\w+Backward\d*")
# The kernels that inductor makes.
_KERNEL = re.compile(r"(?:graph_\d+|cpp|triton)_\w+")


def transfers(name: str) -> bool:
    """Return True if an event is a torch.distributed library's work for a collective, which is an event of its own.

    >>> transfers("gloo:all_reduce"), transfers("c10d::allreduce_")
    (True, False)
    """
    return _TRANSFERS.fullmatch(name) is not None


def collective(name: str) -> str:
    """Return the raw op name of the collective *name*; "" for a wait and the like, which is no op.

    It has no other event if C++ calls it, as DistributedDataParallel does, or before PyTorch 2.0.

    >>> collective("_allgather_base"), collective("all_to_allv"), collective("wait")
    ('record_param_comms::allgather', 'record_param_comms::alltoall', '')
    """
    plain = name.replace("_", "").lower()
    found = next((each for each in _COLLECTIVES if plain.startswith(each)), "")
    return f"{COMMS}::{found}" if found else ""


def transferred(name: str) -> str:
    """Return the raw op name of work that NCCL marks in the calling thread, as ``nccl:all_to_all``."""
    return collective(name.partition(":")[2]) if name.startswith("nccl:") else ""


def asks(name: str) -> bool:
    """Return True if an op calls a collective, so that a `COMMS` event inside repeats it.

    >>> asks("c10d::allreduce_"), asks("record_param_comms::allreduce")
    (True, False)
    """
    return name.startswith(_ASKS)


class Role(Enum):
    """The role of an event."""

    OP = auto()
    """An op, or a part of one."""
    NODE = auto()
    """Of autograd: no op, but a wrapper of the ops inside."""
    GROUP = auto()
    """A wrapper of ops, but an op itself if there is none inside."""
    ANNOTATION = auto()
    """No op; the events inside belong to the op around it."""
    COMPILES = auto()
    """Time of the compiler: no event inside is an op of the program."""
    FRAME = auto()
    """The compilation of one frame of Python code: an op, without the events inside."""


def logged(names: Iterable[str]) -> frozenset[str]:
    """Return the *names*, of all in a recording, that torch.compile wrote into its own log."""
    return frozenset(match[1] for name in names if (match := _LOGGED.fullmatch(name)))


def role(name: str, annotates: bool, numbered: bool, is_logged: bool = False) -> Role:
    """Return the role of an event.

    *annotates*: it has the scope of `record_function`; *numbered*: it has a sequence number of autograd; *is_logged*:
    torch.compile's own log contains it.
    """
    raw = stable(name)
    found = meaning(raw)
    if found.op == COMPILE:
        return Role.FRAME
    if is_logged or name.endswith(" (dynamo_timed)"):
        return Role.COMPILES
    if _MACHINERY.fullmatch(name) or (annotates and found.op != GRAPH):
        return Role.ANNOTATION
    if found.op != raw or found.kind is not Kind.UNKNOWN:
        return Role.OP
    if _NODE.fullmatch(name):
        return Role.NODE
    return Role.OP if numbered or "::" in name or _KERNEL.fullmatch(name) else Role.GROUP


COMPILING = (Role.COMPILES, Role.FRAME)
NO_OPS = (Role.ANNOTATION, Role.COMPILES)


class Around(Enum):
    """The context of an event."""

    PROGRAM = auto()
    COMPILER = auto()
    FRAME = auto()
    """A frame that is compiled; a frame inside is a part of it."""

    def inside(self, role: Role) -> Around:
        """Return the context of the events inside an event of this *role* in this context."""
        if Around.FRAME is self or role is Role.FRAME:
            return Around.FRAME
        return Around.COMPILER if self is Around.COMPILER or role is Role.COMPILES else Around.PROGRAM

    def leaves_out(self, role: Role) -> bool:
        """Return True if an event of this *role* in this context does not belong to the program."""
        return self is Around.FRAME or (self is Around.COMPILER and role is not Role.FRAME)


class Compiler:
    """The times in which torch.compile worked in a thread, from its events in the order of time."""

    def __init__(self) -> None:
        # Earlier than any event, since times may be below zero.
        self.until = self._frame_until = -(1 << 65)
        self._begins: list[int] = []
        self._ends: list[int] = []

    def leaves_out(self, start: int, end: int, role: Role) -> bool:
        """Return True if the event belongs to torch.compile.

        Required only for `COMPILING` events; any other belongs to it if it begins before `until`.
        """
        around = Around.COMPILER if start < self.until else Around.PROGRAM
        if start < self._frame_until:
            around = Around.FRAME
        if around.leaves_out(role):
            return True
        if around is Around.PROGRAM and role in COMPILING:
            self.until = end
            self._begins.append(start)
            self._ends.append(end)
        if role is Role.FRAME:
            self._frame_until = end
        return False

    def ran_at(self, time: int) -> bool:
        """Return True if torch.compile worked at *time*."""
        last = bisect_right(self._begins, time) - 1
        return last >= 0 and time < self._ends[last]


# How an event counts if its name does not tell.
KINDS = {Role.NODE: Kind.WRAPPER, Role.GROUP: Kind.GROUP}


def meaning_as(role: Role, name: str, dtypes: tuple[str, ...] = (), of_scalar: bool = False) -> Meaning:
    """Return the canonical op of an event and how it counts, by its *role*; other arguments as in
    `ops.names.meaning`.
    """
    if role in KINDS:
        return Meaning(stable(name), KINDS[role])
    return meaning(stable(name), dtypes, of_scalar=of_scalar)


def is_made_by(op: Meaning, move: str) -> bool:
    """Return True if an op is a copy that the device makes by the memcpy *move*; the memcpy is counted instead."""
    return bool(move) and op.op in (COPY, move)


def may_work(op: Meaning) -> bool:
    """Return True if an op is a wrapper, which becomes an op only if it launches kernels itself.

    Wrappers are functions of autograd and ``_foreach`` ops.
    """
    return op.kind in (Kind.WRAPPER, Kind.GROUP)


def compiler_kernels(number: int) -> str:
    """Return the remark on kernels that ran during a compilation."""
    return f"kernels and copies that torch.compile ran to try or compute something: {number}, left out"
