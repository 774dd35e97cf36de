"""Find the commit for ``--opprof-against``: a revision, a merge base, or the one that CI names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..machine.git import git, top_of

AUTO = "auto"
_FLAG = "--opprof-against"
_DEFAULT_BRANCHES = ("main", "master")


@dataclass(frozen=True, slots=True)
class Base:
    """The commit to compare with."""

    commit: str
    """Its full name."""
    how: str
    """The way it was found: ``merge base with main``, ``HEAD~1``."""
    name: str
    """Its name in findings: ``HEAD~1``, ``the base``."""
    date: str
    subject: str
    is_the_working_tree: bool
    """Whether no tracked file differs from it, so that both sides are the same."""

    def __str__(self) -> str:
        return f"{self.commit[:10]} ({self.how}; {self.date}, {self.subject!r})"


def base_of(folder: Path, revision: str, environment: Mapping[str, str] = os.environ) -> Base:
    """Return the commit that *revision* means in the repository of *folder*.

    ``A...`` is the merge base of A and HEAD, as in ``git diff A...``; ``auto`` is the base that GitHub or GitLab name
    in *environment*, elsewhere the merge base with the remote's default branch.

    Raises UsageError, with the command that fetches it, if a shallow clone lacks the commit.
    """
    repository, name = _Repository(folder), "the base"
    if revision == AUTO:
        commit, how = repository.automatic(environment)
    elif "..." in revision:
        branch, _, other = revision.partition("...")
        if other not in ("", "HEAD") or not branch:
            raise UsageError(f"{_FLAG}: {revision!r}: write BRANCH..., the merge base of BRANCH and HEAD")
        commit, how = repository.merge_base(branch)
    else:
        commit, how, name = repository.commit(revision), revision, revision
    date, _, subject = repository.git("show", "-s", "--format=%cs%x00%s", commit).partition("\0")
    return Base(commit, how, name, date, subject, not repository.differs_from(commit))


def messages(folder: Path, base: Base) -> Iterator[tuple[str, str]]:
    """Yield the commits that HEAD has and *base* lacks, each with its message."""
    for each in git(folder, _FLAG, "log", "--format=%H%x00%B%x1e", f"{base.commit}..HEAD").split("\x1e"):
        commit, has_message, message = each.strip().partition("\0")
        if has_message:
            yield commit, message


class _Repository:
    def __init__(self, folder: Path) -> None:
        self.top = top_of(folder, _FLAG)

    def git(self, *arguments: str) -> str:
        return git(self.top, _FLAG, *arguments).strip()

    def found(self, revision: str) -> str:
        """Return the commit of *revision*, empty if there is none."""
        try:
            return self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except UsageError:
            return ""

    def commit(self, revision: str) -> str:
        if commit := self.found(revision):
            return commit
        fetch = f"; this clone is shallow: {self.fetches()} may bring it" if self.is_shallow else ""
        raise UsageError(
            f"{_FLAG}: {revision!r} is not a revision of {self.top};"
            f" name a commit, a branch or a tag that was fetched{fetch}"
        )

    def automatic(self, environment: Mapping[str, str]) -> tuple[str, str]:
        """Return the base that CI names, and the way it was found."""
        if branch := environment.get("GITHUB_BASE_REF"):
            # actions/checkout checks out a merge of a pull request into its base: the first parent is that base.
            if environment.get("GITHUB_SHA") == self.found("HEAD") and self.is_merge("HEAD"):
                if parent := self.found("HEAD^1"):
                    return parent, f"{branch}, which the pull request is merged into"
                raise UsageError(
                    f"{_FLAG}=auto: this clone is shallow and lacks the first parent of the merge commit:"
                    " git fetch --deepen=1 brings it (or fetch-depth: 2 for actions/checkout)"
                )
            return self.merge_base(branch)
        if sha := environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"):
            if commit := self.found(sha):
                return commit, "the base of the merge request"
            raise UsageError(
                f"{_FLAG}=auto: this clone lacks {sha[:10]}, the base of the merge request:"
                f" git fetch origin {sha} brings it (or GIT_DEPTH: 0)"
            )
        commit, how = self.merge_base(self.default_branch())
        if not self.differs_from(commit) and (parent := self.found("HEAD^1")):
            # A push to the default branch: HEAD against itself would compare nothing.
            return parent, "the commit before HEAD, which is on the default branch"
        return commit, how

    def differs_from(self, commit: str) -> bool:
        return bool(self.git("diff", "--name-only", commit, "--"))

    def is_merge(self, revision: str) -> bool:
        # The commit itself names its parents, also ones that a shallow clone lacks.
        lines = self.git("cat-file", "-p", revision).partition("\n\n")[0].splitlines()
        return sum(line.startswith("parent ") for line in lines) > 1

    def default_branch(self) -> str:
        remotes = self.git("remote").split()
        remote = "origin" if "origin" in remotes or not remotes else remotes[0]
        try:
            return self.git("symbolic-ref", "--short", f"refs/remotes/{remote}/HEAD")
        except UsageError:
            pass  # a clone made by `git init` and `git fetch`, as in CI, does not know it
        names = [*(f"{remote}/{name}" for name in _DEFAULT_BRANCHES), *_DEFAULT_BRANCHES]
        if branch := next(filter(self.found, names), ""):
            return branch
        raise UsageError(
            f"{_FLAG}=auto: the default branch is unknown; name it, such as {_FLAG}=develop..., or let git find"
            f" it: git remote set-head {remote} --auto"
        )

    def merge_base(self, branch: str) -> tuple[str, str]:
        """Return the merge base of HEAD and *branch*, and the way it was found."""
        if not self.found(branch):
            # CI fetches no branch but its own; the others exist only as remote branches.
            branch = f"origin/{branch}" if self.found(f"origin/{branch}") else branch
        if not self.found(branch) and self.is_shallow:
            raise UsageError(f"{_FLAG}: this clone is shallow and lacks {branch}: {self.fetches(branch)} brings it")
        commit = self.commit(branch)
        try:
            return self.git("merge-base", commit, "HEAD").split()[0], f"merge base with {branch}"
        except (UsageError, IndexError):
            lacks = f"has no commit in common with HEAD in {self.top}"
            if self.is_shallow:
                raise UsageError(
                    f"{_FLAG}: this clone is shallow and lacks the merge base of HEAD and {branch}:"
                    f" {self.fetches(branch)} brings it"
                ) from None
            raise UsageError(f"{_FLAG}: {branch} {lacks}; name a commit that HEAD comes from") from None

    @property
    def is_shallow(self) -> bool:
        return self.git("rev-parse", "--is-shallow-repository") == "true"

    def fetches(self, branch: str = "") -> str:
        """Return the command that fetches all commits, and *branch*, which a shallow clone does not follow."""
        name = branch.removeprefix("origin/")
        return f"git fetch --unshallow origin{f' +refs/heads/{name}:refs/remotes/origin/{name}' if name else ''}"
