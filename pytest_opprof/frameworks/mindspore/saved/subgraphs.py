"""Count the runs of sub-graphs in a saved MindSpore graph, as far as the graph determines them.

A loop is a sub-graph that calls itself through others, a branch a call of one of several sub-graphs. The number of
iterations and the chosen branch are known only at run time: loops and each branch count once, and the profile says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ....errors import TraceError
from ....profile.saved import SavedOp
from ...files.place import Place
from ...files.programs import ONCE, Function, executed


@dataclass
class Subgraph(Function):
    """The ops of a sub-graph, its calls of others, and whether it branches."""

    branches: bool = False
    """Whether it calls one of several sub-graphs."""
    named: set[str] = field(default_factory=set)
    """The sub-graphs that it passes on as values. If no node calls one, it counts once."""

    def call(self, names: Iterable[str]) -> None:
        """Add a call of one of the sub-graphs *names*."""
        several = list(names)
        self.branches |= len(several) > 1
        for name in several:
            self.called[name] += 1


def counted(
    place: Place, graphs: Mapping[str, Subgraph], entries: Iterable[str]
) -> tuple[tuple[SavedOp, ...], tuple[str, ...]]:
    """Return the ops of the graphs *entries* with the number of runs of each, and remarks on unknown numbers.

    Raises TraceError without ops, and if a sub-graph is missing.
    """
    called = {name for graph in graphs.values() for name in graph.called}
    handed_on = False
    for graph in graphs.values():
        for name in sorted(name for name in graph.named if name in graphs and name not in called):
            graph.called[name] += 1
            handed_on = True
    if not any(graph.records for graph in graphs.values()):
        raise TraceError(f"{place}: has no ops yet: at this stage MindSpore knew only Python's names. Read a later one")
    whole = {**graphs, "": Subgraph()}
    whole[""].called.update(entries)
    loops = _without_loops(whole)
    branches = any(graph.branches for name, graph in graphs.items() if name not in loops)
    remarks = {"a branch": branches, "a loop": bool(loops), "a function that is passed on": handed_on}
    records = executed(place, whole, "")
    return records, tuple(ONCE.format(what) for what, is_there in remarks.items() if is_there)


def _without_loops(graphs: Mapping[str, Subgraph]) -> set[str]:
    """Remove the calls that lead back to a calling sub-graph; return the sub-graphs where loops begin."""
    begins: set[str] = set()
    done: dict[str, bool] = {"": False}
    stack: list[tuple[str, Iterator[str]]] = [("", iter([*graphs[""].called]))]
    while stack:
        name, callees = stack[-1]
        callee = next(callees, None)
        if callee is None:
            stack.pop()
            done[name] = True
        elif done.get(callee) is False:
            begins.add(callee)
            del graphs[name].called[callee]
        elif callee in graphs and callee not in done:
            done[callee] = False
            stack.append((callee, iter([*graphs[callee].called])))
    return begins
