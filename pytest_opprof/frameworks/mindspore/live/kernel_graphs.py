"""Match calls with the kernels of the graphs that MindSpore has compiled.

MindSpore writes its graphs as text if its context has ``save_graphs``; see `graph_text`. The graph that Python can read
(`get_optimize_graph_proto`) is an earlier one: its casts have other numbers as soon as a kernel casts inside, and
functions under `jit` have none.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from ....ops.names import meaning
from ..file_lines import op_type
from . import scratch
from .graph_text import Graph, Kernel, kernels, with_lines
from .profiler import Call

_FOLDER = "graphs"
# Read when the first graph is written: without it, each of 50 passes writes every graph, and compiling takes 4 times as
# long.
_FILTER = "MS_DEV_DUMP_IR_PASSES"
# Parts of the names of passes: the pass ``execute`` is ``24_execute`` or similar, others end in ``to_execute``.
_PASSES = ",".join(["graph_build", *(f"{digit}_execute" for digit in range(10))])
# The last number grows with each file.
_FILE = re.compile(r"(graph_build|\d+_execute)_(?:\d+_)?(\d+)\.ir")
# Take precedence over the context.
_LEVEL, _PATH = "MS_DEV_SAVE_GRAPHS", "MS_DEV_SAVE_GRAPHS_PATH"
# Ops that a graph may skip because they only reshape a tensor.
_MAY_BE_LEFT_OUT = frozenset(["Reshape", "Squeeze", "Unsqueeze"])


class KernelGraphs:
    """The graphs that this process compiled since `watch` was first called."""

    def __init__(self) -> None:
        self._by_kernel: defaultdict[str, list[Graph]] = defaultdict(list)
        self._of_program: dict[Path, dict[Path, int]] = {}
        """The files of graphs in folders into which the program lets MindSpore write, with the time of each."""

    def watch(self) -> None:
        """Make MindSpore write each graph that it compiles from now on; if the program does so already, read its
        files.
        """
        import mindspore

        context, parameters = mindspore.context._context(), mindspore.context.ms_ctx_param.__members__
        level, path = (context.get_param(parameters[name]) for name in ("save_graphs", "save_graphs_path"))
        own = str(scratch.folder(_FOLDER))
        if (os.environ.get(_LEVEL) or "0") != "0" or (level and path != own):
            folder = Path(os.environ.get(_PATH) or path or ".").absolute()
            self._of_program.setdefault(folder, _files(folder))
        elif not level:
            os.environ.setdefault(_FILTER, _PASSES)
            # mindspore.set_context would warn that it is deprecated.
            context.set_param(parameters["save_graphs_path"], own)
            context.set_param(parameters["save_graphs"], 1)

    def kernels_of(self, calls: Sequence[Call]) -> dict[int, Kernel]:
        """Return the kernels of *calls*, by index.

        A name may be in several graphs, but a graph runs all its kernels without another graph's in between.
        """
        self._read_new()
        of_graphs = [index for index, call in enumerate(calls) if "/" in call.name]
        names = [calls[index].name for index in of_graphs]
        found: dict[int, Kernel] = {}
        at = 0
        while at < len(names):
            runs = [(_length_of_run(graph, names, at), graph) for graph in self._by_kernel.get(names[at], ())]
            most = max((length for length, _ in runs), default=0)
            for index in of_graphs[at : at + most]:
                told = [graph[calls[index].name] for length, graph in runs if length == most]
                if len({kernel.signature for kernel in told}) == 1:
                    found[index] = told[-1]
            at += most or 1
        return found

    def _read_new(self) -> None:
        ours = [path for path in scratch.folder(_FOLDER).rglob("*") if path.is_file()]
        paths = [*ours, *(path for folder in self._of_program for path in self._new_of(folder))]
        built: list[Graph] = []
        """The graphs that were built since a program was written: the executed one comes last."""
        for _, path in sorted((int(match[2]), path) for path in paths if (match := _FILE.fullmatch(path.name))):
            with path.open(encoding="utf-8", errors="replace") as text:
                graph = dict(kernels(text))
            if path.name.startswith("graph_build"):
                built.append(graph)
                continue
            # MindSpore does not tell which part of a program is which of several graphs.
            self._add(built, graph if len(built) == 1 else {})
            built = []
        self._add(built, {})
        for path in ours:
            path.unlink()

    def _new_of(self, folder: Path) -> list[Path]:
        """Return the files that MindSpore has written into a folder of the program since the last call."""
        before, self._of_program[folder] = self._of_program[folder], _files(folder)
        return [path for path, time in self._of_program[folder].items() if before.get(path) != time]

    def _add(self, graphs: Iterable[Graph], program: Graph) -> None:
        for graph in (with_lines(each, program) for each in graphs):
            for name in graph:
                self._by_kernel[name].append(graph)


def _files(folder: Path) -> dict[Path, int]:
    """Return the files of graphs that MindSpore writes into *folder*, with the time of each, in ns."""
    paths = [path for pattern in ("*.ir", "rank_*/*.ir") for path in folder.glob(pattern) if _FILE.fullmatch(path.name)]
    return {path: path.stat().st_mtime_ns for path in paths}


def _length_of_run(graph: Graph, names: Sequence[str], at: int) -> int:
    """Return how many names from *at* on are one run of *graph*; 0 if some of its kernels are missing."""
    run = set[str]()
    for name in islice(names, at, at + len(graph)):
        if name in run or name not in graph:
            break
        run.add(name)
    left_out = graph.keys() - run
    return len(run) if all(meaning(op_type(name)).op in _MAY_BE_LEFT_OUT for name in left_out) else 0
