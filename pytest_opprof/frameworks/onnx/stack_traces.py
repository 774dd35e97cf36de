"""Find the Python lines of a model's nodes: `torch.onnx.export` writes them into its output.

A node has the metadata ``pkg.torch.onnx.stack_trace`` (with ``dynamo=True``, the default from PyTorch 2.9 on): the text
of a traceback. Tested: PyTorch 2.13. Fields of the protobuf: ``ModelProto``: graph 7. ``GraphProto``: node 1.
``NodeProto``: name 3, attribute 5 (its graphs: 6 and 11), metadata_props 9 (key 1, value 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..files.protobuf import BYTES, Broken, Data, Field, fields, inside, text

# A file, a function in it, and the line.
Line = tuple[str, str, int]
_KEY = b"pkg.torch.onnx.stack_trace"
_MOST_DEPTH = 64
_LINE = re.compile(r'\s*File "(.*)", line (\d+), in (.*)')


def stack_traces(model: Data) -> dict[str, tuple[Line, ...]]:
    """Return the lines of each node, the innermost first. Empty if the model has none."""
    if model.find(_KEY) < 0:
        return {}
    found: dict[str, tuple[Line, ...]] = {}
    try:
        for field in fields(model, 0, len(model)):
            if (field.number, field.wire) == (7, BYTES):
                found.update(_of_graph(model, field, 0))
    except Broken:
        pass  # another format, which may contain the words
    return found


def of_node(traces: Mapping[str, tuple[Line, ...]], name: str) -> tuple[Line, ...]:
    """Return the lines of the node that ONNX Runtime calls *name*; empty if unknown.

    A fused node has the name of the first of its nodes.

    >>> of_node({"node_matmul": (("m.py", "f", 3),)}, "fused node_matmul/MatMulAddFusion")
    (('m.py', 'f', 3),)
    """
    name = name if name in traces else name.removeprefix("fused ")
    while name and name not in traces:
        name = name.rpartition("/")[0]
    return traces.get(name, ())


def _of_graph(model: Data, graph: Field, depth: int) -> Iterator[tuple[str, tuple[Line, ...]]]:
    if depth > _MOST_DEPTH:
        raise Broken(f"graphs {_MOST_DEPTH} deep")
    for node in fields(model, graph.start, graph.end):
        if (node.number, node.wire) != (1, BYTES):
            continue
        name, trace = "", ""
        for field in fields(model, node.start, node.end):
            if field.number == 3:
                name = text(model, field)
            elif field.number == 9:
                trace = _trace(inside(model, field), model) or trace
            elif (field.number, field.wire) == (5, BYTES):
                for attribute in fields(model, field.start, field.end):
                    if attribute.number in (6, 11) and attribute.wire == BYTES:
                        yield from _of_graph(model, attribute, depth + 1)
        if trace:
            lines = [match for match in map(_LINE.fullmatch, trace.splitlines()) if match]
            yield name, tuple((match[1], match[3], int(match[2])) for match in reversed(lines))


def _trace(entry: Mapping[int, Field], model: Data) -> str:
    """Return the value of an entry of the metadata, if it is a stack trace: longer than other texts."""
    if 1 not in entry or 2 not in entry or model[entry[1].start : entry[1].end] != _KEY:
        return ""
    return model[entry[2].start : entry[2].end].decode("utf-8", "replace")
