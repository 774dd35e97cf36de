"""Parse the text of a compiled MindSpore graph: its kernels, their reads and writes, and their source lines.

The pass ``graph_build`` has the kernels that run, under the names that the profiler writes, including casts that a
kernel needs for itself. The pass ``execute``, the last of the program itself, has the source lines of its ops. In
``graph_build`` newly made nodes have the lines of others. Names have other numbers there, since casts inside and
expanded ops are new. The form of a node: `nodes`.

Tested: 2.7.0 and 2.10.0 on a CPU. 2.7 writes graphs of PyNative mode before kernels are chosen, without the second line
of types.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ....ops.signature import Signature
from ....sites.chains import Frame
from ....sites.code import Kind, kinds
from ..file_lines import op_type
from ..nodes import NO_OPS, Nodes

_INNER = "is_backend_cast: Bool(1)"
# Begins the names of kernels that stand for one op: ``Expand/_Muls/Mul-op0``.
_EXPANDED = "Expand/_"


class Kernel(NamedTuple):
    """A node of a graph that runs."""

    signature: Signature
    is_inner: bool = False
    """Whether it is a cast that another kernel needs."""
    lines: tuple[Frame, ...] = ()
    """The program's lines that call it, the innermost first; none if unknown."""


# By full name.
Graph = Mapping[str, Kernel]


def kernels(lines: Iterable[str]) -> Iterator[tuple[str, Kernel]]:
    """Yield the full name of each kernel in the text of a graph, and the kernel."""
    nodes = Nodes()
    for node in (*map(nodes.take, lines), nodes.close()):
        if node and node.name and node.types and node.op and node.op not in NO_OPS:
            frames = tuple(Frame(*line) for line in node.lines if kinds[line.file] is Kind.TRACED)
            yield node.name, Kernel(node.signature, _INNER in node.text, frames)


def with_lines(graph: Graph, program: Graph) -> Graph:
    """Return *graph* with the lines of the same ops in *program*, the graph before kernels were chosen.

    Names are numbered by scope and type, so if both have as many, the first of one is the first of the other.
    """
    asked, scopes = _by_kind(program), defaultdict[str, list[str]](list)
    for scope, op in asked:
        scopes[op].append(scope)
    lines = dict[str, tuple[Frame, ...]]()
    for (scope, op), names in _by_kind({name: kernel for name, kernel in graph.items() if not kernel.is_inner}).items():
        kind = scope, op
        if scope.startswith(_EXPANDED) and len(homes := scopes[scope.removeprefix(_EXPANDED)]) == 1:
            kind = homes[0], scope.removeprefix(_EXPANDED)
        if len(found := asked.get(kind, [])) == len(names):
            lines |= zip(names, (program[name].lines for name in found))
    return {name: kernel._replace(lines=lines.get(name, ())) for name, kernel in graph.items()}


def _by_kind(graph: Graph) -> dict[tuple[str, str], list[str]]:
    """Return the names by scope and type, in the order of their numbers."""
    found = defaultdict[tuple[str, str], list[str]](list)
    for name in sorted(graph, key=_number):
        found[name.rpartition("/")[0], op_type(name)].append(name)
    return found


def _number(name: str) -> int:
    number = name.rpartition("-op")[2]
    return int(number) if number.isdecimal() else 0
