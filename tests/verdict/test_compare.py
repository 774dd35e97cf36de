from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pytest_opprof.profile.op_counts import Done, OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import OUTSIDE, ProcessTimes
from pytest_opprof.verdict.compare import (
    changes,
    compare,
    compare_counts_first,
    excuse,
    only_compiles,
    unseen,
    without_first_uses,
)
from pytest_opprof.verdict.diff import FIRST_USE, VARIES, Diff, Row
from pytest_opprof.verdict.facts import amount
from pytest_opprof.verdict.findings import Broken, LimitResult
from pytest_opprof.verdict.quantities import CPU_TIME, SUMS
from pytest_opprof.verdict.times.coarse import Slower
from pytest_opprof.verdict.times.pair_rule import judge_pairs
from pytest_opprof.verdict.times.stored_rule import Rule, judge, unjudged
from pytest_opprof.verdict.tolerances import PAIRS, STORED
from pytest_opprof.verdict.verdicts import Times, TimingVerdict, Verdict
from pytest_opprof.verdict.work import Number, Work

Table = dict[str, tuple[int, int]]
"""By op: calls, and the time of each round in us; 0: not known."""
LIMITS = replace(STORED, op_share=0.0)
ROUNDS = 10


def counted(table: Table) -> Done:
    return {op: OpCounts(Range(calls)) for op, (calls, _) in table.items()}, {}


def timed(table: Table, processes: int = 1, total_us: int = 0) -> list[ProcessTimes]:
    """Return the processes that timed what *table* says; none where it says nothing."""
    ops = {op: (us * 1_000,) * ROUNDS for op, (_, us) in table.items() if us}
    total = tuple(map(sum, zip(*ops.values()))) if not total_us else (total_us * 1_000,) * ROUNDS
    return [ProcessTimes(total, ops, threads=1)] * processes if ops else []


def diff(base: Table, now: Table, top: int = 2, processes: int = 6) -> Diff:
    timing = judge(timed(base, 3), timed(now, processes), Rule(LIMITS))
    return compare(counted(base), counted(now), timing, LIMITS, top)


def findings(found: Diff) -> list[str]:
    return [str(finding) for finding in found.findings()]


def test_calls_are_compared_exactly() -> None:
    found = diff({"Cast": (10, 0), "Add": (4, 0), "Exp": (1, 0)}, {"Cast": (12, 0), "Add": (3, 0), "Log": (1, 0)})
    assert findings(found) == ["Cast: 12 calls (baseline: 10)", "Log: 1 call (baseline: 0)"]
    assert list(found.improvements()) == ["Add: 3 calls (baseline: 4)", "Exp: 0 calls (baseline: 1)"]
    assert (found.verdict, found.worst.op) == (Verdict.NEW, "Log")


@pytest.mark.parametrize(("before", "after"), [(1, 2), (0, 1), (1, 0)])
def test_an_op_that_is_called_total_is_an_op(before: int, after: int) -> None:
    found = diff(*({"total": (calls, 0)} if calls else {} for calls in (before, after)))
    (row,) = found.rows
    assert (row.is_total, row.accepted_as, found.total.is_total) == (False, "total", True)


def test_a_number_that_breaks_a_limit_too_is_one_finding_with_both() -> None:
    found = diff({"Cast": (10, 0), "Add": (1, 0)}, {"Cast": (12, 0), "Add": (2, 0)})
    add, cast = sorted(found.worse, key=lambda row: row.op)
    limit = Broken.of(LimitResult("calls", "11", "Cast", used="12", is_broken=True))
    assert cast.breaks(limit)
    assert not add.breaks(limit)
    assert not cast.breaks(replace(limit, quantity="bytes"))
    memory = Row("peak_memory", None, None, None, None, Verdict.ABOVE, work=Work(number=Number("peak_memory", "", "")))
    assert memory.breaks(Broken.of(LimitResult("peak_memory", "1 MiB", used="9 MiB", is_broken=True)))
    assert not memory.breaks(limit)
    assert not diff({"Cast": (10, 400)}, {"Cast": (10, 900)}).rows[0].breaks(limit)  # a time has no such number
    both, alone = found.finding(cast, limit), found.finding(cast)
    assert (both.text, both.short) == ("Cast: 12 calls (budget: 11, baseline: 10)", "Cast 10 -> 12 (budget 11)")
    assert (alone.text, alone.short) == ("Cast: 12 calls (baseline: 10)", "Cast 10 -> 12")
    assert (both.rule, both.op, both.over_budget, alone.over_budget) == ("more calls", "Cast", True, False)


def test_a_range_of_calls_is_judged_at_its_worst() -> None:
    untimed = unjudged("one round", [])
    base = {"Cast": OpCounts(Range(8, 10))}
    assert (
        compare((base, {}), ({"Cast": OpCounts(Range(10))}, {}), untimed, LIMITS).total.verdict is Verdict.INCOMPARABLE
    )
    assert findings(compare((base, {}), ({"Cast": OpCounts(Range(10))}, {}), untimed, LIMITS)) == []
    assert findings(compare((base, {}), ({"Cast": OpCounts(Range(8, 11))}, {}), untimed, LIMITS)) == [
        "Cast: 8..11 calls (baseline: 8..10)"
    ]


def test_a_slower_time_says_how_much_the_limit_and_how_many_processes_agree() -> None:
    base: Table = {"MatMul": (1, 400)}
    now: Table = {"MatMul": (1, 600)}
    assert findings(diff(base, now)) == [
        "device time of MatMul: 400 us -> 600 us (+50%), limit 25%, in 6 processes",
        "device time: 400 us -> 600 us (+50%), limit 13%, in 6 processes",
    ]
    assert list(diff(now, base, processes=1).improvements()) == [
        "device time of MatMul: 600 us -> 400 us (-33.3%), limit 25%",
        "device time: 600 us -> 400 us (-33.3%), limit 13%",
    ]
    assert [each.short for each in diff(base, now).findings()] == ["MatMul +50%", "time +50%"]
    assert diff(base, now).times_changed
    assert not diff(base, base).times_changed


def test_the_limit_that_is_said_is_that_of_the_op() -> None:
    tolerances = replace(LIMITS, of_op={"MatMul": 0.4})
    base, now = timed({"MatMul": (1, 400)}, 3), timed({"MatMul": (1, 600)})
    calls = {"MatMul": OpCounts(Range(1))}
    (of_op, _) = findings(compare((calls, {}), (calls, {}), judge(base, now, Rule(tolerances)), tolerances))
    assert of_op == "device time of MatMul: 400 us -> 600 us (+50%), limit 40%"


def test_times_that_were_not_judged_are_shown_with_the_reason_and_no_verdict() -> None:
    base, now = {"Add": (1, 400)}, {"Add": (1, 900)}
    for timing in (
        unjudged("in parallel", timed(now), timed(base, 3)),
        replace(judge(timed(base, 3), timed(now, 6)), verdict=Verdict.NOISY, why="in parallel"),
    ):
        found = compare(counted(base), counted(now), replace(timing, ops={}), LIMITS, 2)
        assert (found.times, found.verdict) == ("in parallel", timing.verdict)
        assert (found.total.base_ns, found.total.now_ns) == (400_000, 900_000)
        assert (findings(found), list(found.improvements()), found.times_changed) == ([], [], False)


def test_a_change_that_its_limits_let_pass_says_which() -> None:
    base, now = {"Add": (1, 400), "Exp": (1, 4), "Log": (1, 100)}, {"Add": (1, 499), "Exp": (1, 8), "Log": (1, 105)}
    assert {row.op: row.why for row in diff(base, now).rows} == {"Add": "", "Exp": "below 5 us", "Log": ""}
    agreed = judge(timed(base, 3), timed({**base, "Add": (1, 900)}, 6), Rule(LIMITS))
    (row,) = (row for row in compare(counted(base), counted(base), agreed, LIMITS).rows if row.op == "Add")
    assert (row.verdict, row.why) == (Verdict.SLOWER, "")
    calls = counted(base)
    (row,) = (row for row in compare(calls, calls, replace(agreed, ops={}), LIMITS).rows if row.op == "Add")
    assert (row.verdict, row.why) == (Verdict.OK, "not confirmed")


def test_an_op_whose_time_was_not_judged_is_not_called_ok() -> None:
    base, now = {"Add": (1, 400), "Exp": (1, 4)}, {"Add": (1, 900), "Exp": (1, 4)}
    found = compare(counted(base), counted(now), unjudged("in parallel", timed(now), timed(base, 3)), LIMITS)
    assert [(row.verdict, row.why) for row in found.rows] == [
        (Verdict.INCOMPARABLE, "not judged"),
        (Verdict.INCOMPARABLE, ""),
    ]


def test_in_pairs_a_change_has_its_interval_and_one_that_may_be_anything_no_number() -> None:
    base = timed({"Add": (1, 400), "Exp": (1, 400)})[0]
    pairs = []
    for whole, add, exp in (
        (1.08, 1.02, 1.5),
        (1.1, 1.4, 1.51),
        (1.1, 1.5, 1.52),
        (1.12, 1.9, 1.53),
        (1.12, 2.4, 1.54),
    ):
        ops = {op: tuple(round(ns * by) for ns in base.ops_ns[op]) for op, by in (("Add", add), ("Exp", exp))}
        pairs.append((base, replace(base, total_ns=tuple(round(ns * whole) for ns in base.total_ns), ops_ns=ops)))
    calls = {"Add": OpCounts(Range(1)), "Exp": OpCounts(Range(1))}
    found = compare((calls, {}), (calls, {}), judge_pairs([*pairs, *pairs[1:]]), PAIRS)
    assert findings(found) == [
        "device time of Add: 400 us -> 652 us, +39% to +114%, limit 15%, in 8 of 9 pairs of processes",
        "device time of Exp: 400 us -> 608 us, +52% (51 to 53), limit 15%, in 9 pairs of processes",
        "device time: 800 us -> 888 us, +11% (10 to 12), limit 6%, in 9 pairs of processes",
    ]


def test_ops_that_did_not_change_have_the_same_order_whatever_time_an_unjudged_run_took() -> None:
    base = {"Add": done(9), "Exp": done(1, 8), "Mul": done(2), "Sqrt": done(1, 4096)}

    def order(*times: int) -> list[str]:
        now = timed(dict(zip(base, ((1, each) for each in times))))
        return [row.op for row in compare((base, {}), (base, {}), unjudged("one round", now), STORED).rows]

    assert order(1, 2, 3, 4) == order(4, 3, 2, 1) == ["Sqrt", "Add", "Exp", "Mul"]


def test_in_pairs_the_whole_says_how_many_of_them_agree() -> None:
    base = timed({"Add": (1, 800)})[0]
    pairs = [
        (base, replace(base, total_ns=tuple(round(ns * by) for ns in base.total_ns))) for by in (*[1.1, 1.12] * 4, 1.0)
    ]
    done = {"Add": OpCounts(Range(1))}, {}
    (found,) = findings(compare(done, done, judge_pairs(pairs), PAIRS))
    assert found.endswith("limit 6%, in 8 of 9 pairs of processes")


def test_in_pairs_an_op_that_may_be_slower_or_not_is_unclear_unless_that_would_not_count() -> None:
    base = timed({"Add": (1, 400), "Exp": (1, 8)})[0]
    pairs = []
    for by in (0.8, 0.9, 1.0, 1.1, 1.5):
        ops = {op: tuple(round(ns * by) for ns in samples) for op, samples in base.ops_ns.items()}
        pairs.append((base, replace(base, ops_ns=ops)))
    calls = {"Add": OpCounts(Range(1)), "Exp": OpCounts(Range(1))}
    found = compare((calls, {}), (calls, {}), judge_pairs(pairs), PAIRS)
    assert {row.op: (row.verdict, row.why, row.change) for row in found.rows} == {
        "Add": (Verdict.OK, "unclear", "-20% to +50%"),
        "Exp": (Verdict.OK, "", "-20% to +50%"),
    }


def test_calls_are_judged_though_times_are_not() -> None:
    found = compare(counted({"Add": (1, 0)}), counted({"Add": (2, 0)}), unjudged("in parallel", []), LIMITS)
    assert (found.verdict, found.times) == (Verdict.MORE, "in parallel")


def test_what_lost_in_calls_is_not_blamed_for_its_time_as_well() -> None:
    found = diff({"Cast": (10, 100), "Add": (1, 900)}, {"Cast": (12, 150), "Add": (1, 900)})
    assert findings(found) == ["Cast: 12 calls (baseline: 10)"]


def test_the_most_damaging_op_comes_first() -> None:
    base: Table = {"A": (1, 100), "B": (1, 100), "C": (2, 100), "D": (1, 10)}
    now: Table = {"A": (1, 900), "B": (1, 300), "C": (1, 90), "D": (2, 20)}
    assert [row.op for row in diff(base, now).rows] == ["D", "A", "B", "C"]


def test_counts_order_findings_and_measured_times_do_not() -> None:
    """The op that matters is not the sixth of nineteen since others happened to take longer."""
    ops = ["Item", "Copy", "Cast", "Add", "aten::x", "jax::kernel"]
    base: Table = {"Item": (1, 5), "Add": (9, 900), "aten::x": (1, 5), "jax::kernel": (42, 9_000)}
    now: Table = dict.fromkeys(ops, (1, 900)) | {"Item": (21, 5), "Add": (10, 999), "aten::x": (99, 9_999)}
    now["jax::kernel"] = (21, 1)
    found = diff(base, now)
    assert [row.op for row in found.rows] == ["Item", "Cast", "Copy", "Add", "aten::x", "jax::kernel"]
    assert not any("jax::kernel" in finding for finding in findings(found))


@pytest.mark.parametrize(("sort_us", "order"), [(1_500, ["Sort", "Equal", "Add"]), (999, ["Equal", "Sort", "Add"])])
def test_an_op_whose_extra_calls_take_most_of_a_long_time_comes_first(sort_us: int, order: list[str]) -> None:
    found = diff({"Add": (1, 9)}, {"Add": (1, 9), "Equal": (3, 50), "Sort": (2, sort_us)})
    assert [row.op for row in found.rows] == order


def test_more_work_comes_after_more_calls_by_its_factor() -> None:
    def of(flops: int) -> OpCounts:
        return OpCounts(Range(1), flops=Range(flops, flops))

    base = {"Add": OpCounts(Range(1)), "Conv": of(9_000_000), "MatMul": of(10_000)}
    now = {"Add": OpCounts(Range(2)), "Conv": of(18_000_000), "MatMul": of(40_000)}
    assert [row.op for row in compare((base, {}), (now, {}), unjudged("in parallel", []), LIMITS).rows] == [
        "Add",
        "MatMul",
        "Conv",
    ]


@pytest.mark.parametrize(
    ("flops", "order"), [(4_000_000, ["MatMul", "Range", "Add"]), (3_000_000, ["Range", "MatMul", "Add"])]
)
def test_more_calls_with_most_flops_of_the_window_come_first(flops: int, order: list[str]) -> None:
    base = {"Add": OpCounts(Range(1), flops=Range(3_500_000)), "Range": OpCounts(Range(5))}
    now = base | {"Range": OpCounts(Range(7)), "MatMul": OpCounts(Range(1), flops=Range(flops))}
    assert [row.op for row in compare((base, {}), (now, {}), unjudged("in parallel", []), LIMITS).rows] == order


def test_more_small_calls_beside_a_large_one_have_no_more_flops_than_it_grew_by() -> None:
    base = {"MatMul": OpCounts(Range(1), flops=Range(54_000_000))}
    now = {"MatMul": OpCounts(Range(3), flops=Range(54_000_032)), "Add": OpCounts(Range(40))}
    rows = compare((base, {}), (now, {}), unjudged("in parallel", []), LIMITS).rows
    assert [row.op for row in rows] == ["Add", "MatMul"]


def test_few_flops_come_before_no_calls_whatever_their_share() -> None:
    base = {"Add": OpCounts(Range(1), flops=Range(100)), "Cast": OpCounts(Range(1))}
    now = {"Add": OpCounts(Range(3), flops=Range(300)), "Cast": OpCounts(Range(201))}
    rows = compare((base, {}), (now, {}), unjudged("in parallel", []), LIMITS).rows
    assert [row.op for row in rows] == ["Cast", "Add"]


@pytest.mark.parametrize(("calls", "first"), [(4, "aten::empty"), (5, "cpp_fused_mul_rsub")])
def test_a_kernel_that_torch_compile_only_named_anew_comes_last(calls: int, first: str) -> None:
    """heavyball: the same four calls, named by the ops inside."""
    base, now = (
        called(**{"aten::empty": 1, "cpp_fused_mul": 4}),
        called(**{"aten::empty": 2, "cpp_fused_mul_rsub": calls}),
    )
    assert compare(base, now, unjudged("in parallel", []), LIMITS).rows[0].op == first


def test_a_change_is_split_into_more_calls_and_slower_calls() -> None:
    row = diff({"Cast": (10, 100)}, {"Cast": (12, 150)}).rows[0]
    assert (row.change_ns, row.from_calls_ns) == (50_000, 20_000)
    there_and_gone: Table = {"Add": (1, 5), "Cast": (1, 30)}
    new = diff({"Add": (1, 5)}, there_and_gone).rows[0]
    assert (new.op, new.change_ns, new.from_calls_ns) == ("Cast", 30_000, 30_000)
    gone = diff(there_and_gone, {"Add": (1, 5)}).rows[0]
    assert (gone.op, gone.change_ns, gone.from_calls_ns) == ("Cast", -30_000, -30_000)


def test_a_change_of_the_top_ops_is_told() -> None:
    base: Table = {"A": (1, 300), "B": (1, 200), "C": (1, 100)}
    now: Table = {"A": (1, 300), "B": (1, 110), "C": (1, 120)}
    assert diff(base, now).top_change == "top 2 ops by device time: A, C (baseline: A, B)"
    assert diff(base, base).top_change == ""
    calls = counted(base)
    shown = unjudged("in parallel", timed(now), timed(base))
    assert compare(calls, calls, shown, LIMITS, top=2).top_change == ""
    noisy = replace(judge(timed(base, 3), timed(now), Rule(LIMITS)), verdict=Verdict.NOISY)
    assert compare(calls, calls, noisy, LIMITS, top=2).top_change == ""
    assert compare(calls, calls, replace(noisy, verdict=Verdict.OK, base=None), LIMITS, top=2).top_change == ""


def test_a_total_that_is_too_noisy_for_a_verdict_is_shown() -> None:
    base, now = timed({"A": (1, 400)}, 3), timed({"A": (1, 900)})
    for verdict, shown in (
        (Verdict.NOISY, "device time: 400 us -> 900 us (+125%)"),
        (Verdict.OK, ""),
        (Verdict.INCOMPARABLE, ""),
    ):
        timing = replace(unjudged("", now, base), verdict=verdict)
        assert compare(({}, {}), ({}, {}), timing, LIMITS).seen == shown
    assert compare(({}, {}), ({}, {}), TimingVerdict(Verdict.NOISY), LIMITS).seen == ""


@pytest.mark.parametrize(
    ("processes", "clean", "said"),
    [
        (1, 1, ""),
        (2, 0, ", in 2 processes"),
        (6, 1, ", in 6 processes, 1 of them undisturbed"),
        (6, 5, ", in 6 processes, 5 of them undisturbed"),
        (6, 6, ", in 6 processes"),
    ],
)
def test_a_slower_time_says_how_many_of_the_processes_were_undisturbed(processes: int, clean: int, said: str) -> None:
    timing = replace(judge(timed({"A": (1, 400)}, 3), timed({"A": (1, 900)}), Rule(LIMITS)), ops={})
    found = compare(({}, {}), ({}, {}), replace(timing, processes=processes, clean=clean), LIMITS)
    assert findings(found)[0] == f"device time: 400 us -> 900 us (+125%), limit 13%{said}"


def test_a_slower_coarse_time_comes_after_what_does_more_and_before_the_rest() -> None:
    found = diff({"Add": (1, 0), "Exp": (2, 0)}, {"Add": (2, 0), "Exp": (1, 0)})
    found = found.with_slower(slow := Slower(CPU_TIME, 12_000_000, 3_900_000_000), slow.work("1 op does more"))
    assert [row.op for row in found.rows] == ["Add", CPU_TIME, "Exp"]
    assert findings(found) == ["Add: 2 calls (baseline: 1)", "CPU time: 3.9 s (baseline: 12 ms), x325; 1 op does more"]
    assert [each.short for each in found.findings()] == ["Add 1 -> 2", "CPU time 12 ms -> 3.9 s"]


def test_calls_that_do_more_are_not_called_slower_as_well() -> None:
    timing = judge(timed({"Add": (1, 400)}, 3), timed({"Add": (1, 900)}, 6), Rule(LIMITS))
    assert timing.verdict is Verdict.SLOWER
    same, more, fewer = ({"Add": OpCounts(Range(calls))} for calls in (2, 3, 1))
    found = compare_counts_first((same, {}), (more, {}), timing, LIMITS, then="HEAD~1")
    assert findings(found) == ["Add: 3 calls (HEAD~1: 2)"]
    assert (found.times, found.total.verdict) == ("its calls changed", Verdict.INCOMPARABLE)
    assert (found.total.base_ns, found.total.now_ns) == (400_000, 900_000)
    for now in (same, fewer):
        assert compare_counts_first((same, {}), (now, {}), timing, LIMITS).total.verdict is Verdict.SLOWER
    noisy = replace(timing, verdict=Verdict.NOISY, why="2 rounds waited")
    assert compare_counts_first((same, {}), (more, {}), noisy, LIMITS).times == "2 rounds waited"


# --- a slower whole, and which ops are to blame


def whole(base: Table, now: Table, base_us: int, now_us: int) -> Diff:
    """Compare rounds whose wall time is more than that of their ops."""
    outside = [
        {**table, OUTSIDE: (1, us - sum(ns for _, ns in table.values()))}
        for table, us in ((base, base_us), (now, now_us))
    ]
    timing = judge(timed(outside[0], 3, base_us), timed(outside[1], 6, now_us), Rule(STORED))
    return compare(counted(base), counted(now), timing, STORED)


def test_a_slower_whole_names_the_ops_that_made_half_of_it() -> None:
    base: Table = {"A": (1, 300), "B": (1, 300), "C": (1, 300)}
    now: Table = {"A": (1, 370), "B": (1, 360), "C": (1, 310)}
    found = whole(base, now, 1_000, 1_150)
    assert findings(found) == [
        "time: 1 ms -> 1.15 ms (+15%), limit 13%, in 6 processes",
        "  of that 70 us in device time of A: 300 us -> 370 us (+23.3%)",
        "  of that 60 us in device time of B: 300 us -> 360 us (+20%)",
    ]
    assert found.verdict is Verdict.SLOWER


def test_at_most_three_ops_are_blamed_for_a_slower_whole_and_none_that_became_faster() -> None:
    base: Table = dict.fromkeys("ABCDEFGH", (1, 100))
    now: Table = dict.fromkeys("ABCDEFG", (1, 120)) | {"H": (1, 90)}
    assert [row.op for row in whole(base, now, 800, 930).culprits] == ["A", "B", "C"]
    few: Table = {"A": (1, 300), "B": (1, 300)}
    half: Table = {"A": (1, 340), "B": (1, 330)}
    assert [row.op for row in whole(few, half, 1_000, 1_140).culprits] == [OUTSIDE]
    assert [row.op for row in whole(few, half, 1_000, 1_138).culprits] == [OUTSIDE, "A"]
    assert whole(few, half, 1_000, 1_100).culprits == []  # no slower whole


def test_without_an_op_the_time_outside_ops_is_the_whole_and_is_told_once() -> None:
    assert findings(whole({}, {}, 1_000, 1_500)) == ["time: 1 ms -> 1.5 ms (+50%), limit 13%, in 6 processes"]
    assert len(findings(whole({"A": (1, 300)}, {"A": (1, 300)}, 1_000, 1_500))) == 2


def test_what_is_no_op_is_named_as_such_and_made_by_no_calls() -> None:
    found = whole({"A": (1, 300)}, {"A": (1, 300)}, 1_000, 1_150)
    assert findings(found)[1:] == ["  of that 150 us in time outside ops: 700 us -> 850 us (+21.4%)"]
    (row,) = (row for row in found.rows if row.op == OUTSIDE)
    assert (row.from_calls_ns, row.base, row.now) == (0, None, None)
    assert found.wall


def test_an_op_that_failed_by_itself_needs_no_further_blame() -> None:
    found = whole({"A": (1, 300), "B": (1, 500)}, {"A": (1, 480), "B": (1, 510)}, 1_000, 1_200)
    assert [finding.op for finding in found.findings()] == ["A", None]


def test_the_worst_is_the_whole_if_no_op_is_as_bad() -> None:
    base: Table = {"A": (1, 300), "B": (1, 300), "C": (1, 300)}
    found = whole(base, {"A": (1, 360), "B": (1, 360), "C": (1, 320)}, 1_000, 1_150)
    assert found.worst is found.total


def test_the_ops_to_blame_are_told_once_below_the_whole() -> None:
    found = whole({"A": (1, 300)}, {"A": (1, 300)}, 1_000, 1_150)
    found = found.with_slower(slow := Slower(CPU_TIME, 12_000_000, 3_900_000_000), slow.work())
    assert [finding.op for finding in found.findings([found.rows[0]])] == [CPU_TIME]
    blamed = replace(found, rows=found.rows[1:])
    assert [finding.op for finding in blamed.findings([blamed.total, blamed.rows[-1]])] == [None, OUTSIDE, "A"]
    assert [row.accepted_as for row in (blamed.total, blamed.rows[-1])] == ["time", "A"]


tables = st.dictionaries(st.sampled_from("ABCD"), st.tuples(st.integers(1, 9), st.just(1)), min_size=1)


@given(tables, tables)
def test_a_regression_one_way_is_an_improvement_the_other_way(one: Table, other: Table) -> None:
    there, back = diff(one, other), diff(other, one)
    assert {row.op for row in there.rows if row.verdict.is_regression} == {
        row.op for row in back.rows if row.verdict.is_improvement
    }


@given(tables)
def test_nothing_changed_is_ok(table: Table) -> None:
    found = diff(table, table)
    assert found.verdict is Verdict.OK
    assert not findings(found)


verdicts = st.sampled_from([Verdict.OK, Verdict.SLOWER, Verdict.FASTER])


@given(tables, st.dictionaries(st.sampled_from("ABCD"), verdicts), verdicts)
def test_whatever_slower_is_judged_becomes_a_finding(table: Table, ops: dict[str, Verdict], total: Verdict) -> None:
    ops = {op: verdict for op, verdict in ops.items() if op in table and verdict is not Verdict.OK}
    side = judge(timed(table, 3), timed(table)).base
    found = compare(counted(table), counted(table), TimingVerdict(total, "", side, side, 1, True, total, ops), LIMITS)
    slower = {op for op, verdict in ops.items() if verdict is Verdict.SLOWER} | {
        None for _ in "1" if total is Verdict.SLOWER
    }
    assert {finding.op for finding in found.findings() if not finding.text.startswith("  of")} == slower


class TestExcuse:
    """Whether a fresh process shows that more calls depend on what ran before, not on the code."""

    BASE: ClassVar = {"Add": OpCounts(Range(1)), "Cast": OpCounts(Range(3))}

    @pytest.mark.parametrize(
        ("now", "looks", "word"),
        [
            ({"Cast": 5}, [{"Cast": 5}, {"Cast": 5}], ""),
            ({"Cast": 5}, [{"Cast": 3}, {"Cast": 3}], "stays within"),
            ({"Cast": 5}, [{"Cast": 1}, {"Cast": 1}], "stays within"),
            ({"Cast": 5}, [{"Cast": 5}, {"Cast": 3}], "second"),
            ({"Cast": 5}, [{"Cast": 5}, {"Cast": 2}], ""),
            ({"Exp": 2}, [{"Exp": 2}, {}], "second"),
            ({"Exp": 2}, [{"Exp": 2}, {"Mul": 1}], ""),
            ({"Exp": 2}, [{"Mul": 1}, {"Mul": 1}], ""),
            ({"Exp": 2}, [{"Exp": 2}, {"Cast": 1}], "second"),
            ({"Cast": 5}, [{"Cast": 3}], "stays within"),
            ({"Cast": 5}, [{"Cast": 4}], ""),
        ],
    )
    def test_what_the_looks_have_to_show(self, now: dict[str, int], looks: list[dict[str, int]], word: str) -> None:
        def calls(found: dict[str, int]) -> dict[str, OpCounts]:
            return {**self.BASE, **{op: OpCounts(Range(n)) for op, n in found.items()}}

        said = excuse((self.BASE, {}), (calls(now), {}), [(calls(each), {}) for each in looks], STORED, (self.BASE, {}))
        assert word in said if word else not said


def called(**calls: int) -> Done:
    return {op: OpCounts(Range(n)) for op, n in calls.items()}, {}


@pytest.mark.parametrize(
    ("looks", "is_excused"),
    [
        ([called(Memset=8), called(Memset=4)], True),  # the baseline's test did half of its first use
        ([called(Memset=10), called(Memset=6)], False),  # its repeat does what the baseline's first use did
        ([called(Memset=9), called(Memset=4)], False),  # its first use does more
    ],
)
def test_a_first_use_is_held_against_that_of_the_baseline_if_it_is_known(looks: list[Done], is_excused: bool) -> None:
    base, alone = called(Memset=6), called(Memset=8)
    assert bool(excuse(base, looks[0], looks, STORED, base, alone)) is is_excused
    assert not excuse(base, looks[0], looks, STORED, base, alone=base)  # it did all of its first use


@pytest.mark.parametrize(
    ("now", "adds", "in_repeat", "is_certain"),
    [
        (1, 1, 1, True),
        (0, 1, 1, False),
        (1, 9, 1, False),  # a cache of the code under test is filled, which an earlier test may have done
        (1, 9, 9, True),  # each run has these ops
        (0, 9, 9, False),
    ],
)
def test_an_earlier_test_cannot_have_hidden_a_first_use_that_only_compiles_again(
    now: int, adds: int, in_repeat: int, is_certain: bool
) -> None:
    def done(again: int, calls: int) -> Done:
        return called(Add=calls)[0], {"recompilations": Range(again)}

    base, looks = done(0, 1), [done(now, adds), done(0, in_repeat)]
    assert only_compiles(base, looks, STORED, base) is is_certain
    # Without that knowledge a second run as at the baseline excuses it.
    assert bool(excuse(base, done(1, adds), looks, STORED, base)) is (in_repeat == 1)


@pytest.mark.parametrize(("repeat", "is_excused"), [(4, True), (5, False), (6, False)])
def test_a_first_use_that_is_not_known_alone_is_excused_if_the_repeat_does_as_before(
    repeat: int, is_excused: bool
) -> None:
    base, warm = called(MatMul=6), called(MatMul=4)  # the test before it in the file did a part of the first use
    looks = [called(MatMul=8), called(MatMul=repeat)]
    assert bool(excuse(base, looks[0], looks, STORED, warm)) is is_excused


@pytest.mark.parametrize(("now", "is_better"), [(6, False), (5, False), (4, False), (3, True)])
def test_calls_down_to_those_of_a_repeat_of_the_baseline_are_no_improvement(now: int, is_better: bool) -> None:
    beside = compare((called(Memset=6)[0], {}), (called(Memset=now)[0], {}), unjudged("", ()), STORED)
    found = without_first_uses(beside, called(Memset=4), called(Memset=now))
    assert bool([*found.improvements()]) is is_better


def test_an_op_of_a_first_use_is_shown_as_such_and_others_stay_improvements() -> None:
    base, now = called(Memset=6, Add=3, Exp=1, Log=1), called(Memset=5, Add=2, Log=2)
    beside = compare((base[0], {}), (now[0], {}), unjudged("", ()), STORED)
    found = without_first_uses(beside, called(Memset=4, Add=3, Exp=1, Log=1), now)
    assert {row.op: (row.verdict, row.why) for row in found.rows} == {
        "Memset": (Verdict.OK, FIRST_USE),
        "Add": (Verdict.FEWER, ""),
        "Exp": (Verdict.GONE, ""),
        "Log": (Verdict.MORE, ""),
    }
    assert without_first_uses(beside, base, now) is beside


def test_a_faster_op_is_faster_though_a_repeat_of_the_baseline_makes_other_calls() -> None:
    calls = called(Add=2)
    beside = compare(calls, calls, judge(timed({"Add": (1, 900)}, 3), timed({"Add": (1, 400)}, 6)), LIMITS)
    found = without_first_uses(beside, called(Add=1), calls)
    assert [(row.op, row.verdict) for row in found.rows] == [("Add", Verdict.FASTER)]


def test_facts_down_to_those_of_a_repeat_of_the_baseline_are_no_improvement() -> None:
    def nodes(number: int) -> Done:
        return {"Add": OpCounts(Range(1))}, {"grad_nodes": Range(number)}

    def improved(now: Done) -> list[str]:
        beside = compare(nodes(6), now, unjudged("", ()), STORED)
        return [*without_first_uses(beside, nodes(4), now).improvements()]

    assert improved(nodes(4)) == []
    assert improved(nodes(3)) == ["ops recorded for backward: 3 (baseline: 6)"]


def test_what_is_wider_in_a_fresh_process_too_is_not_excused_with_the_calls_that_are_not() -> None:
    def done(dtype: str, casts: int) -> tuple[dict[str, OpCounts], dict[str, Range]]:
        return {"MatMul": OpCounts(Range(1), dtypes={dtype: Range(1, 1)}), "Cast": OpCounts(Range(casts))}, {}

    base, now = done("float32", 2), done("float64", 3)
    assert excuse(base, now, [done("float64", 2)] * 2, STORED, base) == ""
    assert "stays within" in excuse(base, now, [done("float32", 2)] * 2, STORED, base)


def test_work_and_facts_of_one_process_alone_are_excused() -> None:
    def done(nbytes: int, nodes: int) -> tuple[dict[str, OpCounts], dict[str, Range]]:
        return {"Softmax": OpCounts(Range(1), bytes=Range(nbytes, nbytes))}, {"grad_nodes": Range(nodes, nodes)}

    base = done(10_000, 0)
    for now in (done(90_000, 0), done(10_000, 5)):
        assert "stays within" in excuse(base, now, [base, base], STORED, base)
        assert excuse(base, now, [now, now], STORED, base) == ""
        assert "second run" in excuse(base, now, [now, base], STORED, base)


def test_calls_that_vary_are_a_change_where_they_leave_their_range_by_its_width() -> None:
    base = {"Mul": OpCounts(Range(3, 7, varies=True))}
    verdicts = {n: verdict_of(base, {"Mul": OpCounts(Range(n))} if n else {}) for n in (0, 1, 7, 11, 12)}
    assert verdicts == dict.fromkeys((0, 1, 7, 11), Verdict.OK) | {12: Verdict.MORE}
    assert verdict_of({"Mul": OpCounts(Range(9, 10, varies=True))}, {"Mul": OpCounts(Range(7))}) is Verdict.FEWER
    assert verdict_of({"Mul": OpCounts(Range(9, 10, varies=True))}, {}) is Verdict.GONE


@pytest.mark.parametrize("base", [{"Mul": OpCounts(Range(7))}, {"Mul": OpCounts(Range(5, 7, varies=True))}, {}])
def test_calls_that_vary_are_more_only_if_each_process_has_more(base: dict[str, OpCounts]) -> None:
    most = base["Mul"].calls.most if base else 0
    drawn = {"Mul": OpCounts(Range(most, 90, varies=True))}
    diff = compare((base, {}), (drawn, {}), unjudged("one round", []), STORED)
    assert (diff.verdict.is_regression, diff.rows[0].why) == (False, VARIES)
    before = base["Mul"].calls if base else 0
    assert list(diff.not_judged) == [
        f"Mul: {most}..90 calls (baseline: {before}); not judged, since it varies from process to process"
    ]
    assert verdict_of(base, {"Mul": OpCounts(Range(most + 1, 90, varies=True))}) in (Verdict.MORE, Verdict.NEW)
    assert verdict_of(base, {"Mul": OpCounts(Range(most, 90))}) in (Verdict.MORE, Verdict.NEW)  # its rounds differ


def verdict_of(base: dict[str, OpCounts], now: dict[str, OpCounts]) -> Verdict:
    (row,) = compare((base, {}), (now, {}), TimingVerdict(Verdict.OK), STORED).rows
    return row.verdict


def test_the_causes_come_first_ops_with_a_canonical_name() -> None:
    base = {"aten::to": OpCounts(Range(1)), "Cast": OpCounts(Range(1))}
    now = {"aten::to": OpCounts(Range(9)), "Cast": OpCounts(Range(2)), "mylib::op": OpCounts(Range(1))}
    findings = list(compare((base, {}), (now, {}), unjudged("no times", ()), STORED).findings())
    assert [finding.short for finding in findings] == ["Cast 1 -> 2", "aten::to 1 -> 9", "mylib::op 0 -> 1"]


@pytest.mark.parametrize(("reshapes", "first"), [(6, "Copy"), (60, "Reshape")])
def test_a_few_views_come_after_a_copy(reshapes: int, first: str) -> None:
    now = {"Reshape": OpCounts(Range(reshapes)), "Copy": OpCounts(Range(1))}
    assert compare(({}, {}), (now, {}), unjudged("no times", ()), STORED).worse[0].op == first


def jax_calls(programs: int, kernels: int, products: int) -> dict[str, OpCounts]:
    calls = {"Mul": products, "jax::program": programs, "jax::kernel": kernels}
    return {op: OpCounts(Range(number)) for op, number in calls.items()}


@pytest.mark.parametrize(
    ("base", "now", "first"),
    [
        ((44, 381, 301), (714, 851, 393), "jax::program: 714 calls, op by op (baseline: 44)"),
        ((44, 381, 301), (88, 762, 602), "Mul: 602 calls (baseline: 301)"),  # each runs twice as often
        ((44, 50, 301), (88, 94, 345), "Mul: 345 calls (baseline: 301)"),  # they had one kernel before, too
    ],
)
def test_programs_that_run_ops_one_by_one_are_the_first_cause(
    base: tuple[int, int, int], now: tuple[int, int, int], first: str
) -> None:
    found = compare((jax_calls(*base), {}), (jax_calls(*now), {}), unjudged("no times", ()), STORED)
    assert next(found.findings()).text == first


def test_fewer_calls_on_fewer_bytes_are_no_wider_dtypes() -> None:
    base = OpCounts(Range(505), dtypes={"int32": Range(60, 60), "float32": Range(445, 445)}, bytes=Range(6000, 6000))
    now = OpCounts(Range(452), dtypes={"int64": Range(7, 7), "float32": Range(445, 445)}, bytes=Range(1000, 1000))
    (row,) = compare(({"Add": base}, {}), ({"Add": now}, {}), TimingVerdict(Verdict.INCOMPARABLE), STORED).rows
    assert not row.verdict.is_regression


@pytest.mark.parametrize(("now_bytes", "fails"), [(19_000, False), (70_000, True)])
def test_sizes_that_vary_are_more_work_only_at_twice_of_what_is_no_change(now_bytes: int, fails: bool) -> None:
    base = {"Add": OpCounts(Range(3), bytes=Range(2000, 6000, varies=True))}
    now = {"Add": OpCounts(Range(3), bytes=Range(now_bytes, now_bytes))}
    (row,) = compare((base, {}), (now, {}), TimingVerdict(Verdict.INCOMPARABLE), STORED).rows
    assert row.verdict.is_regression is fails


def test_the_work_of_calls_that_vary_is_not_judged() -> None:
    base = {"Add": OpCounts(Range(2, 6, varies=True), bytes=Range(2000, 6000, varies=True))}
    now = {"Add": OpCounts(Range(5), bytes=Range(900_000, 900_000))}
    (row,) = compare((base, {}), (now, {}), TimingVerdict(Verdict.INCOMPARABLE), STORED).rows
    assert not row.verdict.is_change


def done(calls: int, nbytes: int | None = None, flops: int | None = None) -> OpCounts:
    return OpCounts(
        Range(calls),
        bytes=None if nbytes is None else Range(nbytes, nbytes),
        flops=None if flops is None else Range(flops, flops),
    )


def whole_of(calls: dict[str, OpCounts]) -> dict[str, Range]:
    """Return the sums over all ops, of what each knows."""
    found = {}
    for name in SUMS:
        known = [each for op in calls.values() if (each := amount(name, op))]
        found[name] = Range(sum(each.most for each in known), sum(each.most for each in known))
    return found


def with_sums(base: dict[str, OpCounts], now: dict[str, OpCounts]) -> Diff:
    return compare((base, whole_of(base)), (now, whole_of(now)), unjudged("one round", []), STORED)


def test_fewer_calls_that_do_more_are_more_work() -> None:
    separable, full = done(2, 9_000, 2_000_000), done(1, 10_000, 63_000_000)
    found = with_sums({"Conv": separable}, {"Conv": full})
    assert findings(found) == ["Conv: FLOPs 63 MFLOP (baseline: 2 MFLOP), x31.5"]
    assert (found.verdict, list(found.improvements())) == (Verdict.MORE_WORK, [])
    assert {row.op: row.why for row in found.rows if not row.is_op} == dict.fromkeys(
        ("calls", "flops"), "explained by ops"
    )
    back = with_sums({"Conv": full}, {"Conv": separable})
    assert findings(back) == ["Conv: 2 calls (baseline: 1)"]


def test_fewer_calls_that_do_less_are_fewer_calls_and_told_once() -> None:
    found = with_sums({"Conv": done(4, 90_000, 8_000_000)}, {"Conv": done(2, 40_000, 2_000_000)})
    assert list(found.improvements()) == ["Conv: 2 calls (baseline: 4)"]
    assert findings(found) == []


def test_as_many_calls_that_do_less_are_less_work() -> None:
    found = with_sums({"Conv": done(2, 90_000, 8_000_000)}, {"Conv": done(2, 90_000, 2_000_000)})
    assert list(found.improvements()) == ["Conv: FLOPs 2 MFLOP (baseline: 8 MFLOP), x0.25"]
    assert (found.rows[0].op, found.rows[0].verdict) == ("Conv", Verdict.LESS_WORK)


