"""Temporary folders go with their process, and those of processes that were killed with the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_opprof.machine.scratch import scratch

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="has no locks that go with a process, so nothing is swept"),
    pytest.mark.processes,
]
MAKES = """
import os, sys
from pytest_opprof.machine.scratch import lasting, scratch
with scratch("some-") as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("x")
    (lasting("other-") / "file").touch()
    print("made", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@contextmanager
def running(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let a process make two folders, and wait."""
    command = [sys.executable, "-c", MAKES]
    environment = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        yield process
        process.kill()


def test_a_folder_is_empty_private_and_gone_afterwards(place: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch() as folder:
        assert list(folder.iterdir()) == []
        assert os.stat(folder.parent).st_mode & 0o077 == 0
        assert folder.is_relative_to(place)
        (folder / "file").touch()
        raise KeyboardInterrupt
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_process_left_goes_with_the_next_one(place: Path, by: signal.Signals) -> None:
    with running(place) as process:
        process.send_signal(by)
        process.wait()
    assert len(list(place.iterdir())) == 2
    with scratch() as folder:
        assert list(place.iterdir()) == [folder.parent]


def test_a_process_that_ends_leaves_nothing(place: Path) -> None:
    with running(place) as process:
        process.communicate()
    assert (process.returncode, list(place.iterdir())) == (0, [])


def test_the_folders_of_a_process_that_lives_stay(place: Path) -> None:
    with running(place), scratch():
        assert len(list(place.iterdir())) == 3


def test_a_fork_that_ends_removes_nothing(place: Path) -> None:
    forks = (
        "import os, sys; from pytest_opprof.machine.scratch import lasting; made = lasting('own-');"
        "sys.exit(0) if os.fork() == 0 else os.wait(); assert made.exists()"
    )
    subprocess.run([sys.executable, "-c", forks], env={**os.environ, "TMPDIR": str(place)}, check=True)
    assert list(place.iterdir()) == []


def test_what_is_not_ours_stays(place: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    (mine / "lock").touch()
    (place / "opprof-link").symlink_to(mine)
    (place / "opprof-file").touch()
    for name in ("opprof-without-lock", "opprof-open-to-others", "opprof-lock-is-a-link", "somebody's"):
        (place / name).mkdir(mode=0o755 if "open" in name else 0o700)
    for name in ("opprof-open-to-others", "somebody's"):
        (place / name / "lock").touch()
    (place / "opprof-lock-is-a-link" / "lock").symlink_to(mine / "lock")
    before = sorted(place.iterdir())
    with scratch():
        pass
    assert sorted(place.iterdir()) == before
    assert (mine / "lock").exists()


def test_what_another_user_made_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(place) as process:
        process.kill()
        process.wait()
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with scratch():
        pass
    assert len(list(place.iterdir())) == 2
