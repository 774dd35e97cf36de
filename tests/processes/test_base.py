"""The commit that a run is compared with, in real repositories and real shallow clones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.processes.base import base_of

pytestmark = pytest.mark.processes


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "protocol.file.allow=always"]
    return subprocess.run([*command, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / f"{text}.py").write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def forked(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Main has the commits "old", "fork" and "main"; HEAD is "work", which branched off at "fork"."""
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    commits = {name: commit(top, name) for name in ("old", "fork")}
    git(top, "checkout", "-qb", "work")
    commits["work"] = commit(top, "work")
    git(top, "checkout", "-q", "main")
    commits["main"] = commit(top, "main")
    git(top, "checkout", "-q", "work")
    return top, commits


def shallow(top: Path, branch: str, to: Path) -> Path:
    git(top.parent, "clone", "-q", "--depth=1", "--branch", branch, top.as_uri(), str(to))
    return to


@pytest.mark.parametrize("revision", ["main...", "main...HEAD", "refs/heads/main..."])
def test_three_dots_name_the_merge_base(forked: tuple[Path, dict[str, str]], revision: str) -> None:
    top, commits = forked
    base = base_of(top, revision, {})
    assert base.commit == commits["fork"]
    assert base.name == "the base"
    assert str(base).startswith(f"{commits['fork'][:10]} (merge base with {revision.partition('...')[0]}; 20")
    assert str(base).endswith(", 'fork')")


def test_a_revision_is_its_own_name(forked: tuple[Path, dict[str, str]]) -> None:
    top, commits = forked
    assert [base_of(top, name, {}).commit for name in ("main", "HEAD~2")] == [commits["main"], commits["old"]]
    assert base_of(top, "HEAD~2", {}).name == "HEAD~2"


def test_a_branch_that_only_the_remote_has_is_found_there(forked: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    top, commits = forked
    git(tmp_path, "clone", "-q", str(top), "clone")
    base = base_of(tmp_path / "clone", "main...", {})
    assert (base.commit, base.how) == (commits["fork"], "merge base with origin/main")


def test_auto_is_the_merge_base_with_the_default_branch(forked: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    top, commits = forked
    assert base_of(top, "auto", {}).commit == commits["fork"]
    git(top, "checkout", "-q", "main")
    git(tmp_path, "clone", "-q", str(top), "clone")
    clone = tmp_path / "clone"
    git(clone, "checkout", "-q", "work")
    assert base_of(clone, "auto", {}).how == "merge base with origin/main"


def test_auto_on_the_default_branch_is_head_where_files_changed_and_the_commit_before_where_not(
    forked: tuple[Path, dict[str, str]],
) -> None:
    top, commits = forked
    git(top, "checkout", "-q", "main")
    base = base_of(top, "auto", {})
    assert (base.commit, base.is_the_working_tree) == (commits["fork"], False)
    (top / "main.py").write_text("changed")
    assert base_of(top, "auto", {}).commit == commits["main"]


def test_auto_of_githubs_merge_commit_is_its_first_parent(forked: tuple[Path, dict[str, str]]) -> None:
    top, commits = forked
    git(top, "checkout", "-q", "--detach", "main")
    git(top, "merge", "-q", "--no-ff", "work", "-m", "Merge work into main")
    head = git(top, "rev-parse", "HEAD")
    base = base_of(top, "auto", {"GITHUB_BASE_REF": "main", "GITHUB_SHA": head})
    assert base.commit == commits["main"]
    # Who checks out the branch itself gets the merge base.
    git(top, "checkout", "-q", "work")
    assert base_of(top, "auto", {"GITHUB_BASE_REF": "main", "GITHUB_SHA": head}).commit == commits["fork"]


def test_auto_of_gitlab_is_the_base_of_the_merge_request(forked: tuple[Path, dict[str, str]]) -> None:
    top, commits = forked
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": commits["old"]}
    assert base_of(top, "auto", variables).commit == commits["old"]
    variables["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = "1" * 40
    with pytest.raises(UsageError, match=r"lacks 1111111111, .*: git fetch origin 1{40} brings it"):
        base_of(top, "auto", variables)


def test_the_command_for_a_shallow_clone_brings_the_merge_base(
    forked: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    top, commits = forked
    clone = shallow(top, "work", tmp_path / "clone")
    with pytest.raises(UsageError, match="this clone is shallow and lacks main") as error:
        base_of(clone, "main...", {})
    command = str(error.value).partition(": this clone is shallow and lacks main: ")[2].removesuffix(" brings it")
    git(clone, *command.split()[1:])
    assert base_of(clone, "main...", {}).commit == commits["fork"]


def test_the_command_for_a_shallow_merge_commit_brings_its_first_parent(
    forked: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    top, commits = forked
    git(top, "checkout", "-qb", "merge", "main")
    git(top, "merge", "-q", "--no-ff", "work", "-m", "Merge work into main")
    clone = shallow(top, "merge", tmp_path / "clone")
    variables = {"GITHUB_BASE_REF": "main", "GITHUB_SHA": git(clone, "rev-parse", "HEAD")}
    with pytest.raises(UsageError, match="lacks the first parent of the merge commit: git fetch --deepen=1 brings"):
        base_of(clone, "auto", variables)
    git(clone, "fetch", "-q", "--deepen=1")
    assert base_of(clone, "auto", variables).commit == commits["main"]


def test_branches_without_a_common_commit_are_an_error(forked: tuple[Path, dict[str, str]]) -> None:
    top, _ = forked
    git(top, "checkout", "-q", "--orphan", "other")
    commit(top, "other")
    with pytest.raises(UsageError, match="main has no commit in common with HEAD"):
        base_of(top, "main...", {})


@pytest.mark.parametrize("revision", ["three", "fork.py", "--help", "HEAD:fork.py", "three..."])
def test_a_name_that_is_no_commit_is_an_error(forked: tuple[Path, dict[str, str]], revision: str) -> None:
    top, _ = forked
    name = revision.removesuffix("...")
    with pytest.raises(UsageError) as error:
        base_of(top, revision, {})
    assert str(error.value) == (
        f"--opprof-against: {name!r} is not a revision of {top}; name a commit, a branch or a tag that was fetched"
    )


@pytest.mark.parametrize("revision", ["...", "...main", "main...work"])
def test_other_ranges_are_an_error(forked: tuple[Path, dict[str, str]], revision: str) -> None:
    with pytest.raises(UsageError, match=r"write BRANCH\.\.\., the merge base of BRANCH and HEAD"):
        base_of(forked[0], revision, {})


def test_without_a_default_branch_auto_says_how_to_name_one(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    commit(tmp_path, "one")
    with pytest.raises(UsageError, match=r"--opprof-against=auto: the default branch is unknown; name it"):
        base_of(tmp_path, "auto", {})


def test_outside_of_a_repository_the_words_of_git_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match=r"^--opprof-against: git rev-parse in .* failed: not a git repository"):
        base_of(tmp_path, "HEAD", {})
