"""The text of a graph that MindSpore has compiled: its kernels, what each reads and writes, and who asks for it.

The pass ``graph_build`` has the kernels that run, under the names that the profiler writes, casts that a kernel needs
for itself included. The pass ``execute``, the last of the program itself, has the lines that ask for its ops. In
``graph_build`` nodes that were made anew have those of others. Names have other numbers there, since casts inside and
expanded ops are new. How a node is written: `nodes`.

Seen: 2.7.0 and 2.10.0 on a CPU. 2.7 writes graphs of PyNative mode before kernels are chosen, without the second line
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
_EXPANDED = "Expand/_"
"""Begins the names of kernels that stand for one op: ``Expand/_Muls/Mul-op0``."""


class Kernel(NamedTuple):
    """A node of a graph that runs."""

    signature: Signature
    is_inner: bool = False
    """Whether it is a cast that another kernel needs."""
    lines: tuple[Frame, ...] = ()
    """Those of the program that ask for it, the innermost first; none where that is not known."""


Graph = Mapping[str, Kernel]
"""By full name."""


def kernels(lines: Iterable[str]) -> Iterator[tuple[str, Kernel]]:
    """Yield the full name of each kernel in the text of a graph, and what it is."""
    nodes = Nodes()
    for node in (*map(nodes.take, lines), nodes.close()):
        if node and node.name and node.types and node.op and node.op not in NO_OPS:
            frames = tuple(Frame(*line) for line in node.lines if kinds[line.file] is Kind.TRACED)
            yield node.name, Kernel(node.signature, _INNER in node.text, frames)


def with_lines(graph: Graph, program: Graph) -> Graph:
    """Return *graph* with the lines that *program*, the graph before kernels were chosen, has for the same ops.

    Names are numbered by scope and type, so the first of one is the first of the other where there are as many.
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
