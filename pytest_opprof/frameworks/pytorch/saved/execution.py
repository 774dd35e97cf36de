"""PyTorch's execution trace: the output of `torch.profiler.ExecutionTraceObserver`, the input of MLCommons Chakra.

``{"schema": "1.1.1-chakra.0.0.4", "pid": ..., "nodes": [...]}``; a node is a call: ``id`` (grows in the order in which
calls begin), ``name``, ``ctrl_deps`` (the id of the call around it), ``inputs`` (``values``, ``shapes``, ``types``:
``Tensor(float)``, ``GenericList[Tensor(float),Tensor(float)]``; a value that is a tensor ends in its device) and
``attrs``, among them ``scope`` (7: a range of `record_function`) and ``seq_id`` (autograd's number, or -1). In schema
1.0 ``parent``, ``inputs``, ``input_shapes``, ``input_types``, ``scope`` and ``seq_id`` are fields of the node itself.

Ops have counts, dtypes and shapes, but no times. They count as in the profiler's trace of the same program (`kineto`);
a copy between tensors on different devices is a copy between devices. Kernels are not in the file. Tested with files of
PyTorch 2.13, CPU. Schema 1.0 and devices follow PyTorch's source, untested.

Memory: twice the file, which is limited to 512 MiB (500,000 calls).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from ....errors import TraceError
from ....ops.names import Meaning, meaning, stable
from ....profile.environment import Environment
from ....profile.events.attribution import NOBODY
from ....profile.saved import SavedOp, SavedProfile
from ...files.chrome_events import STEP
from ...files.format import Format, Options
from ...files.place import Place
from ..events import Around, logged
from ..formulas import FACTORIES
from ..tree import owners_of
from ..work import called_again
from .calls import Call

if TYPE_CHECKING:
    from .execution_json import Node

TITLE = "PyTorch execution trace (Chakra)"
MOST_BYTES = 512 << 20
_BEGIN = re.compile(rb'\s*\{\s*"schema"\s*:\s*"[\d.]+(?:-chakra[\d.]*)?"\s*,\s*"pid"\s*:')
_USER_SCOPE = 7


def recognises(place: Place) -> bool:
    """Return True if the file begins like an execution trace."""
    return _BEGIN.match(place.head) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. Raises TraceError."""
    # Imported here: it imports msgspec, which detecting a format does not need.
    from .execution_json import decoded

    with decoded(place, MOST_BYTES) as nodes:
        return _trace(place, sorted(nodes, key=lambda node: node.id))


def _trace(place: Place, nodes: list[Node]) -> SavedProfile:
    steps = [(node.id, match[1]) for node in nodes if (match := STEP.fullmatch(node.name))]
    begins = [begin for begin, _ in steps]
    log = logged(node.name for node in nodes)
    calls: dict[Call, Call] = {}
    """One object for all equal calls, so that their meaning is determined once."""
    ops: list[tuple[Node, Call]] = []
    index_of: dict[int, int] = {}
    """The index of the op that a node is, or of the op around it; -1 for none."""
    parents: list[int] = []
    compiling: dict[int, Around] = {}
    """For a node inside which torch.compile works: the context of the nodes inside it."""
    for node in nodes:
        index_of[node.id] = index_of.get(node.parent, NOBODY)
        category = "user_annotation" if node.scope == _USER_SCOPE else "cpu_op"
        values = node.given() if node.name in FACTORIES else b""
        call = Call(node.name, category, *node.tensors(), node.sequence >= 0, log, values)
        call = calls.setdefault(call, call)
        around = compiling.get(node.parent, Around.PROGRAM)
        if (inside := around.inside(call.role)) is not Around.PROGRAM:
            compiling[node.id] = inside
        if around.leaves_out(call.role):
            continue
        if call.meaning is not None:
            parents.append(index_of[node.id])
            index_of[node.id] = len(ops)
            ops.append((node, call))
    if not ops:
        raise TraceError(f"{place}: has no ops; did anything run between start() and stop() of the observer?")
    meanings = [_meaning(node, call) for node, call in ops]
    works = [call for _, call in ops]
    for outer, inner in called_again(parents, [call.name for call in works]).items():
        works[outer] = works[inner]
    rows: dict[tuple[Call, str, int], list[int]] = {}
    for number, (call, owner) in enumerate(zip(works, owners_of(parents, meanings))):
        step = max(bisect_right(begins, ops[number][0].id) - 1, 0)
        op = meanings[number if owner == NOBODY else owner].op
        row = rows.setdefault((call, op, step), [0, 0])
        row[0] += 1
        row[1] += owner == number
    return SavedProfile(
        TITLE,
        Environment((("torch", ""),), "", ""),
        tuple(_record(*key, *row) for key, row in rows.items()),
        steps=tuple(label for _, label in steps) or ("",),
    )


def _meaning(node: Node, call: Call) -> Meaning:
    """Return the canonical op of the call."""
    if call.is_copy and len(devices := node.devices()) == 2 and devices[0] != devices[1]:
        to, from_ = ("H" if device == "cpu" else "D" for device in devices)
        return meaning(f"Memcpy{from_}to{to}")
    found = call.meaning
    assert found is not None  # only ops come here, and they have one
    return found


def _record(call: Call, op: str, step: int, number: int, counted: int) -> SavedOp:
    return SavedOp(
        call.name,
        stable(call.name),
        step=step,
        calls=number,
        **call.inputs_and_outputs._asdict(),
        op=op,
        counted=counted,
    )


FORMAT = Format(TITLE, recognises, read)
