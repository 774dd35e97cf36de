"""The graphs that MindSpore has compiled, kernel by kernel: what each of them reads and writes.

MindSpore writes a graph as text where its context says ``save_graphs``. The pass ``graph_build``, the last, has the
kernels that run, under the names that its profiler writes, casts that a kernel needs for itself included::

    %7(x) = PrimFunc_Cast(%6) primitive_attrs: {...}
        : (<Tensor[Float32], (16, 64)>) -> (<Tensor[Float16], (16, 64)>)
        : (<Float32xDefaultFormat[const vector]{16, 64}>) -> (<Float16xDefaultFormat[const vector]{16, 64}>)
        : (Tensor) -> (Tensor)
        # Fullname with scope: (Default/d-Dense/Cast-op0)

The graph that Python can ask for (`get_optimize_graph_proto`) is an earlier one: its casts have other numbers as soon
as a kernel casts inside, and functions under `jit` have none. Seen: 2.7.0 and 2.10.0 on a CPU. 2.7 writes the graphs of
PyNative mode before kernels are chosen, without the second line of types.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

from ...ops.mindspore_files import op_type
from ...ops.names import meaning
from ...ops.signature import Shape, Signature
from .profiler import Call

PASS = "graph_build"
_FILTER = "MS_DEV_DUMP_IR_PASSES"
"""Read when the first graph is written: without it, each of 50 passes writes every graph, and compiling takes 4 times
as long."""
_NODE = re.compile(r"  %\d+\(.*?\) = (\w+)\(")
_NAME = re.compile(r"      # Fullname with scope: \((.+)\)\s*$")
_TYPES = "      : ("
_NO_KERNELS = frozenset(["Load", "UpdateState", "Depend", "MakeTuple", "TupleGetItem", "Return"])
_MAY_BE_LEFT_OUT = frozenset(["Reshape", "Squeeze", "Unsqueeze"])
"""Ops that a graph does not run where they only give a tensor another shape."""
_CHOSEN = re.compile(r"<(\w+)x\w+\[[^\]]*\]\{([^}]*)\}>")
"""What a kernel takes: dtype, layout and shape."""
_TENSOR = re.compile(r"<(?:Ref\[)?Tensor\[(\w+)\]\]?, \(([^)]*)\)")
"""What is known before a kernel is chosen."""
_NO_TENSORS = frozenset(["Scalar", "Tuple"])
Graph = Mapping[str, Signature]
"""The kernels of a graph, by full name."""


class KernelGraphs:
    """The graphs that this process compiled since `watch` was first called."""

    def __init__(self) -> None:
        self._by_kernel: defaultdict[str, list[Graph]] = defaultdict(list)

    @cached_property
    def folder(self) -> str:
        """Where MindSpore writes them; deleted when this process ends."""
        folder = tempfile.mkdtemp(prefix="opprof-mindspore-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def watch(self) -> None:
        """Let MindSpore write each graph that it compiles from now on, unless the program lets it write them itself."""
        import mindspore

        context, parameters = mindspore.context._context(), mindspore.context.ms_ctx_param.__members__
        if not context.get_param(parameters["save_graphs"]):
            os.environ.setdefault(_FILTER, PASS)
            # mindspore.set_context would warn that it is deprecated.
            context.set_param(parameters["save_graphs_path"], self.folder)
            context.set_param(parameters["save_graphs"], 1)

    def signatures(self, calls: Sequence[Call]) -> dict[int, Signature]:
        """Return what is known of *calls*, by index.

        Names may be in several graphs. But a graph runs all its kernels, with none of another between them.
        """
        self._read_new()
        of_graphs = [index for index, call in enumerate(calls) if "/" in call.name]
        names = [calls[index].name for index in of_graphs]
        found: dict[int, Signature] = {}
        at = 0
        while at < len(names):
            runs = [(_length_of_run(graph, names, at), graph) for graph in self._by_kernel.get(names[at], ())]
            most = max((length for length, _ in runs), default=0)
            for index in of_graphs[at : at + most]:
                told = {graph[calls[index].name] for length, graph in runs if length == most}
                if len(told) == 1:
                    found[index] = told.pop()
            at += most or 1
        return found

    def _read_new(self) -> None:
        for path in Path(self.folder).rglob("*"):
            if path.is_dir():
                continue
            if path.name.startswith(PASS):
                with path.open(encoding="utf-8", errors="replace") as lines:
                    graph = dict(kernels(lines))
                for name in graph:
                    self._by_kernel[name].append(graph)
            path.unlink()


def _length_of_run(graph: Graph, names: Sequence[str], at: int) -> int:
    """Return how many names from *at* on are one run of *graph*; 0 where some of its kernels are not among them."""
    run = set[str]()
    for name in islice(names, at, at + len(graph)):
        if name in run or name not in graph:
            break
        run.add(name)
    left_out = graph.keys() - run
    return len(run) if all(meaning(op_type(name)).op in _MAY_BE_LEFT_OUT for name in left_out) else 0


def kernels(lines: Iterable[str]) -> Iterator[tuple[str, Signature]]:
    """Yield the full name and the signature of each kernel in the text of a graph."""
    op, types = "", list[str]()
    for line in lines:
        if line.startswith(_TYPES):
            types.append(line)
        elif node := _NODE.match(line):
            op, types = node[1], []
        elif (name := _NAME.match(line)) and types and op not in _NO_KERNELS:
            yield name[1], _signature(types)


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
