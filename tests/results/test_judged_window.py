"""A budget and a baseline that one growth breaks make one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_counts import Done, OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.site_calls import SiteCalls, SourceLine
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.window_result import WindowNumbers
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.findings import Broken, Finding
from pytest_opprof.verdict.times.coarse import Coarse
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

from ..conftest import ENVIRONMENT, profile_of

UNTIMED = TimingVerdict(Verdict.INCOMPARABLE, "one round")
MIB = 2**20


def found_in(
    base: Mapping[str, int],
    now: Mapping[str, int],
    *,
    then: str = "baseline",
    memory: Sequence[int] = (),
    **limits: Any,
) -> list[Finding]:
    """Return the findings about a window that makes the calls *now*, given the calls of its base and limits.

    *memory* are the peaks of the base and now.
    """
    log = EventLog(ENVIRONMENT)
    log.knows_memory = bool(memory)
    for op, calls in now.items():
        for _ in range(calls):
            log.add(log.name(op), 1000)
    for size in memory[1:]:
        log.allocated(size)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    before, after = ({op: OpCounts(Range(calls)) for op, calls in of.items()} for of in (base, now))
    known_before, known = tuple({"peak_memory": Range(size)} for size in memory) or ({}, {})
    diff = compare((before, known_before), (after, known), UNTIMED, STORED, then=then)
    return JudgedWindow(WindowNumbers.of("body", profile), Budget.parse([], limits).check(profile), diff).findings


@pytest.mark.parametrize(
    ("base", "limits", "text", "short"),
    [
        ({"Cast": 1}, {"Cast": 1}, "Cast: 3 calls (budget: 1, baseline: 1)", "Cast 1 -> 3 (budget 1)"),
        ({"Cast": 2}, {"Cast": "0..1"}, "Cast: 3 calls (budget: 0..1, baseline: 2)", "Cast 2 -> 3 (budget 0..1)"),
        ({}, {"Cast": 0}, "Cast: 3 calls (budget: 0, baseline: 0)", "Cast 0 -> 3 (budget 0)"),
        (
            {},
            {"only": ["Add"]},
            "Cast: 3 calls (baseline: 0), but only Add may run",
            "Cast 0 -> 3 (budget 0)",
        ),
    ],
)
def test_one_growth_beyond_both_limits_is_one_finding(
    base: dict[str, int], limits: dict[str, object], text: str, short: str
) -> None:
    (found,) = found_in(base, {"Cast": 3}, **limits)
    assert (found.text, found.short) == (text, short)
    assert found.breaks_budget
    assert found.is_regression
    assert found.kinds == ["over budget", "new" if not base else "more calls"]


def test_a_quantity_of_the_window_is_joined_by_its_name() -> None:
    same = {"Cast": 1}
    (found,) = found_in(same, same, then="HEAD~1", memory=(2 * MIB, 5 * MIB), peak_memory="1 MiB")
    assert found.text == "peak memory: 5 MiB (budget: 1 MiB, HEAD~1: 2 MiB)"
    assert (found.op, found.kinds) == ("peak_memory", ["over budget", "more memory"])


def test_one_number_is_one_finding_also_if_the_limit_needs_more_digits() -> None:
    same = {"Cast": 1}
    (found,) = found_in(same, same, memory=(2 * MIB, 5 * MIB + 1000), peak_memory="5 MiB")
    assert found.text == "peak memory: 5.00095 MiB (budget: 5 MiB, baseline: 2 MiB)"


def test_other_growths_keep_findings_of_their_own() -> None:
    found = found_in({"Cast": 1, "Add": 1}, {"Cast": 3, "Add": 2, "Exp": 1}, Cast=2, Exp="1 ns")
    assert [(each.text, each.kinds) for each in found] == [
        ("Cast: 3 calls (budget: 2, baseline: 1)", ["over budget", "more calls"]),
        ("Exp: device time 1 us (budget: 1 ns)", ["over budget"]),
        ("Exp: 1 call (baseline: 0)", ["new"]),
        ("Add: 2 calls (baseline: 1)", ["more calls"]),
    ]


def test_an_op_with_the_name_of_a_quantity_is_not_that_quantity() -> None:
    found = found_in({"calls": 1}, {"calls": 3}, calls=2)
    assert [(each.op, each.text) for each in found] == [
        (None, "calls of all ops: 3 (budget: 2)"),
        ("calls", "calls: 3 calls (baseline: 1)"),
    ]


def test_a_line_below_a_finding_accepts_nothing() -> None:
    line = Finding("calls", "Cast", "  2 of them at model.py:4")
    assert (line.kinds, line.breaks_budget, line.is_regression) == ([], False, False)


def test_a_stored_result_knows_the_numbers_that_break_its_budget() -> None:
    profile = profile_of([("Cast", 1000)] * 3 + [("Add", 9000)])
    budget = Budget.parse([], {"Cast": [1, 2, 5], "calls": 3, "only": ["Cast"], "top": ["Cast"], "device_time": "1 us"})
    limits = [*budget.judged(profile)]
    broken = [each for _, numbers in limits for each in numbers]
    window = JudgedWindow(WindowNumbers.of("body", profile), broken, limits=[limit for limit, _ in limits])
    stored = window.result("CPU", parallel=False, compared=False).broken
    assert [(str(each), each.short, each.op, each.rule) for each in stored] == [
        (str(each), each.short, each.op, each.rule) for each in broken
    ]
    assert len(stored) == 6


def test_the_memory_that_a_leak_holds_stands_below_the_leak_and_its_limits_are_broken_still() -> None:
    leak = Broken("left_behind", None, "left_behind", "left behind by each call: 2", "0", "left behind 2, budget 0")
    held = Broken(
        "held_memory", None, "held_memory", "memory held at the end: 16 KiB", "0 B", "held 16 KiB, budget 0 B"
    )
    peak = Broken("peak_memory", None, "peak_memory", "peak memory: 1 MiB", "1 KiB", "peak 1 MiB, budget 1 KiB")
    numbers = structs.replace(
        WindowNumbers.of("body", profile_of([("Add", 1000)])), explained={"left_behind": "held by m.KEPT"}
    )
    told = JudgedWindow(numbers, [peak, held, leak]).told
    assert [str(each) for each in told] == [
        "peak memory: 1 MiB (budget: 1 KiB)",
        "left behind by each call: 2 (budget: 0)",
        "  held by m.KEPT",
        "  memory held at the end: 16 KiB (budget: 0 B)",
    ]
    assert [each.short for each in told if each.short] == ["peak 1 MiB, budget 1 KiB", "left behind 2, budget 0"]
    assert [each.breaks_budget for each in told] == [True, True, False, True]
    (alone,) = JudgedWindow(numbers, [held]).told
    assert str(alone) == "memory held at the end: 16 KiB (budget: 0 B)"


def test_a_leak_ends_in_short_with_the_line_where_its_holder_grows() -> None:
    leak = Broken("left_behind", None, "left_behind", "left behind by each call: 2", "0", "left behind 2, budget 0")
    numbers = structs.replace(
        WindowNumbers.of("body", profile_of([("Add", 1000)])),
        explained={"left_behind": "held by m.KEPT, which grows at m.py:6"},
        explained_at={"left_behind": SourceLine.at("m.py:6")},
    )
    first, _ = JudgedWindow(numbers, [leak]).told
    assert (first.text, first.short) == (
        "left behind by each call: 2 (budget: 0)",
        "left behind 2, budget 0 at m.py:6",
    )
    assert str(first.line) == "m.py:6"
    unnamed = replace(leak, short="")
    assert JudgedWindow(numbers, [unnamed]).told[0].short == ""


def test_a_long_cause_ends_a_line_at_each_semicolon_that_is_in_no_code() -> None:
    """param's leak was one line of 330 characters."""
    left = (
        "each call leaves behind 10 pyro.ops.einsum.adjoint._LeafBackward (a class; of pyro), 20 torch.Tensor, 10 dict"
    )
    held, made = (
        "no Python object holds the Tensor, but autograd's graph may",
        "made at pyro/infer/util.py:287 `a = b; c = d`",
    )
    for cause, lines in ((f"{left}; {held}; {made}", [left, held, made]), (f"{held}; {made}", [f"{held}; {made}"])):
        numbers = WindowNumbers.of("body", profile_of([("Add", 1000)]))
        numbers = structs.replace(numbers, explained={"left_behind": cause})
        ops = numbers.counts
        diff = compare((ops, {"left_behind": Range(0)}), (ops, {"left_behind": Range(40)}), UNTIMED, STORED)
        _, *told = JudgedWindow(numbers, diff=diff).told
        assert [each.text for each in told] == [f"  {line}" for line in lines]


