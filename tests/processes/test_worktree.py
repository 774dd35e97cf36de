from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.machine.scratch import scratch
from pytest_opprof.processes.base import base_of
from pytest_opprof.processes.worktree import Worktree, worktree

TREE = Worktree("0123", Path("/x/main"), Path("/tmp/tree"))


@pytest.mark.parametrize(
    ("word", "there"),
    [
        ("/x/main", "/tmp/tree"),
        ("/x/main/tests/test_a.py::test_b[/y]", "/tmp/tree/tests/test_a.py::test_b[/y]"),
        ("/x/main::test_a", "/tmp/tree::test_a"),
        ("--rootdir=/x/main", "--rootdir=/tmp/tree"),
        ("-c/x/main/pytest.ini", "-c/tmp/tree/pytest.ini"),
        ("pythonpath=/x/main/src /x/main /x/main/lib", "pythonpath=/tmp/tree/src /tmp/tree /tmp/tree/lib"),
        ("-opythonpath=/x/main/src", "-opythonpath=/tmp/tree/src"),
        ("addopts=--ignore '/x/main/a b' --pyargs", "addopts=--ignore '/tmp/tree/a b' --pyargs"),
        ("--paths=/x/main/a:/x/main/b,/x/main/c", "--paths=/tmp/tree/a:/tmp/tree/b,/tmp/tree/c"),
    ],
)
def test_a_word_has_the_paths_of_the_revision(word: str, there: str) -> None:
    assert TREE.word(word) == there


@pytest.mark.parametrize(
    "word",
    [
        "/x/main-config/y",
        "/x/main.bak/y",
        "/x/mainline",
        "/x/main copy/y",
        "--rootdir=/x/main-config",
        "/y/x/main/z",
        "../x/main",
        "x/main/test_a.py",
        "tests/test_a.py",
        "-k not /x/main-line",
        "--x/main",
    ],
)
def test_what_is_no_path_in_the_working_tree_stays(word: str) -> None:
    assert TREE.word(word) == word


class Repository:
    """A repository of two commits, "one" (a tag) and "two", with a folder, and a place for what is checked out."""

    def __init__(self, top: Path, places: Path) -> None:
        self.top, self.places = top, places
        self.git("init", "-q")
        (top / "sub").mkdir()
        for text in ("one", "two"):
            (top / "sub" / "model.py").write_text(text)
            (top / f"{text}.py").touch()
            self.git("add", "-A")
            self.git("commit", "-qm", text)
            self.git("tag", text)

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *arguments]
        return subprocess.run(command, cwd=self.top, check=True, capture_output=True, text=True).stdout.strip()

    def left(self) -> list[str]:
        """Return what there is beside the working tree: folders, and worktrees that git knows."""
        known = [
            line for line in self.git("worktree", "list", "--porcelain").splitlines() if line.startswith("worktree")
        ]
        return [*map(str, self.places.iterdir()), *known[1:]]

    def leave(self, name: str, tree: str = "tree") -> Path:
        """Make a worktree in a folder of that name, as somebody else may, and return the folder."""
        place = self.places / name
        place.mkdir()
        self.git("worktree", "add", "-q", "--detach", str(place / tree))
        return place


KILLED = """
import os, signal, sys, tempfile
from pathlib import Path
from pytest_opprof.processes.worktree import worktree
tempfile.tempdir = sys.argv[2]
with worktree(Path(sys.argv[1]), "one"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    top, places = tmp_path.resolve() / "top", tmp_path.resolve() / "places"
    top.mkdir()
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    return Repository(top, places)


@pytest.mark.processes
@pytest.mark.parametrize("revision", ["one", "HEAD~1", "@^", "refs/tags/one"])
def test_a_revision_is_checked_out_elsewhere_and_gone_afterwards(repository: Repository, revision: str) -> None:
    with worktree(repository.top, base_of(repository.top, revision).commit) as tree:
        assert tree.commit == repository.git("rev-parse", "one^{commit}")
        assert (tree.path / "sub" / "model.py").read_text() == "one"
        assert not tree.path.is_relative_to(repository.top)
    assert not tree.path.exists()
    assert repository.left() == []


@pytest.mark.processes
def test_it_is_gone_whatever_happens(repository: Repository) -> None:
    with pytest.raises(KeyboardInterrupt), worktree(repository.top, "one") as tree:
        (tree.path / "made.txt").touch()
        raise KeyboardInterrupt
    assert repository.left() == []


@pytest.mark.processes
def test_the_working_tree_stays_as_it_is(repository: Repository) -> None:
    (repository.top / "sub" / "model.py").write_text("not committed")
    (repository.top / "new.py").touch()
    before = repository.git("status", "--porcelain"), repository.git("rev-parse", "--abbrev-ref", "HEAD")
    with worktree(repository.top, "one"):
        assert (repository.top / "sub" / "model.py").read_text() == "not committed"
    assert (repository.git("status", "--porcelain"), repository.git("rev-parse", "--abbrev-ref", "HEAD")) == before


@pytest.mark.processes
def test_from_a_folder_of_the_repository_the_whole_of_it_is_checked_out(repository: Repository) -> None:
    with worktree(repository.top / "sub", "one") as tree:
        assert tree.top == repository.top
        assert (tree.path / "one.py").exists()


@pytest.mark.processes
def test_what_the_revision_has_is_told_by_its_place_there(repository: Repository) -> None:
    (repository.top / "one.py").unlink()
    with worktree(repository.top, "one") as tree:
        assert tree.twin(repository.top / "sub" / "model.py").read_text() == "one"
        assert [tree.has(repository.top / name) for name in ("one.py", "two.py", "sub")] == [True, False, True]
        elsewhere = repository.places / "elsewhere"
        assert [tree.has(elsewhere), elsewhere.touch(), tree.has(elsewhere)] == [False, None, True]


@pytest.mark.processes
def test_inside_of_a_git_hook_the_repository_is_that_of_the_folder(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    for name, value in (("GIT_DIR", other / ".git"), ("GIT_WORK_TREE", other), ("GIT_INDEX_FILE", other / "index")):
        monkeypatch.setenv(name, str(value))
    with worktree(repository.top, "one") as tree:
        assert (tree.top, (tree.path / "sub" / "model.py").read_text()) == (repository.top, "one")


@pytest.mark.processes
def test_where_no_folder_can_be_made_the_cause_is_said(repository: Repository) -> None:
    repository.places.rmdir()
    with pytest.raises(UsageError) as error, worktree(repository.top, "one"):
        pass
    assert str(error.value) == "--opprof-against: no folder for the revision: No such file or directory"


@pytest.mark.processes
def test_two_revisions_may_be_checked_out_at_once(repository: Repository) -> None:
    with worktree(repository.top, "one") as one, worktree(repository.top, "two") as two:
        assert [(each.path / "sub" / "model.py").read_text() for each in (one, two)] == ["one", "two"]
    assert repository.left() == []


@pytest.mark.processes
def test_what_a_run_left_that_was_killed_is_removed_and_nothing_else(repository: Repository) -> None:
    others = [repository.leave("opprof-123-abc"), repository.leave("mine")]
    kept = repository.left()
    subprocess.run([sys.executable, "-c", KILLED, str(repository.top), str(repository.places)])
    assert len(repository.left()) == len(kept) + 2  # a folder, and the worktree in it
    with worktree(repository.top, "one") as tree, scratch():
        assert all(place.exists() for place in others)
        assert tree.path.exists()  # of a run that goes on
    assert sorted(repository.left()) == sorted(kept)
