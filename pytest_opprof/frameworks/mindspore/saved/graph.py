"""Graphs that MindSpore saves as text while it compiles (``save_graphs``, ``MS_DEV_SAVE_GRAPHS``): ops, without a run.

A folder has a file for each stage of each compiled graph, ``24_execute_0097.ir``: the number of the stage, its name,
and a number that grows with each file. A new graph begins where the number of the stage falls. Passes inside of a stage
are ``opt_pass_7_..._0021.ir``; ``hwopt_...`` and ``graph_build_0_0094.ir`` have one of the parts that the backend makes
of the graph. The folder's profile is the last numbered stage, or the requested one.

A file is ``# IR entry: @name``, ``# Total subgraphs: 6`` and the sub-graphs, ``subgraph @name() {`` to ``}``. Nodes:
`nodes`. A call of a sub-graph is no op, and neither are nodes for grouping. FLOPs are those of products and
convolutions. Ops have the type of the node: kernels of ``graph_build`` that stand for one op, or that a kernel's dtype
needs, are ops there. Tested: 2.0.0, 2.7.1 and 2.10.0, CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from ....errors import TraceError
from ....profile.environment import Environment
from ....profile.op_key import CallSite
from ....profile.saved import SavedOp, SavedProfile
from ....sites.chains import Frame
from ....sites.recorded import recorded
from ...files.format import Format, Options
from ...files.place import Place
from ...files.programs import Size, lines
from ..file_lines import op_type
from ..nodes import NO_OPS, Node, Nodes
from ..work import flops
from .subgraphs import Subgraph, counted

_BEGIN = re.compile(rb"\s*#\s*IR entry\s*:\s*@")
_ENTRY = re.compile(r"#\s*IR entry\s*:\s*@(\S+)")
_TOTAL = re.compile(r"#\s*Total subgraphs?\s*:\s*(\d{1,9})")
_SUBGRAPH = re.compile(r"subgraph @(\S+?)(?:\(| parent: )")
# A call of a sub-graph, or of a node's output: ``%3[@FuncUnion(@one, Partial(@other))]()``.
_CALL = re.compile(r"call (@[^\s(]+)\(|%\d+\[([^\]]*)\]\(")
_UNION = "FuncUnion"
_NAMED = re.compile(r"@+([^@\s,()\[\]{}]+)")
_FILE = re.compile(r"(?:(\d+)_)?(.+?)_(\d{4,9})\.ir(?:\.gz)?")
# The part of a file name that distinguishes the parts of a graph.
_PART = re.compile(r"_(?:kernel_graph)?\d+\b|_\d+$")
# Begins the names of passes inside a stage.
_PASS = re.compile(r"opt_pass_\d+_")
_RANK = re.compile(r"rank_(\d{1,6})")
_PARTS = "each part of the graph is counted once: how often it runs is not in the file"
# Begin the names of files that have a part of a graph.
_OF_BACKEND = ("graph_", "hwopt_")
# Begins the names of nodes of a backward pass, which have the lines of their forward nodes.
_GRADIENTS = "Gradients/"


def recognises(place: Place) -> bool:
    """Return True if the text begins like a graph, or the folder has stages of graphs."""
    if place.is_folder:
        return any(_BEGIN.match(file.head) for file, *_ in _stages(place)[:1])
    return _BEGIN.match(place.head) is not None


def ranks(place: Place) -> list[int] | list[None]:
    """Return the rank in the name of the folder, ``rank_0``."""
    folder = place.path if place.is_folder else place.path.parent
    found = _RANK.fullmatch(folder.name)
    return [int(found[1])] if found else [None]


def stages(place: Place, stage: str | None) -> list[tuple[Place, ...]]:
    """Return the files of a *stage* of each graph in a folder; for None, of its last numbered stage.

    *stage* is the name of a file, with or without its numbers: ``24_execute``, ``execute``, ``graph_build``. Raises
    TraceError for a missing stage, and if the folder has the files of two runs.
    """
    files = _stages(place)
    numbers = [number for *_, number in files]
    if len(set(numbers)) < len(numbers):
        pair = next(pair for pair in pairwise(files) if pair[0][-1] == pair[1][-1])
        names = " and ".join(each[0].path.name for each in pair)
        raise TraceError(
            f"{place}: mixes graphs of two runs: {names} have the same number. Empty the folder and record one run, or"
            " name a file"
        )
    graphs = list(_graphs(files))
    if stage is None:
        last = [next((each for each in reversed(graph) if each[1] is not None), graph[-1]) for graph in graphs]
        return [(each[0],) for each in last]
    found = [
        tuple(file for file, *_ in group)
        for graph in graphs
        for _, group in groupby((each for each in graph if _is_asked(each[0], stage)), key=lambda each: _whole(each[0]))
    ]
    if not found:
        known = ", ".join(dict.fromkeys(name for _, number, name, _ in files if number is not None))
        raise TraceError(f"{place}: has no stage {stage!r}. It has {known}, and what files there are called")
    return found


def read(place: Place, options: Options) -> SavedProfile:
    """Return the ops. `programs.Size` bounds their memory and that of a line. Raises TraceError."""
    files = options.files or (place,)
    size, graphs, entries = Size(), dict[str, Subgraph](), list[str]()
    for number, file in enumerate(files):
        text = _Text(file, size, options.sites, f"{number}/" if number else "")
        text.read()
        graphs |= text.graphs
        entries.append(text.entry)
    records, remarks = counted(place, graphs, entries)
    if _may_run_often(files):
        remarks = (_PARTS, *remarks)
    named = _FILE.fullmatch(files[0].path.name)
    return SavedProfile(
        source=f"MindSpore graph{f', stage {_whole(files[0])}' if named else ''} (static: no run)",
        environment=Environment((("mindspore", ""),), "", ""),
        records=records,
        remarks=remarks,
    )


class _Text:
    """The text of one file."""

    def __init__(self, place: Place, size: Size, sites: bool, prefix: str) -> None:
        """*prefix* distinguishes the sub-graphs of the file from another file's."""
        self.graphs: dict[str, Subgraph] = {}
        self.entry = ""
        self._place = place
        self._size = size
        self._sites = sites
        self._prefix = prefix
        self._nodes = Nodes(sites)

    def read(self) -> None:
        """Read all sub-graphs. Raises TraceError."""
        total, inside = None, None
        for number, line in enumerate(lines(self._place), 1):
            if line.startswith("  ") and inside is not None:
                self._add(inside, self._nodes.take(line), number)
            elif line.startswith("}") and inside is not None:
                self._add(inside, self._nodes.close(), number)
                inside = None
            elif found := _SUBGRAPH.match(line):
                if inside is not None or self._prefix + found[1] in self.graphs:
                    raise TraceError(
                        f"{self._place}: line {number}: sub-graph {found[1]!r} begins inside of another one, or"
                        " twice. Was it copied whole?"
                    )
                inside = self.graphs[self._prefix + found[1]] = Subgraph()
            elif found := _ENTRY.match(line):
                if self.entry:
                    raise TraceError(f"{self._place}: line {number}: a second graph begins. Give each stage a file")
                self.entry = self._prefix + found[1]
            elif found := _TOTAL.match(line):
                total = int(found[1])
        if inside is not None or self.entry not in self.graphs or total not in (None, len(self.graphs)):
            where = (
                "before the sub-graph that it begins with"
                if total is None
                else f"after {len(self.graphs)} of {total} sub-graphs"
            )
            where = "in the middle of a sub-graph" if inside else where
            raise TraceError(f"{self._place}: ends {where}. Was it copied whole?")

    def _add(self, graph: Subgraph, node: Node | None, number: int) -> None:
        if node is None:
            return
        is_op = bool(node.op) and node.op not in NO_OPS
        if excess := self._size.exceeded(node.text if is_op or "@" in node.text else "", is_op):
            raise TraceError(f"{self._place}: line {number}: {excess}")
        if not node.op:
            if found := _CALL.match(node.text.partition(" = ")[2]):
                names = _NAMED.findall(found[1] or found[2])
                graph.call(self._prefix + name for name in names if name != _UNION)
        elif "@" in node.text:
            graph.named.update(self._prefix + name for name in _NAMED.findall(node.text))
        if is_op:
            graph.records.append(self._record(node))

    def _record(self, node: Node) -> SavedOp:
        signature = node.signature
        raw = op_type(node.name) if node.name.startswith("Expand/") else node.op
        frames = (Frame(*line) for line in dict.fromkeys(node.lines))
        return SavedOp(
            node.name,
            raw,
            computation=flops(raw, signature.input_shapes or (), signature.output_shapes or ()),
            input_shapes=signature.input_shapes,
            output_shapes=signature.output_shapes,
            input_dtypes=signature.input_dtypes or (),
            output_dtypes=signature.output_dtypes or (),
            site=CallSite(recorded(frames), node.name.startswith(_GRADIENTS)) if node.lines else None,
        )


