"""Profiles of several ranks are read in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from pytest_opprof.cli import main, reading
from pytest_opprof.errors import TraceError
from pytest_opprof.readers import formats
from pytest_opprof.readers.shared.place import Place

from ..conftest import HERE

pytestmark = pytest.mark.processes
RANKS = HERE / "data" / "torch-ranks"
AS_IT_IS = (False, False, None)


def found_in(folder: Path) -> list[formats.Found]:
    return formats.find(Place(folder, lambda size: None))


def test_they_are_the_profiles_that_this_process_reads() -> None:
    found = found_in(RANKS)
    assert reading.read_in_parallel(found, AS_IT_IS) == [formats.read(each) for each in found]


def test_a_command_reads_them_so_where_they_are_large(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["show", str(RANKS), "--rank", "all", "--format", "json"]
    assert main.main(arguments) == 0
    in_turn = capsys.readouterr()
    monkeypatch.setattr(reading, "PARALLEL", 0)
    monkeypatch.setattr(reading, "usable_cores", lambda: 2)
    assert main.main(arguments) == 0
    assert capsys.readouterr() == in_turn


def test_one_that_is_damaged_is_the_error_that_it_is_alone(tmp_path: Path) -> None:
    for rank in (0, 1):
        whole = (RANKS / f"rank{rank}.pt.trace.json.gz").read_bytes()
        (tmp_path / f"{rank}.json.gz").write_bytes(whole if rank == 0 else whole[: len(whole) // 2])
    found = found_in(tmp_path)
    with pytest.raises(TraceError) as alone:
        formats.read(found[1])
    with pytest.raises(TraceError) as together:
        reading.read_in_parallel(found, AS_IT_IS)
    assert str(together.value) == str(alone.value)
    assert [saved.is_cut for saved in reading.read_in_parallel(found, (True, False, None))] == [False, True]


@pytest.fixture
def endless(tmp_path: Path) -> list[formats.Found]:
    """Two profiles; to read the first never ends."""
    if sys.platform == "win32":
        pytest.skip("there are no such files")
    os.mkfifo(tmp_path / "fifo")
    return [formats.Found("torch", Place(tmp_path / "fifo")), found_in(RANKS)[0]]


@contextmanager
def while_reading(endless: list[formats.Found], act: Callable[[], None]) -> Iterator[None]:
    """Do something as soon as a process reads the first."""
    is_over = Event()

    def wait() -> None:
        with endless[0].place.path.open("wb"):  # which waits for a reader
            act()
            is_over.wait()

    thread = Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_process_that_was_killed_is_said_with_what_to_do(endless: list[formats.Found]) -> None:
    with while_reading(endless, lambda: multiprocessing.active_children()[0].kill()):
        with pytest.raises(TraceError, match="a process that read one of these profiles was killed, perhaps for lack"):
            reading.read_in_parallel(endless, AS_IT_IS)
    assert multiprocessing.active_children() == []


def test_ctrl_c_ends_all_of_them(endless: list[formats.Found]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with while_reading(endless, lambda: os.kill(os.getpid(), signal.SIGINT)), pytest.raises(KeyboardInterrupt):
            reading.read_in_parallel(endless, AS_IT_IS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert multiprocessing.active_children() == []
