"""What an update puts in the place of a baseline, given what a test did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.store import Saved, Store
from pytest_opprof.baselines.update import Updates
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SiteCalls, SourceLine, kept_sites
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.pytest_plugin.options import settings_of
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import BODY, WindowNumbers, WindowResult
from pytest_opprof.verdict.verdicts import Status

from ..conftest import ENVIRONMENT, profile_of

HERE = "CPU, 2 cores"


@pytest.fixture
def updates(pytester: pytest.Pytester) -> Any:
    """Return what makes the updates of a run: of a store that read nothing yet, as each run's."""

    def made(update: str = "all", noise: str = "warn") -> Updates:
        settings = settings_of(pytester.parseconfig())
        return Updates(Store(pytester.path / "b"), replace(settings, update=update, noise=noise))

    return made


def took(us: int, rounds: int = 10, **known: Any) -> ProcessTimes:
    return ProcessTimes((us * 1_000,) * rounds, {"Add": (us * 1_000,) * rounds}, threads=1, **known)


def window(
    name: str = BODY, adds: int = 1, rounds: int = 10, runs: tuple[ProcessTimes, ...] = (), compared: bool = True
) -> WindowResult:
    profile = profile_of(*[[("Add", 5)] * adds] * rounds)
    return JudgedWindow(WindowNumbers.of(name, profile), processes=runs).result(HERE, False, compared)


def done(*windows: WindowResult, outcome: str = "passed") -> TestRecord:
    return TestRecord(id="test_m.py::test_a", status=Status.OK, outcome=outcome, windows=list(windows))  # type: ignore[arg-type]


def kept(root: Path, name: str = BODY) -> WindowBaseline | None:
    return Store(root / "b").entry(ENVIRONMENT, "test_m.py", "test_a", name)


STEADY = tuple(map(took, (100, 101, 102)))


def test_a_test_without_a_baseline_is_new_until_one_is_written(updates: Any, tmp_path: Path) -> None:
    record, run = done(window()), updates()
    assert run.is_new(record)
    assert run.changes_calls(record)
    assert run.write([record], times=True)[0] == {"new": 1, "changed": 0, "unchanged": 0}
    assert not updates().is_new(record)
    assert not updates().changes_calls(record)
    assert updates().write([record], times=True) == ({"new": 0, "changed": 0, "unchanged": 1}, Saved([], {}))


@pytest.mark.parametrize("windows", [[], [window(compared=False)]])
def test_what_has_nothing_to_compare_is_neither_new_nor_written(updates: Any, windows: list[WindowResult]) -> None:
    record = done(*windows)
    assert not updates().is_new(record)
    assert updates().write([record], times=True) == (dict.fromkeys(("new", "changed", "unchanged"), 0), Saved([], {}))


def test_a_test_that_failed_writes_nothing(updates: Any, pytester: pytest.Pytester) -> None:
    counts, saved = updates().write([done(window(), outcome="failed")], times=True)
    assert (sum(counts.values()), saved, kept(pytester.path)) == (0, Saved([], {}), None)


@pytest.mark.parametrize(("update", "adds", "word"), [("all", 2, "changed"), ("new", 1, "unchanged")])
def test_other_calls_are_written_by_an_update_of_all_only(
    updates: Any, pytester: pytest.Pytester, update: str, adds: int, word: str
) -> None:
    updates().write([done(window())], times=True)
    other = done(window(adds=2))
    assert updates(update).changes_calls(other) is (update == "all")
    counts, _ = updates(update).write([other], times=True)
    assert counts[word] == 1
    assert kept(pytester.path) == WindowBaseline({"Add": OpCounts(Range(adds))})


def test_new_ones_are_added_beside_old_ones_that_stay(updates: Any, pytester: pytest.Pytester) -> None:
    updates().write([done(window("a"))], times=True)
    counts, _ = updates("new").write([done(window("a", adds=2), window("b", adds=2))], times=True)
    assert counts == {"new": 1, "changed": 0, "unchanged": 0}
    assert kept(pytester.path, "a") == WindowBaseline({"Add": OpCounts(Range(1))})
    assert kept(pytester.path, "b") == WindowBaseline({"Add": OpCounts(Range(2))})


def test_calls_are_written_first_and_the_times_of_the_same_run_added_to_what_is_new(
    updates: Any, pytester: pytest.Pytester
) -> None:
    run = updates("new")
    run.write([done(window(runs=STEADY[:1]))], times=False)
    assert kept(pytester.path) == WindowBaseline({"Add": OpCounts(Range(1))})
    assert run.write([done(window(runs=STEADY))], times=True)[0]["changed"] == 1
    entry = kept(pytester.path)
    assert entry is not None
    assert [run.total_ns[0] for run in entry.times[HERE]] == [100_000, 101_000, 102_000]
    # To another run they are not new.
    slower = tuple(map(took, (200, 201, 202)))
    assert updates("new").write([done(window(adds=2, runs=slower))], times=True)[1].files == []


def test_times_of_few_rounds_are_not_kept(updates: Any, pytester: pytest.Pytester) -> None:
    updates().write([done(window(rounds=9, runs=tuple(took(100, rounds=9) for _ in range(3))))], times=True)
    assert kept(pytester.path) == WindowBaseline({"Add": OpCounts(Range(1))})


