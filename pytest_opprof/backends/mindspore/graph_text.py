"""The text of a graph that MindSpore has compiled: its kernels, what each reads and writes, and who asks for it.

The pass ``graph_build`` has the kernels that run, under the names that the profiler writes, casts that a kernel needs
for itself included::

    %7(x) = PrimFunc_Cast(%6) primitive_attrs: {is_backend_cast: Bool(0), ...}
        : (<Tensor[Float32], (16, 64)>) -> (<Tensor[Float16], (16, 64)>)
        : (<Float32xDefaultFormat[const vector]{16, 64}>) -> (<Float16xDefaultFormat[const vector]{16, 64}>)
        : (Tensor) -> (Tensor)
        # Fullname with scope: (Default/d-Dense/Cast-op0)

The pass ``execute``, the last of the program itself, has the lines that ask for its ops. In ``graph_build`` nodes that
were made anew have those of others. Names have other numbers there, since casts inside and expanded ops are new::

        # In file /home/me/net.py:8~10, 4~97/    def construct(self, x):/
        # In file /home/me/net.py:10, 22~30/        return self.d(x)/

Seen: 2.7.0 and 2.10.0 on a CPU. 2.7 writes graphs of PyNative mode before kernels are chosen, without the second line
of types.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...formats.mindspore_files import op_type
from ...ops.signature import Shape, Signature
from ...sites.chains import Frame
from ...sites.code import Kind, kinds

_NODE = re.compile(r"  %\d+\(.*?\) = (\w+)\(")
_END = "  %0(end) = Return("
_NAME = re.compile(r"      # Fullname with scope: \((.+)\)\s*$")
_TYPES = "      : ("
_NO_KERNELS = frozenset(["Load", "UpdateState", "Depend", "MakeTuple", "TupleGetItem", "Return"])
_CHOSEN = re.compile(r"<(\w+)x\w+\[[^\]]*\]\{([^}]*)\}>")
"""What a kernel takes: dtype, layout and shape."""
_TENSOR = re.compile(r"<(?:Ref\[)?Tensor\[(\w+)\]\]?, \(([^)]*)\)")
"""What is known before a kernel is chosen."""
_NO_TENSORS = frozenset(["Scalar", "Tuple"])
_LINE = re.compile(r"      # In file (.+?):(\d+)(?:~\d+)?, \d+~\d+/\s*(.*)/$")
_FUNCTION = re.compile(r"(?:async )?def (\w+)|(?=@)")
"""The line before that of a statement: the function that it is in, or what decorates that."""
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
    op, name, is_inner, types, frames, function = "", "", False, list[str](), list[Frame](), ""
    for line in [*lines, _END]:
        if node := _NODE.match(line):
            if name and types and op not in _NO_KERNELS:
                yield name, Kernel(_signature(types), is_inner, tuple(reversed(frames)))
            op, name, is_inner, types, frames = node[1], "", _INNER in line, [], []
        elif line.startswith(_TYPES):
            types.append(line)
        elif found := _NAME.match(line):
            name = found[1]
        elif found := _LINE.match(line):
            if header := _FUNCTION.match(found[3]):
                function = header[1] or function
            elif kinds[found[1]] is Kind.TRACED:
                frames.append(Frame(found[1], function, int(found[2])))


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


def _signature(types: Sequence[str]) -> Signature:
    """Return what the lines of types of a node tell of its tensors."""
    inputs, outputs = ([*_tensors(types, side)] for side in (0, 1))
    return Signature(
        tuple(dtype for dtype, _ in inputs),
        tuple(dtype for dtype, _ in outputs),
        _static([shape for _, shape in inputs]),
        _static([shape for _, shape in outputs]),
    )


def _tensors(types: Sequence[str], side: int) -> Iterator[tuple[str, Shape]]:
    """Yield dtype and shape of each tensor that a kernel takes (*side* 0) or gives (1)."""
    texts = [line.partition(") -> (")[::2][side] for line in types]
    is_chosen = len(texts) > 2 and bool(_CHOSEN.search(texts[1]))
    found = (_CHOSEN if is_chosen else _TENSOR).findall(texts[is_chosen])
    kinds = texts[2].strip(" :()\n").split(", ") if is_chosen else []
    for place, (dtype, shape) in enumerate(found):
        if len(kinds) != len(found) or kinds[place] not in _NO_TENSORS:
            yield dtype.lower(), tuple(int(size) for size in shape.split(",") if size.strip())


def _static(shapes: Sequence[Shape]) -> tuple[Shape, ...] | None:
    """Return the shapes, or None where one is known only when it runs."""
    return None if any(size < 0 for shape in shapes for size in shape) else tuple(shapes)
