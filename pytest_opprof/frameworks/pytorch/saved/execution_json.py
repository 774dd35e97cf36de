"""The fields of an execution trace, as msgspec types. Imported only when such a file is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import MsgspecError, Raw, Struct, json

from ....errors import TraceError
from ...files.place import Place

_TENSOR = re.compile(rb'"Tensor\(([^"]*)\)"')
_LIST = re.compile(rb'"GenericList\[Tensor[^"]*"')


class _Inputs(Struct, gc=False):
    values: Raw = Raw(b"[]")
    shapes: Raw = Raw(b"[]")
    types: Raw = Raw(b"[]")


class _Attribute(Struct, gc=False):
    name: str = ""
    value: Any = None


class Node(Struct, gc=False, rename={"own_scope": "scope", "own_parent": "parent", "own_sequence": "seq_id"}):
    """A call; the last six fields are those of schema 1.0."""

    id: int
    name: str
    ctrl_deps: int = 0
    inputs: Raw = Raw(b"[]")
    attrs: Raw = Raw(b"[]")
    own_parent: int = 0
    own_scope: int = 0
    own_sequence: int = -1
    input_shapes: Raw = Raw(b"[]")
    input_types: Raw = Raw(b"[]")

    @property
    def parent(self) -> int:
        """The id of the call around this one."""
        return self.ctrl_deps or self.own_parent

    @property
    def scope(self) -> int:
        """The kind of the call: 7 is `record_function`."""
        return self._attribute("scope", self.own_scope)

    @property
    def sequence(self) -> int:
        """The sequence number from autograd; -1 for none."""
        return self._attribute("seq_id", self.own_sequence)

    def _attribute(self, name: str, otherwise: int) -> int:
        if name.encode() not in bytes(self.attrs):
            return otherwise
        attributes = json.decode(self.attrs, type=list[_Attribute])
        value = next((attribute.value for attribute in attributes if attribute.name == name), otherwise)
        return value if isinstance(value, int) else otherwise

    def tensors(self) -> tuple[bytes, bytes]:
        """Return the shapes and types of the inputs as JSON, in the form of the profiler's trace."""
        if bytes(self.inputs).startswith(b"{"):
            inputs = json.decode(self.inputs, type=_Inputs)
            shapes, types = bytes(inputs.shapes), bytes(inputs.types)
        else:
            shapes, types = bytes(self.input_shapes), bytes(self.input_types)
        return shapes, _TENSOR.sub(rb'"\1"', _LIST.sub(b'"TensorList"', types))

    def given(self) -> bytes:
        """Return the inputs after the first, a tensor, as JSON, in the form of the profiler's trace; empty for schema
        1.0.

        The tensor's address is left out, since with it no two calls would be equal.
        """
        if not bytes(self.inputs).startswith(b"{"):
            return b""
        values = json.decode(json.decode(self.inputs, type=_Inputs).values, type=list[Any])
        return json.encode(["", *("" if value == "<None>" else str(value) for value in values[1:])])

    def devices(self) -> list[str]:
        """Return the devices, without numbers, of the tensors among the first two inputs."""
        if not bytes(self.inputs).startswith(b"{"):
            return []
        values = json.decode(json.decode(self.inputs, type=_Inputs).values, type=list[Any])
        return [str(value[-1]).partition(":")[0] for value in values[:2] if isinstance(value, list) and value]


class _Document(Struct, gc=False):
    nodes: list[Node]


@contextmanager
def decoded(place: Place, most: int) -> Iterator[list[Node]]:
    """Yield the nodes, which decode on demand. Raises TraceError for any error, also a later one."""
    content = place.read(most)
    try:
        yield json.decode(content, type=_Document).nodes
    except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{place}: is not a complete execution trace: {error}. Was it copied whole?") from None
