"""ONNX models: count the ops of the graph by type, without running it. The ``onnx`` package is not needed.

A protobuf, ``ModelProto``: ir_version 1, producer_name 2, graph 7, functions 25. ``GraphProto``: node 1, initializer 5,
input 11, output 12, value_info 13. ``NodeProto``: input 1, output 2, name 3, op_type 4, attribute 5 (its integer: 3,
its graphs: 6 and 11), domain 7, overload 8. ``FunctionProto``: name 1, node 7, domain 10, overload 13.

The nodes in a branch of If, in the body of Loop or Scan count once. The nodes in a function of the model count as often
as it is called; the call itself does not count. Constant is a node like others. The type is op_type; after its domain,
if that is neither ONNX's nor ONNX Runtime's. Dtypes and shapes are those in the model (inputs, outputs, value_info,
initializers; the ``to`` of a Cast), lines those of `stack_traces`. Weights are skipped: the file is mapped, not read.
Tested: onnx 1.23.2, IR 9 and 10, with functions and subgraphs, and a model made by hand with 2 GB of weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ....errors import TraceError
from ....ops.signature import Shape
from ....profile.environment import Environment
from ....profile.op_key import CallSite
from ....profile.saved import SavedOp, SavedProfile
from ....sites.chains import Frame
from ....sites.recorded import recorded
from ...files.format import Format, Options
from ...files.mapped import content
from ...files.place import Place
from ...files.programs import MOST_OPS, ONCE, Function, executed
from ...files.protobuf import BYTES, VARINT, Broken, Data, Field, fields, inside, numbers, text
from ..stack_traces import Line, of_node, stack_traces

_MODEL = {1: VARINT, 5: VARINT, **dict.fromkeys([2, 3, 4, 6, 7, 8, 14, 20, 25, 26], BYTES)}
_MOST_DEPTH = 64
_MOST_VALUES = 2_000_000
_GRAPH = "the graph"
_PLAIN_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
_DTYPES = dict(
    enumerate(
        """float uint8 int8 uint16 int16 int32 int64 string bool float16 double uint32 uint64 complex64 complex128
        bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz uint4 int4 float4e2m1 float8e8m0 uint2
        int2""".split(),
        1,
    )
)


def site_of(traces: Mapping[str, tuple[Line, ...]], node: str) -> CallSite | None:
    """Return the source line of *node*, by the stack traces of its model; None if they have none."""
    lines = of_node(traces, node)
    return CallSite(recorded(Frame(*line) for line in lines)) if lines else None


class _Value(NamedTuple):
    """The dtype and shape of a tensor in the model."""

    dtype: str
    shape: Shape | None


def recognises(place: Place) -> bool:
    """Return True if the file begins with fields of a model, among them a version and a graph."""
    found: dict[int, int] = {}
    try:
        for field in fields(place.head, 0, len(place.head), cut=True):
            if _MODEL.get(field.number) != field.wire:
                return False
            found[field.number] = field.value
    except Broken:
        return False
    return 0 < found.get(1, 0) < 1000 and 7 in found


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops, at most `MOST_OPS`; memory is needed for these and for names of tensors. Raises TraceError."""
    with content(place) as data:
        model = _Model(data, stack_traces(data) if options.sites else {})
        try:
            model.read()
        except Broken as error:
            raise TraceError(f"{place}: is not a complete ONNX model ({error}). Was it copied whole?") from None
        if _GRAPH not in model.functions:
            raise TraceError(f"{place}: has no graph, so it is not an ONNX model")
    return SavedProfile(
        source="ONNX model (static: no run)",
        environment=Environment((("onnx", ""),), "", ""),
        records=executed(place, model.functions, _GRAPH),
        remarks=(ONCE.format("a loop or branch"),) if model.has_bodies else (),
    )


