from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pytest_opprof.baselines.entry import NOTHING, WindowBaseline, entry_of
from pytest_opprof.baselines.files.file_types import KeptTimes
from pytest_opprof.machine.identity import with_python
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import OUTSIDE, ProcessTimes, run_of
from pytest_opprof.python_calls.counted import PythonCalls
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.window_result import BODY, WindowNumbers
from pytest_opprof.verdict.times.coarse import Coarse

from ..conftest import ENVIRONMENT, profile_of
from .whole_entry import FIELDS, lacking, whole

HERE = "CPU, 2 cores"


def test_an_entry_keeps_the_fewest_and_the_most_calls_and_the_time_of_each_round() -> None:
    profile = profile_of([("Cast", 5), ("Add", 7)], [("Cast", 6), ("Cast", 7), ("Add", 8)])
    entry = WindowBaseline.of(replace(profile, yardstick_ns=(9, 8)), HERE, threads=1)
    assert entry.ops == {"Cast": OpCounts(Range(1, 2)), "Add": OpCounts(Range(1))}
    assert entry.times == {HERE: (ProcessTimes((12, 21), {"Cast": (5, 13), "Add": (7, 8)}, threads=1),)}
    assert str(entry.ops["Cast"].calls) == "1..2"


CPU = replace(ENVIRONMENT, device="cpu")


def test_what_the_host_waited_for_is_kept_for_a_cpu_and_not_for_an_accelerator() -> None:
    profile = replace(profile_of([("Add", 4_000)]), wait_ns=(3,), yardstick_ns=(9,))
    on_accelerator, on_cpu = run_of(profile), run_of(replace(profile, environment=CPU))
    assert on_accelerator == ProcessTimes((4_000,), {"Add": (4_000,)})
    assert on_cpu is not None
    assert (on_cpu.wait_ns, on_cpu.yardstick_ns) == ((3,), (9,))


def test_on_a_cpu_the_whole_is_wall_time_and_what_its_ops_do_not_take_is_outside() -> None:
    profile = profile_of([("Add", 4_000)], [("Add", 11_000)], environment=CPU)  # of 10 us each
    run = run_of(profile)
    assert run is not None
    assert run.total_ns == (10_000, 10_000)
    assert run.ops_ns == {"Add": (4_000, 11_000), OUTSIDE: (6_000, 0)}
    of_ops = run_of(profile, wall=False)
    assert of_ops is not None
    assert (of_ops.total_ns, set(of_ops.ops_ns)) == ((4_000, 11_000), {"Add"})


def test_wall_time_that_is_not_known_is_no_whole() -> None:
    run = run_of(replace(profile_of([("Add", 4_000)], environment=CPU), host_ns=(-1,)))
    assert run is not None
    assert (run.total_ns, set(run.ops_ns)) == ((4_000,), {"Add"})


def test_a_profile_without_times_has_none_to_keep() -> None:
    profile = profile_of([("Add", -1)])
    assert run_of(profile) is None
    assert WindowBaseline.of(profile, HERE).times == {}


def runs(ns: int, rounds: int = 10, processes: int = 3, threads: int = 1) -> tuple[ProcessTimes, ...]:
    return (ProcessTimes((ns,) * rounds, {"Add": (ns,) * rounds}, threads=threads),) * processes


OLD = WindowBaseline({"Add": OpCounts(Range(1))}, {HERE: runs(10), "Other": runs(99)})


def test_an_update_with_other_calls_drops_every_time() -> None:
    now = WindowBaseline({"Add": OpCounts(Range(2))}, {HERE: runs(20)})
    assert OLD.updated(now, HERE, times_changed=False) == now


def test_as_many_calls_of_other_ops_are_other_calls() -> None:
    assert OLD.allows(WindowBaseline({"Add": OpCounts(Range(1))}))
    assert not OLD.allows(WindowBaseline({"Exp": OpCounts(Range(1))}))
    either = WindowBaseline({op: OpCounts(Range(0, 1, varies=True)) for op in ("Add", "Exp")})
    assert either.allows(OLD)
    assert not OLD.allows(either)


