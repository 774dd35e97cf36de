"""Git, as an installed program: one command, and the contents of many objects by one process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

from ..errors import UsageError

# Set inside a git hook, these would select another repository.
_OF_HOOKS = frozenset(["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"])


def git(folder: Path, what: str, *arguments: str) -> str:
    """Return git's output for *arguments* in *folder*; *what* names its purpose in the error.

    Raises UsageError, with git's own words, if it fails or is not installed.
    """
    command = ["git", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, env=_environment(), capture_output=True, encoding="utf-8", errors="replace"
        )
    except FileNotFoundError:
        raise _not_installed(folder, what) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        # The next lines are advice on commands that the user did not type.
        fatal = next((line.removeprefix("fatal: ") for line in said if line.startswith("fatal: ")), said[-1])
        name = next((each for each in arguments if not each.startswith("-") and "=" not in each), "")
        raise UsageError(f"{what}: git {name} in {folder} failed: {fatal}")
    return done.stdout


def commit(folder: Path) -> str:
    """Return the commit checked out in *folder*, -dirty if files were changed; empty outside of a working tree."""
    try:
        return git(folder, "the commit", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").strip()
    except UsageError:
        return ""  # no repository, no commit yet, or no git: a run needs none of them


def contents(folder: Path, what: str, objects: Iterable[str]) -> Iterator[bytes]:
    """Yield the content of each of the *objects* (their full names), in their order, from one process.

    Raises UsageError for a missing one, with *what* needs it.
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
            raise _not_installed(folder, what) from None
        with process:
            assert process.stdout is not None
            try:
                for line in iter(process.stdout.readline, b""):
                    name, _, *size = line.decode().split()
                    if not size:
                        raise UsageError(f"{what}: the repository has no object {name}; git fetch may bring it")
                    yield process.stdout.read(int(size[0]))
                    process.stdout.read(1)  # the newline after it
            finally:
                process.kill()  # it may have unread output


def _environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    return {**environment, "LC_ALL": "C"}  # its words are read


def _not_installed(folder: Path, what: str) -> UsageError:
    return UsageError(
        f"{what} needs git, which is not installed" if folder.is_dir() else f"there is no folder {folder}"
    )
