from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.profile.op_profile import ALWAYS, OpProfile, Remark
from pytest_opprof.profile.timings import ProcessTimes, run_of
from pytest_opprof.report import failure, op_table
from pytest_opprof.report.accepting import Accepting
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.window_result import WindowNumbers
from pytest_opprof.verdict.budgets import Budget
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.diff import Diff
from pytest_opprof.verdict.times.stored_rule import judge
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Verdict

from ..conftest import ENVIRONMENT, Launch, profile_of

BASE: list[Launch] = [("Cast", 1_000)] * 10 + [("MatMul", 400_000), ("Add", 5_000)]
WORSE: list[Launch] = [("Cast", 1_100)] * 12 + [("MatMul", 300_000), ("Add", 5_000), ("Exp", 9_000)]
ACCEPT = Accepting("pytest", "baseline")


def timed(profile: OpProfile, processes: int) -> list[ProcessTimes]:
    run = run_of(profile)
    return [run] * processes if run else []


def diff_of(base: OpProfile, now: OpProfile) -> Diff:
    timing = judge(timed(base, 3), timed(now, 6))
    return compare((WindowBaseline.of(base, "").ops, {}), (WindowBaseline.of(now, "").ops, {}), timing, STORED, top=1)


def report(
    base: list[Launch] | None, now: list[Launch], rounds: int = 1, name: str = "body", **limits: object
) -> JudgedWindow:
    profile = profile_of(*[now] * rounds)
    diff = None if base is None else diff_of(profile_of(*[base] * rounds), profile)
    return JudgedWindow(WindowNumbers.of(name, profile), Budget.parse([], limits).check(profile), diff)


def message(
    test: str,
    windows: list[JudgedWindow],
    *,
    top: int = 5,
    every_op: bool = False,
    accepting: Accepting | None = ACCEPT,
) -> str:
    shown = failure.Shown(top=top, every_op=every_op)
    return "\n".join(line.text for line in failure.failure(test, windows, accepting, shown))


def op_lines(window: JudgedWindow, top: int, *, every_op: bool) -> list[str]:
    return [line.text for line in op_table.table(window, top, every_op=every_op)]


def test_a_failing_test_says_which_op_how_much_and_against_what() -> None:
    text = message("test_m.py::test_a", [report(BASE, WORSE, rounds=10, Cast=10)])
    assert (
        text
        == """\
op budget exceeded: test_m.py::test_a  [fake 1, fake, async]
  Cast: 12 calls (budget: 10, baseline: 10)
  Exp: 1 call (baseline: 0)

op      calls (base -> now)    device time (base -> now)    change    verdict
------  ---------------------  ---------------------------  --------  -----------------------
Cast    10 -> 12               10 us -> 13.2 us             +32%      over budget, more calls
Exp     0 -> 1                 - -> 9 us                    -         new
MatMul  1                      400 us -> 300 us             -25%      faster
Add     1                      5 us                         +0%       ok
total device time: 415 us -> 327 us (-21.2%): +11 us from more calls, -98.8 us from faster calls

to accept this change: raise the limit in its op_budget mark, then pytest test_m.py::test_a --opprof-update"""
    )


def test_a_change_is_not_split_where_the_number_of_calls_varies() -> None:
    """The fastest round is not the one with most calls, so that no one price goes with them."""
    before = profile_of(*([("Cast", 10)] * 2, [("Cast", 10)] * 4) * 5)
    now = profile_of(*([("Cast", 20)] * 2, [("Cast", 20)] * 4) * 5)
    diff = diff_of(before, now)
    *_, total = op_lines(JudgedWindow(WindowNumbers.of("body", now), diff=diff), 5, every_op=True)
    assert total == (
        "total device time: 20 ns -> 40 ns (+100%), not split into more and slower calls: their number varies"
    )


def test_a_budget_without_a_baseline_shows_shares() -> None:
    text = message("test_m.py::test_a", [report(None, BASE, Cast=9)])
    assert (
        text
        == """\
op budget exceeded: test_m.py::test_a  [fake 1, fake, async]
  Cast: 10 calls (budget: 9)

op      calls    device time    share    verdict
------  -------  -------------  -------  -----------
Cast    10       10 us          2.41%    over budget
MatMul  1        400 us         96.4%
Add     1        5 us           1.2%
total device time: 415 us

to accept this change: raise the limit in its op_budget mark"""
    )