def test_an_update_with_the_same_calls_and_no_news_changes_nothing() -> None:
    assert OLD.updated(WindowBaseline(OLD.ops, {HERE: runs(11)}), HERE, times_changed=False) == OLD


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        (runs(10), runs(30), True),
        (runs(10), runs(10, rounds=30), False),
        (runs(10), runs(10, threads=0), False),
        (runs(10, processes=2), runs(10), False),
        ((), runs(10), False),
    ],
    ids=["slower", "other rounds", "other threads", "too few processes", "none"],
)
def test_an_update_of_times_keeps_those_of_other_machines(
    before: tuple[ProcessTimes, ...], now: tuple[ProcessTimes, ...], changed: bool
) -> None:
    old = WindowBaseline(OLD.ops, {HERE: before, "Other": runs(99)} if before else {"Other": runs(99)})
    assert old.updated(WindowBaseline(OLD.ops, {HERE: now}), HERE, changed).times == {HERE: now, "Other": runs(99)}


def test_times_of_too_few_rounds_to_be_judged_are_not_taken_again_for_more_processes() -> None:
    old = WindowBaseline(OLD.ops, {HERE: runs(10, rounds=9, processes=1)})
    assert (
        old.updated(WindowBaseline(OLD.ops, {HERE: runs(11, rounds=9, processes=1)}), HERE, times_changed=False) == old
    )


def test_an_update_on_another_machine_is_kept_beside() -> None:
    now = WindowBaseline(OLD.ops, {"Third": runs(5)})
    assert set(OLD.updated(now, "Third", times_changed=False).times) == {HERE, "Other", "Third"}


def test_an_update_without_times_keeps_those_there_are() -> None:
    assert OLD.updated(WindowBaseline(OLD.ops), HERE, times_changed=True) == OLD


def test_an_update_forgets_times_of_other_calls() -> None:
    old = WindowBaseline(OLD.ops, {"Other": runs(99)}, mismatched={HERE: KeptTimes("0", {}, 1, [[9.0]])})
    assert old.updated(WindowBaseline(OLD.ops), HERE, times_changed=False) == WindowBaseline(
        OLD.ops, {"Other": runs(99)}
    )
    assert old.updated(WindowBaseline(OLD.ops, {HERE: runs(10)}), HERE, times_changed=False) == OLD


def fact(name: str, *amount: int, varies: bool = False) -> dict[str, Range]:
    return {name: Range(min(amount), max(amount), varies)}


def with_facts(facts: dict[str, Range], times: dict[str, tuple[ProcessTimes, ...]]) -> WindowBaseline:
    return WindowBaseline(OLD.ops, times, facts=facts)


def test_a_baseline_without_facts_gets_them_from_an_update_and_keeps_its_times() -> None:
    now = with_facts(fact("grad_nodes", 3), {HERE: runs(11)})
    assert OLD.allows(now)
    assert OLD.updated(now, HERE, times_changed=False) == with_facts(now.facts, dict(OLD.times))


def test_facts_that_a_run_does_not_know_stay() -> None:
    old = with_facts(fact("grad_nodes", 3) | fact("allocations", 5), dict(OLD.times))
    now = with_facts(fact("grad_nodes", 3), {HERE: runs(11)})
    assert old.allows(now)
    assert old.updated(now, HERE, times_changed=False) == old


def test_facts_within_their_tolerance_stay_what_they_were() -> None:
    old = with_facts(fact("peak_memory", 10**6), dict(OLD.times))
    now = with_facts(fact("peak_memory", 1_040_000), {})
    assert old.allows(now)
    assert old.updated(now, HERE, times_changed=False) == old


@pytest.mark.parametrize("nodes", [0, 4])
def test_other_facts_are_another_baseline_whose_times_stay(nodes: int) -> None:
    old = with_facts(fact("grad_nodes", 3) | fact("peak_memory", 10**6), dict(OLD.times))
    facts = fact("grad_nodes", nodes)
    now = with_facts(facts | fact("peak_memory", 1_040_000), {HERE: runs(11)})
    assert not old.allows(now)
    entry = with_facts(facts | fact("peak_memory", 10**6), dict(OLD.times))
    assert old.updated(now, HERE, times_changed=False) == entry
    slower = with_facts(entry.facts, {HERE: runs(20)})
    assert old.updated(slower, HERE, times_changed=True).times == {HERE: runs(20), "Other": runs(99)}


