"""Parse the text of a MindSpore graph node by node: for live tests and for files.

A node is a line with its op, lines of types, its name and its source lines, outermost first::

    %7(x) = PrimFunc_Cast(%6) primitive_attrs: {is_backend_cast: Bool(0), ...}
        : (<Tensor[Float32], (16, 64)>) -> (<Tensor[Float16], (16, 64)>)
        : (<Float32xDefaultFormat[const vector]{16, 64}>) -> (<Float16xDefaultFormat[const vector]{16, 64}>)
        : (Tensor) -> (Tensor)
        # Fullname with scope: (Default/d-Dense/Cast-op0)
        # In file /home/me/net.py:8~10, 4~97/    def construct(self, x):/
        # In file /home/me/net.py:10, 22~30/        return self.d(x)/

The second line of types exists once kernels are chosen: a kernel may take other dtypes than the program. Several
tensors are a tuple: ``<Tuple[Tensor[Float32]*2], TupleShape((2, 3), (2, 3))>``. Sub-graphs are called by name, or by a
node's output: ``call @name(%1)``, ``%3[@FuncUnion(@one, @other)]()``.

Seen: 2.0.0, 2.7.0, 2.7.1 and 2.10.0 on a CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from ...ops.signature import Shape, Signature

_NODE = re.compile(r"  (?:%\d+(?:\(.*?\))? = |(?=Return\())(?:(?:PrimFunc_|[\w:]*S-Prim-)?([^\s(@%\[]+)\()?")
# Up to 2.0 there is only the scope.
_NAME = re.compile(r"      # (Fullname with scope|Scope): \((.+)\)\s*$")
_TYPES = "      : ("
# Up to 2.1 without columns, and without the functions around it.
_LINE = re.compile(r"      # (?:inlined:)?In file (.+?):(\d+)(?:~\d+)?(?:, \d+~\d+)?/\s*(.*)/")
# The line before that of a statement: the enclosing function, or its decorator.
_FUNCTION = re.compile(r"(?:async )?def (\w+)|(?=@)")
# An argument of a kernel: dtype, layout and shape.
_CHOSEN = re.compile(r"<(\w+)x\w+\[[^\]]*\]\{([^}]*)\}>")
_NO_TENSORS = frozenset(["Scalar", "Tuple"])
# An argument of the program: type and shape of a tensor, a number or a tuple of these, up to the end or a remark.
_VALUE = re.compile(r"<([^<>]*)")
_SHAPE_BEGINS = re.compile(r", (?:\w*Shape\b|\()")
_LEAF = re.compile(r"(?:(Tensor)\[(\w+)\]|\b\w+\b(?!\[))(?:\*(\d{1,9}))?")
_SHAPE = re.compile(r"(?<!Shape)\(([-\d, ]*)\)|NoShape")
# Kept lines of a node: a real one has 3 of types, and as many of the program as its calls are deep.
_MOST_TYPES, _MOST_LINES = 8, 1000
# Characters of a value that is remembered.
_MOST_KEPT = 2000
# Nodes for grouping or ordering: none of them runs as an op.
NO_OPS = frozenset(
    """Load UpdateState Depend MakeTuple TupleGetItem Return MakeList ListGetItem RealMakeTuple RealTupleGetItem Partial
    Switch SwitchLayer call resolve getattr J StopGradient MakeKeywordArg ExtractKeywordArg make_dict""".split()
)


class Line(NamedTuple):
    """A line of the program."""

    file: str
    function: str
    line: int


class Node(NamedTuple):
    """A node of a graph."""

    op: str
    """Empty for a call of a sub-graph."""
    text: str
    """The line with its op."""
    name: str
    """With its scope: ``Default/d-Dense/Cast-op0``."""
    types: tuple[str, ...]
    lines: tuple[Line, ...]
    """The lines that call it, the innermost first."""

    @property
    def signature(self) -> Signature:
        """The reads and writes of the node."""
        inputs, outputs = (_tensors(self.types, side) for side in (0, 1))
        return Signature(
            tuple(dtype for dtype, _ in inputs),
            tuple(dtype for dtype, _ in outputs),
            _static([shape for _, shape in inputs]),
            _static([shape for _, shape in outputs]),
        )


class Nodes:
    """Assembles the nodes of a graph, line by line."""

    def __init__(self, lines: bool = True) -> None:
        """With *lines*, keep source lines."""
        self._keeps_lines = lines
        self._node: tuple[str, str] | None = None
        self._name = self._function = ""
        self._types: list[str] = []
        self._lines: list[Line] = []

    def take(self, line: str) -> Node | None:
        """Take the next line; return the node before it if it begins another one."""
        # Two characters tell most lines from nodes, which are a tenth of them: 20 % of the time.
        if line[2:3] != " " and (found := _NODE.match(line)):
            done = self.close()
            self._node = found[1] or "", line
            return done
        if line.startswith(_TYPES) and len(self._types) < _MOST_TYPES:
            self._types.append(line)
        elif named := _NAME.match(line):
            self._name = named[2] if named[1] != "Scope" or not self._node else f"{named[2]}/{self._node[0]}"
        elif self._keeps_lines and (asks := _LINE.match(line)):
            if header := _FUNCTION.match(asks[3]):
                self._function = header[1] or self._function
            elif len(self._lines) < _MOST_LINES:
                self._lines.append(Line(asks[1], self._function or "?", int(asks[2])))
        return None

    def close(self) -> Node | None:
        """Return the last node, if there is one."""
        node, name, types, lines = self._node, self._name, tuple(self._types), tuple(reversed(self._lines))
        self._node, self._name, self._types, self._lines = None, "", [], []
        return Node(*node, name, types, lines) if node else None


def _tensors(types: Sequence[str], side: int) -> list[tuple[str, Shape | None]]:
    """Return dtype and shape of each input (*side* 0) or output (1) of a node."""
    texts = [line.partition(") -> (")[::2][side] for line in types]
    if len(texts) > 2 and _CHOSEN.search(texts[1]):
        found = _CHOSEN.findall(texts[1])
        kinds = texts[2].strip(" :()\n").split(", ")
        return [
            (dtype.lower(), _sizes(shape))
            for place, (dtype, shape) in enumerate(found)
            if len(kinds) != len(found) or kinds[place] not in _NO_TENSORS
        ]
    values = _VALUE.findall(texts[0] if texts else "")
    # A long value is not kept: 4096 of 4 MiB each would be 16 GiB.
    return [tensor for value in values for tensor in (_of_value if len(value) < _MOST_KEPT else _parsed)(value)]


@lru_cache(4096)
def _of_value(value: str) -> tuple[tuple[str, Shape | None], ...]:
    return _parsed(value)


def _parsed(value: str) -> tuple[tuple[str, Shape | None], ...]:
    """Return dtype and shape of the tensors in ``Tuple[Tensor[Float32]*2], TupleShape((2, 3), (2, 3))``."""
    begins = _SHAPE_BEGINS.search(value)
    kinds, shapes = (value[: begins.start()], value[begins.start() :]) if begins else (value.partition(", ")[0], "")
    found = [None if shape[0] == "NoShape" else _sizes(shape[1]) for shape in _SHAPE.finditer(shapes)]
    leaves = list(_leaves(kinds, len(found)))
    pairs = zip_longest(leaves, found) if len(found) == len(leaves) else ((leaf, None) for leaf in leaves)
    return tuple((dtype.lower(), shape) for dtype, shape in pairs if dtype)


def _leaves(kinds: str, most: int) -> Iterator[str]:
    """Yield the dtype of each tensor, and "" for anything else; of repeated ones, *most* and one at least."""
    for leaf in _LEAF.finditer(kinds):
        yield from [leaf[2] if leaf[1] else ""] * min(int(leaf[3] or 1), max(most, 1))


def _sizes(shape: str) -> Shape | None:
    try:
        return tuple(int(size) for size in shape.split(",") if size.strip())
    except ValueError:
        return None


def _static(shapes: Sequence[Shape | None]) -> tuple[Shape, ...] | None:
    """Return the shapes, or None if one is dynamic."""
    known = tuple(shape for shape in shapes if shape is not None and all(size >= 0 for size in shape))
    return known if len(known) == len(shapes) else None
