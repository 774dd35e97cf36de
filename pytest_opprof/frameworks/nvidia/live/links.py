"""Link each work of a GPU to the call of CUDA that launched it.

CUPTI numbers calls, and gives work the number of its call. Nodes of CUDA graphs are different: before 13.1 Update 1
they have wrong numbers in all sessions of a process but the first, and so have the calls that launch graphs (release
notes of CUPTI; pytorch/kineto issue 1165).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....ops.cuda_calls import is_graph_launch, is_kernel_launch
from ....profile.columns import ABSENT
from ....profile.events.attribution import NOBODY
from .calls import Calls

# The version of CUPTI from which on nodes of graphs have the number of their launch.
GRAPHS_FROM = 130101


@dataclass(frozen=True, eq=False)
class Numbers:
    """The facts that link work to its call: columns."""

    start: NDArray[np.uint64]
    """The start time; 0 if unknown."""
    correlation: NDArray[np.uint32]
    """The number of the call."""
    graph_node: NDArray[np.int64]
    """Its node in a CUDA graph; 0 without a graph, ABSENT if unknown."""
    graph: NDArray[np.int64]
    """The executable graph of that node."""


def callers(calls: Calls, work: Numbers, graphs_hold: bool) -> NDArray[np.int64]:
    """Return the program's call that launched each *work*; `NOBODY` if unknown.

    If *graphs_hold*, nodes of graphs have the number of their launch. Otherwise nodes are matched with the launches in
    the order in which both ran, or all get `NOBODY` if that is impossible: the numbers of runs and launches differ, or
    a run began before its launch. If it is unknown which work belongs to a graph, a call that launches one kernel gets
    the first work with its number, and the rest gets none.
    """
    found = np.full(len(work.start), NOBODY)
    if not len(calls.start):
        return found
    launches_graph = calls.of(is_graph_launch)[calls.outer]
    plain, untold = work.graph_node == 0, work.graph_node == ABSENT
    nodes = ~plain & ~untold
    found[plain] = _numbered(calls, ~launches_graph, work.correlation[plain])
    if untold.any():
        found[untold] = _numbered(calls, np.full(len(calls.start), True), work.correlation[untold])
        _take_surplus(calls, work, found, untold)
    if nodes.any():
        if graphs_hold:
            found[nodes] = _numbered(calls, launches_graph, work.correlation[nodes])
        else:
            found[nodes] = _in_order(calls, work, np.flatnonzero(nodes))
    return found


def _numbered(calls: Calls, chosen: NDArray[np.bool_], correlation: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the program's own call of each number, among the *chosen* ones."""
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return np.full(len(correlation), NOBODY)
    rows = rows[np.argsort(calls.correlation[rows], kind="stable")]
    numbers = calls.correlation[rows]
    at = np.minimum(np.searchsorted(numbers, correlation), len(rows) - 1)
    return np.where(numbers[at] == correlation, calls.outer[rows[at]], NOBODY)


def _take_surplus(calls: Calls, work: Numbers, found: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
    """Leave each call that launches one kernel only the first of its *chosen* work: the rest are misnumbered graph
    nodes.
    """
    launches_one = np.append(calls.of(is_kernel_launch), False)[found]  # the last one is for `NOBODY`
    rows = np.flatnonzero(chosen & launches_one)
    rows = rows[np.lexsort((work.start[rows], found[rows]))]
    found[rows[1:][np.diff(found[rows]) == 0]] = NOBODY


def _in_order(calls: Calls, work: Numbers, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the graph launch of each of the *nodes*: the k-th run belongs to the k-th launch."""
    nobody = np.full(len(nodes), NOBODY)
    launches = np.flatnonzero(calls.of(is_graph_launch) & ~calls.failed & ~calls.captured)
    order = np.lexsort((work.start[nodes], work.graph_node[nodes], work.graph[nodes]))
    graph, node, start = (column[nodes][order] for column in (work.graph, work.graph_node, work.start))
    is_first = np.append(True, (np.diff(node) != 0) | (np.diff(graph) != 0))
    turn = np.arange(len(nodes)) - np.maximum.accumulate(np.where(is_first, np.arange(len(nodes)), 0))
    runs, run = np.unique(np.stack([graph, turn]), axis=1, return_inverse=True)
    # Each run of a graph has each of its nodes once, except conditional nodes.
    _, nodes_of = np.unique(graph[is_first], return_counts=True)
    _, runs_of = np.unique(runs[0], return_counts=True)
    if (start == 0).any() or len(nodes) != (nodes_of * runs_of).sum() or runs.shape[1] != len(launches):
        return nobody
    begins = np.full(len(launches), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(begins, run.ravel(), start)
    by_time = np.argsort(begins, kind="stable")
    if (begins[by_time] < calls.start[launches]).any():
        return nobody
    launch_of = np.empty(len(launches), np.int64)
    launch_of[by_time] = launches
    found = nobody
    found[order] = launch_of[run.ravel()]
    return found
