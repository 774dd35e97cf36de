"""The commits that changed baselines, from git: two processes, however many commits there are.

`git log --raw` names the changed contents, `git cat-file --batch` prints them. A `git show` for each file takes a
hundred times as long, `git log -p` as long again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..machine.git import contents, git
from .files.paths import has_calls

_WHAT = "opprof history"
# The modes of files; others are links, submodules, and deleted files.
_FILES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of a file of calls in a commit."""

    path: PurePosixPath
    """Below the folder of baselines."""
    old: str
    """The git object before; empty if the file did not exist."""
    new: str
    """The git object now; empty if the file is gone."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that changed calls of baselines against its first parent."""

    name: str
    """Its hash."""
    time_s: int
    """The commit time, Unix time."""
    subject: str
    has_parents: bool
    """Within this repository: the oldest commit of a shallow clone has none."""
    files: tuple[FileChange, ...]

    @property
    def day(self) -> str:
        """The commit date in UTC."""
        return datetime.fromtimestamp(self.time_s, timezone.utc).strftime("%Y-%m-%d")


def commits(folder: Path) -> list[Commit]:
    """Return the commits up to HEAD that changed calls in *folder*, the oldest first. Raises UsageError.

    A merge counts with its changes of the target branch, because that is when they arrived there.
    """
    command = (
        *("-c", "log.showRoot=true", "-c", "log.diffMerges=separate", "-c", "log.showSignature=false"),
        *("log", "--reverse", "--first-parent", "-m", "--raw", "-z", "--no-abbrev", "--no-renames", "--relative"),
        *("--no-color", "--encoding=UTF-8", "--format=%H%x00%ct%x00%P%x00%s", "HEAD", "--"),
        *(".", ":(exclude)*.times.json", ":(exclude)*.sites.json"),
    )
    try:
        return list(parsed(git(folder, _WHAT, *command)))
    except UsageError as error:
        if str(error).endswith("bad revision 'HEAD'"):
            return []  # nothing was ever committed
        raise


def parsed(log: str) -> Iterator[Commit]:
    """Yield the commits in the output of `git log --raw -z`, except commits that changed no file of calls."""
    words = log.split("\0")
    at = 0
    while at + 4 <= len(words):
        name, time, parents, subject = words[at : at + 4]
        at += 4
        files = []
        while at + 1 < len(words) and words[at].lstrip("\n").startswith(":"):
            _, mode, old, new, _ = words[at].split()
            path = PurePosixPath(words[at + 1])
            at += 2
            # A file directly in the folder belongs to no environment.
            if len(path.parts) > 1 and has_calls(path):
                files.append(FileChange(path, old if old.strip("0") else "", new if mode in _FILES else ""))
        if files:
            yield Commit(name, int(time), subject, bool(parents), tuple(files))


def objects(folder: Path, names: Sequence[str]) -> Iterator[bytes]:
    """Yield git's content for each of the *names*, in their order. Raises UsageError."""
    return contents(folder, _WHAT, names)


def is_cut(found: Sequence[Commit], first: bytes) -> bool:
    """Return True if commits before the *found* ones are missing, in a shallow clone; *first* is the oldest commit
    object.

    Git hides the parents of the oldest commit that it has, but does not change its content.
    """
    head = first.partition(b"\n\n")[0]
    return bool(found) and not found[0].has_parents and b"\nparent " in head


def after(folder: Path, revision: str) -> frozenset[str]:
    """Return the commits after *revision*, on the path of `commits`. Raises UsageError."""
    try:
        git(folder, _WHAT, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except UsageError:
        raise UsageError(
            f"--since: {revision!r} is not a revision in the repository of {folder}; name a commit, a"
            " branch or a tag that was fetched"
        ) from None
    return frozenset(git(folder, _WHAT, "rev-list", "--first-parent", "--end-of-options", f"{revision}..HEAD").split())
