"""Decode an optimised XLA program from memory: ``HloModuleProto``.

Fields of ``hlo.proto`` and ``xla_data.proto`` of openxla/xla. Module: name 1, computations 3, id 5,
entry_computation_id 6, stack_frame_index 17. Computation: name 1, instructions 2, id 5. Instruction: name 1, opcode 2,
shape 3, metadata 7, window 15, convolution_dimension_numbers 16, custom_call_target 28, dot_dimension_numbers 30,
id 35, operand_ids 36, called_computation_ids 38 (of a loop the body, then the condition), backend_config 43,
comparison_direction 63, frontend_attributes 68. Window: dimensions 1 (stride 2, padding_low 3, window_dilation 5,
base_dilation 6). ConvolutionDimensionNumbers: kernel_output_feature 4, kernel_spatial 6, input_spatial 11,
output_spatial 12. Shape: element_type 2, dimensions 3, tuple_shapes 4. OpMetadata:
source_file 3, source_line 4, stack_frame_id 15.
Seen: jax 0.7.0 to 0.10.2, CPU.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from ...ops.signature import Shape
from ..files.protobuf import BYTES, VARINT, Data, Field, fields, inside, numbers, signed, text
from .opcodes import Convolution, Window

# In the spelling of HLO's text, by number.
_DTYPES = dict(
    enumerate(
        """invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token c128 f8e5m2 f8e4m3fn s4 u4
        f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3 f8e3m4 s1 u1 f4e2m1fn f8e8m0fnu buffer""".split()
    )
)
_NO_ARRAYS = frozenset(["invalid", "tuple", "opaque", "token", "buffer"])
_TRIPS = re.compile(rb'"known_trip_count":\{"n":"(\d{1,18})"')
# An entry of frontend_attributes.
_SMALL = b"xla_cpu_small_call\x12\x04true"
# Bytes of attributes that are searched.
_MOST_CONFIG = 1 << 16
_MOST_FRAMES = 1000
_Row = TypeVar("_Row")


class Array(NamedTuple):
    """The type of an array."""

    dtype: str
    shape: Shape


class Frame(NamedTuple):
    """A place in the user's program."""

    file: str
    function: str
    """Empty if unknown."""
    line: int


class Instruction(NamedTuple):
    """An instruction; its arrays include those of tuples."""

    name: str
    opcode: str
    outputs: tuple[Array, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]
    """The ids of computations."""
    frame: int
    """Its place in the table of frames, from 1 on; 0 if there is none."""
    source: Frame | None
    """Its place in the user's program, if there is no table of frames."""
    target: str
    """The target of a custom call."""
    direction: str
    """``LT`` and the like, of a comparison."""
    contracted: tuple[int, ...]
    """The dimensions of the left side that a dot product sums over."""
    convolution: Convolution | None
    """The dimensions of a convolution; None for other instructions."""
    trips: int | None
    """The number of iterations of a loop, if XLA knows it."""
    is_kernel: bool
    """Whether a call is compiled into one kernel: a small loop."""


