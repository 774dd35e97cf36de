"""The folder ``.opprof`` among the baselines: the lock of the writing run, and unfinished files.

It lies among them because all writers of the same files see the same folder there, also from containers, jobs and build
sandboxes with a temporary folder of their own. Git ignores it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import BaselineError, UsageError
from ...machine.atomic_write import UNFINISHED
from . import paths

# The longest wait for another run that writes baselines; writing takes milliseconds.
PATIENCE_S = 60
_FOLDER, _LOCK = ".opprof", "lock"
# Bytes that must fit on the disk before tests are measured for minutes; a module has some kilobytes.
_ROOM = 1 << 16


@contextmanager
def writing(root: Path, patience_s: float = PATIENCE_S) -> Iterator[Path]:
    """Let one process at a time read, change and write the files below *root*; yield the folder of unfinished files.

    Raises BaselineError.
    """
    # Imported here: only a run that writes needs it.
    from filelock import FileLock, Timeout

    folder = root / _FOLDER
    try:
        _make(folder)
        # Everyone who may write baselines may lock them, also several users of a group.
        lock = FileLock(folder / _LOCK, timeout=patience_s, mode=root.stat().st_mode & 0o666 | 0o600)
        lock.acquire()
    except Timeout:
        since = f"for {patience_s:.0f} s (it holds {folder / _LOCK})"
        raise BaselineError(f"{root}: another run is writing baselines {since}; none were written") from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise BaselineError(f"{folder / _LOCK}: cannot be locked: {why}; no baselines were written") from None
    try:
        for left in folder.glob(f".*{UNFINISHED}"):  # of a run that was killed: the lock's owner writes alone
            left.unlink(missing_ok=True)
        yield folder
    finally:
        lock.release()


def _make(folder: Path) -> None:
    """Make the folder, which git ignores, unless it exists. Raises OSError."""
    if folder.is_symlink():  # it may come with a repository, and lead to unrelated files
        raise OSError("the folder is a link; remove it")
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copymode(folder.parent, folder)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def check_writable(root: Path) -> None:
    """Raise UsageError if no baselines could be written below *root*; leaves nothing behind."""
    there = next(each for each in (root, *root.absolute().parents) if os.path.lexists(each))
    try:
        with tempfile.TemporaryFile(dir=there) as file:  # which has no name, if the system supports that
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
    """Raise BaselineError if a link leads from below *root* to a file in a folder outside of it."""
    real = os.path.realpath(path.parent)
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise BaselineError(
            f"{path}: a link leads to {real}, outside of {root}, so nothing was changed there. Remove the link, or"
            " work on that folder itself"
        )
