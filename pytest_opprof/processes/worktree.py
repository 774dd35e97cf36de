"""Another revision of the repository, checked out beside it for as long as it is needed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..machine.git import git

_NAME = re.compile(r"opprof-(\d+)-")
_TREE = "tree"


@dataclass(frozen=True, slots=True)
class Worktree:
    """A revision and where its files are."""

    commit: str
    top: Path
    """The working tree of the repository."""
    path: Path
    """The same place in the other revision."""

    def twin(self, path: Path) -> Path:
        """Return where *path* of the working tree is in the other revision."""
        return self.path / path.resolve().relative_to(self.top)

    def has(self, path: Path) -> bool:
        """Tell whether the other revision has *path*; what is not in the working tree is the same for both."""
        path = path.resolve()
        return (self.twin(path) if path.is_relative_to(self.top) else path).exists()

    def word(self, word: str) -> str:
        """Return a *word* of a command with the paths of the working tree as those of the other revision.

        A path begins a word or a value in it (``--option=PATH``, ``-cPATH``, ``a=PATH PATH``), and goes on with a whole
        part: ``/x/main-config`` is not in ``/x/main``.
        """
        begins, ends = r"(?:(?<![^\s=:,'\"])|(?<=^-\w))", r"(?=$|[/\\:,'\"]|\s+['\"]?[-/])"
        return re.sub(begins + re.escape(str(self.top)) + ends, lambda _: str(self.path), word)


@contextmanager
def worktree(folder: Path, commit: str) -> Iterator[Worktree]:
    """Check out *commit* of the repository that *folder* is in, and remove it in the end, whatever happens."""
    top = Path(_git(folder, "rev-parse", "--show-toplevel")).resolve()
    _sweep(top)
    # The process in the name tells what a run left behind that was killed.
    try:
        place = Path(tempfile.mkdtemp(prefix=f"opprof-{os.getpid()}-")).resolve()
    except OSError as error:
        raise UsageError(f"--opprof-against: no folder for the revision: {error.strerror or error}") from None
    try:
        _git(top, "worktree", "add", "--detach", "--force", str(place / _TREE), commit)
        yield Worktree(commit, top, place / _TREE)
    finally:
        _remove(top, place)


def _remove(top: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    _git(top, "worktree", "prune")


def _sweep(top: Path) -> None:
    """Remove what runs left that were killed."""
    for line in _git(top, "worktree", "list", "--porcelain").splitlines():
        path = Path(line.removeprefix("worktree "))
        match = _NAME.match(path.parent.name)
        if line.startswith("worktree ") and path.name == _TREE and match and not _is_running(int(match[1])):
            _remove(top, path.parent)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _git(folder: Path, *arguments: str) -> str:
    return git(folder, "--opprof-against", *arguments).strip()
