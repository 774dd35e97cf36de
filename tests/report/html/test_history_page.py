from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from pytest_opprof.baselines.git_log import Commit, FileChange
from pytest_opprof.baselines.history import History, history
from pytest_opprof.report.html import history_page

from ...git_history import HERE, OfTests, calls_file
from .read import Page, row

HOSTILE = "</script><img src=x onerror=alert(1)>"


def of(*states: OfTests, subject: str = "Change") -> History:
    """Return the history of a file that was each of the states, on a day each."""
    path, names = PurePosixPath(HERE, "tests", "test_a.py.json"), [f"{n:040}" for n in range(1, len(states) + 1)]
    commits = [
        Commit(f"c{at:08}", 86_400 * at, f"{subject} {at}", at > 0, (FileChange(path, old, new),))
        for at, (old, new) in enumerate(zip(["", *names], names))
    ]
    return history(commits, [calls_file(tests).encode() for tests in states])


def html(found: History, since: frozenset[str] | None = None, asked: str = "", *remarks: str) -> str:
    ops = {name: found.ops(name, lambda test: True, since) for name in found.by_environment}
    return history_page.html(found, ops, since, asked, remarks)


def paths(page: Page) -> list[str | None]:
    return [tag.get("d") for name, tag in page.tags if name == "path"]


def test_the_commit_that_added_the_casts_stands_first() -> None:
    step = {f"test_step[{n}]": {"Cast": 4, "Add": 1} for n in range(3)}
    more = {**step, "test_step[0]": {"Cast": 4, "Add": 2}}
    casts = {**{test: {"Cast": 15, "Add": ops["Add"]} for test, ops in more.items()}, "test_b": {"Cast": 1}}
    page = Page(html(of(step, more, casts, {**casts, "test_b": {"Cast": 3}})))
    assert page.text.startswith("+33 calls of Cast in “Change 2” c00000002 of 1970-01-03, the biggest step · all tests")
    assert "torch 2.13.0, cpu (x86_64) 4 commits of baselines, 1970-01-01 to 1970-01-04" in page.text
    cast = row(page, "ops0", "Cast")
    assert cast == ["Cast", "12 → 48", "▲ +33", "", "+1", "4", "c00000002", "1970-01-03", "Change 2"]
    assert row(page, "ops0", "Add")[1:5] == ["3 → 4", "▲ +1", "", ""]
    assert [cells[:4] for cells in page.tables["steps"][1:]] == [
        ["Cast", "12 → 46", "▲ +33 +1 by tests that came or went", "c00000002"],
        ["Cast", "46 → 48", "▲ +2", "c00000003"],
        ["Add", "3 → 4", "▲ +1", "c00000001"],
    ]
    tests = [cells[-1] for cells in page.tables["steps"][1:]]
    assert tests[:2] == ["tests/test_a.py::test_b tests/test_a.py::test_step (3 tests)", "tests/test_a.py::test_b"]
    assert tests[2] == "tests/test_a.py::test_step[0]"


def test_fewer_calls_are_better_and_calls_that_come_with_tests_are_neither() -> None:
    page = Page(html(of({"t": {"Cast": 3, "Add": 1}}, {"t": {"Cast": 2, "Add": 1}, "u": {"Add": 5}})))
    assert [tag["fill"] for name, tag in page.tags if name == "circle"] == ["#0072b2", "#8a8f98"]
    assert row(page, "ops0", "Cast")[2] == "▼ -1"
    assert row(page, "ops0", "Add")[2] == "+5"
    assert page.text.startswith("-1 call of Cast in “Change 1”")
    only = Page(html(of({"t": {"Add": 1}}, {"t": {"Add": 1}, "u": {"Add": 5}})))
    assert only.text.startswith("+5 calls of Add with tests that came or went in “Change 1”")
    assert only.tables["steps"][1][2] == "+5 by tests that came or went"