def test_ops_recorded_for_backward_stand_below_the_op_of_the_same_line_and_alone_for_another_line() -> None:
    here, elsewhere = (SourceLine("m.py", number, "forward", f"line {number}") for number in (6, 9))
    profile = profile_of([("Cast", 1000)])
    diff = compare(
        ({}, {"grad_nodes": Range(6)}), ({"Cast": OpCounts(Range(1))}, {"grad_nodes": Range(7)}), UNTIMED, STORED
    )

    def told(line: SourceLine) -> list[tuple[str, str]]:
        sites = {"Cast": (SiteCalls(1, (here,)),), "grad_nodes": (SiteCalls(1, (line,)),)}
        numbers = structs.replace(WindowNumbers.of("body", profile), sites=sites)
        window = JudgedWindow(numbers, diff=diff, base_sites={"Cast": {}, "grad_nodes": {}})
        return [(each.text, each.short) for each in window.told]

    cast = ("Cast: 1 call (baseline: 0) at m.py:6", "Cast 0 -> 1 at m.py:6")
    assert told(here) == [cast, ("  ops recorded for backward: 7 (baseline: 6)", "")]
    assert told(elsewhere) == [
        cast,
        ("ops recorded for backward: 7 (baseline: 6) at m.py:9", "grad nodes 6 -> 7 at m.py:9"),
    ]