def test_a_time_over_budget_in_one_cold_round_says_how_to_measure_better() -> None:
    hint = "  (measured once, cold; with opprof(rounds=10) the fastest round counts, after a warm-up)"
    assert hint in message("t", [report(None, BASE, device_time="1 us")]).splitlines()
    assert hint not in message("t", [report(None, BASE, rounds=2, device_time="1 us")], top=5, every_op=False)
    assert hint not in message("t", [report(None, BASE, Cast=1)])


def test_ops_that_changed_nothing_are_cut_to_the_top_unless_all_are_asked_for() -> None:
    many = [(f"mylib::op{n}", 10) for n in range(9)]
    window = report(many, [*many, ("Exp", 1)])
    short = message("t", [window], top=2, every_op=False)
    assert "... and 8 more ops (-v shows them)" in short
    assert "mylib::op8" not in short
    assert "mylib::op8" in message("t", [window], top=2, every_op=True)


def test_an_op_that_broke_something_is_always_shown() -> None:
    many = [(f"mylib::op{n}", 1_000) for n in range(9)]
    text = message("t", [report(None, [*many, ("Cast", 1)], Cast=0)], top=0, every_op=False)
    assert "Cast" in text.split("share")[1]


@pytest.mark.parametrize(("ops", "said"), [(13, ""), (14, "  ... and 2 more ops, in the table")])
def test_at_most_twelve_ops_have_a_line_above_the_table(ops: int, said: str) -> None:
    many: list[Launch] = [(f"mylib::op{number:02}", 1_000) for number in range(ops)]
    window = report([], many)
    above = message("t", [window]).split("\nop  ")[0].splitlines()
    assert [line for line in above if "more ops" in line] == ([said] if said else [])
    assert len([line for line in above if ": 1 call" in line]) == (12 if said else ops)
    assert "more ops" not in message("t", [window], every_op=True).split("\nop  ")[0]


def test_a_window_is_named_and_a_whole_test_is_not() -> None:
    text = message("test_m.py::test_a", [report(BASE, WORSE, name="prefill")])
    assert text.startswith("op regression: test_m.py::test_a window prefill  [fake 1, fake, async]")
    assert "window prefill, 1 round:" in text


def test_windows_that_broke_nothing_are_left_out_of_a_failure() -> None:
    windows = [report(BASE, BASE, name="decode"), report(BASE, WORSE, name="prefill")]
    assert "decode" not in message("t", windows, top=5, every_op=True)


def test_times_that_were_not_judged_say_why() -> None:
    text = "\n".join(op_lines(report(BASE, BASE), 5, every_op=True))
    assert "op times not judged: 1 of 10 rounds measured" in text


def verdicts(window: JudgedWindow) -> dict[str, str]:
    """Return the last column of the table by op."""
    header, _, *lines = op_lines(window, 0, every_op=True)
    return {line.split()[0]: line[header.index("verdict") :] for line in lines[: len(window.numbers.ops)]}


def test_a_change_beyond_its_limit_that_is_no_verdict_says_why() -> None:
    base = [("Cast", 500), ("Exp", 6_000), ("MatMul", 300_000), ("Add", 40_000)]
    now = [("Cast", 38_000), ("Exp", 12_000), ("MatMul", 301_000), ("Add", 20_000)]
    window = report([*base, ("Log", 900_000)], [*now, ("Log", 1_500_000)], rounds=10)
    assert verdicts(window) == {
        "Log": "slower",
        "Cast": "below 5% of the whole",
        "Exp": "below 5% of the whole",
        "MatMul": "ok",
        "Add": "below 5% of the whole",
    }
    tiny = report([("Cast", 500), ("Exp", 9_000)], [("Cast", 5_400), ("Exp", 19_000)], rounds=10)
    assert verdicts(tiny) == {"Exp": "slower", "Cast": "below 5 us"}


