"""Kernels of XLA (an op, a fusion of several, or a small loop) and the ops in them.

On a CPU a profile has an event for each kernel that ran, under the name of an instruction (`hlo_module`). The contents
of a fusion, and of a loop that XLA compiled into one kernel, have no events: they are found in the program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from math import prod
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ...ops import dtypes, flops, names
from ...ops.signature import Signature
from . import opcodes
from .hlo_module import Array, Frame, HloModule, Instruction

# The most ops of one kernel. Only a loop can have more; each takes 0.1 KB each time the kernel runs.
MOST_OPS = 100_000
_LOOP = "while"
_CALLS = ("call", "async-start")
# A guess: one of a kind that is not known yet.
_CALL = "a call"
_seen: WeakKeyDictionary[HloModule, dict[str, Kernel | None]] = WeakKeyDictionary()


class Op(NamedTuple):
    """An op in a kernel."""

    raw: str
    """The opcode; of a custom call its target."""
    op: str
    """The canonical op if the opcode does not tell it; else empty."""
    signature: Signature
    flops: int | None
    """None for all but products and convolutions."""
    frames: tuple[Frame, ...]
    """Its source, the innermost line first; empty for ops that XLA added."""

    @property
    def is_number_cast(self) -> bool:
        """Whether it casts one number, as ``x + 1`` does with the 1: beside other ops it is a part of them."""
        return self.raw == opcodes.CAST and self.signature.is_scalar


class Kernel(NamedTuple):
    """A unit of execution in XLA."""

    name: str
    """Without numbers: ``add_multiply_fusion``, ``wrapped_convert``, ``dot``; ``while`` for a small loop."""
    ops: tuple[Op, ...]
    alone: int | None
    """The index of the op with all of the time, the others being its parts; None if several share it."""
    signature: Signature
    nbytes: int | None
    """The bytes read and written, by the shapes."""
    frames: tuple[Frame, ...]
    guesses: tuple[str, ...]
    """Parts that run an unknown number of times, and are counted once."""


class TooManyOpsError(Exception):
    """A loop with more ops than can be counted."""


def kernel(module: HloModule, name: str, ran: Collection[str]) -> Kernel | None:
    """Return the kernel that ran under the name of an instruction; None for an instruction that only runs others.

    *ran* are the names of all instructions that ran in the program. Raises KeyError for an unknown instruction, and
    TooManyOpsError.
    """
    seen = _seen.setdefault(module, {})
    if name not in seen:
        found = _kernel(module, name, ran)
        if found and _CALL in found.guesses:
            return found  # it depends on *ran*
        seen[name] = found
    return seen[name]


def _kernel(module: HloModule, name: str, ran: Collection[str]) -> Kernel | None:
    instruction, computation = module.by_name[name]
    siblings = module.computations[computation]
    opcode = instruction.opcode
    guesses: set[str] = set()
    if opcode in _CALLS:
        if not instruction.is_kernel:
            if any(each in ran for each in _names(module, instruction.called)):
                return None
            guesses.add(_CALL)
    elif opcode != "fusion" and not opcodes.is_op(opcode):
        return None
    ops = tuple(_limited(_ops(module, instruction, siblings, guesses), module))
    inputs, outputs = _inputs(instruction, siblings), instruction.outputs
    plain = _LOOP if instruction.is_kernel else opcodes.plain_name(name) if opcode == "fusion" else opcode
    frames, alone = module.frames(instruction), _alone(ops)
    # The bytes of a collective are its inputs, as for PyTorch.
    collective = alone is not None and names.meaning(ops[alone].op or ops[alone].raw).kind is names.Kind.COMMUNICATION
    nbytes = _bytes(inputs if collective else inputs + outputs)
    return Kernel(plain, ops, alone, _signature(inputs, outputs), nbytes, frames, tuple(sorted(guesses)))


def _names(module: HloModule, computations: Iterable[int]) -> Iterator[str]:
    """Yield the names of all that the *computations* run."""
    for number in computations:
        for each in module.computations.get(number, {}).values():
            yield each.name
            yield from _names(module, each.called)


def _limited(ops: Iterable[Op], module: HloModule) -> Iterator[Op]:
    for number, op in enumerate(ops):
        if number == MOST_OPS:
            raise TooManyOpsError(f"a loop of {module.name} runs more than {MOST_OPS:,} ops in one kernel")
        yield op


def _ops(
    module: HloModule, instruction: Instruction, siblings: Mapping[int, Instruction], guesses: set[str]
) -> Iterator[Op]:
    """Yield the ops of an *instruction*; *siblings* are the instructions of its computation."""
    called, times = instruction.called, 1
    match instruction.opcode:
        case "while":
            called = called[:1]  # without the condition, as in XLA's own loops of known length
            times = 1 if instruction.trips is None else instruction.trips
            if instruction.trips is None:
                guesses.add("the body of a loop")
        case "conditional":
            guesses.add("each branch of a condition")
        case opcode if opcode != "fusion" and opcode not in _CALLS:
            if opcodes.is_op(opcode):
                yield _op(module, instruction, siblings)
            return
    inside = (module.computations.get(number, {}) for number in called)
    body = tuple(_limited((op for each in inside for op in _all_ops(module, each, guesses)), module))
    for _ in range(times if body else 0):
        yield from body


def _all_ops(module: HloModule, computation: Mapping[int, Instruction], guesses: set[str]) -> Iterator[Op]:
    for each in computation.values():
        yield from _ops(module, each, computation, guesses)


def _op(module: HloModule, instruction: Instruction, siblings: Mapping[int, Instruction]) -> Op:
    inputs, outputs = _inputs(instruction, siblings), instruction.outputs
    raw, op = instruction.opcode.removesuffix("-start"), ""
    if raw == "custom-call":
        raw = instruction.target or raw
    elif raw == "reduce":
        region = module.computations.get(instruction.called[0], {}) if instruction.called else {}
        op = opcodes.reduction(each.opcode for each in region.values())
    elif raw == "compare":
        op = opcodes.COMPARISONS.get(instruction.direction, "")
    return Op(
        raw,
        op,
        _signature(inputs, outputs),
        _flops(instruction, inputs),
        module.frames(instruction),
    )


def _inputs(instruction: Instruction, siblings: Mapping[int, Instruction]) -> tuple[Array, ...]:
    operands = [siblings[number] for number in instruction.operands if number in siblings]
    return tuple(array for operand in operands for array in operand.outputs)


def _signature(inputs: Iterable[Array], outputs: Iterable[Array]) -> Signature:
    into, out = tuple(inputs), tuple(outputs)
    return Signature(
        tuple(array.dtype for array in into),
        tuple(array.dtype for array in out),
        tuple(array.shape for array in into),
        tuple(array.shape for array in out),
    )


def _bytes(arrays: Iterable[Array]) -> int | None:
    total = 0
    for array in arrays:
        size = _item_bytes(array.dtype)
        if size is None:
            return None
        total += size * prod(array.shape)
    return total


@cache
def _item_bytes(dtype: str) -> int | None:
    return dtypes.item_bytes(dtypes.dtype(dtype))


def _flops(instruction: Instruction, inputs: tuple[Array, ...]) -> int | None:
    if not instruction.outputs or len(inputs) < 2:
        return None
    output = instruction.outputs[0].shape
    if instruction.opcode == "dot":
        return flops.dot(output, inputs[0].shape, instruction.contracted)
    if instruction.convolution:
        return opcodes.convolution_flops(inputs[0].shape, inputs[1].shape, output, instruction.convolution)
    return None


def _alone(ops: tuple[Op, ...]) -> int | None:
    if len(ops) == 1:
        return 0
    working = [index for index, op in enumerate(ops) if not _is_part(op)]
    return working[0] if len(working) == 1 else None


def _is_part(op: Op) -> bool:
    """Return True if an op is a part of the ops beside it."""
    return op.is_number_cast or names.meaning(op.raw).kind is names.Kind.VIEW
