from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.machine.git import commit, commit_of

from ..git_history import git

pytestmark = pytest.mark.processes


def test_the_commit_says_whether_files_were_changed_and_outside_of_git_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit(tmp_path) == ""

    git(tmp_path, "init", "--quiet")
    assert commit(tmp_path) == "", "no commit yet"
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--quiet", "--message=one")
    assert re.fullmatch("[0-9a-f]{12}", commit(tmp_path))
    (tmp_path / "a").write_text("2")
    assert re.fullmatch("[0-9a-f]{12}-dirty", commit(tmp_path))


def test_the_commit_of_a_file_is_the_last_that_changed_it_else_the_one_of_the_time_when_it_was_written(
    tmp_path: Path,
) -> None:
    file, at = tmp_path / "base.json", 1_700_000_000

    def committed(time_s: int) -> str:
        os.environ["GIT_COMMITTER_DATE"] = f"{time_s} +0000"
        try:
            git(tmp_path, "commit", "-qm", "some", "--allow-empty")
        finally:
            del os.environ["GIT_COMMITTER_DATE"]
        return git(tmp_path, "rev-parse", "HEAD").strip()

    git(tmp_path, "init", "-q")
    file.write_text("1")
    git(tmp_path, "add", "base.json")
    first = committed(at)
    second, third = committed(at + 100), committed(at + 200)
    assert commit_of(file, "it") == first
    file.write_text("2")
    for seconds, there in ((110, second), (200.9, second), (210, third), (50, first)):
        os.utime(file, (at + seconds, at + seconds))
        assert commit_of(file, "it") == there
    git(tmp_path, "rm", "-q", "--cached", "base.json")
    committed(at + 300)
    assert commit_of(file, "it") == first, "untracked"
    shutil.rmtree(tmp_path / ".git" / "logs")
    assert commit_of(file, "it") == "", "git kept no log of checkouts"


def test_outside_of_a_working_tree_a_file_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert commit_of(tmp_path / "a", "it") == ""
    (tmp_path / ".git").touch()
    with pytest.raises(UsageError, match=r"^it: git log in .* failed: invalid gitfile"):
        commit_of(tmp_path / "a", "it")
