from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.cli.main import main

from ..conftest import HERE
from ..report.html.read import Page

TEST = (
    "import pytest\nfrom pytest_opprof.backends import fake\n\n@pytest.mark.parametrize('n', range(3))\n"
    "@pytest.mark.op_budget(Cast=1)\ndef test_a(n):\n    [fake.launch('Cast') for _ in range(n)]\n"
)


def read(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def test_a_run_writes_its_page_and_its_json_gives_the_same(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_m=TEST)
    assert suite("--opprof", "--opprof-html=new/run.html", "--opprof-json=run.json").ret == 1
    page = read(pytester.path / "new/run.html")
    assert page.text.startswith("1 of 3 tests exceeds its budget or baseline")
    assert "test_m.py:4" in page.text
    assert main(["report", "run.json", "-o", "again.html"]) == 0
    assert (pytester.path / "again.html").read_text() == (pytester.path / "new/run.html").read_text()
    assert main(["report", "run.json", "run.json", "-o", "twice.html"]) == 0
    assert read(pytester.path / "twice.html").text.startswith("1 of 3 tests")


@pytest.mark.processes
def test_with_workers_it_is_written_once(pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]) -> None:
    pytester.makepyfile(test_m=TEST)
    assert suite("--opprof", "-n2", "--opprof-html=run.html").ret == 1
    assert read(pytester.path / "run.html").text.startswith("1 of 3 tests")


def test_an_interrupted_run_writes_its_page(pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]) -> None:
    pytester.makepyfile(test_m=f"{TEST}\ndef test_stop():\n    raise KeyboardInterrupt\n")
    assert suite("--opprof", "--opprof-html=run.html", no_reraise_ctrlc=True).ret == pytest.ExitCode.INTERRUPTED
    text = read(pytester.path / "run.html").text
    assert text.startswith("1 of 3 tests")
    assert "The run was interrupted: tests may be missing." in text


def test_a_page_that_cannot_be_written_fails_the_run(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile("def test_a(): pass")
    found = suite("--opprof", "--opprof-html=.")
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["opprof: error: --opprof-html: * cannot be written: is a folder"])
    found = suite("--opprof", "--opprof-html=")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines(["*--opprof-html is empty; write a file, such as --opprof-html=opprof.html"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "run.json", "-o", "run.csv"], "-o run.csv: writes a page to read in a browser; name it run.html"),
        (["report", "no.json", "-o", "a.html"], "no.json: cannot be read: No such file or directory"),
        (["report", "list.json", "-o", "a.html"], "list.json: is no JSON of a run: it holds a list, not an object"),
        (["report", "run.json", "-o", "."], "-o .: writes a page to read in a browser; name it opprof.html"),
        (["report", "run.json", "-o", "run.json/a.html"], "-o: run.json/a.html cannot be written: Not a directory"),
        (["show", "p.json.gz", "-o", "p.svg"], "-o p.svg: writes a page to read in a browser; name it p.html"),
        (["show", "p.json.gz", "-o", "p.html", "--kernels"], "-o p.html: the page has all ops, and sorts and filters "),
        (["diff", "p.json.gz", "p.json.gz", "-o", "p"], "-o p: writes a page to read in a browser; name it p.html"),
        (["diff", "p.json.gz", "p.json.gz", "-o", "p.html", "-t", "3"], "-o p.html: the page has all ops: leave out "),
    ],
)
def test_wrong_use_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = {"schema": 4, "version": "1", "interrupted": False, "summary": {}, "tests": [], "stale": []}
    Path("run.json").write_text(json.dumps(run))
    Path("list.json").write_text("[]")
    shutil.copy(HERE / "data" / "megengine" / "smallconv.json.gz", "p.json.gz")
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"opprof: {said}")
    assert not list(tmp_path.glob("*.html"))


def test_a_profile_and_a_comparison_of_profiles_are_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "data" / "megengine" / "smallconv.json.gz", "p.json.gz")
    assert main(["show", "p.json.gz", "-o", "p.html"]) == 0
    assert "p.json.gz · MegEngine graph profile" in read(Path("p.html")).text
    assert main(["diff", "p.json.gz", "p.json.gz", "-o", "d.html"]) == 0
    assert read(Path("d.html")).text.startswith("+0% device time: ")


def test_a_comparison_of_runs_is_the_page_of_a_run(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(test_m=TEST)
    suite("--opprof", "--opprof-json=base.json")
    pytester.makepyfile(test_m=TEST.replace("range(n)", "range(2 * n)"))
    suite("--opprof", "--opprof-json=now.json")
    assert main(["diff", "base.json", "now.json", "-o", "d.html"]) == 1
    page = read(pytester.path / "d.html")
    assert page.text.startswith("2 of 2 tests exceed their budget or base compared with base.json")
    assert page.tables["changes"][1][:4] == ["Cast", "▲ more calls", "2", "+3"]
    assert "test_m.py::test_a[0]" not in page.text or "only in" in page.text
