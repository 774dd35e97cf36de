from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_opprof.baselines import file, paths
from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.cli.bisect import _write_baselines
from pytest_opprof.cli.bisect_trial import Trial, Tried
from pytest_opprof.cli.main import main
from pytest_opprof.errors import UsageError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range

from ..git_history import Made, git

FAKE = Environment((("fake", "1"),), "fake", timing="async")
CAST = ("t.py::a", "body", "more calls", "Cast")
SLOW = ("t.py::a", "body", "slower", "Cast")
TESTS = """
import pytest
from code_under_test import casts
from pytest_opprof.backends import fake

@pytest.mark.op_budget(calls="1..99")
def test_a():
    for _ in range(casts()):
        fake.launch("Cast")

def test_b():
    pass
"""
INI = (
    "[pytest]\nopprof_backend = fake\nopprof_noise = ignore\naddopts = -p opprof -p no:cacheprovider\npythonpath = .\n"
)


@pytest.mark.parametrize(
    ("tried", "word"),
    [
        (Tried(statuses=(("t.py::a", "ok"),)), "good"),
        (Tried(statuses=(("t.py::a", "improved"), ("t.py::b", "no baseline"))), "good"),
        (Tried(findings=((CAST, "Cast: 3 calls"),)), "bad"),
        (Tried(findings=(((*CAST[:3], "Add"), "Add: 3 calls"),), statuses=(("t.py::a", "more calls"),)), "good"),
        (Tried(statuses=(("t.py::a", "no baseline"),)), "skip"),
        (Tried(statuses=(("t.py::b", "ok"),)), "skip"),
        (Tried("pytest ended with exit code 2"), "skip"),
        (Tried(statuses=(("t.py::a", "too noisy"),)), "good"),
    ],
)
def test_a_commit_is_good_bad_or_nobody_can_tell(tried: Tried, word: str) -> None:
    assert tried.judged({CAST})[0] == word


def test_of_times_alone_nobody_can_tell_where_they_are_noisy() -> None:
    noisy = Tried(statuses=(("t.py::a", "too noisy"),))
    assert noisy.judged({SLOW}) == ("skip", "t.py::a: too noisy")
    assert noisy.judged({SLOW, CAST})[0] == "good"


def test_the_first_finding_is_told_and_how_many_more() -> None:
    tried = Tried(findings=((CAST, "Cast: 3 calls"), (SLOW, "slower")))
    assert tried.judged({CAST, SLOW}) == ("bad", "t.py::a: Cast: 3 calls and 1 more")


class Project:
    """A repository whose first commit has baselines of one Cast; each later one has a function of so many."""

    def __init__(self, top: Path) -> None:
        self.made = Made(top)
        root = top / "kept"
        entry = WindowBaseline({"Cast": OpCounts(Range(1))})
        path = paths.path_of(root, FAKE, "test_m.py")
        file.save(path, Baselines(FAKE, {"test_a": {"body": entry}}))
        self.path = f"baselines/{path.relative_to(root).as_posix()}"
        self.baseline = path.read_text()
        files = {"pytest.ini": INI, "test_m.py": TESTS, ".gitignore": "__pycache__\nkept\n", self.path: self.baseline}
        self.made.commit("Start", {**files, "code_under_test.py": "casts = lambda: 1\n"})

    def code(self, casts: int, more: str = "") -> None:
        number = self.made._commits
        self.made.commit(f"Code {number}", {"code_under_test.py": f"casts = lambda: {casts}  # {number}\n{more}"})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Project(tmp_path)


