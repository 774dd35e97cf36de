"""``opprof bisect``, a step for ``git bisect run``: what it makes of one commit, and a bisection by git itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file, paths
from pytest_opprof.cli import bisect
from pytest_opprof.cli.main import main
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range

from ..docs.pages import ROOT
from ..git_history import Made, git

FAKE = Environment((("fake", "1"),), "fake", timing="async")
TESTS = """
import pytest
from code_under_test import casts
from pytest_opprof.backends import fake

@pytest.mark.op_budget(calls="1..99")
def test_a():
    for _ in range(casts()):
        fake.launch("Cast")

@pytest.mark.op_budget(calls="1..99")
def test_new():
    fake.launch("Cast")

def test_b():
    pass

@pytest.mark.opprof
def test_wrong():
    fake.launch("Cast")
    assert casts() == 7
"""
INI = (
    "[pytest]\nopprof_backend = fake\nopprof_noise = ignore\naddopts = -p opprof -p no:cacheprovider\npythonpath = .\n"
)


class Project:
    """A repository whose first commit calls one Cast; baselines of that are beside it."""

    def __init__(self, top: Path) -> None:
        self.top = top / "checkout"
        self.top.mkdir()
        self.kept = top / "kept"
        entry = WindowBaseline({"Cast": OpCounts(Range(1))})
        file.save(paths.path_of(self.kept, FAKE, "test_m.py"), Baselines(FAKE, {"test_a": {"body": entry}}))
        self.made = Made(self.top)
        files = {"pytest.ini": INI, "test_m.py": TESTS, ".gitignore": "__pycache__\n"}
        self.made.commit("Start", {**files, "code_under_test.py": "casts = lambda: 1\n"})

    def code(self, casts: int, more: str = "") -> None:
        number = self.made._commits
        self.made.commit(f"Code {number}", {"code_under_test.py": f"casts = lambda: {casts}  # {number}\n{more}"})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    made = Project(tmp_path)
    monkeypatch.chdir(made.top)
    return made


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    ("casts", "more", "words", "code", "said"),
    [
        (1, "", ["test_m.py::test_a"], 0, ""),
        (0, "", ["test_m.py::test_a"], 1, "test_m.py::test_a: calls of all ops: 0 (budget: 1..99)\n"),
        (3, "", ["test_m.py::test_a", "-q"], 1, "test_m.py::test_a: Cast: 3 calls (baseline: 1)\n"),
        (1, "raise SystemExit\n", ["test_m.py"], 125, "cannot judge this commit: pytest ended with exit code 3: "),
        (1, "", ["test_m.py::test_c"], 125, "cannot judge this commit: pytest ended with exit code 4: "),
        (1, "", ["test_m.py::test_b"], 125, "cannot judge this commit: no test was measured\n"),
        (1, "", ["test_m.py::test_new"], 125, "cannot judge this commit: test_m.py::test_new: no baseline\n"),
        (1, "", ["test_m.py::test_wrong"], 125, "cannot judge this commit: "),
        (1, "", ["test_m.py", "--opprof-top=x"], 125, "cannot judge this commit: pytest ended with exit code 4: "),
    ],
)
def test_a_commit_is_good_bad_or_cannot_be_judged(
    project: Project,
    casts: int,
    more: str,
    words: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project.code(casts, more)
    project.made.done()
    assert main(["bisect", *words, f"--opprof-baselines={project.kept}"]) == code
    out = capsys.readouterr().out
    assert out.startswith(said)
    assert bool(out) is bool(code)


@pytest.mark.processes
def test_without_a_bisection_git_is_told_to_stop(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.made.done()
    assert main(["bisect", "test_m.py"]) == 128
    said = "git bisect has no good commit here: git bisect start BAD GOOD, or give --opprof-against=REV"
    assert capsys.readouterr().err == f"opprof bisect: {said}\n"


def test_a_defect_stops_git_and_makes_no_commit_bad(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bisect, "_tried", lambda words: ("not", "numbers", "at all"))
    assert main(["bisect", "test_m.py", "--opprof-against=HEAD"]) == 128
    assert capsys.readouterr().err.startswith("opprof bisect: ValueError: ")


@pytest.mark.processes
@pytest.mark.slow
def test_git_bisect_run_finds_the_first_commit_with_more_calls_past_one_that_cannot_run(project: Project) -> None:
    project.code(1, "raise SystemExit\n")
    for casts in (1, 2, 2):
        project.code(casts)
    project.made.done()
    folder = project.top
    git(folder, "bisect", "start", "main", "main~4")
    step = [sys.executable, "-m", "pytest_opprof", "bisect", "test_m.py::test_a"]
    done = subprocess.run(
        ["git", "bisect", "run", *step], cwd=folder, env={**os.environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first = git(folder, "rev-parse", "main~1").strip()
    assert f"{first} is the first bad commit" in done.stdout
    good = git(folder, "rev-parse", "main~4").strip()[:12]
    assert f"test_m.py::test_a: Cast: 2 calls ({good}: 1)" in done.stdout
