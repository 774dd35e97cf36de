from __future__ import annotations

from pytest_opprof import reports
from pytest_opprof.baselines import Calls, Entry
from pytest_opprof.budgets import Budget
from pytest_opprof.compare import compare
from pytest_opprof.judge import Rule, Verdict
from pytest_opprof.reports import WindowReport

from .conftest import ENVIRONMENT, Launch, profile_of

HERE = "CPU, 2 cores"
BASE: list[Launch] = [("Cast", 1_000)] * 10 + [("MatMul", 400_000), ("Add", 5_000)]
WORSE: list[Launch] = [("Cast", 1_100)] * 12 + [("MatMul", 300_000), ("Add", 5_000), ("Exp", 9_000)]
ACCEPT = "pytest test_m.py::test_a --opprof-update"


def report(
    base: list[Launch] | None, now: list[Launch], rounds: int = 1, name: str = "body", **limits: object
) -> WindowReport:
    profile = profile_of(*[now] * rounds)
    diff = None
    if base is not None:
        kept = Entry.of(profile_of(*[base] * rounds), HERE)
        diff = compare(kept, Entry.of(profile, HERE), HERE, Rule(tolerance=0.25), top=1)
    return WindowReport(name, profile, Budget.parse([], limits).check(profile), diff)


def test_a_failing_test_says_which_op_how_much_and_against_what() -> None:
    text = reports.failure("test_m.py::test_a", [report(BASE, WORSE, rounds=5, Cast=10)], 5, False, ACCEPT)
    assert (
        text
        == """\
op budget exceeded: test_m.py::test_a  [fake 1, fake, async]
  calls of Cast: 12, over the budget of 10
  calls of Exp: 1, none in the baseline
  calls of Cast: 12, 10 in the baseline

op      calls (base -> now)    device time (base -> now)    change    verdict
------  ---------------------  ---------------------------  --------  -----------------------
Cast    10 -> 12               10 us -> 13.2 us             +32%      over budget, more calls
Exp     0 -> 1                 - -> 9 us                    -         new
MatMul  1                      400 us -> 300 us             -25%      faster
Add     1                      5 us                         +0%       ok
total device time: 415 us -> 327 us (-21.2%): +11 us from more calls, -98.8 us from faster calls

if this is meant: pytest test_m.py::test_a --opprof-update"""
    )


def test_a_change_is_not_split_where_the_number_of_calls_varies() -> None:
    """The fastest round is not the one with most calls, so that no one price goes with them."""
    before = profile_of([("Cast", 10)] * 2, [("Cast", 10)] * 4)
    now = profile_of([("Cast", 20)] * 2, [("Cast", 20)] * 4)
    diff = compare(Entry.of(before, HERE), Entry.of(now, HERE), HERE, Rule())
    *_, total, _ = reports.table(WindowReport("body", now, diff=diff), 5, True)
    assert total == (
        "total device time: 20 ns -> 40 ns (+100%), not split into more and slower calls: their number varies"
    )


def test_a_budget_without_a_baseline_shows_shares() -> None:
    text = reports.failure("test_m.py::test_a", [report(None, BASE, Cast=9)], 5, False, ACCEPT)
    assert (
        text
        == """\
op budget exceeded: test_m.py::test_a  [fake 1, fake, async]
  calls of Cast: 10, over the budget of 9

op      calls    device time    share    verdict
------  -------  -------------  -------  -----------
Cast    10       10 us          2.41%    over budget
MatMul  1        400 us         96.4%
Add     1        5 us           1.2%
total device time: 415 us"""
    )


def test_a_time_over_budget_in_one_cold_round_says_how_to_measure_better() -> None:
    hint = "  (measured once, cold; with opprof(rounds=5) the fastest round counts, after a warm-up)"
    assert hint in reports.failure("t", [report(None, BASE, device_time="1 us")], 5, False, ACCEPT).splitlines()
    assert hint not in reports.failure("t", [report(None, BASE, rounds=2, device_time="1 us")], 5, False, ACCEPT)
    assert hint not in reports.failure("t", [report(None, BASE, Cast=1)], 5, False, ACCEPT)


def test_ops_that_changed_nothing_are_cut_to_the_top_unless_all_are_asked_for() -> None:
    many = [(f"mylib::op{n}", 10) for n in range(9)]
    window = report(many, [*many, ("Exp", 1)])
    short = reports.failure("t", [window], 2, False, ACCEPT)
    assert "... and 8 more ops (-v shows them)" in short
    assert "mylib::op8" not in short
    assert "mylib::op8" in reports.failure("t", [window], 2, True, ACCEPT)


def test_an_op_that_broke_something_is_always_shown() -> None:
    many = [(f"mylib::op{n}", 1_000) for n in range(9)]
    text = reports.failure("t", [report(None, [*many, ("Cast", 1)], Cast=0)], 0, False, ACCEPT)
    assert "Cast" in text.split("share")[1]


def test_a_window_is_named_and_a_whole_test_is_not() -> None:
    text = reports.failure("test_m.py::test_a", [report(BASE, WORSE, name="prefill")], 5, False, ACCEPT)
    assert text.startswith("op regression: test_m.py::test_a window prefill  [fake 1, fake, async]")
    assert "window prefill, 1 round:" in text


def test_windows_that_broke_nothing_are_left_out_of_a_failure() -> None:
    windows = [report(BASE, BASE, name="decode"), report(BASE, WORSE, name="prefill")]
    assert "decode" not in reports.failure("t", windows, 5, True, ACCEPT)


def test_times_that_were_not_judged_say_why() -> None:
    text = "\n".join(reports.table(report(BASE, BASE), 5, True))
    assert "times are shown, not judged: 1 of 5 rounds measured" in text


def test_times_that_are_not_known_are_a_dash() -> None:
    unknown = profile_of([("Cast", -1)])
    text = "\n".join(reports.table(WindowReport("body", unknown), 5, True))
    assert "total device time: -" in text


def test_an_improvement_is_remarked_and_an_accepted_change_is_no_finding() -> None:
    better = report(WORSE, BASE)
    assert better.remarks[:2] == ["calls of Cast: 10, 12 in the baseline", "calls of Exp: none, 1 in the baseline"]
    assert better.verdict is Verdict.GONE
    worse = report(BASE, WORSE, name="prefill")
    accepted = WindowReport("prefill", worse.profile, diff=worse.diff, accepted=True)
    assert accepted.findings == []
    assert accepted.verdict is Verdict.OK
    assert "calls of Exp: 1, none in the baseline" in accepted.remarks


def test_rounds_whose_times_could_not_be_judged_say_why() -> None:
    profile = profile_of(*[BASE] * 5)
    kept = Entry({op: Calls(1, 1) for op in ("Add", "MatMul")} | {"Cast": Calls(10, 10)})
    window = WindowReport("body", profile, diff=compare(kept, Entry.of(profile, HERE), HERE, Rule()))
    assert window.untimed == "the baseline has no times"
    assert report(BASE, BASE).untimed == ""  # one round: nobody expects its times to be judged


def test_a_window_without_baseline_says_where_there_is_one() -> None:
    assert reports.no_baseline(ENVIRONMENT, []) == "no baseline for fake 1, fake, async (x86_64)"
    others = reports.no_baseline(ENVIRONMENT, ["torch 2, cpu (arm64)"])
    assert others.endswith("(x86_64) (there is one for torch 2, cpu (arm64))")
