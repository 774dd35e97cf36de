"""What an event of PyTorch's profiler is: an op, what stands around ops, or machinery. One answer for live and saved.

The profiler calls all of these ops: those of the dispatcher (``namespace::name``), functions of autograd (they have a
sequence number), kernels that inductor made, and what the framework marks of its own work. Only `record_function` is
told apart, by its scope. torch.compile marks each stretch of compiling as ``... (dynamo_timed)``; from 2.13 on a
second event is around it, called as the entry in torch.compile's own log, with ``NAME_data: ..., compile_id=...``
inside.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum, auto

from ...ops.names import Kind, Meaning, meaning, stable
from ...ops.vocabulary import COMPILE, COPY, GRAPH

_LOGGED = re.compile(r"(.+)_data: (?:.*, )?compile_id=.*", re.DOTALL)
_MACHINERY = re.compile(
    r"TorchDynamo .*|Pregraph bytecode|AOTDispatcher .*|PythonDispatchMode|PythonSubclass|record_param_comms"
    r"|CheckpointFunction|opprof::\w+(?: \d+)?"
)
"""Around ops, or around nothing: looking a compiled graph up and calling it, the dispatcher calling Python, what a
collective is called with, `torch.utils.checkpoint`, our own marks."""

MEMORY = "[memory]"
"""Memory that PyTorch gave to the program, or got back."""
COMMS = "record_param_comms"
"""The event that has what a collective is called with."""
_COLLECTIVES = "allreduce allgather reducescatter alltoall barrier broadcast reduce gather scatter send recv".split()
_ASKS = ("c10d::", "_c10d_functional")
_TRANSFERS = re.compile(r"(?:gloo|mpi|nccl|ucc|xccl|hccl):\w+")
"""What a library of torch.distributed marks as its work, in a thread of its own."""
WAITS = "_c10d_functional::wait_tensor"
"""An op that only waits for communication."""
_NODE = re.compile(r"autograd::engine::evaluate_function: .*|torch::autograd::.*|(?:torch::jit::.*::)?\w+Backward\d*")
_KERNEL = re.compile(r"(?:graph_\d+|cpp|triton)_\w+")
"""Of inductor."""


def transfers(name: str) -> bool:
    """Tell whether an event is what a library of torch.distributed does for a collective, which is an event as well.

    >>> transfers("gloo:all_reduce"), transfers("c10d::allreduce_")
    (True, False)
    """
    return _TRANSFERS.fullmatch(name) is not None


def collective(name: str) -> str:
    """Return the raw name of the op that the collective *name* is; "" for a wait and the like, which is none.

    It has no other event where C++ calls it, as DistributedDataParallel does, or before PyTorch 2.0.

    >>> collective("_allgather_base"), collective("all_to_allv"), collective("wait")
    ('record_param_comms::allgather', 'record_param_comms::alltoall', '')
    """
    plain = name.replace("_", "").lower()
    found = next((each for each in _COLLECTIVES if plain.startswith(each)), "")
    return f"{COMMS}::{found}" if found else ""


def transferred(name: str) -> str:
    """Return the raw name of the op whose work NCCL marks in the thread that asks for it, as ``nccl:all_to_all``."""
    return collective(name.partition(":")[2]) if name.startswith("nccl:") else ""


def asks(name: str) -> bool:
    """Tell whether an op asks for a collective, so that the `COMMS` inside tell the same.

    >>> asks("c10d::allreduce_"), asks("record_param_comms::allreduce")
    (True, False)
    """
    return name.startswith(_ASKS)


class Role(Enum):
    """What an event is."""

    OP = auto()
    """An op, or a part of one."""
    NODE = auto()
    """Of autograd: no op, but stands for those inside."""
    GROUP = auto()
    """Stands around ops as well, but is an op if there is none inside."""
    ANNOTATION = auto()
    """No op: what is inside is as if this were not there."""
    COMPILES = auto()
    """Time of the compiler: nothing inside is an op of the program."""
    FRAME = auto()
    """The same, of one frame of Python code that is compiled: an op, without what is inside."""


def logged(names: Iterable[str]) -> frozenset[str]:
    """Return the names of those events, of all *names* in a recording, that torch.compile wrote into its own log."""
    return frozenset(match[1] for name in names if (match := _LOGGED.fullmatch(name)))


def role(name: str, annotates: bool, numbered: bool, is_logged: bool = False) -> Role:
    """Return what an event is.

    *annotates*: it has the scope of `record_function`; *numbered*: it has a sequence number of autograd's; *is_logged*:
    torch.compile has it in its own log.
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
    """What an event lies in."""

    PROGRAM = auto()
    COMPILER = auto()
    FRAME = auto()
    """A frame that is compiled: another one inside is a part of it."""

    def inside(self, role: Role) -> Around:
        """Return what lies around the events inside one of this *role* that lies in this."""
        if Around.FRAME is self or role is Role.FRAME:
            return Around.FRAME
        return Around.COMPILER if self is Around.COMPILER or role is Role.COMPILES else Around.PROGRAM

    def leaves_out(self, role: Role) -> bool:
        """Tell whether an event of this *role* that lies in this is none of the program's."""
        return self is Around.FRAME or (self is Around.COMPILER and role is not Role.FRAME)


class Compiler:
    """When torch.compile worked in a thread, as its events tell, one after the other in the order of time."""

    def __init__(self) -> None:
        # Before every time; times may be below zero.
        self.until = self._frame_until = -(1 << 65)
        self._begins: list[int] = []
        self._ends: list[int] = []

    def leaves_out(self, start: int, end: int, role: Role) -> bool:
        """Tell whether the next event is none of the program's.

        Only those that are `COMPILING` need be told: others are none if they begin before `until`.
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
        """Tell whether it worked at *time*."""
        last = bisect_right(self._begins, time) - 1
        return last >= 0 and time < self._ends[last]


KINDS = {Role.NODE: Kind.WRAPPER, Role.GROUP: Kind.GROUP}
"""How what its name does not tell counts."""


def meaning_as(role: Role, name: str, dtypes: tuple[str, ...] = (), of_scalar: bool = False) -> Meaning:
    """Return the canonical op of an event and how it counts, by its *role*; the rest as for `ops.names.meaning`."""
    if role in KINDS:
        return Meaning(stable(name), KINDS[role])
    return meaning(stable(name), dtypes, of_scalar=of_scalar)


def is_made_by(op: Meaning, move: str) -> bool:
    """Tell whether an op is a copy that the device makes by the memcpy *move*, which is counted in its place."""
    return bool(move) and op.op in (COPY, move)


def may_work(op: Meaning) -> bool:
    """Tell whether an op only stands for those inside, unless it launches kernels itself: then it is one by itself.

    Functions of autograd and ``_foreach`` ops.
    """
    return op.kind in (Kind.WRAPPER, Kind.GROUP)


def compiler_kernels(number: int) -> str:
    """Return the remark on kernels that ran while something was compiled."""
    return f"{number} kernels and copies that torch.compile ran to try or compute something are left out"
