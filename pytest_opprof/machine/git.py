"""Git, as an installed program: one command, and the contents of many objects by one process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryFile

from ..errors import UsageError

# Set inside a git hook, these would select another repository.
_OF_HOOKS = frozenset(["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"])


def git(folder: Path, purpose: str, *arguments: str) -> str:
    """Return git's output for *arguments* in *folder*; *purpose* names its use in the error.

    Raises UsageError, with git's own words, if it fails or is not installed.
    """
    command = ["git", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, env=_environment(), capture_output=True, encoding="utf-8", errors="replace"
        )
    except FileNotFoundError:
        raise _not_installed(folder, purpose) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        # The next lines are advice on commands that the user did not type.
        fatal = next((line.removeprefix("fatal: ") for line in said if line.startswith("fatal: ")), said[-1])
        name = next((each for each in arguments if not each.startswith("-") and "=" not in each), "")
        raise UsageError(f"{purpose}: git {name} in {folder} failed: {fatal}")
    return done.stdout


def commit(folder: Path) -> str:
    """Return the commit checked out in *folder*, -dirty if files were changed; empty outside of a working tree."""
    try:
        return git(folder, "the commit", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").strip()
    except UsageError:
        return ""  # no repository, no commit yet, or no git: a run needs none of them


def top_of(folder: Path, purpose: str) -> Path:
    """Return the working tree that *folder* is in. Raises UsageError, naming the *purpose*."""
    return Path(git(folder, purpose, "rev-parse", "--show-toplevel").strip()).resolve()


def changed_files(top: Path, purpose: str, commit: str) -> set[Path]:
    """Return the files of the working tree at *top* that differ or that *commit* lacks, but ignored ones.

    Raises UsageError, naming the *purpose*.
    """
    names = git(top, purpose, "diff", "--name-only", "-z", commit, "--").split("\0")
    names += git(top, purpose, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return {top / name for name in names if name}


def commit_of(file: Path, purpose: str) -> str:
    """Return the commit that last changed a *file*; if the file differs from it, the one checked out when the file was
    written.

    Empty if git knows neither, and outside of a working tree. Raises UsageError, naming the *purpose*.
    """
    if not any((folder / ".git").exists() for folder in file.resolve().parents):
        return ""  # without a process
    found = git(file.parent, purpose, "log", "-1", "--diff-filter=AMT", "--format=%H", "--", file.name).strip()
    if found and not git(file.parent, purpose, "diff", "--name-only", found, "--", file.name):
        return found
    # git's log of checkouts has seconds: a script that writes the file and checks out another commit does so in one.
    written = datetime.fromtimestamp(file.stat().st_mtime - 1, timezone.utc).isoformat(timespec="seconds")
    try:
        return git(file.parent, purpose, "rev-parse", "--verify", "--quiet", f"HEAD@{{{written}}}").strip()
    except UsageError:
        return ""  # a clone without a log of its checkouts


def contents(folder: Path, purpose: str, objects: Iterable[str]) -> Iterator[bytes]:
    """Yield the content of each of the *objects* (their full names), in their order, from one process.

    Raises UsageError for a missing one, naming the *purpose*.
    """
    # A file, not a pipe, because all names are written before the first answer is read.
    with TemporaryFile() as asked:
        asked.write("".join(f"{name}\n" for name in objects).encode())
        asked.seek(0)
        command = ["git", "cat-file", "--batch", "--buffer"]
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=_environment(), stdin=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except FileNotFoundError:
            raise _not_installed(folder, purpose) from None
        with process:
            assert process.stdout is not None
            try:
                for line in iter(process.stdout.readline, b""):
                    name, _, size = line.decode(errors="replace").strip().rpartition(" ")
                    if size == "missing":
                        raise UsageError(f"{purpose}: the repository has no object {name}; git fetch may bring it")
                    yield process.stdout.read(int(size))
                    process.stdout.read(1)  # the newline after it
            finally:
                process.kill()  # it may have unread output


def _environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    # Its words are read; it asks nobody, and takes no lock to refresh the index.
    return {**environment, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def _not_installed(folder: Path, purpose: str) -> UsageError:
    return UsageError(
        f"{purpose} needs git, which is not installed" if folder.is_dir() else f"there is no folder {folder}"
    )
