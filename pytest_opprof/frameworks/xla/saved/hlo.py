"""HLO text: an XLA program after optimisation, ``jit(f).lower(...).compile().as_text()``, or before it.

It has the ops and no times: ops are counted without running the program. A file is ``HloModule`` and computations, one
of them ``ENTRY``. An instruction is ``%name = shape opcode(operands), attributes``:
``%convert.80 = bf16[8,128]{1,0} convert(%param_1.14), metadata={...}``. Percent signs may be missing.

Each computation is counted as often as it is called, beginning at the entry. The ops inside a fusion count; the fusion
itself is no op, and neither are parameters, constants, tuples, bitcasts, calls, loops and branches. ``copy-start`` is
the op ``copy``, ``copy-done`` is no op. The body of a loop counts as often as its ``known_trip_count`` says, without
the condition, which XLA does not evaluate then; without it both count once. Every branch counts once. The function that
a reduce, a sort or a scatter applies to single elements (``to_apply``) is part of that op. The type is the opcode.
FLOPs are known only for dot products and convolutions: for other ops XLA's own count is an estimate. Seen: jax 0.10.2,
CPU, optimised and ``as_text(dialect="hlo")``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.saved import SavedOp, SavedProfile
from ...files.format import Format, Options
from ...files.place import Place
from ...files.programs import (
    ONCE,
    STRING,
    Function,
    Size,
    Types,
    dot_operations,
    executed,
    lines,
    op_record,
)
from ..opcodes import Convolution, convolution_flops, is_op, reduction
from .hlo_frames import FrameTables

_BEGIN = re.compile(rb"\s*(?://[^\n]*\n\s*)*HloModule\s")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .* )?\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ([a-z][\w\-]*)\(")
_BRACKET = re.compile(rf"[()]|{STRING.pattern}")
_OPERAND = re.compile(r"%([\w.\-]+)|(?:^|[ /])([A-Za-z_][\w.\-]*)(?=\s*(?:,|$))")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([0-9,<=?]*)\]")
_CALLED = re.compile(
    r"\b(calls|body|condition|true_computation|false_computation|branch_computations)=(\{[^{}]*\}|%?[\w.\-]+)"
)
# In ``backend_config``, which is JSON, or in older texts a quoted JSON.
_TRIPS = re.compile(r'known_trip_count\\?":\s*\{\s*\\?"n\\?":\s*\\?"(\d{1,16})\\?"')
_APPLIED = re.compile(r"\bto_apply=%?([\w.\-]+)")
_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([0-9,]*)\}")
_MOST_TYPES = 1 << 16
_MOST_CACHED = 2000
_ONCE = {"while": "a loop", "conditional": "a branch"}


def recognises(place: Place) -> bool:
    """Return True if the text begins like a module."""
    return _BEGIN.match(place.head) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. `programs.Size` bounds their memory and that of a line. Raises TraceError."""
    module = _Module(place, FrameTables() if options.sites else None)
    for number, line in enumerate(lines(place), 1):
        module.take(line, number)
    module.close()
    return SavedProfile(
        source="HLO text (static: no run)",
        environment=Environment((("jax", ""),), "", ""),
        records=executed(place, module.functions, module.entry),
        remarks=tuple(ONCE.format(what) for what in sorted(module.once)),
    )


@dataclass
class _Computation(Function):
    opcodes: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)
    """The type of each instruction so far, as text."""
    reduces: list[tuple[int, str]] = field(default_factory=list)
    """The index of each record that is a reduce, and the computation that it applies."""

    def types_of(self, names: list[str]) -> Types:
        """Return the types of these instructions; empty if one is missing, or if they are too long for an op."""
        texts = [self.types.get(name, "") for name in names]
        return _types(" ".join(texts)) if all(texts) and sum(map(len, texts)) < _MOST_TYPES else Types()


