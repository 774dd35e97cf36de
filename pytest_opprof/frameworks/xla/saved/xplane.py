"""XLA's own profile, ``*.xplane.pb``, which JAX, TensorFlow and torch_xla write for TensorBoard (`xspace`).

The stats of an event identify it, like ``args`` in the trace (`jax_trace`). Both files of one recording give the same
profile. On a GPU, kernels have them, and so have the host's calls that launch these: no work of a device.

On a TPU, the line ``XLA Ops`` has the instructions and ``XLA Modules`` the executions around them. The metadata of an
instruction describes it: its text as name (``%copy.1 = f32[8]{0} copy(f32[8]{0} %x)``), its name as display name, and
the stats ``flops`` and ``bytes_accessed``. On a GPU these two lines only repeat the kernels.

TensorFlow also writes ops that XLA did not compile. An op inside a function has the name ``<node>:<type>``. An op that
Python calls is an event with the stats ``eager_op`` and ``is_func`` = 0; its time is that of the call. A kernel that a
GPU ran for an op has the stat ``tf_op``, ``<node>:<type>``: it has the device time of that op, whose calls are the
host's. If only the line ``TensorFlow Ops`` names ops, it is read. A function is no op. Tested: jax 0.10.2, tensorflow
2.21.0, CPU; jax of 2025 and 2026 on MI300X. TPUs and TensorFlow on GPUs follow the format's definition, untested.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from ....errors import TraceError
from ....profile.saved import SavedProfile
from ....units import plural
from ...files.format import Format, Options
from ...files.mapped import content
from ...files.place import Place
from ...files.protobuf import BYTES, Broken, fields
from ..opcodes import is_op, plain_name
from ..xspace import Event, Meaning, Plane, plane_name
from .events import Events, Known, Op
from .hlo import described
from .jax_trace import op_trace, timeline_of

if TYPE_CHECKING:
    from ....timeline.spans import Timeline

TITLE = "XLA profile (xplane.pb)"
_SPACE = {1: BYTES, 2: BYTES, 3: BYTES, 4: BYTES}
_PLANE_NAMES = ("/host:", "/device:", "Task Environment")
_XLA_OPS, _MODULES, _TENSORFLOW_OPS = "XLA Ops", "XLA Modules", "TensorFlow Ops"
# Lines of a device that group or repeat events of others.
_REPEATS = frozenset(
    [
        *(_XLA_OPS, _MODULES, _TENSORFLOW_OPS, "Async XLA Ops", "Steps", "XLA TraceMe", "TensorFlow Name Scope"),
        *("Framework Ops", "Framework Name Scope", "Source code", "Launch Stats"),
    ]
)
_WANTED = frozenset("hlo_op hlo_module run_id step_num eager_op is_func tf_op flops bytes_accessed".split())
# ``jit_f(12190760917235803885)``: the module, and the number of the program.
_EXECUTION = re.compile(r"(.*)\(\d+\)")
_OF_TENSORFLOW = re.compile(r"(.+):([A-Za-z_]\w*)", re.DOTALL)


def recognises(place: Place) -> bool:
    """Return True if the file begins with a plane that has one of XLA's names."""
    start = place.head
    try:
        for each in fields(start, 0, len(start), cut=True):
            if _SPACE.get(each.number) != each.wire:
                return False
            if each.number == 1:
                return plane_name(start, each._replace(end=min(each.end, len(start)))).startswith(_PLANE_NAMES)
    except Broken:
        pass
    return False


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. Takes 250 bytes an op event and the memory of the records. Raises TraceError."""
    remarks: list[str] = []
    events = _collected(place, remarks)
    for process, count in events.left_out.items():
        remarks.append(f"{plural(count, 'event')} of {process} without the name of an op of XLA's: left out")
    return op_trace(place, TITLE, events, remarks)


def timeline(place: Place, options: Options) -> Timeline:
    """Return the timeline. Raises TraceError."""
    return timeline_of(_collected(place, []))


def _collected(place: Place, remarks: list[str]) -> Events:
    events = Events()
    with content(place) as data:
        try:
            last = 0
            for number, each in enumerate(fields(data, 0, len(data))):
                last = each.number
                if (each.number, each.wire) == (1, BYTES):
                    plane = Plane(data, each, _WANTED)
                    events.processes[number] = plane.name
                    (_Device if plane.name.startswith("/device:") else _Collected)(plane, number, events).collect()
            if last == 1:
                remarks.append("it ends without the name of a host: it may have been cut between two planes")
        except Broken as error:
            raise TraceError(f"{place}: is not a complete XLA profile ({error}). Was it copied whole?") from None
        except OverflowError:
            raise TraceError(f"{place}: has a time beyond 64 bits; record it again") from None
    return events


class _Collected:
    """The events of a plane, which go into those of the profile."""

    def __init__(self, plane: Plane, number: int, events: Events) -> None:
        self.plane = plane
        self.number = number
        self.events = events
        self.left_out = 0

    def collect(self) -> None:
        """Add all events."""
        for index, line in enumerate(self.plane.lines()):
            for event in line.events:
                self.add(event, (self.number, index))

    def add(self, event: Event, thread: tuple[int, int]) -> bool:
        """Add one event; return whether it is of an op."""
        meaning, start, duration, stats = event
        name, run = meaning.name, stats.get("run_id", "")
        if hlo_op := stats.get("hlo_op"):
            op = Op(hlo_op, stats.get("hlo_module", ""), self.number)
            self.events.ran(op, name, run, thread, start, duration)
            return True
        if type_ := meaning.type or (stats.get("is_func") == "0" and stats.get("eager_op")):
            name = name.removesuffix(f":{type_}") if meaning.type else type_
            self.events.ran(Op(name, "", self.number, type_), name, "-1", thread, start, duration)
            return True
        self.left_out += "step_num" not in stats
        self.events.noted(name, stats.get("step_num", ""), start, duration)
        return False


class _Execution(NamedTuple):
    """An execution of a module on a TPU."""

    start: int
    end: int
    module: str
    run: str


class _Device(_Collected):
    """The events of a device: its kernels; on a TPU, its instructions."""

    def __init__(self, plane: Plane, number: int, events: Events) -> None:
        super().__init__(plane, number, events)
        self._launched, self._before = 0, ("", -1)
        self._ops: dict[tuple[str, str], Op] = {}

    def collect(self) -> None:
        """Add all events of ops; count the others."""
        named = self._all(lambda name: name not in _REPEATS, self._kernel)
        if not named:
            self._executions = sorted(self._modules())
            named = self._all(_XLA_OPS.__eq__, self._instruction)
        if not named:
            self._all(_TENSORFLOW_OPS.__eq__, self._called)
        if self.left_out:
            self.events.left_out[self.plane.name] = self.left_out

    def _all(self, wanted: Callable[[str], bool], add: Callable[[Event, tuple[int, int]], bool]) -> int:
        """Add the events of the *wanted* lines; return the number of op events."""
        lines = ((index, line) for index, line in enumerate(self.plane.lines()) if wanted(line.name))
        return sum(add(event, (self.number, index)) for index, line in lines for event in line.events)

    def _kernel(self, event: Event, thread: tuple[int, int]) -> bool:
        meaning, start, duration, stats = event
        of = None if "hlo_op" in stats else _OF_TENSORFLOW.fullmatch(stats.get("tf_op", ""))
        if not of:
            return self.add(event, thread)
        # Kernels of one op that follow each other on a stream are one call.
        if self._before != (of[0], thread[1]):
            self._before = (of[0], thread[1])
            self._launched += 1
        op = Op(of[1], "", self.number, of[2])
        self.events.ran(op, meaning.name, f"call {self.number}.{self._launched}", thread, start, duration)
        return True

    def _called(self, event: Event, thread: tuple[int, int]) -> bool:
        of = _OF_TENSORFLOW.fullmatch(event.meaning.name)
        if of:
            op = Op(of[1], "", self.number, of[2])
            self.events.ran(op, of[1], "-1", thread, event.start, event.duration)
        return of is not None

    def _modules(self) -> Iterator[_Execution]:
        for line in self.plane.lines():
            for number, (meaning, start, duration, stats) in enumerate(line.events if line.name == _MODULES else ()):
                name = _EXECUTION.fullmatch(meaning.name)
                run = stats.get("run_id", f"execution {self.number}.{number}")
                yield _Execution(start, start + duration, name[1] if name else meaning.name, run)

    def _instruction(self, event: Event, thread: tuple[int, int]) -> bool:
        meaning, start, duration, _ = event
        at = bisect_right(self._executions, (start, inf)) - 1
        execution = self._executions[at] if at >= 0 and start <= self._executions[at].end else None
        module, run = (execution.module, execution.run) if execution else ("", "-1")
        op = self._ops.get((meaning.name, module))
        if op is None:
            op = self._ops[meaning.name, module] = _instruction(meaning, module, self.number)
        self.events.ran(op, op.name, run, thread, start, duration)
        return True


def _instruction(meaning: Meaning, module: str, number: int) -> Op:
    """Return the instruction in the metadata of an event on a TPU."""
    text = described(meaning.name)
    name = meaning.shown or (text.name if text else meaning.name)
    opcode = text.opcode if text else ""
    counts = is_op(opcode) if text and opcode != "fusion" else not plain_name(name).endswith("-done")
    flops, nbytes = (_number(meaning.stats.get(stat, "")) if counts else None for stat in ("flops", "bytes_accessed"))
    plain = "" if opcode == "fusion" else opcode.removesuffix("-start")
    types = (text.inputs, text.outputs) if text else ()
    return Op(name, module, number, known=Known(plain, counts, flops, nbytes, *types))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < inf else None


FORMAT = Format(TITLE, recognises, read, timeline=timeline)
