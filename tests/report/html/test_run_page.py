from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

from msgspec import structs

from pytest_opprof.profile.site_calls import SiteCalls, SourceLine
from pytest_opprof.report.html import run_page
from pytest_opprof.results.merging import merged
from pytest_opprof.results.run_result import Stale
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import GrownLine
from pytest_opprof.verdict.verdicts import Status

from ..made_runs import rank_of, record_of, run
from .read import Page, row

CAST = ({"Cast": 1, "Add": 2}, {"Cast": 3, "Add": 2})
HOSTILE = "</script><img src=x onerror=alert(1)>"


def page_of(*tests: TestRecord, **known: object) -> Page:
    return Page(run_page.html(run(*tests, **known)))


def test_many_failures_of_one_op_are_one_row_first() -> None:
    tests = [record_of(f"t.py::test_step[{n}]", *CAST) for n in range(7)]
    page = page_of(
        *tests, record_of("t.py::test_b", {"Add": 9}, {"Add": 2}), record_of("t.py::test_c", *[{"Add": 1}] * 2)
    )
    assert page.text.startswith("7 of 9 tests exceed their budget or baseline")
    assert "▲ 7 tests with more calls ▼ 1 test improved 1 test ok" in page.text
    head, cast, add = page.tables["changes"]
    assert head[:4] == ["op", "change", "tests", "calls"]
    assert cast[:4] == ["Cast", "▲ more calls", "7", "+14"]
    assert cast[-1] == "test_step[0], test_step[1], test_step[2] and 4 more"
    assert add[:4] == ["Add", "▼ fewer calls", "1", "-7"]
    assert page.text.index("Changes by cause") < page.text.index("Tests in the order of their causes")


def test_the_line_that_asks_for_more_in_most_tests_stands_beside_the_op() -> None:
    tests = [record_of(f"t.py::test_{n}", *CAST) for n in range(3)]
    lines = [SourceLine("m.py", at, "f", text) for at, text in ((1, "x.half()"), (2, ""), (3, "y"))]
    for test, grown in zip(tests, (lines[:1], lines[:2], lines)):
        of_cast = {"Cast": tuple(GrownLine(line, 1) for line in grown)}
        test.windows = [structs.replace(window, grown=of_cast) for window in test.windows]
    where = row(page_of(*tests), "changes", "Cast")[-1]
    assert where.startswith("m.py:1 x.half() in 3 tests m.py:2 in 2 tests and 1 more line test_0, ")


def test_parameters_with_one_fate_are_one_row_and_the_worst_are_first() -> None:
    alike = [record_of(f"t.py::test_a[{n}]", *CAST) for n in (1, 2)]
    worse = record_of("t.py::test_a[3]", {"Cast": 1}, {"Cast": 9, "Mul": 1})
    text = page_of(record_of("t.py::test_ok", *[{"Add": 1}] * 2), *alike, worse).text
    assert "test_a \N{MULTIPLICATION SIGN} 2 · t.py · shown: [1], also [2]" in text
    assert text.index("test_a[3] t.py:7") < text.index("test_a \N{MULTIPLICATION SIGN}") < text.index("test_ok t.py:7")