def test_an_op_leads_to_its_steps() -> None:
    page = Page(html(of({"t": {"Cast": 3, "Add": 1}}, {"t": {"Cast": 2, "Add": 5}}, {"t": {"Cast": 2, "Add": 6}})))
    links = [tag["href"] for name, tag in page.tags if name == "a" and tag.get("class") != "skip"]
    anchors = [tag["id"] for name, tag in page.tags if name == "tr" and "id" in tag]
    assert [f"#{anchor}" for anchor in anchors] == links
    assert len(links) == 2


def test_the_line_goes_from_the_fewest_calls_to_the_most() -> None:
    page = Page(html(of({"t": {"Cast": 2}}, {"t": {"Cast": 6}}, {"t": {"Cast": 4}}, {"t": {"Cast": 4}, "u": {}})))
    assert paths(page) == ["M0 20H55V4H110V12H220"]
    circle = next(tag for name, tag in page.tags if name == "circle")
    assert (circle["cx"], circle["cy"]) == ("55", "4")


def test_the_line_of_a_thousand_commits_is_as_long_as_it_is_wide_and_keeps_its_peaks() -> None:
    states: list[OfTests] = [{"t": {"Cast": n % 2}} for n in range(1000)]
    states[500] = {"t": {"Cast": 100}}
    (path,) = paths(Page(html(of(*states))))
    assert path is not None
    assert path.count("V4") == 1
    assert len(path) < 220 * 16


def test_since_a_revision_the_line_begins_with_what_was_before() -> None:
    found = of({"t": {"Cast": 1}}, {"t": {"Cast": 9}}, {"t": {"Cast": 9}, "u": {}}, {"t": {"Cast": 7}})
    page = Page(html(found, frozenset({"c00000002", "c00000003"}), "Cast, since v1.0"))
    assert paths(page) == ["M0 4H110V20H220"]
    assert "the biggest step · Cast, since v1.0 · the worst round" in page.text


def test_where_nothing_changed_the_page_says_so() -> None:
    found = of({"t": {"Cast": 1}})
    page = Page(html(found, None, "", "this clone is shallow"))
    assert page.text.startswith("No commit changed the calls all tests and ops")
    assert "? this clone is shallow" in page.text
    assert "No commit after the first changed the calls." in page.text
    assert page.tables == {}
    assert "no commit changed its baselines" in Page(html(found, frozenset())).text


def test_more_steps_and_ops_than_can_be_read_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_page, "_OPS", 3)
    monkeypatch.setattr(history_page, "_STEPS", 5)
    states = [{"t": {f"Op{op}": 10 * op + at * op for op in range(1, 6)}} for at in range(4)]
    page = Page(html(of(*states)))
    assert [cells[0] for cells in page.tables["ops0"][1:]] == ["Op5", "Op4", "Op3"]
    assert [cells[0] for cells in page.tables["steps"][1:]] == ["Op5"] * 3 + ["Op4"] * 2
    assert "and 2 more ops with smaller steps: opprof history --op OP" in page.text
    assert "and 4 smaller steps: opprof history --op OP" in page.text
    links = [tag["href"] for name, tag in page.tags if name == "a"]
    assert links == ["#steps", "#e0o0", "#e0o1"]  # of Op3 no step is shown


@pytest.mark.slow
def test_two_hundred_commits_of_a_hundred_ops_are_less_than_a_megabyte() -> None:
    states = [{f"test_step[{t}]": {f"Op{op}": at * op % 7 for op in range(100)} for t in range(9)} for at in range(200)]
    written = html(of(*states, subject="A commit whose subject is as long as subjects should ever be, and no longer"))
    assert len(written.encode()) < 1_000_000
    assert len(Page(written).tables["steps"]) == 1_501


def test_names_that_are_markup_are_text() -> None:
    found = of({HOSTILE: {HOSTILE: 1}}, {HOSTILE: {HOSTILE: 2}}, subject=f"{HOSTILE}\x1b[2J\u202e")
    page = Page(html(found, None, HOSTILE, HOSTILE))
    assert "img" not in [name for name, _ in page.tags]
    assert row(page, "ops0", HOSTILE)[-1] == f"{HOSTILE}\\x1b[2J\\u202e 1"
