from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_opprof.machine.git import commit

pytestmark = pytest.mark.processes


def test_the_commit_says_whether_files_were_changed_and_outside_of_git_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit(tmp_path) == ""

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    git("init", "--quiet")
    assert commit(tmp_path) == "", "no commit yet"
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "--quiet", "--message=one")
    assert re.fullmatch("[0-9a-f]{12}", commit(tmp_path))
    (tmp_path / "a").write_text("2")
    assert re.fullmatch("[0-9a-f]{12}-dirty", commit(tmp_path))
