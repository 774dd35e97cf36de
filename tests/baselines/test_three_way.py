from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.files.file_types import KeptTimes
from pytest_opprof.baselines.three_way import Merge, by_key, merged_sites
from pytest_opprof.profile.op_counts import Done, OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.verdict.times.coarse import Coarse

from .whole_entry import FIELDS, whole

WHERE = "test_x", "body"
NUMBERS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 3))


def entry(**calls: int) -> WindowBaseline:
    return WindowBaseline({op: OpCounts(Range(each)) for op, each in calls.items()})


def coarse(ms: int) -> Coarse:
    return Coarse((ms, ms), (ms, ms))


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_merge_keeps_each_change_that_one_side_made_and_asks_for_the_others(
    base: dict, one: dict, other: dict
) -> None:
    asked = []
    merged = by_key(base, one, other, lambda key, *_: asked.append(key) or one.get(key))
    for key in "abc":
        sides = {one.get(key), other.get(key)}
        changed = sides - {base.get(key)}
        if len(sides) == 2 and len(changed) == 2:
            assert key in asked
        else:
            assert merged.get(key) == (changed or sides).pop()
            assert key not in asked
    assert by_key(base, one, base, None) == one
    assert by_key(base, base, one, None) == one


def test_changes_of_different_ops_come_together() -> None:
    merge = Merge()
    found = merge.window(WHERE, entry(Cast=2, Add=5, Mul=1), entry(Cast=3, Add=5, Mul=1), entry(Cast=2, Add=6))
    assert found == entry(Cast=3, Add=6)
    assert merge.conflicts == {}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "said"),
    [
        (entry(Cast=2), entry(Cast=3), entry(Cast=4), "calls of Cast: 3 here, 4 there (before: 2); kept 3"),
        (None, entry(Cast=3), entry(Cast=4), "calls of Cast: 3 here, 4 there (before: 0); kept 3"),
        (entry(Cast=2), entry(Add=1), entry(Cast=4), "calls of Cast: 0 here, 4 there (before: 2); kept 4"),
        (entry(Cast=2), None, entry(Cast=4), "its baseline was removed here and changed there; kept"),
        (entry(Cast=2), entry(Cast=4), None, "its baseline was removed there and changed here; kept"),
        (
            entry(),
            WindowBaseline({}, facts={"peak_memory": Range(1, 1)}),
            WindowBaseline({}, facts={"peak_memory": Range(2, 2)}),
            "peak_memory: 1 here, 2 there (before: 0); kept 1",
        ),
        (
            entry(Cast=2),
            WindowBaseline({"Cast": OpCounts(Range(2), dtypes={"float32": Range(2, 2)})}),
            WindowBaseline({"Cast": OpCounts(Range(2), dtypes={"float64": Range(2, 2)})}),
            "calls of Cast: 2 with other dtypes, bytes or FLOPs here than there (before: 2); kept 2",
        ),
        (
            entry(Cast=2),
            WindowBaseline({"Cast": OpCounts(Range(2))}, ranks={"0": entry(Cast=2), "1": entry(Cast=3)}),
            entry(Cast=4),
            "its ranks do not make the same calls, so it is one entry; kept as it is here",
        ),
        (
            WindowBaseline({}, python={"python": "3.10"}),
            WindowBaseline({}, python={"python": "3.11"}),
            WindowBaseline({}, python={"python": "3.12"}),
            "its calls of Python functions are for other versions here than there; kept the ones here",
        ),
    ],
)
def test_what_both_sides_changed_is_a_conflict_that_names_both_numbers(
    base: WindowBaseline | None, ours: WindowBaseline | None, theirs: WindowBaseline | None, said: str
) -> None:
    merge = Merge()
    assert merge.window(WHERE, base, ours, theirs) is not None
    assert merge.conflicts == {WHERE: [said]}