class HloModule:
    """A program. Raises Broken for invalid bytes."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._fields = list(fields(data, 0, len(data)))
        numbers = {each.number: each.value for each in self._fields if each.wire == VARINT}
        self.id = numbers.get(5, 0)
        """Its number in profiles (``program_id``), unless it was loaded from a file."""
        self.entry = numbers.get(6, 0)
        """The id of the computation that runs first."""

    @cached_property
    def name(self) -> str:
        """``jit_f``."""
        return next((text(self._data, each) for each in self._fields if each.number == 1), "")

    @cached_property
    def computations(self) -> dict[int, dict[int, Instruction]]:
        """The instructions of each computation by id, in order."""
        found = {}
        for each in self._fields:
            if (each.number, each.wire) == (3, BYTES):
                instructions, number = {}, 0
                for part in fields(self._data, each.start, each.end):
                    if (part.number, part.wire) == (2, BYTES):
                        key, instruction = self._instruction(part)
                        instructions[key] = instruction
                    elif part.number == 5:
                        number = part.value
                found[number] = instructions
        return found

    @cached_property
    def by_name(self) -> dict[str, tuple[Instruction, int]]:
        """Each instruction, and the id of its computation; names are unique in a module."""
        return {each.name: (each, number) for number, inside in self.computations.items() for each in inside.values()}

    def frames(self, instruction: Instruction) -> tuple[Frame, ...]:
        """Return the source of an instruction: a line of the user's program, then its callers."""
        if instruction.source:
            return (instruction.source,)
        found, number = list[Frame](), instruction.frame
        while 0 < number <= len(self._frames) and len(found) < _MOST_FRAMES:
            frame, number = self._frames[number - 1]
            found.append(frame)
        return tuple(found)

    @cached_property
    def _frames(self) -> list[tuple[Frame, int]]:
        """Each frame, and the number of the frame that called it, 0 for none."""
        tables: dict[int, list[Field]] = {}
        for each in self._fields:
            if (each.number, each.wire) == (17, BYTES):
                for row in fields(self._data, each.start, each.end):
                    tables.setdefault(row.number, []).append(row)
        files, functions = ([text(self._data, row) for row in tables.get(number, ())] for number in (1, 2))
        places = [self._numbers(row) for row in tables.get(3, ())]
        frames = [self._numbers(row) for row in tables.get(4, ())]
        # Since some version of 2025 XLA writes the number of the calling frame plus one, so that 1 means none.
        shift = min((frame.get(2, 0) for frame in frames), default=0)
        found = []
        for frame in frames:
            place = _at(places, frame.get(1, 0), {})
            file, function = _at(files, place.get(1, 0), ""), _at(functions, place.get(2, 0), "")
            found.append((Frame(file, function, place.get(3, 0)), frame.get(2, 0) - shift))
        return found

    def _numbers(self, message: Field) -> dict[int, int]:
        return {number: each.value for number, each in inside(self._data, message).items() if each.wire == VARINT}

    def _instruction(self, message: Field) -> tuple[int, Instruction]:
        data, own = self._data, dict[int, Field]()
        operands: list[int] = []
        called: list[int] = []
        for each in fields(data, message.start, message.end):
            if each.number == 36:
                operands += numbers(data, each)
            elif each.number == 38:
                called += numbers(data, each)
            else:
                own[each.number] = each
        metadata = inside(data, own.get(7))
        source = None
        if 3 in metadata:
            source = Frame(text(data, metadata[3]), "", metadata[4].value if 4 in metadata else 0)
        dot = own.get(30)
        contracted = fields(data, dot.start, dot.end) if dot and dot.wire == BYTES else ()
        opcode = text(data, own.get(2))
        return own[35].value if 35 in own else 0, Instruction(
            text(data, own.get(1)),
            opcode,
            self._arrays(own.get(3)),
            tuple(operands),
            tuple(called),
            metadata[15].value if 15 in metadata else 0,
            source,
            text(data, own.get(28)),
            text(data, own.get(63)),
            tuple(number for each in contracted if each.number == 1 for number in numbers(data, each)),
            self._convolution(own.get(16), own.get(15)) if opcode == "convolution" else None,
            self._trips(own.get(43)) if opcode == "while" else None,
            opcode == "call" and self._is_small(own.get(68)),
        )

    def _convolution(self, labels: Field | None, window: Field | None) -> Convolution:
        """Return the dimensions of a convolution. Values of 0 are not written."""
        data = self._data
        features, places = 0, dict[int, list[int]]()
        for each in fields(data, labels.start, labels.end) if labels and labels.wire == BYTES else ():
            if each.number == 4:
                features = each.value
            elif each.number in (6, 11, 12):
                places.setdefault(each.number, []).extend(numbers(data, each))
        rows = fields(data, window.start, window.end) if window and window.wire == BYTES else ()
        steps = [self._numbers(each) for each in rows if each.number == 1]
        windows = [
            Window(of, by, to, step.get(2, 1), signed(step.get(3, 0)), step.get(6, 1), step.get(5, 1))
            for of, by, to, step in zip(*(places.get(number, []) for number in (11, 6, 12)), steps)
        ]
        return Convolution(features, tuple(windows))

    def _arrays(self, shape: Field | None) -> tuple[Array, ...]:
        """Return the arrays of a shape; of a tuple, the arrays of all its elements."""
        if shape is None or shape.wire != BYTES:
            return ()
        dtype, dimensions, elements = "invalid", list[int](), list[Array]()
        for each in fields(self._data, shape.start, shape.end):
            if each.number == 2:
                dtype = _DTYPES.get(each.value, f"type {each.value}")
            elif each.number == 3:
                dimensions += numbers(self._data, each)
            elif each.number == 4:
                elements += self._arrays(each)
        return tuple(elements) if dtype in _NO_ARRAYS else (Array(dtype, tuple(dimensions)),)

    def _is_small(self, attributes: Field | None) -> bool:
        if attributes is None or attributes.wire != BYTES:
            return False
        return _SMALL in bytes(self._data[attributes.start : min(attributes.end, attributes.start + _MOST_CONFIG)])

    def _trips(self, config: Field | None) -> int | None:
        if config is None or config.wire != BYTES:
            return None
        found = _TRIPS.search(bytes(self._data[config.start : min(config.end, config.start + _MOST_CONFIG)]))
        return int(found[1]) if found else None


def _at(table: Sequence[_Row], number: int, other: _Row) -> _Row:
    """Return the row of a table whose rows are counted from 1, or *other* if there is none."""
    return table[number - 1] if 0 < number <= len(table) else other
