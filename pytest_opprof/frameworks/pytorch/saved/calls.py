"""Calls of ops, for both traces of PyTorch: the signature of a call, and its canonical op."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ....ops.dtypes import of_pytorch_event
from ....ops.names import Meaning
from ....ops.signature import Shape
from ....profile.op_key import CallSite
from ..events import NO_OPS, Role, is_made_by, meaning_as, role
from ..formulas import FACTORIES
from ..work import COPIES, Work, recorded_work, shape_of


class Tensors(NamedTuple):
    """The shapes and dtypes of a call's tensors; the fields are those of `SavedOp`."""

    input_shapes: tuple[Shape, ...] | None = None
    output_shapes: tuple[Shape, ...] | None = None
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """All calls with the same name and signature."""

    name: str
    category: str
    dims: bytes
    """``Input Dims`` as JSON, as written in the file."""
    types: bytes
    numbered: bool
    """Whether autograd gave them sequence numbers."""
    logged: Collection[str] = field(compare=False)
    """The names of all recorded events that torch.compile wrote into its own log."""
    values: bytes = b""
    """``Concrete Inputs`` as JSON, of ops whose work depends on more than shapes."""
    site: CallSite | None = None
    """The source line of the calls."""

    @cached_property
    def is_copy(self) -> bool:
        """Whether the op copies a tensor, so that it is a cast if the two dtypes differ."""
        return self.name in COPIES

    @cached_property
    def tensors(self) -> tuple[tuple[Shape | None, str], ...]:
        """The shape and dtype of each tensor input, lists included; a dtype of "" is unknown."""
        found: list[tuple[Shape | None, str]] = []
        for kind, shape in zip(_list(self.types), _list(self.dims)):
            if kind == "TensorList" and isinstance(shape, list):
                found += [(shape_of(each), "") for each in shape]
            elif isinstance(kind, str) and (dtype := of_pytorch_event(kind)):
                found.append((shape_of(shape), dtype))
        return tuple(found)

    @property
    def inputs_and_outputs(self) -> Tensors:
        """The known shapes and dtypes. The first argument of a copy is its output.

        The tensor that a factory op imitates is left out, because it is not read.
        """
        if self.name in FACTORIES:
            made = self.work.signature
            return Tensors(made.input_shapes and (), made.input_shapes, (), made.input_dtypes or ())
        shapes, dtypes = zip(*self.tensors) if self.tensors else ((), ())
        ends = 1 if self.is_copy and len(shapes) > 1 else 0
        known = bool(self.types) and None not in shapes
        return Tensors(
            shapes[ends : 2 * ends or None] if known else None,
            shapes[:ends] if known and ends else None,
            dtypes[ends : 2 * ends or None],
            dtypes[:ends],
        )

    @cached_property
    def work(self) -> Work:
        """The arguments and amount of work of a call; empty if shapes were not recorded."""
        types = _list(self.types)
        return recorded_work(self.name, types, _list(self.dims) if types else [], [*map(_value, _list(self.values))])

    @cached_property
    def annotates(self) -> bool:
        """Whether it is a `record_function`. In 2021 these had the category of ops; no op has a # in its name."""
        return self.category == "user_annotation" or (self.category == "Operator" and "#" in self.name)

    @cached_property
    def role(self) -> Role:
        """Its role: an op or something else."""
        return role(self.name, self.annotates, self.numbered, self.name in self.logged)

    @cached_property
    def meaning(self) -> Meaning | None:
        """Its canonical op; None for anything but an op, such as an annotation."""
        if self.role in NO_OPS:
            return None
        if not self.is_copy:
            return meaning_as(self.role, self.name)
        shapes, dtypes = zip(*self.tensors[:2]) if self.tensors else ((), ())
        return meaning_as(self.role, self.name, dtypes, bool(shapes) and not any(shape != () for shape in shapes))

    def is_made_by(self, move: str) -> bool:
        """Return True if these are copies that the device makes by the memcpy *move*; the memcpy is counted instead."""
        return bool(self.meaning and is_made_by(self.meaning, move))


def json_text(value: bytes) -> str:
    """Return the text of a JSON string; "" for any other JSON."""
    try:
        text = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""


def _value(text: object) -> object:
    """Return a non-tensor argument, ``[1, 1]`` or ``False``; text as it is, None if it is not recorded."""
    try:
        return literal_eval(text) if isinstance(text, str) and text else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _list(text: bytes) -> list[Any]:
    try:
        value = json.loads(text or b"[]")
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []
