from __future__ import annotations

from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import OUTSIDE
from pytest_opprof.verdict.changed import calls_vary, split, titles
from pytest_opprof.verdict.diff import Row
from pytest_opprof.verdict.findings import Finding
from pytest_opprof.verdict.verdicts import Verdict


def row(op: str, before: int, now: int, base_ns: int, now_ns: int) -> Row:
    return Row(op, OpCounts(Range(before)), OpCounts(Range(now)), base_ns, now_ns, Verdict.OK)


def test_a_change_of_time_comes_from_more_calls_slower_calls_and_what_is_outside_ops() -> None:
    rows = [row("Add", 2, 3, 100, 180), Row(OUTSIDE, None, None, 500, 470, Verdict.OK)]
    assert split(rows) == [(50, "more calls"), (30, "slower calls"), (-30, "outside ops")]
    assert split([row("Add", 3, 2, 180, 100)]) == [(-60, "fewer calls"), (-20, "faster calls")]
    assert split([row("Add", 2, 2, 100, 100)]) == []


def test_calls_that_differ_between_rounds_vary() -> None:
    varying = Row("Add", OpCounts(Range(2)), OpCounts(Range(2, 3)), None, None, Verdict.MORE)
    assert calls_vary([row("Mul", 1, 2, 1, 1), varying])
    assert not calls_vary([row("Mul", 1, 2, 1, 1), Row(OUTSIDE, None, None, 1, 2, Verdict.OK)])


def test_an_op_with_the_name_of_a_quantity_is_called_by_its_name() -> None:
    more = [Finding("more calls", "peak_memory", "peak_memory: 3 calls (baseline: 1)", "peak_memory 1 -> 3")]
    fact = Row("peak_memory", None, None, None, None, Verdict.ABOVE)
    assert titles(more, [row("peak_memory", 1, 3, 1, 1), fact]) == {"peak_memory": "peak_memory"}
    assert titles(more, [fact]) == {"peak_memory": "(peak memory)"}


def test_a_limit_without_a_baseline_is_about_an_op_and_a_finding_of_another_rank_may_be_about_a_quantity() -> None:
    limit = Finding("calls", "peak_memory", "peak_memory: 3 calls (budget: 1)", "peak_memory 3, budget 1")
    elsewhere = Finding("more memory", "host_memory", "peak memory of the host: ...", "host memory")
    assert titles([limit, elsewhere], []) == {
        "peak_memory": "peak_memory",
        "host_memory": "(peak memory of the host)",
    }