def test_a_test_opens_to_findings_ops_lines_limits_and_the_command() -> None:
    test = record_of("t.py::test_a", *CAST, Cast="..2", device_time="1 s", only=["Cast", "Add"])
    sites = {"Cast": (SiteCalls(3, (SourceLine("model.py", 40, "forward", "x.astype(f8) @ w"),), dtypes="f4->f8"),)}
    test.windows = [structs.replace(window, sites=sites) for window in test.windows]
    page = page_of(test)
    assert "▲ Cast: 3 calls (budget: 0..2, baseline: 1)" in page.text
    assert "▲ Cast: 3 calls (baseline: 1)" not in page.text
    assert row(page, "1", "Cast")[:3] == ["Cast", "▲ over budget, more calls", "1 → 3"]
    assert row(page, "1", "Add")[:3] == ["Add", "", "2"]
    assert row(page, "limits", "▲ Cast calls")[2:4] == ["3", "0..2"]
    assert row(page, "limits", "device time")[2:4] == ["5 us", "1 s"]
    assert row(page, "limits", "only")[2:4] == ["kept", "Cast, Add"]
    assert "3 calls from model.py:40 in forward f4->f8 x.astype(f8) @ w" in page.text
    accept = "To accept this change: raise the limit in its op_budget mark then pytest t.py::test_a --opprof-update"
    # The finding, the line and the command stand before the table.
    order = ["Cast: 3 calls (budget", "Where Cast comes from 3 calls from model.py:40", accept, "Whole body 1 round"]
    assert [page.text.index(each) for each in order] == sorted(page.text.index(each) for each in order)


def test_a_page_says_what_the_terminal_says_of_a_finding() -> None:
    test = record_of("t.py::test_a", *CAST)
    lost = {
        "looked": "not confirmed in a fresh process: the run has spent 60 s",
        "sites_lost": "the backend tells no lines",
        "base_sites_lost": "the base could not be measured",
        "trace_lacks": "work of a GPU",
    }
    test.windows = [structs.replace(window, **lost) for window in test.windows]
    text = page_of(test).text
    assert "(not confirmed in a fresh process: the run has spent 60 s)" in text
    assert "? source lines for Cast are unknown: the backend tells no lines" in text
    assert "? it is unknown which of these lines are new: the base could not be measured" in text
    assert "? no trace: work of a GPU" in text
    test.windows = [structs.replace(window, trace="t.json") for window in test.windows]
    assert "Timeline: opprof open t.json (not in it: work of a GPU)" in page_of(test).text


def test_lines_that_ask_for_more_come_first() -> None:
    test = record_of("t.py::test_a", *CAST)
    old, new = (SourceLine("m.py", number, "f", text) for number, text in ((3, "old"), (4, "new")))
    sites = {"Cast": (SiteCalls(5, (old,)), SiteCalls(2, (new,)))}
    grown = {"Cast": (GrownLine(new, 2, is_new=True),)}
    test.windows = [structs.replace(window, sites=sites, grown=grown) for window in test.windows]
    assert "Where Cast comes from ▲ +2 new line m.py:4 in f new 5 calls from m.py:3 in f old" in page_of(test).text


def test_the_same_use_of_a_limit_by_parameters_is_one_row() -> None:
    page = page_of(*[record_of(f"t.py::test_a[{n}]", None, {"Cast": 1}, Cast=4) for n in range(3)])
    assert page.tables["limits"][1] == ["Cast calls", "test_a [0] [1] [2]", "1", "4", ""]


def test_only_what_was_judged_has_a_colour() -> None:
    text = run_page.html(run(record_of("t.py::a", {"Add": 2}, {"Add": 2}, Add=2)))
    body = text[text.index("<body>") : text.index("<script>")]
    assert 'class="bad' not in body
    assert "#d55e00" not in body, "a count at its limit is as meant"


def test_a_sum_of_tests_counts_what_a_body_and_its_window_share_once() -> None:
    page = page_of(record_of("t.py::a", *CAST, windows=("body", "w")))
    assert page.tables["changes"][1][:4] == ["Cast", "▲ more calls", "1", "+2"]


def test_nothing_else_is_told_to_be_wrong() -> None:
    assert page_of().text.startswith("Nothing was measured")
    gone = Stale("t.py::gone", file="b.json")
    page = page_of(record_of("t.py::a", None, {"Add": 1}), stale=[gone], interrupted=True, errors=["e1"])
    assert page.text.startswith("1 error, 1 test measured")
    assert "The run was interrupted: tests may be missing." in page.text
    assert "▲ error: e1" in page.text
    assert "b.json: t.py::gone" in page.text