def test_a_window_whose_ops_were_swapped_is_told_by_the_new_op_and_by_what_became_less() -> None:
    base, now = {"Conv": done(2, 9_000, 10**9)}, {"MatMul": done(1, 9_000, 2 * 10**9)}
    found = with_sums(base, now)
    assert findings(found) == ["MatMul: 1 call (baseline: 0)"]
    assert list(found.improvements()) == ["Conv: 0 calls (baseline: 2)"]
    assert findings(with_sums(now, base)) == ["Conv: 2 calls (baseline: 0)"]


def test_what_grows_by_little_in_each_of_many_ops_is_more_work_of_the_window() -> None:
    base = {f"Op{number}": done(1, 2_000) for number in range(20)}
    now = {op: done(1, 2_900) for op in base}
    found = with_sums(base, now)
    assert findings(found) == ["bytes by all ops: 56.6 KiB (baseline: 39.1 KiB)"]
    assert [each.short for each in found.findings()] == ["bytes 39.1 KiB -> 56.6 KiB"]
    assert list(with_sums(now, base).improvements()) == ["bytes by all ops: 39.1 KiB (baseline: 56.6 KiB)"]


def test_more_work_of_the_rest_is_not_hidden_by_an_op_that_does_more() -> None:
    base = {f"Op{number}": done(1, 2_000) for number in range(20)}
    now = {op: done(1, 2_900) for op in base} | {"Cast": done(1, 100)}
    assert [each.short for each in with_sums(base, now).findings()] == ["Cast 0 -> 1", "bytes 39.1 KiB -> 56.7 KiB"]


def test_what_only_one_side_knows_of_an_op_is_no_work_of_the_window() -> None:
    base, now = {"Add": done(1, 5_000), "Relu": done(1)}, {"Add": done(1, 5_000), "Relu": done(1, 9_000)}
    for before, after in ((base, now), (now, base)):
        assert with_sums(before, after).verdict is Verdict.INCOMPARABLE


def test_calls_that_no_op_alone_has_more_of_are_told_of_the_window() -> None:
    base, now = {"Add": OpCounts(Range(1, 2)), "Mul": OpCounts(Range(1, 2))}, {"Add": done(2), "Mul": done(2)}
    before, after = (base, {"calls": Range(3, 3)}), (now, {"calls": Range(4, 4)})
    found = compare(before, after, unjudged("one round", []), STORED)
    assert findings(found) == ["calls of all ops: 4 (baseline: 3)"]


def test_facts_that_vary_by_themselves_are_more_only_if_each_process_has_more() -> None:
    base = {"python_calls": Range(2_000, 5_000, varies=True)}
    for now, is_more in ((Range(5_000, 90_000, varies=True), False), (Range(80_000, 90_000, varies=True), True)):
        found = compare(({}, base), ({}, {"python_calls": now}), unjudged("one round", []), STORED)
        assert (found.verdict.is_regression, bool([*found.not_judged])) == (is_more, not is_more)


def test_facts_that_vary_with_the_calls_are_told_and_not_judged() -> None:
    base = {"Mul": OpCounts(Range(3, 7, varies=True))}
    facts = {"peak_memory": Range(2**20, 2**21, varies=True), "grad_nodes": Range(3, 3)}
    now = {"peak_memory": Range(2**30, 2**30), "grad_nodes": Range(4, 4)}
    found = compare((base, facts), ({"Mul": done(5)}, now), unjudged("one round", []), STORED)
    assert findings(found) == ["ops recorded for backward: 4 (baseline: 3)"]
    assert list(found.not_judged) == [
        "peak memory: 1 GiB (baseline: 2 MiB); not judged, since it varies from process to process"
    ]
    assert {row.op: row.why for row in found.rows if row.op == "peak_memory"} == {"peak_memory": VARIES}
    steady = compare(({"Mul": done(5)}, facts), ({"Mul": done(5)}, now), unjudged("one round", []), STORED)
    assert "peak memory: 1 GiB (baseline: 2 MiB)" in findings(steady)  # it varies by itself: then it is a range


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.sampled_from(["bytes", "flops"]))
def test_less_work_is_only_said_of_what_would_be_more_the_other_way_round(before: int, after: int, of: str) -> None:
    sides: list[Done] = [({"Add": structs.replace(done(1), **{of: Range(each)})}, {}) for each in (before, after)]
    there, back = (compare(*pair, TimingVerdict(Verdict.OK), STORED) for pair in (sides, sides[::-1]))
    if there.verdict is Verdict.LESS_WORK:
        assert back.verdict is Verdict.MORE_WORK


@pytest.mark.parametrize(
    ("base", "now", "places", "said"),
    [
        ({"Add": done(2), "Cast": done(1)}, {}, (), "nothing was recorded, 3 calls of 2 ops in the baseline"),
        (
            {"Add": done(2), "Mul": OpCounts(Range(0, 3, varies=True))},
            {},
            (),
            "nothing was recorded, 2 calls of 1 op in",
        ),
        ({"Mul": OpCounts(Range(0, 3, varies=True))}, {}, (), ""),  # none is one of the numbers that it had
        ({}, {}, (), ""),
        (
            {"Add": done(2)},
            {"Add": done(1)},
            ("np.asmatrix (a.py:3)",),
            "fewer calls of Add, but some calls may be unseen",
        ),
        ({"Add": done(2)}, {"Add": done(1)}, (), ""),
        ({"Add": done(2)}, {"Add": done(3)}, ("np.asmatrix (a.py:3)",), ""),
    ],
)
def test_fewer_calls_are_no_improvement_where_they_may_not_have_been_seen(
    base: dict[str, OpCounts], now: dict[str, OpCounts], places: tuple[str, ...], said: str
) -> None:
    found = unseen(base, now, places)
    assert found.startswith(said) if said else not found
    assert "a.py:3" in found if places and said else True


@pytest.mark.parametrize(
    ("before", "after", "between", "said"),
    [
        ({"Add": 10_000}, {}, None, ""),  # an op that one side does not time has no change
        ({}, {"Add": 10_000}, None, ""),
        ({"Add": 10_000}, {"Add": 12_500}, None, ""),  # within 25 %
        ({"Add": 10_000}, {"Add": 12_501}, None, "below 5 us"),
        ({"Add": 10_000}, {"Add": 15_000}, None, "below 5 us"),
        ({"Add": 16_000}, {"Add": 21_001}, None, "below 5% of the whole"),
        ({"Add": 20_000}, {"Add": 26_000}, None, "below 5% of the whole"),
        ({"Add": 20_000}, {"Add": 26_001}, None, "not confirmed"),
        ({"Add": 26_001}, {"Add": 20_000}, None, "not confirmed"),
        ({"Add": 20_000}, {"Add": 21_000}, (-0.2, 0.4), "unclear"),
        ({"Add": 20_000}, {"Add": 21_000}, (-0.2, 0.29), ""),  # below 5 % of the whole at most
        ({"Add": 20_000}, {"Add": 21_000}, (0.0, 0.4), ""),  # as narrow as twice the tolerance
    ],
)
def test_a_change_of_an_op_that_passes_has_its_reason_in_numbers(
    before: dict[str, float], after: dict[str, float], between: tuple[float, float] | None, said: str
) -> None:
    whole = 120_000
    assert STORED.excuse("Add", Times(whole, before), Times(whole, after), between) == said