def test_a_fact_that_varies_allows_what_is_near_its_range() -> None:
    old = with_facts(fact("grad_nodes", 3, 5, varies=True), dict(OLD.times))
    assert [old.allows(with_facts(fact("grad_nodes", nodes), {})) for nodes in (0, 1, 4, 7, 8)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_sums_over_all_ops_are_kept_where_they_do_not_follow_from_these() -> None:
    numbers = WindowNumbers.of(BODY, profile_of([("Add", 5), ("Cast", 7)], [("Add", 5)]))
    window = JudgedWindow(numbers).result(HERE, parallel=False, compared=True)
    entry = entry_of(window)
    assert entry.facts == {"calls": Range(1, 2)}  # of rounds that differ, each op has a range of its own
    assert entry_of(structs.replace(window, vary={"Add": OpCounts(Range(1, 3, varies=True))})).facts == {}
    steady = WindowNumbers.of(BODY, profile_of([("Add", 5), ("Cast", 7)]))
    entry = entry_of(JudgedWindow(steady).result(HERE, parallel=False, compared=True))
    assert (entry.facts, entry.all_facts) == ({}, {"calls": Range(2, 2)})


def of_work(nbytes: int | None, flops: int | None, facts: Mapping[str, int] = MappingProxyType({})) -> WindowBaseline:
    amounts = [None if each is None else Range(each, each) for each in (nbytes, flops)]
    calls = {"Add": OpCounts(Range(1), bytes=amounts[0], flops=amounts[1])}
    return WindowBaseline(calls, facts={name: Range(each, each) for name, each in facts.items()})


def test_a_sum_that_follows_from_what_an_update_adds_is_not_kept_beside_it() -> None:
    sums = (("calls", 1), ("bytes", 8_000), ("flops", 9_000))
    assert of_work(8_000, 9_000).all_facts == {name: Range(each, each) for name, each in sums}
    old, now = of_work(8_000, None, {"flops": 5_000}), of_work(8_000, 9_000)
    assert not old.allows(now)
    assert old.updated(now, HERE, times_changed=False) == now
    assert of_work(8_000, 0, {"flops": 0}).all_facts["flops"] == Range(0, 0)
    assert "flops" not in of_work(8_000, 0).all_facts  # files leave out 0 as what is not known


def test_facts_that_vary_with_the_ops_are_no_reason_for_another_baseline() -> None:
    calls = {"Add": OpCounts(Range(1, 3, varies=True))}
    old = WindowBaseline(calls, facts=fact("peak_memory", 10**6, 2 * 10**6, varies=True) | fact("grad_nodes", 3))
    now = WindowBaseline({"Add": OpCounts(Range(2))}, facts=fact("peak_memory", 10**9) | fact("grad_nodes", 3))
    assert old.allows(now)
    assert old.updated(now, HERE, times_changed=False) == old
    assert not old.allows(replace(now, facts=fact("grad_nodes", 4)))


def counted(calls: int, **versions: str) -> WindowBaseline:
    return WindowBaseline({"Add": OpCounts(Range(1))}, facts={"python_calls": Range(calls, calls)}, python=versions)


def test_calls_of_python_functions_are_compared_under_equal_versions_alone() -> None:
    base = counted(100, python="3.12", numpy="2.0")
    assert not base.allows(counted(200, python="3.12", numpy="2.0"))
    assert base.allows(counted(200, python="3.13", numpy="2.0"))
    assert base.allows(counted(200, python="3.12", numpy="2.1"))
    assert base.lacks_python(counted(200, python="3.13"))
    assert not base.lacks_python(counted(200, python="3.12", pandas="3.0"))
    assert WindowBaseline({}).lacks_python(counted(1, python="3.12"))


def test_an_update_under_other_versions_keeps_the_calls_of_these() -> None:
    base = counted(100, python="3.12")
    after = base.updated(counted(90, python="3.13"), HERE, times_changed=False)
    assert (after.facts["python_calls"], after.python) == (Range(90, 90), {"python": "3.13"})


def test_an_update_that_counts_nothing_keeps_the_calls_that_were_counted() -> None:
    base = counted(100, python="3.12")
    after = base.updated(WindowBaseline({"Add": OpCounts(Range(1))}), HERE, times_changed=False)
    assert after == base


def test_an_update_with_as_many_calls_changes_nothing() -> None:
    base = counted(1000, python="3.12")
    assert base.updated(counted(1005, python="3.12"), HERE, times_changed=False) == base


def coarse(ms: int) -> Coarse:
    return Coarse((ms * 1_000_000,) * 2, (ms * 1_000_000,) * 2)


@pytest.mark.parametrize(("ms", "kept"), [(10, 10), (20, 10), (40, 40), (6, 10), (1, 1)])
def test_an_update_keeps_a_coarse_time_unless_it_has_changed(ms: int, kept: int) -> None:
    old = replace(OLD, coarse={HERE: coarse(10), "Other": coarse(99)})
    now = WindowBaseline(OLD.ops, coarse={HERE: coarse(ms), "Third": coarse(5)})
    after = old.updated(now, HERE, times_changed=False)
    assert after == replace(old, coarse={HERE: coarse(kept), "Other": coarse(99), "Third": coarse(5)})
    assert [old.lacks_coarse(HERE, coarse(each)) for each in (10, 40)] == [False, True]
    assert old.lacks_coarse("Third", coarse(10))


def test_an_entry_has_the_coarse_time_of_a_test_of_one_rank_and_the_times_that_were_measured() -> None:
    numbers = WindowNumbers.of(BODY, profile_of([("Add", 5)]))
    window = structs.replace(
        JudgedWindow(numbers).result(HERE, parallel=False, compared=True),
        coarse=coarse(10),
        warm=({"Add": OpCounts(Range(0))}, {}),
        alone=({}, fact("grad_nodes", 1)),
        processes=runs(10),
        environment=replace(ENVIRONMENT, ranks=1),
    )
    entry = entry_of(window)
    assert [*entry.coarse.values()] == [coarse(10)]
    assert entry.coarse.keys() == {with_python(HERE)}
    assert (entry.warm, entry.alone, entry.times) == (window.warm, window.alone, {HERE: runs(10)})
    assert entry_of(structs.replace(window, environment=replace(ENVIRONMENT, ranks=2))).coarse == {}
    bare = entry_of(structs.replace(window, coarse=None, warm=None, alone=None, processes=()))
    assert (bare.coarse, bare.warm, bare.alone, bare.times) == ({}, None, None, {})


def test_a_measured_window_gives_its_entry_each_field() -> None:
    numbers = WindowNumbers.of(BODY, profile_of([("Add", 5)]))
    window = structs.replace(
        JudgedWindow(numbers).result(HERE, parallel=False, compared=True),
        facts={"grad_nodes": (1,)},
        python=PythonCalls(versions={"python": "3.12"}),
        coarse=coarse(10),
        warm=({"Add": OpCounts(Range(0))}, {}),
        alone=({}, fact("grad_nodes", 1)),
        compiled_anew=True,
        processes=runs(10),
        environment=replace(ENVIRONMENT, ranks=1),
    )
    # Only a file has times of other calls, and only several ranks together differ.
    assert lacking(entry_of(window)) == {"mismatched", "ranks"}


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("mismatched", "ranks")])
def test_an_update_records_each_field_that_the_entry_lacks(name: str) -> None:
    now = whole(1)
    old = replace(now, **{name: getattr(NOTHING, name)})
    assert old != now
    assert getattr(old.updated(now, HERE, times_changed=False), name) == getattr(now, name)


