from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pytest_opprof.cli.main import main

from ..git_history import HERE, Made, OfTests, calls_file, git
from ..report.html.read import Page

pytestmark = pytest.mark.processes


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return Made(tmp_path)


def many(cast: int, add: int = 2) -> OfTests:
    return {f"test_step[{n}]": {"Cast": cast, "Add": add, "MatMul": 3} for n in range(12)}


def test_a_row_says_which_commit_changed_an_op_most(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(100):
        cast = 4 if number < 60 else 8
        made.baselines("Mixed precision in the block" if number == 60 else f"Change {number}", many(cast, number + 1))
    folder = made.done()
    assert main(["history"]) == 0
    title, header, _, first, second = capsys.readouterr().out.splitlines()
    assert title == "torch 2.13.0, cpu (x86_64): 100 commits of baselines, 2023-11-15 to 2024-02-22"
    assert header.split() == "op calls 100 commits biggest step tests commit day subject".split()
    assert first.split()[:6] == ["Cast", "48", "->", "96", "▁" * 24 + "█" * 16, "+48"]
    assert first.endswith("2024-01-14  Mixed precision in the block")
    assert git(folder, "log", "-1", "--format=%H", "--grep=Mixed")[:9] in first
    assert second.split()[:4] == ["Add", "12", "->", "1200"]


def test_a_narrow_terminal_has_a_shorter_line_of_bars_and_the_whole_name_of_the_commit(
    made: Made, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        made.baselines(f"Change {number} of the attention of the decoder", many(4 if number < 30 else 8, number + 1))
    folder = made.done()
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["history"]) == 0
    *_, row, _, left_out = capsys.readouterr().out.splitlines()
    assert row.split()[:6] == ["Cast", "48", "->", "96", "▁" * 8 + "█" * 8, "+48"]
    assert git(folder, "log", "-1", "--format=%H", "--grep=Change 30 ")[:9] in row
    assert len(row) <= 80
    assert left_out == "left out to fit in 80 characters: tests, day (-o FILE.html has all columns)"


def test_one_test_and_one_op_with_each_commit(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    for cast in (1, 2, 2, 5):
        made.baselines(f"Now {cast}", {"test_a": {"Cast": cast}, "test_a2": {"Cast": 7 * cast}})
    made.done()
    assert main(["history", "./tests/test_a.py::test_a", "--op", "Cast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[:4] == ["Cast", "1", "->", "5"]
    assert [line.split()[:2] for line in lines[-2:]] == [["2", "+1"], ["5", "+3"]]
    assert lines[-1].split()[-3:] == ["Now", "5", "tests/test_a.py::test_a"]


@pytest.mark.parametrize("asked", ["tests", "tests/", "tests/test_a.py", "tests/test_a.py::test_step"])
def test_a_folder_a_file_and_a_function_with_all_its_parameters_can_be_asked_for(
    made: Made, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    made.baselines("One", many(1))
    made.baselines("Two", many(2))
    made.baselines("Elsewhere", {"test_step": {"Cast": 100}}, "other/test_a.py")
    made.done()
    assert main(["history", asked, "--format=json"]) == 0
    (cast,) = json.loads(capsys.readouterr().out)["ops"]
    assert (cast["first"], cast["now"], len(cast["steps"][0]["tests"])) == (12, 24, 12)


def test_tests_that_came_or_went_have_a_column_of_their_own(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    made.baselines("One", many(1))
    made.baselines("More", {**many(2), "test_new": {"Cast": 50}})
    made.done()
    assert main(["history", "--op=Cast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "by tests that came or went" in lines[1]
    assert lines[3].split()[:7] == ["Cast", "12", "->", "74", "▁█", "+12", "+50"]
    assert "+12, +50 by tests that came or went" in lines[-1]
    assert lines[-1].endswith("and 12 more")


def test_json_has_every_commit_and_step(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    made.baselines("One", {"t": {"Cast": 1}})
    made.baselines("Two", {"t": {"Cast": 3}, "u": {"Cast": 1}})
    made.done()
    assert main(["history", "--format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    one, two = found["commits"]
    assert (one["subject"], two["time"] - one["time"]) == ("One", 86_400)
    step = {"commit": two["commit"], "calls": 4, "of_code": 2, "of_tests_that_came_or_went": 1}
    step["tests"] = ["tests/test_a.py::t", "tests/test_a.py::u"]
    assert found["ops"] == [{"environment": HERE, "op": "Cast", "first": 1, "now": 4, "steps": [step]}]
    assert found["remarks"] == []


def test_another_environment_is_another_table(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    other = HERE.replace("13", "14")
    for cast in (1, 2):
        made.baselines(f"Now {cast}", {"t": {"Cast": cast}})
    made.commit("Upgrade", {f"baselines/{other}/tests/test_a.py.json": calls_file({"t": {"Cast": 9}}, torch="2.14.0")})
    made.done()
    assert main(["history"]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.startswith("torch 2.13.0, cpu (x86_64): 2 commits of baselines")
    assert second.splitlines() == [
        "torch 2.14.0, cpu (x86_64): 1 commit of baselines, 2023-11-17",
        "no commit after the first changed the calls",
    ]
    assert main(["history", "--environment", f"baselines/{other}/", "--op", "Cast"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["no commit after the first changed the calls of Cast"]


def test_since_a_revision(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    for cast in (1, 2, 5):
        made.baselines(f"Now {cast}", {"t": {"Cast": cast}})
    made.commit("Code", {"code.py": ""})
    made.done()
    assert main(["history", "--since=HEAD~2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "1 commit of" in lines[0]
    assert lines[3].split()[:4] == ["Cast", "2", "->", "5"]
    assert main(["history", "--since=HEAD~1"]) == 0
    assert capsys.readouterr().out == "torch 2.13.0, cpu (x86_64): no commit changed its baselines since HEAD~1\n"


def test_a_shallow_clone_says_what_it_does_not_have(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for cast in range(1, 6):
        made.baselines(f"Now {cast}", {"t": {"Cast": cast}})
    made.done()
    assert main(["history"]) == 0
    assert capsys.readouterr().err == ""
    git(tmp_path, "clone", "-q", "--depth=3", f"file://{tmp_path}", "shallow")
    monkeypatch.chdir("shallow")
    assert main(["history"]) == 0
    out, err = capsys.readouterr()
    assert "opprof history: this clone is shallow: changes of baselines before " in err
    assert "actions/checkout needs fetch-depth: 0" in err
    assert out.splitlines()[3].split()[:4] == ["Cast", "3", "->", "5"]


def test_a_file_that_cannot_be_read_is_said_beside_the_table(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"baselines/{HERE}/tests/test_a.py.json"
    made.commit("One", {path: calls_file({"t": {"Cast": 1}})})
    made.commit("Conflict", {path: "<<<<<<< HEAD"})
    made.baselines("Mended", {"t": {"Cast": 2}})
    made.done()
    assert main(["history"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"opprof history: {HERE}/tests/test_a.py.json of ")
    assert err.endswith("; it counts as not changed\n")
    assert out.splitlines()[3].split()[:6] == ["Cast", "1", "->", "2", "▁▁█", "+1"]


def test_a_subject_does_not_move_the_cursor_and_a_plain_terminal_has_plain_bars(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.baselines("One", {"t": {"Cast": 1}})
    made.baselines("\x1b[2JTwo", {"t": {"Cast": 2}})
    made.done()
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["history"]) == 0
    row = written.getvalue().decode().splitlines()[3]
    assert "_#" in row
    assert row.endswith(r"\x1b[2JTwo")


def test_a_page_has_what_was_asked_for(made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cast in (1, 2, 5):
        made.baselines(f"Now {cast}", {"test_a": {"Cast": cast, "Add": cast}, "test_b": {"Cast": 7 * cast}})
    made.commit("Conflict", {f"baselines/{HERE}/tests/test_a.py.json": "<<<<<<< HEAD"})
    made.done()
    name = "tests/test_a.py::test_a"
    assert main(["history", name, "--op=Cast", "--since=HEAD~2", "-o", "history.html"]) == 0
    out, err = capsys.readouterr()
    page = Page((tmp_path / "history.html").read_text(encoding="utf-8"))
    assert page.text.startswith("+3 calls of Cast in “Now 5”")
    assert f"the biggest step · Cast, {name}, since HEAD~2 · " in page.text
    assert [cells[:2] for cells in page.tables["ops0"][1:]] == [["Cast", "2 → 5"]]
    assert out == ""
    assert err.endswith("; it counts as not changed\n")
    assert "; it counts as not changed" in page.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tests/test_b.py"], "unknown test 'tests/test_b.py': did you mean 'tests/test_a.py'?"),
        (["tests/test_a.py::test_stp"], "unknown test 'tests/test_a.py::test_stp': did you mean 'tests/test_a.py"),
        (["--op", "Csat"], "unknown op 'Csat': did you mean 'Cast'?"),
        (["-o", "x.csv"], "-o x.csv: writes a page to read in a browser; name it x.html"),
        (["-o", "x.html", "--top=3"], "-o x.html: the page has all ops: leave out --format and --top"),
        (["--environment", "torch-2"], f"unknown environment 'torch-2'. Known: {HERE}."),
        (["--since", "nope"], "--since: 'nope' is not a revision in the repository of baselines; name a commit"),
        (["--dir", "nowhere"], "there is no folder nowhere; name that of the baselines with --dir"),
        (["--dir", "tests"], "no commit has baselines in tests; record some (pytest --opprof-update) and commit them"),
    ],
)
def test_what_is_not_there_is_an_error_with_what_is(
    made: Made, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    made.baselines("One", many(1))
    made.commit("Tests", {"tests/test_a.py": ""})
    made.done()
    assert main(["history", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"opprof: {said}")


def test_no_repository_no_commit_and_no_git(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "baselines").mkdir()
    assert main(["history"]) == 2
    assert "git log in baselines failed: not a git repository" in capsys.readouterr().err
    git(tmp_path, "init", "-q")
    assert main(["history"]) == 2
    assert "no commit has baselines in baselines" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    assert main(["history"]) == 2
    assert capsys.readouterr().err == "opprof: opprof history needs git, which is not installed\n"