def test_what_failed_by_itself_is_named_apart() -> None:
    broken = record_of("t.py::a", None, {"Add": 1})
    broken.outcome = "failed"
    assert "1 test failed for other reasons, see the log: a ." in page_of(broken).text


def test_names_are_text_whatever_they_hold() -> None:
    test = record_of(f"t.py::test_a[{HOSTILE}]", {}, {HOSTILE: 1, "a\u202eb": 1, "\ud800": 1})
    text = run_page.html(run(test))
    page = Page(text)
    assert "img" not in {tag for tag, _ in page.tags}
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert f"test_a[{HOSTILE}]" in page.text
    assert row(page, "changes", r"a\u202eb")
    assert text.encode()  # also what is half a character


def test_the_page_loads_nothing_and_says_so_in_its_policy() -> None:
    text = run_page.html(run(record_of("t.py::a", *CAST)))
    page = Page(text)
    (policy,) = [each["content"] for tag, each in page.tags if "http-equiv" in each]
    assert "http" not in str(policy)
    assert "unsafe" not in str(policy)
    for tag in ("style", "script"):
        content = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[0]
        assert f"{tag}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in str(policy)
    links = [value for _, each in page.tags for name, value in each.items() if name in ("href", "src", "action")]
    assert all(str(link).startswith("#t") for link in links)
    ids = {each["id"] for _, each in page.tags if "id" in each}
    assert {str(link)[1:] for link in links} <= ids
    assert not any(name.startswith("on") or name == "style" for _, each in page.tags for name in each)


def test_of_many_tests_the_calm_ones_do_not_open() -> None:
    tests = [record_of(f"t.py::test_{n}", *[{"Add": 1}] * 2) for n in range(run_page.SLOWEST + 20)]
    page = page_of(*tests, record_of("t.py::test_bad", *CAST))
    opening = [each for tag, each in page.tags if tag == "details" and each["class"] == "test"]
    assert len(opening) == run_page.SLOWEST + 1
    assert "20 tests that are ok do not open, to keep the page small" in page.text


def test_ranks_are_one_run_with_a_table_of_how_they_differ() -> None:
    same = {"Add": 2}
    ranks = [
        rank_of(
            rank,
            3,
            record_of("t.py::test_a", same, {"Add": 2, **({"Copy": 4} if rank == 2 else {})}),
            record_of("t.py::test_b", same, same),
        )
        for rank in range(3)
    ]
    page = Page(run_page.html(merged(ranks)))
    assert page.text.startswith("1 of 2 tests exceeds its budget or baseline")
    assert "3 ranks, with other calls in 1 of 2 windows" in page.text
    assert row(page, "ranks", "test_a") == [
        *("test_a", "Copy: 4 on rank 2, 0 on ranks 0-1"),
        *("2 us rank 0", "6 us rank 2", "200%", "", ""),
    ]
    assert row(page, "ranks", "test_b")[1] == ""
    assert "▲ rank 2: Copy: 4 calls (baseline: 0)" in page.text
    assert "numbers of rank 2" in page.text
    alone = Page(run_page.html(merged(ranks[1:2])))
    assert ("of rank 1 alone" in alone.text, "ranks" in alone.tables) == (True, False)


def test_shards_are_one_run() -> None:
    one = run(
        record_of("a.py::a", *CAST),
        record_of("a.py::b", *[{"Add": 1}] * 2),
        commit="c1",
        started="2026-11-23T02:00:00Z",
    )
    stale = [Stale("s", file="s.json")]
    two = run(record_of("a.py::b", *CAST), stale=stale, commit="c1", started="2026-11-23T01:00:00Z", interrupted=True)
    both = merged([one, two])
    assert [(test.id, test.status) for test in both.tests] == [
        ("a.py::a", Status.MORE_CALLS),
        ("a.py::b", Status.MORE_CALLS),
    ]
    assert (both.summary, both.stale, both.commit, both.started) == (
        {"more calls": 2},
        stale,
        "c1",
        "2026-11-23T01:00:00Z",
    )
    assert both.interrupted