def test_an_update_with_other_calls_of_python_functions_takes_all_that_were_counted_with_them() -> None:
    old = counted(100, python="3.12")
    old = replace(old, facts={**old.facts, "collections": Range(1), "peak_memory": Range(10**6)})
    now = counted(200, python="3.12", numpy="2.0")
    now = replace(now, facts={**now.facts, "collections": Range(1), "loop_iterations": Range(5)})
    near = replace(now, facts={**now.facts, "peak_memory": Range(1_040_000)})  # within its tolerance
    after = old.updated(near, HERE, times_changed=False)
    assert (after.facts, after.python) == ({**now.facts, "peak_memory": Range(10**6)}, now.python)
    same = replace(now, facts={**now.facts, "python_calls": Range(101)})
    after = old.updated(same, HERE, times_changed=False)
    assert (after.facts, after.python) == ({**old.facts, "loop_iterations": Range(5)}, old.python)


# --- other orders of the same test: a repeat in its process, and a process of its own

RUNS = st.builds(
    lambda calls, facts: WindowBaseline(
        {op: OpCounts(Range(number)) for op, number in calls.items()},
        facts={name: Range(number) for name, number in facts.items()},
    ),
    st.dictionaries(st.sampled_from("ABC"), st.integers(1, 3)),
    st.fixed_dictionaries({"grad_nodes": st.integers(0, 2), "peak_memory": st.integers(0, 2)}),
)


