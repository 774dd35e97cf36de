from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines import Calls, Entry
from pytest_opprof.compare import Diff, compare
from pytest_opprof.judge import Rule, Verdict

HERE = "CPU, 2 cores"


def entry(machine: str = HERE, **ops: tuple[int, list[int]]) -> Entry:
    calls = {op: Calls(n, n) for op, (n, _) in ops.items()}
    times = {op: tuple(us * 1_000 for us in samples) for op, (_, samples) in ops.items() if samples}
    return Entry(calls, {machine: times} if times else {})


def diff(base: Entry, now: Entry, parallel: bool = False, top: int = 2) -> Diff:
    return compare(base, now, HERE, Rule(tolerance=0.25), parallel, top)


def findings(found: Diff) -> list[str]:
    return [str(finding) for finding in found.findings()]


def test_calls_are_compared_exactly() -> None:
    found = diff(entry(Cast=(10, []), Add=(4, []), Exp=(1, [])), entry(Cast=(12, []), Add=(3, []), Log=(1, [])))
    assert findings(found) == ["calls of Cast: 12, 10 in the baseline", "calls of Log: 1, none in the baseline"]
    assert list(found.improvements()) == ["calls of Add: 3, 4 in the baseline", "calls of Exp: none, 1 in the baseline"]
    assert found.verdict is Verdict.NEW


def test_a_range_of_calls_is_judged_at_its_worst() -> None:
    base = Entry({"Cast": Calls(8, 10)})
    assert diff(base, Entry({"Cast": Calls(10, 10)})).verdict is Verdict.OK
    assert findings(diff(base, Entry({"Cast": Calls(8, 11)}))) == ["calls of Cast: 8..11, 8..10 in the baseline"]


def test_times_are_judged_by_the_fastest_of_enough_rounds() -> None:
    base, now = entry(MatMul=(1, [400, 410, 420, 430, 440])), entry(MatMul=(1, [600, 610, 620, 630, 640]))
    assert findings(diff(base, now)) == [
        "device time of MatMul: 400 us -> 600 us (+50%), tolerance 25%",
        "device time: 400 us -> 600 us (+50%), tolerance 25%",
    ]
    assert list(diff(now, base).improvements()) == [
        "device time of MatMul: 600 us -> 400 us (-33.3%), tolerance 25%",
        "device time: 600 us -> 400 us (-33.3%), tolerance 25%",
    ]
    assert diff(base, now).times_changed


def test_times_that_cannot_be_judged_say_why() -> None:
    base, now = entry(Add=(1, [400] * 5)), entry(Add=(1, [900] * 5))
    assert diff(base, now, parallel=True).times == "measured in parallel with other tests"
    assert diff(base, entry(Add=(1, [900] * 4))).times == "4 of 5 rounds measured"
    assert diff(entry(Add=(1, [400] * 3)), now).times == "the baseline has 3 of 5 rounds"
    assert diff(entry(Add=(1, [])), now).times == "the baseline has no times"
    elsewhere = entry("Other, 8 cores", Add=(1, [400] * 5))
    assert diff(elsewhere, now).times == "the baseline was timed on Other, 8 cores, this is CPU, 2 cores"
    for found in (diff(base, now, parallel=True), diff(elsewhere, now)):
        assert found.verdict is Verdict.OK


def test_the_most_damaging_op_comes_first() -> None:
    base = entry(A=(1, [100] * 5), B=(1, [100] * 5), C=(2, [100] * 5), D=(1, [10] * 5))
    now = entry(A=(1, [900] * 5), B=(1, [300] * 5), C=(1, [90] * 5), D=(2, [20] * 5))
    assert [row.op for row in diff(base, now).rows] == ["A", "B", "D", "C"]


def test_a_change_is_split_into_more_calls_and_slower_calls() -> None:
    row = diff(entry(Cast=(10, [100] * 5)), entry(Cast=(12, [150] * 5))).rows[0]
    assert (row.change_ns, row.from_calls_ns) == (50_000, 20_000)
    new = diff(entry(), entry(Cast=(1, [30] * 5))).rows[0]
    assert (new.change_ns, new.from_calls_ns) == (30_000, 30_000)
    gone = diff(entry(Cast=(1, [30] * 5)), entry()).rows[0]
    assert (gone.change_ns, gone.from_calls_ns) == (-30_000, -30_000)


def test_a_change_of_the_top_ops_is_told() -> None:
    base = entry(A=(1, [300] * 5), B=(1, [200] * 5), C=(1, [100] * 5))
    now = entry(A=(1, [300] * 5), B=(1, [110] * 5), C=(1, [120] * 5))
    assert diff(base, now).top_change == "top 2 ops by device time: A, C; in the baseline A, B"
    assert diff(base, base).top_change == ""


tables = st.dictionaries(st.sampled_from("ABCD"), st.tuples(st.integers(1, 9), st.just([1] * 5)), min_size=1)


@given(tables, tables)
def test_a_regression_one_way_is_an_improvement_the_other_way(one: dict[str, object], other: dict[str, object]) -> None:
    there, back = diff(entry(**one), entry(**other)), diff(entry(**other), entry(**one))  # type: ignore[arg-type]
    assert {row.op for row in there.rows if row.verdict.is_regression} == {
        row.op for row in back.rows if row.verdict.is_improvement
    }


@given(tables)
def test_nothing_changed_is_ok(table: dict[str, object]) -> None:
    found = diff(entry(**table), entry(**table))  # type: ignore[arg-type]
    assert found.verdict is Verdict.OK
    assert not findings(found)