# A file, the number and the name of its stage, and the number of the file.
_Stage = tuple[Place, "int | None", str, int]


def _stages(folder: Place) -> list[_Stage]:
    """Return the files of stages in a folder, in the order in which they were written."""
    found = [(file, _FILE.fullmatch(file.path.name)) for file in folder.files("*.ir*")]
    stages = [(file, int(name[1]) if name[1] else None, name[2], int(name[3])) for file, name in found if name]
    return sorted(stages, key=lambda each: each[-1])


def _graphs(files: list[_Stage]) -> Iterator[list[_Stage]]:
    """Yield the files of each graph."""
    graph: list[_Stage] = []
    before = -1
    for each in files:
        number = each[1]
        if number is not None:
            if number <= before:
                yield graph
                graph = []
            before = number
        graph.append(each)
    if graph:
        yield graph


def _may_run_often(files: tuple[Place, ...]) -> bool:
    """Return True if these are parts of a graph of several sub-graphs, or of unknown number."""
    if not _whole(files[0]).startswith(_OF_BACKEND):
        return False
    graphs = _graphs(_stages(Place(files[0].path.parent)))
    graph = next((graph for graph in graphs if files[0].path in [each[0].path for each in graph]), [])
    heads = [each[0].head.decode("utf-8", "replace") for each in graph if each[1] is not None]
    totals = [int(found[1]) for found in map(_TOTAL.search, heads[-1:]) if found]
    return len(files) > 1 or totals != [1]


def _whole(file: Place) -> str:
    """Return the name of a stage without the numbers of a part and of its file: ``graph_build``."""
    found = _FILE.fullmatch(file.path.name)
    return _PART.sub("", found[2]) if found else file.path.name


def _is_asked(file: Place, stage: str) -> bool:
    name = file.path.name
    found = _FILE.fullmatch(name)
    if found is None:
        return False
    stem, of_pass = name.partition(".ir")[0], _PASS.sub("", found[2])
    return stage in (name, stem, stem.rpartition("_")[0], found[2], of_pass, _whole(file))


FORMAT = Format("MindSpore graph (save_graphs)", recognises, read, ranks=ranks, stages=stages)