@given(RUNS, RUNS)
def test_a_run_is_known_again_from_its_differences(first: WindowBaseline, other: WindowBaseline) -> None:
    ops, facts = first.with_differences(first.differences(other))
    assert ops == other.ops
    assert facts == {name: each for name, each in other.all_facts.items() if name in facts}
    assert facts.keys() >= {"grad_nodes", "peak_memory"}
    assert first.differences(first) == ({}, {})


def test_the_difference_of_a_run_is_its_other_calls_and_facts() -> None:
    first = WindowBaseline(
        {"Add": OpCounts(Range(1)), "Exp": OpCounts(Range(2)), "Mul": OpCounts(Range(1, 3, varies=True))},
        facts=fact("grad_nodes", 3) | fact("peak_memory", 8) | fact("left_behind", 0),
    )
    later = WindowBaseline(
        {"Exp": OpCounts(Range(4)), "Log": OpCounts(Range(1)), "Mul": OpCounts(Range(2))},
        facts=fact("grad_nodes", 3) | fact("peak_memory", 9) | fact("allocations", 1) | fact("left_behind", 5),
    )
    gone = {"Add": OpCounts(Range(0))}
    # A leak is found by runs of its own; what the first run does not know is not compared.
    assert first.differences(later) == (
        gone | {"Exp": OpCounts(Range(4)), "Log": OpCounts(Range(1))},
        fact("peak_memory", 9),
    )


def test_a_few_bytes_of_the_hosts_memory_are_no_difference_of_a_run() -> None:
    first, like, more = (WindowBaseline({}, facts=fact("host_memory", size)) for size in (300_000, 300_456, 400_000))
    assert first.differences(like) == ({}, {})
    assert first.differences(more) == ({}, fact("host_memory", 400_000))


def test_a_sum_that_follows_from_the_differences_of_the_ops_is_no_difference_of_its_own() -> None:
    first, later = (WindowBaseline({"Add": OpCounts(Range(calls))}) for calls in (1, 2))
    assert first.differences(later) == ({"Add": OpCounts(Range(2))}, {})
    assert first.with_differences(first.differences(later))[1] == {"calls": Range(2)}
    other = replace(later, facts=fact("calls", 1))
    assert first.differences(other) == ({"Add": OpCounts(Range(2))}, fact("calls", 1))


def test_an_update_keeps_the_other_orders_unless_it_measured_them() -> None:
    once, alone = ({"Add": OpCounts(Range(0))}, {}), ({}, fact("grad_nodes", 1))
    old = replace(OLD, warm=once, alone=alone)
    now = WindowBaseline(OLD.ops, {HERE: runs(11)})
    assert old.updated(now, HERE, times_changed=False) == old
    measured = replace(now, warm=({"Log": OpCounts(Range(1))}, {}), compiled_anew=True)
    assert old.updated(measured, HERE, times_changed=False) == replace(
        old, warm=measured.warm, alone=None, compiled_anew=True
    )
    of_facts = replace(now, warm=({}, fact("grad_nodes", 2)))
    assert old.updated(of_facts, HERE, times_changed=False) == replace(old, warm=of_facts.warm, alone=None)
    equal = replace(now, warm=({}, {}))
    assert old.updated(equal, HERE, times_changed=False) == replace(old, warm=None, alone=None)
