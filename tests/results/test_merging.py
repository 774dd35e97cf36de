from __future__ import annotations

from msgspec import structs

from pytest_opprof.profile.range import Range
from pytest_opprof.results.merging import across, merged, of_window
from pytest_opprof.results.run_result import Stale
from pytest_opprof.results.window_result import RankNumbers
from pytest_opprof.verdict.verdicts import Status

from ..report.made_runs import rank_of, record_of, run

SAME = {"Add": 2}
MORE = {"Add": 2, "Cast": 3}


def test_a_test_fails_where_it_does_on_any_rank_and_says_on_which() -> None:
    ranks = [rank_of(rank, 4, record_of("t.py::a", SAME, MORE if rank else SAME)) for rank in range(4)]
    (test,) = merged(ranks).tests
    assert (test.outcome, test.status) == ("failed", Status.MORE_CALLS)
    (window,) = test.windows
    assert tuple(map(str, window.findings)) == ("ranks 1-3: Cast: 3 calls (baseline: 0)",)
    assert [finding.op for finding in window.findings] == ["Cast"]
    # The numbers are those of a rank that fails: they are what the finding is about.
    assert (window.rank, window.ops["Cast"].calls) == (1, (3,))
    assert window.by_rank == (
        RankNumbers(0, 10_000, 2000, calls={"Cast": Range(0)}),
        *(RankNumbers(rank, 10_000 + rank, 5000, calls={"Cast": Range(3)}) for rank in (1, 2, 3)),
    )


def test_what_all_ranks_find_is_said_without_naming_them() -> None:
    ranks = [rank_of(rank, 2, record_of("t.py::a", SAME, MORE)) for rank in range(2)]
    assert tuple(map(str, merged(ranks).tests[0].windows[0].findings)) == ("Cast: 3 calls (baseline: 0)",)


def test_ranks_that_measured_nothing_of_a_test_are_named() -> None:
    ranks = [rank_of(0, 3, record_of("t.py::a", SAME, SAME)), rank_of(1, 3)]
    assert merged(ranks).tests[0].remarks == {"t.py::a": ["nothing was measured on ranks 1-2"]}


def test_a_window_that_one_rank_alone_has_is_kept() -> None:
    one = record_of("t.py::a", SAME, SAME)
    two = record_of("t.py::a", SAME, SAME, windows=("body", "inner"))
    test = across({0: one, 1: two})
    assert [(window.name, [each.rank for each in window.by_rank]) for window in test.windows] == [
        ("body", [0, 1]),
        ("inner", [1]),
    ]


def test_shards_of_one_rank_stay_of_that_rank() -> None:
    both = merged([rank_of(1, 2, record_of(f"t.py::{name}", SAME, SAME)) for name in "ab"])
    assert (both.rank, len(both.tests), both.tests[0].windows[0].by_rank) == (1, 2, ())


def test_a_run_of_ranks_of_another_number_is_another_run() -> None:
    both = merged([rank_of(0, 2, record_of("t.py::a", SAME, SAME)), rank_of(1, 4, record_of("t.py::a", SAME, SAME))])
    assert [test.id for test in both.tests] == ["t.py::a", "t.py::a"]


def test_a_baseline_is_stale_only_where_no_shard_measured_its_test() -> None:
    test, window = record_of("t/m.py::a[.json: x]", SAME, SAME), record_of("t/n.py::w", SAME, SAME, windows=("inner",))
    environment = window.windows[0].environment.environment
    stale = [
        Stale("a[.json: x]", file="baselines/fake/t/m.py.json"),
        Stale("a[.json: x]", file="baselines/fake/other/t/m.py.json"),
        Stale("a[.json: x]", file="baselines/fake/m.py.json"),
        Stale("gone", file="baselines/fake/t/m.py.json"),
        of_window("t/n.py::w", "inner", environment),
        of_window("t/n.py::w", "gone", environment),
    ]
    one, other = run(test), structs.replace(run(window), stale=stale)
    # The second is of a module that another folder holds, so it is a test of its own.
    assert merged([one, other]).stale == [stale[2], stale[3], stale[5]]


EVERYTHING = run(
    record_of("t.py::a", SAME, MORE),
    stale=[Stale("gone", file="baselines/fake/t/m.py.json")],
    interrupted=True,
    errors=["broken"],
    against="main",
    commit="f00d",
    started="2026-11-23T04:20:00Z",
    rank=1,
    accept="Opprof-Accept: t.py::a Cast+3",
    pytest="torchrun -m pytest",
    python=True,
    everything=True,
    leaks=True,
    memory=True,
)


def test_a_merge_of_one_run_is_that_run() -> None:
    assert merged([EVERYTHING]) == EVERYTHING


def test_no_field_of_a_run_is_left_out_of_that_merge() -> None:
    # A merge without a rule for a field gives it the value of an empty run, so it needs another one here.
    empty = run()
    told = {name for name in EVERYTHING.__struct_fields__ if getattr(EVERYTHING, name) != getattr(empty, name)}
    assert {*EVERYTHING.__struct_fields__} - told == {"schema", "version"}


def test_the_versions_of_runs_are_told_together() -> None:
    assert merged([structs.replace(EVERYTHING, version=each) for each in ("1.0", "2.0", "1.0")]).version == "1.0, 2.0"