@pytest.mark.parametrize(
    ("noise", "runs", "replaced"),
    [
        ("warn", STEADY, False),
        ("warn", tuple(map(took, (50, 101, 102))), True),  # one alone was so fast: nothing can be called slower
        ("ignore", tuple(map(took, (50, 101, 102))), False),
        ("warn", tuple(took(100, wait_ns=(50_000,) * 10) for _ in range(3)), True),  # all waited for a CPU
    ],
)
def test_times_stay_unless_nothing_can_be_judged_by_them(
    updates: Any, pytester: pytest.Pytester, noise: str, runs: tuple[ProcessTimes, ...], replaced: bool
) -> None:
    updates(noise=noise).write([done(window(runs=runs))], times=True)
    now = done(window(runs=tuple(map(took, (103, 104, 105)))))
    assert updates(noise=noise).lacks_times("test_m.py::test_a", now.windows[0]) is replaced
    assert updates(noise=noise).write([now], times=True)[0]["changed"] == replaced
    entry = kept(pytester.path)
    assert entry is not None
    assert (entry.times[HERE][1].total_ns[0] == 104_000) is replaced


def test_a_baseline_without_times_lacks_them_where_tests_ran_in_parallel(updates: Any) -> None:
    """These have no times of their own to compare: other processes would have to give all."""
    parallel = window()
    assert updates().lacks_times("test_m.py::test_a", parallel)
    updates().write([done(window())], times=True)
    assert updates().lacks_times("test_m.py::test_a", parallel)
    assert not updates("new").lacks_times("test_m.py::test_a", parallel)
    updates().write([done(window(runs=STEADY))], times=True)
    assert not updates().lacks_times("test_m.py::test_a", parallel)


def test_other_facts_are_written_and_the_times_of_other_machines_stay(updates: Any, pytester: pytest.Pytester) -> None:
    def with_nodes(nodes: int, machine: str, us: int) -> WindowResult:
        runs = tuple(map(took, (us, us + 1, us + 2)))
        return structs.replace(window(runs=runs), facts={"grad_nodes": (nodes,) * 10}, machine=machine)

    elsewhere = "CPU, 64 cores"
    updates().write([done(with_nodes(3, elsewhere, 10))], times=True)
    updates().write([done(with_nodes(3, HERE, 100))], times=True)
    more = with_nodes(4, HERE, 100)
    assert updates().changes_calls(done(more))
    assert not updates().lacks_times("test_m.py::test_a", more)  # no further process has to give any
    counts, saved = updates().write([done(more)], times=True)
    assert (counts["changed"], [path.name for path in saved.files]) == (1, ["test_m.py.json"])
    entry = kept(pytester.path)
    assert entry is not None
    assert entry.facts == {"grad_nodes": Range(4, 4)}
    assert {machine: len(runs) for machine, runs in entry.times.items()} == {HERE: 3, elsewhere: 3}


@pytest.mark.parametrize(("update", "word"), [("all", "changed"), ("new", "unchanged")])
def test_a_window_that_a_test_no_longer_has_goes_with_an_update_of_all(
    updates: Any, pytester: pytest.Pytester, update: str, word: str
) -> None:
    updates().write([done(window(), window("a"), window("b"))], times=True)
    now = done(window("a"))
    assert [name for _, name in updates(update).gone_windows(now)] == ["b"]  # a body is where somebody asks for it
    assert updates(update).write([now], times=True)[0][word] == 1
    assert (kept(pytester.path, "b") is None) is (update == "all")
    assert kept(pytester.path) is not None


def test_lines_of_an_old_file_without_work_are_recorded_again(updates: Any, pytester: pytest.Pytester) -> None:
    """Only where the baseline has FLOPs: else each update would look again at what has none."""
    line = SourceLine("m.py", 1, "f", "x @ y")
    for flops, lacks in ((None, False), (10, True)):
        entry = OpCounts(Range(1), flops=flops and Range(flops, flops))
        store = Store(pytester.path / "b")
        store.put(ENVIRONMENT, "test_m.py", "test_a", BODY, WindowBaseline({"MatMul": entry}))
        store.put_sites(ENVIRONMENT, "test_m.py", "test_a", BODY, kept_sites({"MatMul": (SiteCalls(1, (line,)),)}))
        store.save()
        assert updates().lacks_sites(done(window())) is lacks
    updates_now = updates()
    updates_now.write_sites(done(window()), {BODY: {"MatMul": (SiteCalls(1, (line,), flops=10),)}})
    assert updates_now._store.save().files
    assert not updates().lacks_sites(done(window()))


def test_a_test_whose_file_cannot_be_written_is_counted_as_such_and_others_are_written(
    updates: Any, pytester: pytest.Pytester
) -> None:
    long = f"test_{'m' * 250}.py::test_a"
    counts, saved = updates().write([structs.replace(done(window()), id=long), done(window())], times=True)
    assert counts == {"new": 1, "changed": 0, "unchanged": 0, "not written": 1}
    assert [path.name for path in saved.files] == ["test_m.py.json"]
    assert [error.endswith("cannot be written: File name too long") for error in saved.errors.values()] == [True]
    assert kept(pytester.path)
