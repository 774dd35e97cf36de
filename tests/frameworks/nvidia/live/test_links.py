"""Which call asked for which work: numbers that hold, and those that CUPTI gave to graphs before 13.1 Update 1."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.nvidia.live.calls import Calls, calls_of
from pytest_opprof.frameworks.nvidia.live.cupti_records import DRIVER, OVERHEAD, RUNTIME
from pytest_opprof.frameworks.nvidia.live.links import Numbers, callers
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.events.attribution import NOBODY

LAUNCH, GRAPH, COPY = "cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync"


def calls(*made: str, numbers: list[int] | None = None) -> Calls:
    """The calls, at 100, 200 and so on, numbered from 1."""
    start = np.arange(100, 100 * len(made) + 1, 100)
    table = {name: np.zeros(len(made), np.int64) for name in ("thread", "result")}
    table |= {"callback": np.arange(len(made)), "start": start, "end": start + 9}
    table["correlation"] = np.array(numbers or range(1, len(made) + 1))
    none = {name: column[:0] for name, column in table.items()}
    overhead = {"what": np.zeros(0, int), "start": np.zeros(0, int)}
    return calls_of({RUNTIME: table, DRIVER: none, OVERHEAD: overhead}, lambda _, index: made[index])


def work(*rows: tuple[int, ...]) -> Numbers:
    """Each: start, number, and if it is a node of a graph, that and the graph."""
    start, number, node, graph = zip(*((*row, 0, 0)[:4] for row in rows))
    return Numbers(np.array(start, np.uint64), np.array(number, np.uint32), np.array(node), np.array(graph))


def test_work_is_of_the_call_with_its_number() -> None:
    made = calls(LAUNCH, COPY, LAUNCH)
    assert callers(made, work((110, 1), (400, 3), (210, 2), (500, 77)), False).tolist() == [0, 2, 1, NOBODY]


def test_numbers_of_nodes_are_those_of_graphs_alone_where_they_hold() -> None:
    made = calls(LAUNCH, GRAPH, GRAPH)
    found = callers(made, work((210, 2, 7, 1), (310, 3, 7, 1), (120, 1, 8, 1)), True)
    assert found.tolist() == [1, 2, NOBODY]


def test_a_call_that_launches_a_graph_and_has_the_number_of_another_takes_no_kernel_from_it() -> None:
    made = calls(GRAPH, LAUNCH, numbers=[5, 5])
    assert callers(made, work((110, 9, 7, 1), (210, 5)), False).tolist() == [0, 1]


def test_where_nothing_tells_what_is_a_node_a_launch_has_one_kernel() -> None:
    made = calls(LAUNCH, GRAPH, COPY)
    rows = [(110, 1, ABSENT), (230, 1, ABSENT), (220, 1, ABSENT), (210, 2, ABSENT), (215, 2, ABSENT), (310, 3, ABSENT)]
    assert callers(made, work(*rows), False).tolist() == [0, NOBODY, NOBODY, 1, 1, 2]


def test_swapped_numbers_of_two_graphs_are_not_believed() -> None:
    made = calls(GRAPH, GRAPH)
    nodes = [(110, 2, 51, 5), (112, 2, 52, 5), (210, 1, 71, 7)]
    assert callers(made, work(*nodes), False).tolist() == [0, 0, 1]


def test_runs_that_cannot_be_those_of_the_launches_are_nobodys() -> None:
    made = calls(GRAPH, GRAPH)
    impossible = {
        "more launches than runs": [(110, 1, 51, 5)],
        "more runs than launches": [(110, 1, 51, 5), (210, 2, 51, 5), (310, 2, 51, 5)],
        "a run before its launch": [(90, 1, 51, 5), (210, 2, 51, 5)],
        "a node that did not run each time": [(110, 1, 51, 5), (112, 1, 52, 5), (210, 2, 51, 5)],
        "a node without a time": [(110, 1, 51, 5), (0, 2, 51, 5)],
    }
    for why, nodes in impossible.items():
        assert set(callers(made, work(*nodes), False).tolist()) == {NOBODY}, why


def test_a_launch_that_failed_or_was_captured_has_no_run() -> None:
    made = calls(GRAPH, GRAPH)
    made.failed[0] = True
    assert callers(made, work((210, 1, 51, 5)), False).tolist() == [1]


@given(
    st.lists(st.tuples(st.sampled_from([3, 5]), st.integers(0, 5000)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_runs_in_order_are_given_to_their_launches_however_late_they_are(
    launches: list[tuple[int, int]], random: Random
) -> None:
    made, now, rows, truth = calls(*[GRAPH] * len(launches)), 0, [], []
    for number, (nodes, late) in enumerate(launches):
        begin = max(100 * (number + 1) + late, now)
        for node in range(nodes):
            rows.append((begin + node, 99, nodes << 32 | node + 1, nodes))
            truth.append(number)
        now = begin + nodes
    mixed = list(zip(rows, truth))
    random.shuffle(mixed)
    found = callers(made, work(*(row for row, _ in mixed)), False)
    assert found.tolist() == [number for _, number in mixed]