def test_ops_recorded_for_backward_where_none_were_follow_from_no_op() -> None:
    line = SourceLine("m.py", 6, "forward", "line 6")
    now = ({"Cast": OpCounts(Range(1))}, {"grad_nodes": Range(7)})
    diff = compare(({}, {"grad_nodes": Range(0)}), now, UNTIMED, STORED)
    sites = {"Cast": (SiteCalls(1, (line,)),), "grad_nodes": (SiteCalls(1, (line,)),)}
    numbers = structs.replace(WindowNumbers.of("body", profile_of([("Cast", 1000)])), sites=sites)
    told = JudgedWindow(numbers, diff=diff, base_sites={"Cast": {}, "grad_nodes": {}}).told
    assert [each.text for each in told] == [
        "Cast: 1 call (baseline: 0) at m.py:6",
        "ops recorded for backward: 7 (baseline: 0) at m.py:6",
    ]


@pytest.mark.parametrize(("gathers", "said"), [(20, []), (25, []), (26, ["  as a whole it does less: 26 -> 20 calls"])])
def test_a_finding_of_a_window_that_does_clearly_less_says_so(gathers: int, said: list[str]) -> None:
    now = {"Copy": OpCounts(Range(1)), "Gather": OpCounts(Range(19))}
    base = {"Gather": OpCounts(Range(gathers))}
    diff = compare((base, {"calls": Range(gathers)}), (now, {"calls": Range(20)}), UNTIMED, STORED)
    window = JudgedWindow(WindowNumbers.of("body", profile_of([("Copy", 1000)])), diff=diff)
    assert [each.text for each in window.told] == ["Copy: 1 call (baseline: 0)", *said]


def test_improvements_beside_a_finding_are_left_to_its_table() -> None:
    better, worse = ({"Add": OpCounts(Range(2)), "Mul": OpCounts(Range(calls))} for calls in (1, 3))

    def remarks(now: Mapping[str, OpCounts]) -> list[str]:
        profile = profile_of([("Add", 1000)])
        diff = compare((better, {}), (now, {}), UNTIMED, STORED)
        return JudgedWindow(WindowNumbers.of("body", profile), diff=diff).remarks

    assert remarks({**better, "Add": OpCounts(Range(1))}) == ["Add: 1 call (baseline: 2)"]
    assert remarks({**worse, "Add": OpCounts(Range(1))}) == []


