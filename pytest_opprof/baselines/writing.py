"""The folder ``.opprof`` among the baselines: the lock of the run that writes them, and files that are not whole yet.

It lies among them because everybody who writes the same files sees the same folder there, also from containers, jobs
and build sandboxes with a temporary folder of their own. Git ignores it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import BaselineError, UsageError
from ..machine.atomic_write import UNFINISHED
from . import paths

PATIENCE_S = 60
"""How long to wait for another run that writes baselines; it takes milliseconds."""
_FOLDER, _LOCK = ".opprof", "lock"
_ROOM = 1 << 16
"""Bytes that have to fit on the disk before tests are measured for minutes; a module has some kilobytes."""


@contextmanager
def writing(root: Path, patience_s: float = PATIENCE_S) -> Iterator[Path]:
    """Let one process at a time read, change and write the files below *root*; yield where unfinished files lie.

    Raises BaselineError.
    """
    # Imported here: only a run that writes needs it.
    from filelock import FileLock, Timeout

    folder = root / _FOLDER
    try:
        _make(folder)
        # Who may write baselines may lock them: of several users of a group, too.
        lock = FileLock(folder / _LOCK, timeout=patience_s, mode=root.stat().st_mode & 0o666)
        lock.acquire()
    except Timeout:
        since = f"for {patience_s:.0f} s (it holds {folder / _LOCK})"
        raise BaselineError(f"{root}: another run has been writing baselines {since}; none were written") from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise BaselineError(f"{folder / _LOCK}: cannot be locked: {why}; no baselines were written") from None
    try:
        for left in folder.glob(f".*{UNFINISHED}"):  # of a run that was killed: who holds the lock writes alone
            left.unlink(missing_ok=True)
        yield folder
    finally:
        lock.release()


def _make(folder: Path) -> None:
    """Make the folder, which git ignores, unless it is there. Raises OSError."""
    if folder.is_symlink():  # it may come with a repository, and lead to files that are no business of ours
        raise OSError("the folder is a link; remove it")
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copymode(folder.parent, folder)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def check_writable(root: Path) -> None:
    """Raise UsageError where no baselines could be written below *root*; leaves nothing behind."""
    there = next(each for each in (root, *root.absolute().parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=there) as file:  # which has no name, where the system can do that
            file.write(bytes(_ROOM))
    except OSError as error:
        raise UsageError(_cannot(there, error.strerror or str(error))) from None
    for folder in {path.parent for path in paths.files(root)}:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(_cannot(folder, "you may not write there, or the disk is mounted read-only"))


def _cannot(folder: Path, why: str) -> str:
    return (
        f"--opprof-update: no baselines can be written to {folder}: {why}. Nothing was measured; make room or give"
        " yourself the right to write, or name another folder with --opprof-baselines=DIR"
    )


def check_inside(root: Path, path: Path) -> None:
    """Raise BaselineError for a file in a folder that a link leads to from below *root* to a place outside of it."""
    real = os.path.realpath(path.parent)
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise BaselineError(
            f"{path}: a link leads to {real}, outside of {root}, so nothing was changed there. Remove the link, or"
            " work on that folder itself"
        )