def test_more_calls_name_the_dtypes_of_those_and_other_changes_the_change_of_work() -> None:
    def casts(calls: int, dtype: str, nbytes: int = 8_000) -> OpCounts:
        return OpCounts(Range(calls), dtypes={dtype: Range(calls, calls)}, bytes=Range(nbytes, nbytes))

    base = {"Add": casts(2, "float32"), "Exp": casts(2, "float32"), "Mul": casts(3, "float32"), "Log": casts(1, "int8")}
    now = {"Add": casts(4, "float32"), "Exp": casts(2, "float64"), "Mul": casts(2, "float32", 6_000)}
    now["Sin"] = casts(1, "float32")
    rows = {row.op: row for row in compare((base, {}), (now, {}), unjudged("", ()), STORED).rows}
    assert {op: row.changed_work for op, row in rows.items()} == {
        "Add": "+2 float32",
        "Exp": "float32 -> float64",
        "Mul": "bytes x0.75",
        "Log": "",
        "Sin": "",
    }


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        (done(1, 1_000, 100), done(1, 3_000, 200), 3.0),
        (done(1, 1_000, 100), done(1, 1_000, 700), 7.0),
        (done(1, None, 100), done(1, 9_000, 200), 2.0),
        (done(1, 0), done(1, 5), 5.0),
        (done(1), done(1), 1.0),
        (done(1, 5_000), None, 1.0),
    ],
)
def test_the_growth_of_an_ops_work_is_that_of_what_grew_more(
    before: OpCounts, after: OpCounts | None, factor: float
) -> None:
    base, now = {"Add": before}, {"Add": after} if after else {}
    (row,) = compare((base, {}), (now, {}), unjudged("", ()), STORED).rows
    assert row.work_factor == factor
    (new,) = compare(({}, {}), ({"Add": before}, {}), unjudged("", ()), STORED).rows
    assert new.work_factor == 1.0


@pytest.mark.parametrize(
    ("calls", "first"), [((100, 105), CPU_TIME), ((100, 300), "python_calls"), ((0, 1_000), "python_calls")]
)
def test_a_time_that_the_extra_calls_do_not_explain_comes_first(calls: tuple[int, int], first: str) -> None:
    slow = Slower(CPU_TIME, 13_000_000, 75_000_000)
    base, now = ({"python_calls": Range(each)} for each in calls)
    diff = compare(({}, base), ({}, now), TimingVerdict(Verdict.OK), STORED).with_slower(slow, slow.work())
    assert diff.worse[0].op == first


def test_extra_ops_explain_a_time_and_a_peak_of_memory_does_not() -> None:
    slow = Slower(CPU_TIME, 13_000_000, 75_000_000)
    of_ops = compare(
        ({"Add": OpCounts(Range(1))}, {}), ({"Add": OpCounts(Range(2))}, {}), TimingVerdict(Verdict.OK), STORED
    )
    base, now = ({}, {"host_memory": Range(1 << 20)}), ({}, {"host_memory": Range(1 << 30)})
    of_memory = compare(base, now, TimingVerdict(Verdict.OK), STORED)
    assert (of_ops.explains(slow.factor), of_memory.explains(slow.factor)) == (True, False)


@pytest.mark.parametrize(("more", "first"), [(300, "python_calls"), (99, "Add")])
def test_python_calls_come_first_if_they_are_a_hundred_times_the_extra_calls_of_ops(more: int, first: str) -> None:
    base = {"Add": OpCounts(Range(1))}, {"python_calls": Range(50)}
    now = {"Add": OpCounts(Range(2))}, {"python_calls": Range(50 + more)}
    assert compare(base, now, TimingVerdict(Verdict.OK), STORED).worse[0].op == first


@pytest.mark.parametrize(("calls", "more", "first"), [(100, 1.5, "peak_memory"), (100, 1.4, "Sub"), (5, 60.0, "Sub")])
def test_a_peak_that_rose_by_half_comes_before_few_calls_more_of_ops(calls: int, more: float, first: str) -> None:
    base = {"Add": OpCounts(Range(calls))}, {"peak_memory": Range(2**20)}
    now = {"Add": OpCounts(Range(calls)), "Sub": OpCounts(Range(1))}, {"peak_memory": Range(int(2**20 * more))}
    assert compare(base, now, TimingVerdict(Verdict.OK), STORED).worse[0].op == first


@pytest.mark.parametrize(("calls", "first"), [(351, "host_memory"), (400, "python_calls")])
def test_a_few_calls_more_come_after_the_memory(calls: int, first: str) -> None:
    base = {}, {"python_calls": Range(340), "host_memory": Range(4 << 20)}
    now = {}, {"python_calls": Range(calls), "host_memory": Range(10 << 20)}
    assert compare(base, now, TimingVerdict(Verdict.OK), STORED).worse[0].op == first


@pytest.mark.parametrize(("calls", "left", "first"), [(30, 0, "left_behind"), (5, 0, "Add"), (30, 1, "Add")])
def test_a_new_leak_comes_before_few_calls_more_of_ops(calls: int, left: int, first: str) -> None:
    base = {"Add": OpCounts(Range(calls))}, {"left_behind": Range(left)}
    now = {"Add": OpCounts(Range(calls + 2))}, {"left_behind": Range(4)}
    assert compare(base, now, TimingVerdict(Verdict.OK), STORED).worse[0].op == first


def test_a_leak_comes_before_the_ops_recorded_for_backward_that_it_holds() -> None:
    base, now = (
        ({}, {"grad_nodes": Range(27), "left_behind": Range(0)}),
        ({}, {"grad_nodes": Range(29), "left_behind": Range(1)}),
    )
    assert [row.op for row in compare(base, now, TimingVerdict(Verdict.OK), STORED).worse] == [
        "left_behind",
        "grad_nodes",
    ]


def test_python_calls_come_after_compilations_and_beside_no_op_that_is_called_more_where_they_were() -> None:
    base, now = (
        ({}, {"python_calls": Range(1_000), "recompilations": Range(0)}),
        ({}, {"python_calls": Range(1_500), "recompilations": Range(5)}),
    )
    assert [row.op for row in compare(base, now, TimingVerdict(Verdict.OK), STORED).worse] == [
        "recompilations",
        "python_calls",
    ]


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ((1_000, 1_999), None),  # fewer than 1,000 more
        ((3_000, 4_500), None),  # x1.5
        ((2_000, 3_001), Verdict.ABOVE),
        ((3_001, 2_000), Verdict.BELOW),
        ((1_999, 1_000), None),
    ],
)
def test_in_a_test_of_many_small_changes_of_python_calls_pass(calls: tuple[int, int], verdict: Verdict | None) -> None:
    base, now = ({}, {"python_calls": Range(calls[0])}), ({}, {"python_calls": Range(calls[1])})
    assert changes(base, now, replace(STORED, is_of_many=True)).get("python_calls") is verdict
    assert "python_calls" in changes(base, now, STORED)