class _Module:
    def __init__(self, place: Place, frames: FrameTables | None) -> None:
        """*frames* is None if lines are not requested."""
        self.functions: dict[str, _Computation] = {}
        self.entry = ""
        self.once: set[str] = set()
        self._place = place
        self._frames = frames
        self._inside: _Computation | None = None
        self._size = Size()

    def take(self, line: str, number: int) -> None:
        """Read the next line."""
        if self._inside is None:
            if line.rstrip().endswith(" {") and (match := _COMPUTATION.match(line.rstrip())):
                self._inside = self.functions[match[2]] = _Computation()
                self.entry = match[2] if match[1] else self.entry
            elif self._frames:
                self._frames.take(line)
        elif line.startswith("}"):
            self._inside.types.clear()
            self._inside = None
        elif match := _INSTRUCTION.match(line):
            self._instruction(self._inside, match[1], line, match.end(), number)
        elif " = " in line:
            raise TraceError(f"{self._place}: line {number}: is not an instruction: {line.strip()[:80]!r}")

    def close(self) -> None:
        """Name the op of each reduce, after the whole text is read. Raises TraceError if its end is missing."""
        if self._inside is not None or not self.entry:
            what = "in the middle of a computation" if self._inside else "without an ENTRY computation"
            raise TraceError(f"{self._place}: ends {what}. Was it copied whole?")
        for function in self.functions.values():
            for index, applied in function.reduces:
                applies = self.functions.get(applied, _Computation()).opcodes
                function.records[index] = function.records[index]._replace(op=reduction(applies))

    def _instruction(self, inside: _Computation, name: str, line: str, at: int, number: int) -> None:
        end = _closing(line, at) if line.startswith("(", at) else line.find(" ", at)
        match = _OPCODE.match(line, end)
        if match is None or end < 0:
            raise TraceError(f"{self._place}: line {number}: {name!r} has no shape and opcode: {line[at : at + 80]!r}")
        opcode, shape = match[1], line[at:end]
        counts = is_op(opcode)
        # Only the name and type of a constant are kept.
        if excess := self._size.exceeded(line[:end] if opcode == "constant" else line, counts):
            raise TraceError(f"{self._place}: line {number}: {excess}")
        inside.types[name] = shape
        inside.opcodes.add(opcode)
        if opcode in ("parameter", "constant"):
            return
        close = _closing(line, match.end() - 1)
        attributes = STRING.sub("", line[close:])
        self._calls(inside, opcode, attributes, line[close:])
        if not counts:
            return
        operands = [one or other for one, other in _OPERAND.findall(line[match.end() : close - 1])]
        record = op_record(name, opcode.removesuffix("-start"), inside.types_of(operands), _types(shape))
        if self._frames:
            record = record._replace(site=self._frames.site(line[close:]))
        applied = _APPLIED.search(attributes)
        if opcode == "reduce" and applied:
            inside.reduces.append((len(inside.records), applied[1]))
        if opcode == "dot" and (contracted := _CONTRACTED.search(attributes)):
            record = record._replace(computation=dot_operations(record, contracted[1]))
        elif opcode == "convolution" and (over := Convolution.of_text(attributes)):
            record = record._replace(computation=_convolution_operations(record, over))
        inside.records.append(record)

    def _calls(self, inside: _Computation, opcode: str, attributes: str, written: str) -> None:
        """Add the calls of an instruction; *attributes* are the *written* ones, without the texts in them."""
        trips = _TRIPS.search(written.partition("backend_config=")[2]) if opcode == "while" else None
        if opcode in _ONCE and not trips:
            self.once.add(_ONCE[opcode])
        for how, names in _CALLED.findall(attributes):
            times = {"body": int(trips[1]), "condition": 0}.get(how, 1) if trips else 1
            for name in names.strip("{}").split(","):
                inside.called[name.strip(" %")] += times
        if opcode == "call" and (applied := _APPLIED.search(attributes)):
            inside.called[applied[1]] += 1


class Described(NamedTuple):
    """An instruction by itself, with the types of its operands before them."""

    name: str
    opcode: str
    inputs: Types
    """None if the text is cut."""
    outputs: Types


def described(text: str) -> Described | None:
    """Parse a text such as ``%copy.1 = f32[8]{0} copy(f32[8]{0} %x)``; None for anything but an instruction.

    >>> described("%copy.1 = f32[8]{0} copy(bf16[8]{0} %x)")
    Described(name='copy.1', opcode='copy', inputs=Types(dtypes=('bf16',), shapes=((8,),)),
    outputs=Types(dtypes=('f32',), shapes=((8,),)))
    """
    text = f" {text}"
    found = _INSTRUCTION.match(text)
    at = found.end() if found else 0
    end = _closing(text, at) if text.startswith("(", at) else text.find(" ", at)
    opcode = _OPCODE.match(text, end) if found and end > 0 else None
    if found is None or opcode is None:
        return None
    close = _closing(text, opcode.end() - 1)
    inputs = _types(text[opcode.end() : close - 1]) if text[close - 1] == ")" else Types()
    return Described(found[1], opcode[1], inputs, _types(text[at:end]))


def _convolution_operations(record: SavedOp, over: Convolution) -> int | None:
    inputs, outputs = record.input_shapes, record.output_shapes
    return convolution_flops(inputs[0], inputs[1], outputs[0], over) if inputs and outputs and inputs[1:] else None


def _closing(text: str, at: int) -> int:
    """Return the index after the bracket that closes the one at *at*; the end of the text if none does."""
    depth = 0
    for match in _BRACKET.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    return len(text)


def _types(text: str) -> Types:
    return _parsed(text) if len(text) < _MOST_CACHED else _parsed.__wrapped__(text)


@lru_cache(4096)
def _parsed(text: str) -> Types:
    """Return the arrays of a shape or tuple, ``(f32[2]{0}, s32[])``; ``<=8`` is the bound of an unknown dimension."""
    arrays = _ARRAY.findall(text)
    dtypes = tuple(dtype for dtype, _ in arrays)
    try:
        shapes = tuple(tuple(map(int, filter(None, shape.split(",")))) for _, shape in arrays)
    except ValueError:
        return Types(dtypes)
    return Types(dtypes, shapes)


FORMAT = Format("HLO text (XLA)", recognises, read)
