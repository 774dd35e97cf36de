"""Components of random graphs, by what leads to what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.graphs import components, reached


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7))))
def test_nodes_are_one_component_where_each_leads_to_the_other_and_others_lead_to_the_first(
    graph: dict[int, set[int]],
) -> None:
    called = {str(name): [str(each) for each in graph.get(name, ())] for name in range(8)}

    def leads_to(name: str) -> set[str]:
        found, left = set[str](), list(called[name])
        while left:
            if (each := left.pop()) not in found:
                found.add(each)
                left += called[each]
        return found

    cycles = components(called)
    of = {name: number for number, cycle in enumerate(cycles) for name in cycle}
    assert sorted(name for cycle in cycles for name in cycle) == sorted(called)
    for one in called:
        for other in leads_to(one):
            assert of[other] <= of[one]
            assert (of[other] == of[one]) is (one == other or one in leads_to(other))


def test_a_long_chain_takes_no_recursion_and_no_quadratic_time() -> None:
    chain = {at: [at + 1] for at in range(50_000)} | {50_000: []}
    assert components(chain) == [[at] for at in reversed(chain)]


def test_nodes_reach_themselves_and_all_that_they_lead_to_once() -> None:
    edges = {"a": ["b", "c"], "b": ["a"], "c": [], "d": ["a"]}
    assert reached(["a"], edges) == {"a", "b", "c"}
    assert reached(["c", "d"], edges) == {"a", "b", "c", "d"}
    assert reached([], edges) == set()
