"""Temporary folders that are deleted with their process, at the latest when the next process makes one.

SIGKILL, and SIGTERM as a rule, end a process before it can remove anything. A process number does not show whether the
process lives: containers number theirs alike, and numbers recur. Each folder therefore has a file that its process
holds locked as long as it lives, which the system guarantees; a folder whose lock is free is removed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing is swept there
    fcntl = None  # type: ignore[assignment]

_PREFIX, _LOCK, _FILES = "opprof-", "lock", "files"


@contextmanager
def scratch(name: str = "") -> Iterator[Path]:
    """Make an empty folder, and remove it in the end. Raises OSError."""
    folder, lock = _made(name)
    try:
        yield folder / _FILES
    finally:
        _remove(folder, lock)


def lasting(name: str) -> Path:
    """Return an empty folder that is removed when this process ends, not when a fork of it does. Raises OSError."""
    process = os.getpid()
    folder, lock = _made(name)

    def remove() -> None:
        if os.getpid() == process:
            _remove(folder, lock)

    atexit.register(remove)
    return folder / _FILES


def _made(name: str) -> tuple[Path, int | None]:
    place = tempfile.gettempdir()
    _sweep(place)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{name}", dir=place)).resolve()
    (folder / _FILES).mkdir()
    return folder, _locked(folder)


def _locked(folder: Path) -> int | None:
    """Return the file that holds the lock of a new folder; None if the system has no such locks."""
    if fcntl is None:
        return None
    unlocked = folder / f"{_LOCK}-new"
    lock = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(folder / _LOCK)  # only now: a process that finds it unlocked takes this one for dead
    except OSError:  # a file system without locks: its leftovers stay
        os.close(lock)
        return None
    return lock


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder / _FILES, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)  # the lock last: without it nobody would continue
    if lock is not None:
        os.close(lock)


@cache
def _sweep(place: str) -> None:
    """Remove the folders of processes that are dead; once in a process."""
    if fcntl is None:
        return
    try:
        with os.scandir(place) as entries:
            found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    except OSError:
        return
    for folder in found:
        remove_left(folder)


def remove_left(folder: Path) -> None:
    """Remove a folder, or the one that `scratch` yielded of it, if its process is dead; anything else stays."""
    folder = folder.parent if folder.name == _FILES else folder
    if fcntl and folder.name.startswith(_PREFIX) and (lock := _lock_of_the_dead(folder)) is not None:
        _remove(folder, lock)


def _lock_of_the_dead(folder: Path) -> int | None:
    """Return the lock of a folder that this user made and whose process is dead, else None."""
    lock = None
    try:
        about = os.lstat(folder)
        # mkdtemp makes folders that nobody else can change: no link can be put into one, or in its place in /tmp.
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    except OSError:  # it lives, or is no folder of opprof's
        if lock is not None:
            os.close(lock)
    return None