class _Model:
    def __init__(self, data: Data, traces: Mapping[str, tuple[Line, ...]]) -> None:
        """*traces* are the lines of nodes, if requested."""
        self.functions: dict[str, Function] = {}
        self.has_bodies = False
        self._data = data
        self._traces = traces
        self._values: dict[str, _Value] = {}
        self._ops = 0

    def read(self) -> None:
        """Read the graph, then the functions. Raises Broken."""
        for field in self._all(0, len(self._data)):
            if (field.number, field.wire) == (7, BYTES):
                self._graph(self.functions.setdefault(_GRAPH, Function()), field, 0)
            elif (field.number, field.wire) == (25, BYTES):
                self._values.clear()
                self._function(field)
        # A node with the name of a function is a call of it.
        for function in self.functions.values():
            kept = [record for record in function.records if record.id not in self.functions]
            function.called.update(record.id for record in function.records if record.id in self.functions)
            function.records = [record._replace(id="") for record in kept]

    def _all(self, start: int, end: int) -> Iterator[Field]:
        return fields(self._data, start, end)

    def _function(self, message: Field) -> None:
        texts = {
            field.number: text(self._data, field)
            for field in self._all(message.start, message.end)
            if field.number in (1, 10, 13)
        }
        function = self.functions.setdefault(_key(texts.get(10, ""), texts.get(1, ""), texts.get(13, "")), Function())
        for field in self._all(message.start, message.end):
            if (field.number, field.wire) == (7, BYTES):
                self._node(function, field, 0)

    def _graph(self, function: Function, message: Field, depth: int) -> None:
        if depth > _MOST_DEPTH:
            raise Broken(f"graphs {_MOST_DEPTH} deep at byte {message.start}")
        nodes: list[Field] = []
        for field in self._all(message.start, message.end):
            if field.wire != BYTES:
                continue
            if field.number == 5:
                self._initializer(field)
            elif field.number in (11, 12, 13):
                self._value_info(field)
            elif field.number == 1:
                nodes.append(field)
        for node in nodes:
            self._node(function, node, depth)

    def _node(self, function: Function, message: Field, depth: int) -> None:
        self._ops += 1
        if self._ops > MOST_OPS:
            raise Broken(f"more than {MOST_OPS} nodes at byte {message.start}")
        inputs: list[str] = []
        outputs: list[str] = []
        texts: dict[int, str] = {}
        to = None
        for field in self._all(message.start, message.end):
            if field.number in (1, 2):
                (inputs if field.number == 1 else outputs).append(text(self._data, field))
            elif field.number in (3, 4, 7, 8):
                texts[field.number] = text(self._data, field)
            elif field.number == 5 and field.wire == BYTES:
                to = self._attribute(function, field, depth) or to
        domain, type_ = texts.get(7, ""), texts.get(4, "")
        if type_ == "Cast" and to and len(outputs) == 1:
            self._values.setdefault(outputs[0], _Value(to, None))
        function.records.append(
            SavedOp(
                texts.get(3) or next(iter(outputs), ""),
                type_ if domain in _PLAIN_DOMAINS else f"{domain}.{type_}",
                _key(domain, type_, texts.get(8, "")),
                input_shapes=self._shapes(inputs),
                output_shapes=self._shapes(outputs),
                input_dtypes=self._dtypes(inputs),
                output_dtypes=self._dtypes(outputs),
                site=site_of(self._traces, texts.get(3, "")),
            )
        )

    def _attribute(self, function: Function, message: Field, depth: int) -> str | None:
        """Count the nodes of the attribute's graphs; return the dtype of the attribute ``to``, None for others."""
        name, number = "", 0
        for field in self._all(message.start, message.end):
            if field.number == 1:
                name = text(self._data, field)
            elif field.number == 3:
                number = field.value
            elif field.number in (6, 11) and field.wire == BYTES:
                self.has_bodies = True
                self._graph(function, field, depth + 1)
        return _DTYPES.get(number) if name == "to" else None

    def _initializer(self, message: Field) -> None:
        name, dtype, shape = "", "", []
        for field in self._all(message.start, message.end):
            if field.number == 1:
                shape += numbers(self._data, field)
            elif field.number == 2:
                dtype = _DTYPES.get(field.value, "")
            elif field.number == 8:
                name = text(self._data, field)
        self._state(name, dtype, tuple(shape))

    def _value_info(self, message: Field) -> None:
        found = inside(self._data, message)
        # TypeProto.tensor_type, then its elem_type and shape.
        tensor = inside(self._data, inside(self._data, found.get(2)).get(1))
        shape: Shape | None = None
        if 2 in tensor:
            dimensions = [inside(self._data, field).get(1) for field in self._all(tensor[2].start, tensor[2].end)]
            known = [field.value for field in dimensions if field is not None]
            shape = tuple(known) if len(known) == len(dimensions) else None
        if 1 in tensor:
            self._state(text(self._data, found.get(1)), _DTYPES.get(tensor[1].value, ""), shape)

    def _state(self, name: str, dtype: str, shape: Shape | None) -> None:
        if len(self._values) >= _MOST_VALUES:
            raise Broken(f"more than {_MOST_VALUES} tensors")
        self._values[name] = _Value(dtype, shape)

    def _known(self, names: list[str]) -> list[_Value]:
        """Return dtype and shape of these tensors if all are known, else []. An omitted input has no name."""
        return [self._values[name] for name in names if name in self._values] if self._are_known(names) else []

    def _are_known(self, names: list[str]) -> bool:
        return all(name in self._values for name in names if name)

    def _dtypes(self, names: list[str]) -> tuple[str, ...]:
        dtypes = tuple(value.dtype for value in self._known(names))
        return dtypes if all(dtypes) else ()

    def _shapes(self, names: list[str]) -> tuple[Shape, ...] | None:
        shapes = [value.shape for value in self._known(names)]
        known = tuple(shape for shape in shapes if shape is not None)
        return known if self._are_known(names) and len(known) == len(shapes) else None


def _key(domain: str, name: str, overload: str) -> str:
    return f"{domain}::{name}::{overload}"


FORMAT = Format("ONNX model", recognises, read)