def test_what_was_not_judged_is_not_ok() -> None:
    cold = report([("Cast", 1_000), ("Mul", 40), ("Add", 100)], [("Cast", 1_000)] * 2 + [("Mul", 3_100), ("Add", 101)])
    assert verdicts(cold) == {"Cast": "more calls", "Mul": "", "Add": ""}
    noisy = report([("Cast", 1_000), ("Mul", 40)], [("Cast", 1_020), ("Mul", 90_000)], rounds=10)
    assert noisy.diff
    timing = replace(noisy.diff.timing, verdict=Verdict.NOISY, why="noise", ops={})
    calls = noisy.numbers.counts
    assert verdicts(replace(noisy, diff=compare((calls, {}), (calls, {}), timing, STORED))) == {
        "Mul": "not judged",
        "Cast": "",
    }


def test_rows_without_a_verdict_are_cut_whatever_they_cost_more() -> None:
    base, now = ([(f"mylib::op{n}", ns) for n in range(9)] for ns in (10, 900))
    short = message("t", [report(base, [*now, ("Exp", 1)])], top=2, every_op=False)
    assert "... and 8 more ops (-v shows them)" in short


def test_what_overlaps_on_a_device_is_said_below_the_total() -> None:
    window = report(None, BASE, rounds=2)
    together = replace(window, numbers=structs.replace(window.numbers, busy_ns=(300_000, 390_000)))
    assert op_lines(together, 5, every_op=False)[-2:] == ["total device time: 415 us", "busy time: 300 us, ops overlap"]
    apart = replace(window, numbers=structs.replace(window.numbers, busy_ns=(410_000, 410_000)))
    assert op_lines(apart, 5, every_op=False) == op_lines(window, 5, every_op=False)


def test_a_change_that_no_op_explains_is_named() -> None:
    window = report(BASE, [("Cast", 1_000)] * 10 + [("MatMul", 500_000), ("Add", 5_000)], rounds=10)
    assert window.diff
    total = replace(window.diff.total, now_ns=(window.diff.total.now_ns or 0) + 50_000)
    shown = op_lines(replace(window, diff=replace(window.diff, total=total)), 5, every_op=False)
    assert shown[-1].endswith(": +100 us from slower calls, +50 us from all the rest")


def test_times_that_are_not_known_are_a_dash() -> None:
    unknown = profile_of([("Cast", -1)])
    text = "\n".join(op_lines(JudgedWindow(WindowNumbers.of("body", unknown)), 5, every_op=True))
    assert "total device time: -" in text


def test_an_improvement_is_remarked_and_an_accepted_change_is_no_finding() -> None:
    better = report(WORSE, BASE)
    assert better.remarks[:2] == ["Cast: 10 calls (baseline: 12)", "Exp: 0 calls (baseline: 1)"]
    assert better.verdict is Verdict.GONE
    worse = report(BASE, WORSE, name="prefill")
    accepted = replace(worse, accepted=True)
    assert accepted.findings == []
    assert accepted.verdict is Verdict.OK
    assert "Exp: 1 call (baseline: 0)" in accepted.remarks


def test_what_a_backend_says_is_told_of_the_rounds_it_is_about() -> None:
    compiled, without_kernels = Remark("compiled"), Remark("no kernels")
    remarks = ((0, compiled), (ALWAYS, without_kernels), (2, compiled), (ALWAYS, without_kernels))
    rounds = replace(profile_of(*[BASE] * 3), remarks=remarks)
    said = "in 2 of 3 rounds (first in round 1) compiled"
    assert JudgedWindow(WindowNumbers.of("body", rounds)).remarks == ["no kernels", said]
    once = replace(profile_of(BASE), remarks=remarks[:2])
    assert JudgedWindow(WindowNumbers.of("body", once)).remarks == ["no kernels"]


