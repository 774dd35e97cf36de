"""Entries by rank."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file as baselines_file
from pytest_opprof.baselines.files import paths
from pytest_opprof.baselines.files.by_rank import combined, numbers, of_rank, problem
from pytest_opprof.baselines.store import Store
from pytest_opprof.errors import BaselineError
from pytest_opprof.machine.ranks import spelled
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range

ON_4 = Environment((("torch", "2.13.0"),), "cpu", "x86_64", ranks=4)


def entry(copies: int, peak: int | None = None) -> WindowBaseline:
    facts = {} if peak is None else {"peak_memory": Range(peak, peak)}
    return WindowBaseline({"Copy": OpCounts(Range(copies))}, facts=facts)


def test_ranks_that_agree_have_one_entry() -> None:
    assert combined([entry(2)] * 4) == entry(2)
    assert combined([None, None]) is None


def test_ranks_that_differ_have_one_each_and_those_alike_one_together() -> None:
    whole = combined([entry(2), entry(2), entry(2), entry(4)])
    assert whole is not None
    assert whole.ranks == {"0-2": entry(2), "3": entry(4)}
    assert [of_rank(whole, rank) for rank in range(4)] == [entry(2), entry(2), entry(2), entry(4)]
    assert of_rank(whole, 4) is None


def test_a_rank_that_opened_no_such_window_has_none() -> None:
    whole = combined([None, entry(2)])
    assert whole is not None
    assert (of_rank(whole, 0), of_rank(whole, 1)) == (None, entry(2))


def test_memory_alone_is_a_range_of_all_ranks() -> None:
    whole = combined([entry(2, 100), entry(2, 140)])
    assert whole is not None
    assert not whole.ranks
    assert whole.facts == {"peak_memory": Range(100, 140, varies=True)}


@given(st.sets(st.integers(0, 40), min_size=1))
def test_ranks_are_read_as_they_are_written(ranks: set[int]) -> None:
    assert {rank for part in numbers(spelled(ranks)) for rank in part} == ranks


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (["0", "1-x"], "'1-x' is not a list of ranks"),
        (["3-1"], "'3-1' is not a list of ranks"),
        (["0-2", "2"], "rank 2 occurs twice"),
        (["0", "4"], "rank 4 is none of 4"),
        (["0-2", "3"], ""),
        (["9" * 30], "is not a list of ranks"),
    ],
)
def test_what_is_wrong_with_ranks_in_a_file_is_said(keys: list[str], why: str) -> None:
    assert why in problem(keys, 4)
    assert bool(why) == bool(problem(keys, 4))


def test_a_file_keeps_them_and_each_rank_finds_its_own(tmp_path: Path) -> None:
    whole = combined([entry(2), entry(2), entry(2), entry(4)])
    assert whole is not None
    some = Baselines(ON_4, {"test_a": {"body": whole}, "test_b": {"body": entry(1)}})
    path = paths.path_of(tmp_path, ON_4, "test_m.py")
    assert path.parent.name == "torch-2.13.0-cpu-x86_64-4-ranks"
    baselines_file.save(path, some)
    assert baselines_file.load(path) == some
    kept = json.loads(path.read_text())
    assert kept["environment"]["ranks"] == 4
    assert kept["tests"]["test_a"]["body"] == {
        "ranks": {"0-2": {"ops": {"Copy": {"calls": 2}}}, "3": {"ops": {"Copy": {"calls": 4}}}}
    }
    found = [Store(tmp_path, rank).entry(ON_4, "test_m.py", "test_a", "body") for rank in range(4)]
    assert found == [entry(2), entry(2), entry(2), entry(4)]


def test_a_run_of_another_size_has_none_and_is_told_of_which_there_are(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(ON_4, "test_m.py", "test_a", "body", entry(1))
    store.save()
    on_2 = replace(ON_4, ranks=2)
    assert store.entry(on_2, "test_m.py", "test_a", "body") is None
    assert Store(tmp_path).other_environments(on_2, "test_m.py", "test_a") == ["torch 2.13.0, cpu, 4 ranks (x86_64)"]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (
            {"ranks": {"0": {"ops": {"Copy": {"calls": 2}}}, "0-3": {"ops": {"Copy": {"calls": 1}}}}},
            "rank 0 occurs twice",
        ),
        ({"ranks": {"0-3": {}}}, "has no ops"),
        ({"ranks": {"0-3": {"ops": {}, "ranks": {"0": {"ops": {}}}}}}, "has ranks in ranks"),
        ({}, "needs either 'ops' or 'ranks'"),
        ({"ops": {"Copy": {"calls": 1}}, "ranks": {"0": {"ops": {}}}}, "ranks in ranks|either"),
        ({"ranks": {"0-3": {"ops": {"Copy": {"calls": [3, 2]}}}}}, r"\[3, 2\]: the least comes first"),
    ],
)
def test_a_file_that_was_edited_wrongly_is_one_clear_error(tmp_path: Path, window: object, message: str) -> None:
    path = paths.path_of(tmp_path, ON_4, "test_m.py")
    baselines_file.save(path, Baselines(ON_4, {"test_a": {"body": entry(1)}}))
    document = json.loads(path.read_text())
    document["tests"]["test_a"]["body"] = window
    path.write_text(json.dumps(document))
    with pytest.raises(BaselineError, match=message):
        baselines_file.load(path)