@pytest.mark.processes
@pytest.mark.slow
def test_the_first_commit_with_more_calls_is_found_though_baselines_were_updated(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    for casts in (1, 1, 1, 2, 2, 2):
        project.code(casts)
    # A commit that took what it found as the baseline: the question is what is more than at the start.
    project.made.commit("Update", {project.path: project.baseline.replace('"Cast": 1', '"Cast": 2')})
    folder = project.made.done()
    assert main(["bisect", "HEAD~7", "main", "test_m.py::test_a", "--", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "7 commits, about 3 steps; looked for:",
        "  test_m.py::test_a: Cast: 2 calls (baseline: 1)",
    ]
    assert 2 <= len(lines[2:-2]) <= 3
    assert lines[-2].startswith("first bad commit: ")
    assert lines[-2].endswith("Code 4")
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert git(folder, "status", "--porcelain") == ""


@pytest.mark.processes
def test_commits_that_cannot_run_are_skipped_and_named_where_they_hide_the_first(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.code(1, "raise SystemExit\n")
    project.code(2)
    project.made.done()
    assert main(["bisect", "HEAD~2", "test_m.py"]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("  skip  ")
    assert "Code 1: pytest ended with exit code" in out
    names = git(Path(), "log", "-2", "--format=%H").split()
    told = ", ".join(name[:9] for name in names)
    assert f"opprof bisect: the first bad commit is one of {told}: all but the first could not be judged" in err
    assert git(Path(), "symbolic-ref", "HEAD") == "refs/heads/main\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("casts", "tests", "said"),
    [
        (
            1,
            "test_m.py::test_a",
            "in HEAD the tests spend no more than with the baselines of HEAD~1 (ok): there is nothing",
        ),
        (1, "test_m.py::test_c", "of HEAD nobody can tell: pytest ended with exit code 4: "),
        (1, "test_m.py::test_b", "of HEAD nobody can tell: nothing was measured: "),
        (0, "test_m.py::test_a", "HEAD~1 is not good: "),
    ],
)
def test_ends_that_are_not_what_they_should_be(
    project: Project, capsys: pytest.CaptureFixture[str], casts: int, tests: str, said: str
) -> None:
    if casts == 0:  # the good commit does not run, the bad one is bad
        project.code(1, "raise SystemExit\n")
        project.code(2)
    else:
        project.code(casts)
    project.made.done()
    assert main(["bisect", "HEAD~1", tests]) == 2
    assert capsys.readouterr().err.startswith(f"opprof: opprof bisect: {said}")
    assert git(Path(), "symbolic-ref", "HEAD") == "refs/heads/main\n"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope", "test_m.py"], "opprof bisect: 'nope' is no revision; name a commit, a branch or a tag"),
        (["HEAD", "HEAD~1", "test_m.py"], "opprof bisect: HEAD~1 does not come after HEAD: name a good commit before"),
        (["HEAD", "test_m.py"], "opprof bisect: HEAD does not come after HEAD: "),
        (["HEAD~1", "folder", "test_m.py"], "'folder' is a revision, and a file too: write refs/heads/folder or ./f"),
        (["HEAD~1", "test_m.py", "--dir=/"], "opprof bisect: / has the repository "),
    ],
)
def test_what_means_nothing_is_an_error(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    project.made.commit("A folder", {"folder/x": ""})
    folder = project.made.done()
    git(folder, "branch", "folder")
    assert main(["bisect", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"opprof: {said}")


@pytest.mark.processes
def test_it_does_not_begin_where_it_would_lose_something(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.code(2)
    project.made.done()
    git(Path(), "bisect", "start")
    assert main(["bisect", "HEAD~1", "test_m.py"]) == 2
    assert "is being bisected; git bisect reset ends that" in capsys.readouterr().err
    git(Path(), "bisect", "reset")
    Path("test_m.py").write_text("")
    assert main(["bisect", "HEAD~1", "test_m.py"]) == 2
    assert "has changes that are not committed; commit or stash them first" in capsys.readouterr().err


NEW = TESTS.replace("test_a", "test_new")


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("committed", [False, True])
def test_a_test_that_was_written_today_is_recorded_in_the_good_commit(
    project: Project, capsys: pytest.CaptureFixture[str], committed: bool
) -> None:
    """It is in no older commit, and nobody has a baseline of it."""
    for casts in (1, 2, 2):
        project.code(casts)
    if committed:
        project.made.commit("A test", {"new/test_new.py": NEW})
    folder = project.made.done()
    if not committed:
        Path("new").mkdir()
        Path("new/test_new.py").write_text(NEW)
    good = f"HEAD~{3 + committed}"
    assert main(["bisect", good, "new/test_new.py::test_new", "--dir=none"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{good} has no baselines in none: recording them in {good}"
    assert "  new/test_new.py::test_new: Cast: 2 calls (baseline: 1)" in lines
    assert lines[-2].endswith("Code 2")
    assert git(folder, "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert git(folder, "status", "--porcelain") == ("" if committed else "?? new/\n")
    assert Path("new/test_new.py").read_text() == NEW


@pytest.mark.processes
@pytest.mark.parametrize("outside", [False, True])
def test_baselines_that_are_not_committed_are_used(
    project: Project, capsys: pytest.CaptureFixture[str], outside: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept = tmp_path_factory.mktemp("elsewhere") if outside else Path("kept")
    path = paths.path_of(kept, FAKE, "test_m.py")
    project.code(3)
    project.made.done()
    file.save(path, Baselines(FAKE, {"test_a": {"body": WindowBaseline({"Cast": OpCounts(Range(2))})}}))
    assert main(["bisect", "HEAD~1", "test_m.py::test_a", f"--dir={kept}"]) == 0
    out = capsys.readouterr().out
    assert f"HEAD~1 has no baselines in {kept}: those on disk are compared with\n" in out
    assert "Cast: 3 calls (baseline: 2)" in out


@pytest.mark.processes
def test_an_interruption_goes_back_to_where_it_began(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        assert git(Path(), "rev-parse", "--abbrev-ref", "HEAD") == "HEAD\n"  # detached
        raise KeyboardInterrupt

    project.code(2)
    project.made.done()
    monkeypatch.setattr(Trial, "tried", interrupted)
    assert main(["bisect", "HEAD~1", "test_m.py"]) == 130
    assert git(Path(), "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert "BISECT_LOG" not in {path.name for path in Path(".git").iterdir()}


@pytest.mark.processes
def test_a_tree_made_by_hand_writes_nowhere_else(tmp_path: Path) -> None:
    top = tmp_path / "top"
    git(tmp_path, "init", "-q", str(top))

    def written(kind: str, content: bytes) -> str:
        command = ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
        return subprocess.run(command, cwd=top, input=content, capture_output=True, check=True).stdout.decode().strip()

    tree = written("blob", b"mine")
    for name in ("stolen.json", "..", "..", "baselines"):
        mode = b"100644" if name == "stolen.json" else b"40000"
        tree = written("tree", mode + b" " + name.encode() + b"\0" + bytes.fromhex(tree))
    to = tmp_path / "a" / "b" / "baselines"
    with pytest.raises(UsageError, match=r"good has a file 'baselines/\.\./\.\./stolen.json', which leads out of"):
        _write_baselines(top, tree, top / "baselines", to, "good")
    assert list(tmp_path.rglob("stolen.json")) == []
