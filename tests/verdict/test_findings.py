from __future__ import annotations

from collections.abc import Mapping

from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.findings import Broken, with_consequences
from pytest_opprof.verdict.times.stored_rule import unjudged
from pytest_opprof.verdict.tolerances import STORED


def counts(ops: Mapping[str, Mapping[str, int]]) -> dict[str, OpCounts]:
    return {
        op: OpCounts(Range(sum(by.values())), {dtypes: Range(calls) for dtypes, calls in by.items()})
        for op, by in ops.items()
    }


def told(base: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> list[str]:
    diff = compare((counts(base), {}), (counts(now), {}), unjudged("one round", ()), STORED)
    return [str(each) for each in with_consequences([*diff.findings()], {row.op: row for row in diff.rows}, "baseline")]


ALL_SINGLE = {op: {"float32": 1} for op in ("Add", "MatMul", "Mul", "Softmax", "Sub")}
ALL_DOUBLE = {op: {"float64": 1} for op in ALL_SINGLE}


def test_a_new_cast_and_the_ops_in_its_dtype_are_one_finding() -> None:
    assert told(ALL_SINGLE, {**ALL_DOUBLE, "Cast": {"float32->float64": 1}}) == [
        "Cast: 1 call (baseline: 0)",
        "  Add, MatMul, Mul and 2 more now run in float64 (baseline: float32)",
    ]


def test_the_ops_below_a_cast_were_in_their_own_dtype_and_not_in_that_of_what_is_cast() -> None:
    cast = {"Cast": {"bool->float32": 1}}
    half, single = ({op: {dtype: 1} for op in ("MaxPool", "Mul")} for dtype in ("float16", "float32"))
    told_of_half = "  MaxPool, Mul now run in float32 (baseline: float16)"
    assert told(half, {**single, **cast}) == ["Cast: 1 call (baseline: 0)", told_of_half]
    mixed = {**half, "Mul": {"bfloat16": 1}}
    assert told(mixed, {**single, **cast}) == ["Cast: 1 call (baseline: 0)", "  MaxPool, Mul now run in float32"]


def test_an_op_in_another_dtype_than_the_cast_makes_is_a_finding_of_its_own() -> None:
    base = {"Add": {"float16": 1}, "MatMul": {"bfloat16": 2}}
    now = {"Add": {"float32": 1}, "MatMul": {"float64": 2}, "Cast": {"bfloat16->float64": 3}}
    assert told(base, now) == [
        "Cast: 3 calls (baseline: 0)",
        "  MatMul now runs in float64 (baseline: bfloat16)",
        "Add: float32 (baseline: float16)",
    ]


def test_an_op_in_a_second_dtype_that_no_cast_makes_is_a_finding_of_its_own() -> None:
    now = {"Add": {"float64": 1, "float32": 1}, "Cast": {"float16->float64": 1}}
    assert told({"Add": {"float16": 2}}, now) == [
        "Cast: 1 call (baseline: 0)",
        "Add: float64, float32 (baseline: float16)",
    ]


def test_an_op_over_its_budget_is_a_finding_also_where_its_dtypes_follow_from_another() -> None:
    diff = compare((counts(ALL_SINGLE), {}), (counts(ALL_DOUBLE), {}), unjudged("one round", ()), STORED)
    limits = [Broken("calls", op, "calls", f"{op}: 1 call", "0", f"{op} 1, budget 0").finding for op in ("Add", "Mul")]
    rows = {row.op: row for row in diff.rows}
    assert [str(each) for each in with_consequences([*limits, *diff.findings()], rows, "baseline")] == [
        "Add: 1 call (budget: 0)",
        "Mul: 1 call (budget: 0)",
        "Add: float64 (baseline: float32)",
        "  MatMul, Mul, Softmax and 1 more now run in float64 (baseline: float32), too",
    ]


def test_a_cast_that_ran_before_explains_nothing() -> None:
    cast = {"Cast": {"float32->float64": 1}}
    assert told({"Add": {"float32": 1}, **cast}, {"Add": {"float64": 1}, **cast}) == [
        "Add: float64 (baseline: float32)"
    ]


def test_without_a_cast_ops_of_the_same_change_are_told_below_the_first() -> None:
    now = {**ALL_DOUBLE, "Exp": {"float64": 2}}
    assert told({**ALL_SINGLE, "Exp": {"float64": 1}}, now) == [
        "Exp: 2 calls (baseline: 1)",
        "Add: float64 (baseline: float32)",
        "  MatMul, Mul, Softmax and 1 more now run in float64 (baseline: float32), too",
    ]
