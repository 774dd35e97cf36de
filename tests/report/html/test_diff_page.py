from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.report.html import diff_page
from pytest_opprof.report.html.diff_page import Compared
from pytest_opprof.verdict.compare import compare
from pytest_opprof.verdict.tolerances import STORED
from pytest_opprof.verdict.verdicts import Times, TimingVerdict, Verdict

from .read import Page, row

BASE, NOW = Compared("a.json", "made", "cpu"), Compared("b.json", "made", "gpu")


def test_the_bars_lead_from_before_to_now() -> None:
    before = Times(1_000_000, {"Conv": 900_000, "Add": 100_000})
    after = Times(1_500_000, {"Conv": 1_450_000, "Add": 50_000})
    timing = TimingVerdict(Verdict.SLOWER, "", before, after, total=Verdict.SLOWER, ops={"Conv": Verdict.SLOWER})
    calls = {"Conv": OpCounts(Range(1)), "Add": OpCounts(Range(2))}
    page = Page(diff_page.html(BASE, NOW, compare((calls, {}), (calls, {}), timing, STORED)))
    assert page.text.startswith("+50% device time: 1 ms → 1.5 ms before: a.json")
    assert "The environments differ" in page.text
    assert "▲ verdict: slower : Conv takes longer than before, by more than its tolerance." in page.text
    assert [cells[:2] for cells in page.tables["steps"]] == [
        ["op", "adds"],
        ["before", "1 ms"],
        ["Conv", "+550 us"],
        ["Add", "-50 us"],
        ["now", "1.5 ms"],
    ]
    bars = [each for tag, each in page.tags if tag == "rect" and each.get("height") == "16"]
    ends = [float(each.get("x") or 0) + float(each["width"] or 0) for each in bars]
    assert abs(float(bars[1]["x"] or 0) - ends[0]) < 0.2  # each begins where the one before it ends
    assert abs(float(bars[2]["x"] or 0) - ends[3]) < 0.2
    # Add was not judged to be faster.
    assert [each["fill"] for each in bars] == ["#8a8f98", "#d55e00", "#8a8f98", "#8a8f98"]
    assert row(page, "ops", "Conv")[1:6] == ["▲ slower", "1", "900 us → 1.45 ms", "+550 us", "+61.1%"]


def test_without_times_the_bars_are_calls() -> None:
    base, now = (
        {"Cast": OpCounts(Range(1)), "Add": OpCounts(Range(4))},
        {"Cast": OpCounts(Range(3)), "Add": OpCounts(Range(4))},
    )
    page = Page(diff_page.html(BASE, NOW, compare((base, {}), (now, {}), TimingVerdict(Verdict.OK), STORED)))
    assert page.text.startswith("+40% calls: 5 calls → 7 calls")
    assert [cells[:2] for cells in page.tables["steps"][1:]] == [
        ["before", "5 calls"],
        ["Cast", "+2 calls"],
        ["now", "7 calls"],
    ]


def test_it_says_which_steps_are_compared() -> None:
    calls = {"Mul": OpCounts(Range(1))}
    diff = compare((calls, {}), (calls, {}), TimingVerdict(Verdict.OK), STORED)
    one, some = replace(BASE, step="8"), replace(NOW, steps=5, step="12")
    assert "Compared: the whole recording of each." in Page(diff_page.html(BASE, NOW, diff)).text
    assert "Compared: step 8 of each." in Page(diff_page.html(one, one, diff)).text
    assert (
        "Compared: step 8 before, the fastest of 5 steps (step 12) now. Calls are those of the step with most"
    ) in Page(diff_page.html(one, some, diff)).text


def test_other_devices_are_the_headline() -> None:
    calls = {"Mul": OpCounts(Range(1))}
    sides = (replace(side, device=device) for side, device in ((BASE, "A100"), (NOW, "Ascend 910B")))
    page = Page(diff_page.html(*sides, compare((calls, {}), (calls, {}), TimingVerdict(Verdict.OK), STORED)))
    assert page.text.startswith("Different devices: A100 → Ascend 910B ? Ops, dtypes and times may differ because")
    assert "+0% calls: 1 call" in page.text
    assert [tag for tag, _ in page.tags].count("h1") == 1


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_page_says_what_each_verdict_means(verdict: Verdict) -> None:
    calls = {"Mul": OpCounts(Range(1))}
    diff = compare((calls, {}), (calls, {}), TimingVerdict(Verdict.OK), STORED)
    rows = (replace(diff.rows[0], verdict=verdict), *diff.rows)
    said = diff_page._meaning(replace(diff, rows=rows, total=replace(diff.total, verdict=Verdict.OK)))
    assert said.endswith(".")
    assert said.startswith("Mul ") == (verdict.is_change and verdict is not Verdict.UNSEEN)
    assert ("Nothing is worse" in said) == (verdict.sense == "better")


def test_what_became_wider_has_a_table_of_its_own() -> None:
    base = {"Mul": OpCounts(Range(1), dtypes={"float32": Range(1, 1)})}
    now = {"Mul": OpCounts(Range(1), dtypes={"float64": Range(1, 1)})}
    page = Page(diff_page.html(BASE, NOW, compare((base, {}), (now, {}), TimingVerdict(Verdict.OK), STORED)))
    assert page.tables["larger"][1][:2] == ["Mul", "▲ wider dtypes"]
    assert "float64" in page.tables["larger"][1][2]


def test_two_that_are_the_same_have_no_bars() -> None:
    calls = {"Mul": OpCounts(Range(1))}
    page = Page(
        diff_page.html(BASE, BASE, compare((calls, {}), (calls, {}), TimingVerdict(Verdict.OK), STORED), ["was cut"])
    )
    assert page.text.startswith("+0% calls: 1 call")
    assert "steps" not in page.tables
    assert "larger" not in page.tables
    assert "was cut" in page.text