def test_memory_that_follows_its_leak_in_the_order_of_findings_stands_below_it_too() -> None:
    leak = Broken("left_behind", None, "left_behind", "left behind by each call: 2", "0", "left behind 2, budget 0")
    held = Broken(
        "held_memory", None, "held_memory", "memory held at the end: 16 KiB", "0 B", "held 16 KiB, budget 0 B"
    )
    told = JudgedWindow(WindowNumbers.of("body", profile_of([("Add", 1000)])), [leak, held]).told
    assert [(str(each), each.adds) for each in told] == [
        ("left behind by each call: 2 (budget: 0)", False),
        ("  memory held at the end: 16 KiB (budget: 0 B)", True),
    ]


@pytest.mark.parametrize("op", ["recompilations", "torch::compile"])
@pytest.mark.parametrize(("before", "now", "is_said"), [(None, 3, True), (1, 3, True), (3, 3, False), (3, 1, False)])
def test_why_something_was_compiled_again_is_said_unless_the_base_compiled_it_as_often(
    before: int | None, now: int, is_said: bool, op: str
) -> None:
    log = EventLog(ENVIRONMENT)
    log.remark("traced f again: another shape", about="compilations")
    log.remark("one thread")
    numbers = WindowNumbers.of("body", assemble([(log.freeze(), {0: 0})], [1]))

    def compiled(number: int) -> Done:
        return ({}, {op: Range(number)}) if op == "recompilations" else ({op: OpCounts(Range(number))}, {})

    diff = None if before is None else compare(compiled(before), compiled(now), UNTIMED, STORED)
    window = JudgedWindow(numbers, diff=diff)
    remarks = window.remarks
    assert ("  traced f again: another shape" in map(str, window.told)) is (is_said and before is not None)
    excused = JudgedWindow(numbers, diff=diff, excused="so").remarks
    assert ("traced f again: another shape" in excused) is is_said
    assert ("traced f again: another shape" in remarks) is (is_said and before is None)
    assert "one thread" in remarks


def test_of_functions_compiled_again_the_projects_first_one_has_its_line() -> None:
    log = EventLog(ENVIRONMENT)
    log.compiled_again("traced wrapper again", "/venv/lib/python3.12/site-packages/equinox/_jit.py:43")
    log.compiled_again("traced step again", "train.py:9")
    log.compiled_again("traced loss again", "train.py:4")
    log.count_compiled_again()
    numbers = WindowNumbers.of("body", assemble([(log.freeze(), {0: 0})], [1]))
    diff = compare(({}, {"recompilations": Range(0)}), ({}, {"recompilations": Range(3)}), UNTIMED, STORED)
    first, *causes = JudgedWindow(numbers, diff=diff).told
    assert first.short.endswith(" at train.py:9")
    assert [str(each).strip() for each in causes] == [
        "traced step again",
        "traced loss again",
        "traced wrapper again",
    ]


@pytest.mark.parametrize(
    ("base", "now", "verdict"),
    [
        ({"Add": 1}, {"Add": 1}, Verdict.OK),
        ({"Add": 2}, {"Add": 1}, Verdict.FEWER),  # an op less is certain, and the time may be noise
    ],
)
def test_fewer_python_calls_alone_are_no_improvement_of_a_test_that_may_take_longer(
    base: Mapping[str, int], now: Mapping[str, int], verdict: Verdict
) -> None:
    before, after = ({op: OpCounts(Range(calls)) for op, calls in of.items()} for of in (base, now))
    diff = compare((before, {"python_calls": Range(900)}), (after, {"python_calls": Range(600)}), UNTIMED, STORED)
    numbers = WindowNumbers.of("body", profile_of([("Add", 1)]))
    fewer = JudgedWindow(structs.replace(numbers, coarse=took(40, 40)), diff=diff)
    assert fewer.weighed(took(45, 60)).verdict is diff.verdict
    for as_much in (took(20, 60), took(40, 40)):
        assert fewer.weighed(as_much).verdict is verdict


def took(least_ms: int, most_ms: int) -> Coarse:
    return Coarse((least_ms * 1_000_000, most_ms * 1_000_000), (0, 0))
