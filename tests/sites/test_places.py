from __future__ import annotations

import pickle

import pytest

from pytest_opprof.sites.places import MOST_FRAMES, Calls, Place, Site, near


@pytest.mark.parametrize(("calls", "text"), [(Calls(3, 3), "3"), (Calls(0, 3), "0..3")])
def test_calls_are_a_range_only_where_rounds_differ(calls: Calls, text: str) -> None:
    assert str(calls) == text


def test_calls_of_several_sites_add_up() -> None:
    assert Calls.total([Calls(1, 1), Calls(0, 2)]) == Calls(1, 3)
    assert Calls.total([]) == Calls(0, 0)
    assert Calls.total([Calls(1, 1, 8, 5), Calls(2, 2, 8, None)]) == Calls(3, 3, 16, None)


def test_a_site_is_called_by_what_its_lines_say_and_not_by_where_they_are() -> None:
    one, other = (Site((Place("nets.py", "Norm.forward", "y = x.float()"),)) for _ in range(2))
    assert {one: 1}[other] == 1
    assert {one: 1}[pickle.loads(pickle.dumps(other))] == 1
    assert one != one._replace(is_backward=True)


def test_chains_of_code_that_calls_itself_are_cut_and_counted_together() -> None:
    step, again = Place("nets.py", "walk", "y = x.float()"), Place("nets.py", "walk", "return walk(child)")
    sites = {Site((step, *[again] * depth)): Calls(1, 2) for depth in (1, MOST_FRAMES, MOST_FRAMES + 1)}
    assert near(sites) == {
        Site((step, again)): Calls(1, 2),
        Site((step, *[again] * (MOST_FRAMES - 1))): Calls(2, 4),
    }


def test_sites_that_were_kept_with_the_line_that_passes_every_op_on_are_those_of_the_lines_that_call_the_op() -> None:
    forwards = Place("meta.py", "Meta.__array_ufunc__", "return super().__array_ufunc__(ufunc, method, *inputs)")
    model, test = Place("model.py", "step", "x + 1"), Place("test_m.py", "test_a", "step(x)")
    kept = {Site((forwards, model, test), False): Calls(2, 2), Site((model, test), False): Calls(1, 1)}
    assert near(kept) == {Site((model, test), False): Calls(3, 3)}
    alone = {Site((forwards,), False): Calls(1, 1)}
    assert near(alone) == alone
