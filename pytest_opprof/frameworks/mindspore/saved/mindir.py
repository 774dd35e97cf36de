"""Models that MindSpore exports, ``export(..., file_format="MINDIR")``: ops of the graph, without a run or MindSpore.

A protobuf, ``ModelProto`` of MindSpore's ``mind_ir.proto``: ir_version 1, producer_name 2, model_version 5, graph 7,
functions 8, primitives 12. ``GraphProto``: node 1, name 2, parameter 3, input 5. ``NodeProto``: input 1, output 2,
op_type 4, attribute 5, domain 7, which is the name with its scope. An op_type is ``REF::`` and the name of a primitive
(name 1, op_type 2), of a called graph, or of a value that is one: a ``Partial`` of a graph, or a ``Switch`` between
two. The attribute ``shape`` of a node has the tensors that it gives (12), of several in its values (17).
``TensorProto``: dims 1, data_type 2, name 7.

Dtypes and shapes are those in the model; there are no lines. Weights are skipped: the file is mapped, not read. An
encrypted model is not recognised. Tested: 2.0.0, 2.7.1 and 2.10.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ....errors import TraceError
from ....ops.signature import Shape
from ....profile.environment import Environment
from ....profile.saved import SavedOp, SavedProfile
from ...files.format import Format, Options
from ...files.mapped import content
from ...files.place import Place
from ...files.programs import MOST_OPS
from ...files.protobuf import BYTES, Broken, Data, Field, fields, numbers, signed, text
from ..nodes import NO_OPS
from ..work import flops
from .subgraphs import Subgraph, counted

# The first two fields: the version, and the program that wrote the file.
_BEGIN = re.compile(rb"\n[\x01-\x20][\w.\-]+\x12\tMindSpore", re.DOTALL)
_REFERENCE = "REF::"
_CONSTANT = "Constant"
_NO_NODES = NO_OPS | {_CONSTANT}
_MOST_DEPTH = 16
_MOST_VALUES = 2_000_000
_MOST_BRANCHES = 1000
_DTYPES = dict(
    enumerate(
        """float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128
        bfloat16 float64 int4""".split(),
        1,
    )
)


class _Tensor(NamedTuple):
    """The dtype and shape of a tensor in the model."""

    dtype: str
    shape: Shape


def recognises(place: Place) -> bool:
    """Return True if the file begins like a MindSpore model."""
    return _BEGIN.match(place.head) is not None


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops, at most `MOST_OPS`; memory is needed for these and for names of values. Raises TraceError."""
    with content(place) as data:
        model = _Model(data)
        try:
            model.read()
        except Broken as error:
            raise TraceError(f"{place}: is not a complete MindIR model ({error}). Was it copied whole?") from None
    if not model.entry:
        raise TraceError(f"{place}: has no graph, so it is not a MindIR model")
    records, remarks = counted(place, model.graphs, [model.entry])
    return SavedProfile(
        source="MindSpore model, MINDIR (static: no run)",
        environment=Environment((("mindspore", model.version),), "", ""),
        records=records,
        remarks=remarks,
    )