def test_rounds_whose_times_could_not_be_judged_say_why() -> None:
    profile = profile_of(*[BASE] * 10)
    calls = WindowBaseline.of(profile, "").ops
    diff = compare((calls, {}), (calls, {}), judge([], timed(profile, 1)), STORED)
    window = JudgedWindow(WindowNumbers.of("body", profile), diff=diff)
    assert (window.untimed, window.times_judged) == (
        "the baseline has no times (pytest --opprof-update records them)",
        False,
    )
    assert window.verdict is Verdict.INCOMPARABLE
    once = report(BASE, BASE)  # nobody expects its times to be judged
    assert (once.untimed, once.times_judged, once.verdict) == ("", False, Verdict.OK)
    judged = report(BASE, BASE, rounds=10)
    assert (judged.untimed, judged.times_judged, judged.verdict) == ("", True, Verdict.OK)


def test_on_a_cpu_the_whole_is_wall_time_and_what_ops_do_not_take_of_it_a_row() -> None:
    cpu = replace(ENVIRONMENT, device="cpu")
    base, now = (
        replace(profile_of(*[[("Add", ns)]] * 10, environment=cpu), host_ns=(wall,) * 10)
        for ns, wall in ((400_000, 1_000_000), (410_000, 1_200_000))
    )
    judged = JudgedWindow(WindowNumbers.of("body", now), diff=diff_of(base, now))
    text = message("test_m.py::t", [judged])
    assert (
        text
        == """\
op regression: test_m.py::t  [fake 1, cpu, async]
  time outside ops: 600 us -> 790 us (+31.7%), limit 25%, in 6 processes
  time: 1 ms -> 1.2 ms (+20%), limit 13%, in 6 processes

op             calls (base -> now)    device time (base -> now)    change    verdict
-------------  ---------------------  ---------------------------  --------  ---------
(outside ops)  -                      600 us -> 790 us             +31.7%    slower
Add            1                      400 us -> 410 us             +2.5%     ok
total time: 1 ms -> 1.2 ms (+20%): +10 us from slower calls, +190 us from outside ops

to accept this change: pytest test_m.py::t --opprof-update"""
    )


@pytest.mark.parametrize(("by", "is_said"), [("commit", False), ("baseline", True)])
def test_a_line_for_a_commit_message_is_announced_once_for_a_cause(by: Any, is_said: bool) -> None:
    window = report(BASE, WORSE)
    accepting = Accepting("pytest", by)
    first, second = (
        [line.text for line in failure.failure("test_m.py::t", [window], accepting, failure.Shown(like=like))]
        for like in ("", "test_m.py::s")
    )
    assert any(text.startswith("to accept this change: ") for text in first)
    assert any(text.startswith("to accept this change: ") for text in second) is is_said


def test_a_window_without_baseline_says_where_there_is_one() -> None:
    assert failure.no_baseline(ENVIRONMENT, []) == "no baseline for fake 1, fake, async (x86_64)"
    others = failure.no_baseline(ENVIRONMENT, ["torch 2, cpu (arm64)"])
    assert others.endswith("(x86_64) (there is one for torch 2, cpu (arm64))")


def test_the_cause_of_a_failure_is_said_in_a_few_words() -> None:
    assert (
        failure.cause([report(BASE, WORSE, name="prefill"), report(None, BASE, Cast=9)])
        == "Cast 10 -> 12, Exp 0 -> 1, Cast 10, budget 9"
    )
    many = [(f"mylib::op{n}", 10) for n in range(5)]
    assert failure.cause([report(BASE, [*BASE, *many])]) == (
        "mylib::op0 0 -> 1, mylib::op1 0 -> 1, mylib::op2 0 -> 1 and 2 more"
    )


def test_times_that_are_not_judged_stand_alone_without_a_change() -> None:
    header, _, row, *_, total, why = op_lines(report([("Add", 48_300)], [("Add", 21_400)]), 5, every_op=True)
    assert header.split("  ")[-1] == "verdict"
    assert "change" not in header
    assert row.split() == ["Add", "1", "21.4", "us"]
    assert (total, why) == ("total device time: 21.4 us", "op times not judged: 1 of 10 rounds measured")


def test_no_op_times_are_mentioned_where_no_op_ran() -> None:
    assert not any("op times" in line for line in op_lines(report([], []), 5, every_op=True))