def test_times_do_not_come_with_calls_that_nobody_timed() -> None:
    times = {"CPU": (ProcessTimes((4_000,), {"Cast": (1_000,)}),)}
    base = entry(Cast=2, Add=5)
    ours = WindowBaseline(entry(Cast=3, Add=5).ops, times)
    theirs = WindowBaseline(entry(Cast=2, Add=6).ops, times)
    found = Merge().window(WHERE, base, ours, theirs)
    assert found == entry(Cast=3, Add=6)
    same = Merge().window(WHERE, base, ours, WindowBaseline(ours.ops, {"GPU": times["CPU"]}))
    assert same == WindowBaseline(ours.ops, {**times, "GPU": times["CPU"]})


def test_of_two_coarse_times_the_stricter_stays() -> None:
    ours, theirs = (
        WindowBaseline({}, coarse={"CPU": coarse(ms), side: coarse(9)}) for ms, side in ((7, "a"), (5, "b"))
    )
    found = Merge().window(WHERE, None, ours, theirs)
    assert found == WindowBaseline({}, coarse={"CPU": coarse(5), "a": coarse(9), "b": coarse(9)})


ONCE = {"Cast": OpCounts(Range(0))}, {}
TWICE = {"Cast": OpCounts(Range(1))}, {"grad_nodes": Range(1)}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kept"),
    [
        (None, ONCE, None, ONCE),
        (None, None, ONCE, ONCE),
        (ONCE, TWICE, ONCE, TWICE),
        (ONCE, ONCE, TWICE, TWICE),
        (ONCE, None, ONCE, None),
        (None, ONCE, TWICE, ONCE),
    ],
)
def test_the_calls_in_another_order_are_those_of_the_side_that_changed_them(
    base: Done | None, ours: Done | None, theirs: Done | None, kept: Done | None
) -> None:
    before, one, other, merged = (
        replace(entry(Cast=2), warm=each, alone=each, compiled_anew=each is ONCE) for each in (base, ours, theirs, kept)
    )
    timed = replace(one, coarse={"CPU": coarse(5)})
    assert Merge().window(WHERE, before, timed, other) == replace(merged, coarse=timed.coarse)


def test_calls_in_another_order_do_not_come_with_calls_that_nobody_measured() -> None:
    base, ours, theirs = (replace(entry(Cast=casts, Add=adds), warm=ONCE) for casts, adds in ((2, 5), (3, 5), (2, 6)))
    assert Merge().window(WHERE, base, ours, theirs) == entry(Cast=3, Add=6)
    assert Merge().window(WHERE, entry(Cast=2), entry(Cast=2, Add=1), replace(entry(Cast=2), warm=ONCE)) == entry(
        Cast=2, Add=1
    )
    assert Merge().window(WHERE, base, base, theirs) == theirs


ONE, OTHER = {"python": "3.11"}, {"python": "3.12"}


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kept", "conflicts"),
    [
        (ONE, ONE, OTHER, OTHER, 0),
        (ONE, OTHER, ONE, OTHER, 0),
        (ONE, OTHER, OTHER, OTHER, 0),
        ({}, ONE, OTHER, ONE, 1),
        ({}, {}, OTHER, OTHER, 0),
    ],
)
def test_the_versions_of_calls_of_python_functions_are_those_of_the_side_that_changed_them(
    base: dict[str, str], ours: dict[str, str], theirs: dict[str, str], kept: dict[str, str], conflicts: int
) -> None:
    merge = Merge()
    found = merge.window(WHERE, *(WindowBaseline({}, python=each) for each in (base, ours, theirs)))
    assert found == WindowBaseline({}, python=kept)
    assert len(merge.conflicts.get(WHERE, [])) == conflicts


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "ranks"])  # which is merged as one
def test_each_field_that_one_side_changed_comes(name: str) -> None:
    base = whole(1)
    changed = replace(base, **{name: getattr(whole(2), name)})
    assert changed != base
    merge = Merge()
    assert merge.window(WHERE, base, base, changed) == changed
    assert merge.window(WHERE, base, changed, base) == changed
    assert merge.conflicts == {}