class _Model:
    def __init__(self, data: Data) -> None:
        self.graphs: dict[str, Subgraph] = {}
        self.entry = ""
        self.version = ""
        self._data = data
        self._primitives: dict[str, str] = {}
        self._tensors: dict[str, tuple[_Tensor, ...]] = {}
        """The tensors of each value; () for a value without tensors."""
        self._functions: dict[str, frozenset[str]] = {}
        """The graphs that each function value may be."""
        self._ops = 0

    def read(self) -> None:
        """Read all graphs. Raises Broken."""
        graphs: list[tuple[Subgraph, Field]] = []
        for field in fields(self._data, 0, len(self._data)):
            if field.number in (7, 8) and field.wire == BYTES:
                name = next((text(self._data, each) for each in self._all(field) if each.number == 2), "")
                self.entry = name if field.number == 7 else self.entry
                graphs.append((self.graphs.setdefault(name, Subgraph()), field))
            elif field.number == 12 and field.wire == BYTES:
                names = {each.number: text(self._data, each) for each in self._all(field) if each.number in (1, 2)}
                self._primitives[names.get(1, "")] = names.get(2, "")
            elif field.number == 5:
                self.version = text(self._data, field)
        for graph, field in graphs:
            self._graph(graph, field)

    def _all(self, message: Field) -> Iterator[Field]:
        return fields(self._data, message.start, message.end)

    def _graph(self, graph: Subgraph, message: Field) -> None:
        nodes: list[Field] = []
        for field in self._all(message):
            if field.number == 1 and field.wire == BYTES:
                nodes.append(field)
            elif field.number == 3 and field.wire == BYTES:
                parameter, tensor, _ = self._tensor(field)
                self._state(parameter, (tensor,))
            elif field.number == 5 and field.wire == BYTES:
                inside = list(self._all(field))
                value = next((text(self._data, each) for each in inside if each.number == 1), "")
                tensors = tuple(self._tensor(each)[1] for each in inside if each.number == 2 and each.wire == BYTES)
                self._state(value, tensors)
        for node in nodes:
            self._node(graph, node)

    def _node(self, graph: Subgraph, message: Field) -> None:
        self._ops += 1
        if self._ops > MOST_OPS:
            raise Broken(f"more than {MOST_OPS} nodes at byte {message.start}")
        inputs: list[str] = []
        output = type_ = name = ""
        attributes: list[Field] = []
        for field in self._all(message):
            if field.number == 1:
                inputs.append(text(self._data, field))
            elif field.number == 2:
                output = text(self._data, field)
            elif field.number == 4:
                type_ = text(self._data, field)
            elif field.number == 5 and field.wire == BYTES:
                attributes.append(field)
            elif field.number == 7:
                name = text(self._data, field)
        tells = "value" if type_ == _CONSTANT else "shape"
        self._state(output, tuple(tensor for each in attributes for tensor in self._attribute(each, tells)))
        called = type_.removeprefix(_REFERENCE)
        if called in self.graphs:
            graph.call([called])
        elif called in self._functions:
            graph.call(sorted(self._functions[called]))
        else:
            self._op(graph, name or output, self._primitives.get(called, called), inputs, output)

    def _op(self, graph: Subgraph, name: str, type_: str, inputs: list[str], output: str) -> None:
        functions = frozenset[str]().union(*(self._function(value) for value in inputs))
        if len(functions) > _MOST_BRANCHES:
            raise Broken(f"a value that may be more than {_MOST_BRANCHES} graphs")
        if functions and type_ in ("Partial", "Switch", "SwitchLayer", "MakeTuple", "Depend"):
            self._functions[output] = functions
        graph.named |= functions
        if type_ in _NO_NODES:
            return
        read = [tensor for value in inputs for tensor in self._tensors.get(value, ())]
        written = self._tensors.get(output, ())
        input_shapes, output_shapes = _static(read), _static(written)
        graph.records.append(
            SavedOp(
                name,
                type_,
                computation=flops(type_, input_shapes or (), output_shapes or ()),
                input_shapes=input_shapes,
                output_shapes=output_shapes,
                input_dtypes=tuple(tensor.dtype for tensor in read),
                output_dtypes=tuple(tensor.dtype for tensor in written),
            )
        )

    def _function(self, value: str) -> frozenset[str]:
        return frozenset([value]) if value in self.graphs else self._functions.get(value, frozenset())

    def _attribute(self, message: Field, name: str, depth: int = 0) -> list[_Tensor]:
        """Return the tensors in an attribute of this *name*, also those in its values. Raises Broken."""
        if depth > _MOST_DEPTH:
            raise Broken(f"values {_MOST_DEPTH} deep at byte {message.start}")
        found: list[_Tensor] = []
        for field in self._all(message):
            if field.number == 1 and not depth and text(self._data, field) != name:
                return []
            if field.number == 12 and field.wire == BYTES:
                tensor = self._tensor(field)
                found += [tensor[1]] if tensor[2] or name == "shape" else []
            elif field.number == 17 and field.wire == BYTES:
                found += self._attribute(field, name, depth + 1)
        return found

    def _tensor(self, message: Field) -> tuple[str, _Tensor, bool]:
        """Return the name of a tensor, its dtype and shape, and whether it has data; a tensor without data denotes a
        dtype.

        Raises Broken.
        """
        name, dtype, shape, has_data = "", "", list[int](), False
        for field in self._all(message):
            if field.number == 1:
                shape += map(signed, numbers(self._data, field))
            elif field.number == 2:
                dtype = _DTYPES.get(field.value, "")
            elif field.number == 7:
                name = text(self._data, field)
            else:
                has_data = True
        return name, _Tensor(dtype, tuple(shape)), has_data

    def _state(self, name: str, tensors: tuple[_Tensor, ...]) -> None:
        if len(self._tensors) >= _MOST_VALUES:
            raise Broken(f"more than {_MOST_VALUES} values")
        self._tensors[name] = tensors


def _static(tensors: list[_Tensor] | tuple[_Tensor, ...]) -> tuple[Shape, ...] | None:
    """Return the shapes, or None if one is dynamic."""
    shapes = tuple(tensor.shape for tensor in tensors)
    return shapes if all(size >= 0 for shape in shapes for size in shape) else None


FORMAT = Format("MindSpore model (MINDIR)", recognises, read)
