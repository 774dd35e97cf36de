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
    assert "▲ verdict: slower : 500 us slower in total (+50%): 1 op is worse (slower), no op is better." in page.text
    assert "The worst: Conv +61.1%." in page.text
    assert [cells[:2] for cells in page.tables["steps"]] == [
        ["op", "time"],
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


def test_a_bar_to_the_faster_side_never_has_the_colour_of_worse() -> None:
    # More calls of Mul in less time: worse by its calls, but its time is no regression.
    base, now = {"Mul": OpCounts(Range(1)), "Conv": OpCounts(Range(1))}, {"Mul": OpCounts(Range(2))}
    times = (Times(1_000_000, {"Mul": 900_000, "Conv": 100_000}), Times(400_000, {"Mul": 400_000}))
    timing = TimingVerdict(Verdict.FASTER, "", *times, total=Verdict.FASTER, ops={"Mul": Verdict.FASTER})
    page = Page(diff_page.html(BASE, NOW, compare((base, {}), (now, {}), timing, STORED)))
    assert row(page, "ops", "Mul")[1:5] == ["▲ more calls", "1 → 2", "900 us → 400 us", "-500 us"]
    fills = [each["fill"] for tag, each in page.tags if tag == "rect"]
    assert "#0072b2" in fills  # Conv is gone, which is better
    assert "#d55e00" not in fills
    assert (
        "▲ verdict: more calls : 600 us faster in total (-60%): 1 op is worse (with more calls), 1 op is better (gone)."
        " The worst: Mul, 1 → 2 calls."
    ) in page.text


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_page_says_how_many_ops_have_a_verdict(verdict: Verdict) -> None:
    calls = {"Mul": OpCounts(Range(1)), "Add": OpCounts(Range(1))}
    diff = compare((calls, {}), (calls, {}), TimingVerdict(Verdict.OK), STORED)
    rows = tuple(replace(each, verdict=verdict) for each in diff.rows)
    said = diff_page._meaning(replace(diff, rows=rows), 2, 2, is_timed=False)
    assert said.startswith("As many calls as before in total: ")
    assert ("2 ops are " in said) == verdict.is_change
    assert ("), no op is better. The worst: " in said) == verdict.is_regression
    assert ("2 ops are better (" in said) == verdict.is_improvement
    assert ("no op is worse or better." in said) != verdict.is_change


def test_the_table_has_the_order_of_the_terminal_whatever_was_measured() -> None:
    base = {"Mul": OpCounts(Range(1)), "Add": OpCounts(Range(1)), "Conv": OpCounts(Range(1))}
    now = {**base, "Mul": OpCounts(Range(2)), "Add": OpCounts(Range(9))}
    for slower in ("Conv", "Mul", "Add"):
        timed = Times(9_000_000, {name: 5_000_000 if name == slower else 1_000_000 for name in base})
        timing = TimingVerdict(
            Verdict.SLOWER, "", Times(3, dict.fromkeys(base, 1)), timed, ops={"Conv": Verdict.SLOWER}
        )
        page = Page(diff_page.html(BASE, NOW, compare((base, {}), (now, {}), timing, STORED)))
        assert [cells[0] for cells in page.tables["ops"][1:]] == ["Add", "Mul", "Conv"]
        assert "The worst: Add, 1 → 9 calls." in page.text


def test_memory_stands_beside_the_ops_in_the_sentence_about_all() -> None:
    base, now = {"Mul": OpCounts(Range(2))}, {"Mul": OpCounts(Range(1))}
    facts = {"peak_memory": Range(1 << 30)}, {"peak_memory": Range(1 << 20)}
    diff = compare((base, facts[0]), (now, facts[1]), TimingVerdict(Verdict.OK), STORED)
    page = Page(diff_page.html(BASE, NOW, diff))
    assert "no op is worse, 1 op and peak memory are better (with fewer calls)." in page.text


def test_the_page_says_whether_the_whole_was_judged() -> None:
    calls = {"Mul": OpCounts(Range(1))}
    timing = TimingVerdict(Verdict.OK, "", Times(1_000_000, {}), Times(1_050_000, {}))
    diff = compare((calls, {}), (calls, {}), timing, STORED)
    assert "50 us slower in total (+5%, within the tolerance of 13%): no op" in diff_page.html(BASE, NOW, diff)
    unjudged = replace(diff, timing=replace(timing, why="1 of 10 rounds measured"))
    assert "50 us slower in total (+5%, not judged): no op" in diff_page.html(BASE, NOW, unjudged)


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