def test_entries_of_ranks_that_both_sides_left_alone_are_no_conflict() -> None:
    ranks = {"0": entry(Cast=2), "1": entry(Cast=3)}
    base, ours = (replace(entry(Cast=2), ranks=ranks, coarse={"CPU": coarse(ms)}) for ms in (5, 6))
    theirs = replace(base, coarse={"CPU": coarse(7)})
    merge = Merge()
    assert merge.window(WHERE, base, ours, theirs) == ours
    assert merge.conflicts == {}
    for before, one, other in (
        (base, ours, replace(theirs, ops=entry(Cast=4).ops)),
        (base, entry(Cast=2), theirs),
        (entry(Cast=2), entry(Cast=2), theirs),
        (base, entry(Cast=2), entry(Cast=4)),
    ):
        merge = Merge()
        assert merge.window(WHERE, before, one, other) == one
        assert len(merge.conflicts[WHERE]) == 1


def test_each_conflict_of_a_window_is_told_with_the_names_of_the_sides() -> None:
    merge = Merge("in main", "in topic")
    ours = entry(Cast=3, Add=3)
    assert merge.window(WHERE, entry(Cast=2, Add=2), ours, entry(Cast=4, Add=4)) == ours
    assert merge.conflicts == {
        WHERE: [
            "calls of Cast: 3 in main, 4 in topic (before: 2); kept 3",
            "calls of Add: 3 in main, 4 in topic (before: 2); kept 3",
        ]
    }
    merge.window(WHERE, entry(), None, entry(Cast=1))
    assert merge.conflicts[WHERE][2:] == ["its baseline was removed in main and changed in topic; kept"]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "kept"),
    [
        ("a", "a", "b", "b"),
        ("a", "b", "a", "b"),
        ("a", "b", "c", "b"),
        (None, "b", "c", "b"),
        (None, None, "c", "c"),
        ("a", None, "c", "c"),
        ("a", "b", None, "b"),
        ("a", "a", None, "a"),
    ],
)
def test_kept_times_are_those_of_changed_calls(
    base: str | None, ours: str | None, theirs: str | None, kept: str
) -> None:
    def kept_times(calls: str | None, ns: float) -> WindowBaseline:
        return WindowBaseline({}, mismatched={"CPU": KeptTimes(calls, {}, 1, [[ns]])} if calls else {})

    # Each side has times of its own, so that no side is the base.
    found = Merge().window(WHERE, kept_times(base, 1), kept_times(ours, 2), kept_times(theirs, 3))
    assert found is not None
    assert found.mismatched["CPU"].calls_digest == kept


def test_of_lines_that_both_sides_changed_ours_stay_and_lines_that_one_side_changed_come() -> None:
    old, new, other = ({(f"a.py:{line}",): 1} for line in (1, 2, 3))
    base = {"Add": old, "Cast": old, "Exp": old, "Mul": old}
    ours = {"Add": new, "Cast": old, "Mul": new, "Log": new}
    theirs = {"Add": other, "Cast": other, "Exp": other, "Mul": old}
    assert merged_sites(base, ours, theirs) == {"Add": new, "Cast": other, "Exp": other, "Mul": new, "Log": new}


def test_times_of_the_same_calls_that_both_sides_changed_are_ours() -> None:
    ops = entry(Cast=2).ops
    base, ours, theirs = (
        {machine: (ProcessTimes((ns,), {}),) for machine, ns in each.items()}
        for each in ({"CPU": 1, "GPU": 1}, {"CPU": 2}, {"CPU": 3, "GPU": 3})
    )
    found = Merge().window(WHERE, *(WindowBaseline(ops, each) for each in (base, ours, theirs)))
    assert found == WindowBaseline(ops, {"CPU": ours["CPU"], "GPU": theirs["GPU"]})
