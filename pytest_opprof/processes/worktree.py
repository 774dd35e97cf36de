"""Check out another revision of the repository beside it, for as long as it is needed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..machine.git import changed_files, git, top_of
from ..machine.scratch import remove_left, scratch

_TREE = "tree"
_FLAG = "--opprof-against"


@dataclass(frozen=True, slots=True)
class Worktree:
    """A revision and the place of its files."""

    commit: str
    top: Path
    """The working tree of the repository."""
    path: Path
    """The same place in the other revision."""

    def twin(self, path: Path) -> Path:
        """Return the place of *path* in the other revision."""
        return self.path / path.resolve().relative_to(self.top)

    def has(self, path: Path) -> bool:
        """Return True if the other revision has *path*; a path outside the working tree is the same for both."""
        path = path.resolve()
        return (self.twin(path) if path.is_relative_to(self.top) else path).exists()

    def changed_lines(self) -> dict[Path, int]:
        """Return the number of changed lines of each tracked file of the working tree that differs; not of binaries."""
        changed: dict[Path, int] = {}
        for line in _git(self.top, "diff", "--numstat", "-z", self.commit, "--").split("\0"):
            added, _, rest = line.partition("\t")
            removed, _, name = rest.partition("\t")
            if added.isdigit() and removed.isdigit():
                changed[self.top / name] = max(int(added), int(removed))
        return changed

    def changed_files(self) -> set[Path]:
        """Return the files of the working tree that differ or that the other revision lacks, but ignored ones."""
        return changed_files(self.top, _FLAG, self.commit)

    def lay_over(self, files: Iterable[Path]) -> None:
        """Copy *files* of the working tree over the other revision's."""
        for file in sorted(files):
            twin = self.twin(file)
            twin.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, twin)

    def restore(self, files: Collection[Path]) -> None:
        """Give the other revision its own *files* back."""
        if files:
            _git(self.path, "checkout", "--quiet", "--", *map(str, map(self.twin, files)))

    def word(self, word: str) -> str:
        """Return a *word* of a command with the paths of the working tree replaced by the other revision's.

        A path begins a word or a value in it (``--option=PATH``, ``-cPATH``, ``a=PATH PATH``), and continues with a
        whole part: ``/x/main-config`` is not in ``/x/main``.
        """
        begins, ends = r"(?:(?<![^\s=:,'\"])|(?<=^-\w))", r"(?=$|[/\\:,'\"]|\s+['\"]?[-/])"
        return re.sub(begins + re.escape(str(self.top)) + ends, lambda _: str(self.path), word)


@contextmanager
def worktree(folder: Path, commit: str) -> Iterator[Worktree]:
    """Check out *commit* of the repository that *folder* is in, and remove it in the end, whatever happens."""
    top = top_of(folder, _FLAG)
    with ExitStack() as stack:
        try:
            place = stack.enter_context(scratch("tree-"))
        except OSError as error:
            raise UsageError(f"--opprof-against: no folder for the revision: {error.strerror or error}") from None
        for line in _git(top, "worktree", "list", "--porcelain").splitlines():
            path = Path(line.removeprefix("worktree "))
            if line.startswith("worktree ") and path.name == _TREE:
                remove_left(path.parent)  # also in the temporary folder of another job
        # Git forgets worktrees whose folders are gone: those of killed runs, and in the end this one.
        _git(top, "worktree", "prune")
        stack.callback(_git, top, "worktree", "prune")
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        _git(top, "worktree", "add", "--detach", "--force", str(place / _TREE), commit)
        yield Worktree(commit, top, place / _TREE)


def _git(folder: Path, *arguments: str) -> str:
    return git(folder, _FLAG, *arguments).strip()
