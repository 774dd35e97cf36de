"""What a side describes of its collection, and who decides which tests run. No process here."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.processes.collection import Choice, Collection, SideTest, Wanted
from pytest_opprof.results.plain import converted, plain
from pytest_opprof.verdict.tolerances import PAIRS

TEST = SideTest(
    nodeid="test_m.py::test_a",
    file="/tmp/test_m.py",
    location=("test_m.py", 3, "test_a"),
    tolerances=replace(PAIRS, of_op={"MatMul": 0.5}),
    top=5,
    baseline=True,
    may_judge_times=True,
    shows_failure=True,
    is_function=True,
)


def collection(*tests: SideTest) -> Collection:
    return Collection([*tests], ["test_m.py::test_idle"], False, [], [{"nodeid": "test_n.py", "outcome": "skipped"}])


def test_a_collection_arrives_as_it_was_sent() -> None:
    sent = json.dumps(plain(collection(TEST)))
    assert converted(json.loads(sent), Collection) == collection(TEST)


def test_the_first_that_has_collected_decides_for_all() -> None:
    asked: list[Collection] = []

    def choose(found: Collection) -> list[Wanted]:
        asked.append(found)
        return [Wanted(["a"], everything=True), Wanted(["b"], everything=True)]

    choice, together = Choice(choose), Barrier(3, timeout=60)

    def pair(number: int) -> Wanted:
        together.wait()
        return choice.of(number, collection(TEST))

    with ThreadPoolExecutor(3) as threads:
        found = [*threads.map(pair, range(3))]
    assert found == [Wanted(["a"], everything=True), Wanted(["b"], everything=True), Wanted(())]
    assert asked == [collection(TEST)]


def test_where_the_choice_is_an_error_the_others_run_nothing() -> None:
    def choose(_: Collection) -> list[Wanted]:
        raise UsageError("wrong marks")

    choice = Choice(choose)
    with pytest.raises(UsageError, match="wrong marks"):
        choice.of(1, collection())
    assert choice.of(0, collection()) == Wanted(())
