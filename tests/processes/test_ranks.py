"""What ranks tell each other over files. Over torchrun's store: tests/pytest_plugin/test_ranks_torchrun.py."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.machine.load import is_running, started_at
from pytest_opprof.machine.ranks import Rank
from pytest_opprof.processes import ranks as processes_ranks
from pytest_opprof.processes.ranks import Ranks, launch_of

SLURM = {"SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0"}


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHELASTIC_USE_AGENT_STORE", "PMIX_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


def ranks(folder: Path, size: int = 2) -> list[Ranks]:
    return [Ranks(Rank(rank, size, "test", size), folder / "run.json") for rank in range(size)]


def test_each_rank_gets_what_all_of_them_tell(tmp_path: Path) -> None:
    every = ranks(tmp_path, 3)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda each: each.gather("calls", {"Copy": each.rank.rank}), every))
    assert found == [[{"Copy": 0}, {"Copy": 1}, {"Copy": 2}]] * 3


def test_nothing_is_left_when_all_have_ended(tmp_path: Path) -> None:
    every = ranks(tmp_path)
    for each in every:
        each.hello()
        each.end()
    for each in every:
        each.close()
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_ended_before_is_named(tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    second.hello()
    second.end()
    with pytest.raises(BackendError, match=r"^rank 1 ended without it"):
        first.gather("calls", 1)


def test_a_rank_that_does_not_come_is_named_with_where_it_is(tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    second.is_at("test_a.py::test_b", is_over=False)
    with pytest.raises(BackendError, match=r"^rank 1 did not come within 0 s \(in test_a.py::test_b\)"):
        first.gather("calls", 1, patience_s=0.05)


@pytest.mark.processes
def test_a_rank_that_died_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes_ranks, "_ALIVE_S", 0)
    first, second = ranks(tmp_path)
    second.is_at("test_a.py::test_b", is_over=True)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    second._put("hello", {"pid": dead.pid, "host": platform.node()})
    with pytest.raises(BackendError, match=r"^rank 1 has died: after test_a.py::test_b"):
        first.gather("calls", 1)
    second._put("hello", {"pid": dead.pid, "host": "elsewhere"})
    assert first.dead() == []  # that cannot be seen


def test_a_rank_that_hangs_where_this_one_failed_is_named(tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    second.is_at("t::a", is_over=False)
    first.is_at("t::a", is_over=True)
    assert first.stuck({"t::a": None}, grace_s=0) == ["rank 1 has not ended: in t::a"]
    second.is_at("t::a", is_over=True)
    assert first.stuck({"t::a": None}, grace_s=0) == []


def test_what_a_killed_rank_left_behind_is_not_of_this_launch(tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    second.tell("calls", "old")
    again = ranks(tmp_path)[1]
    again.hello()
    with pytest.raises(BackendError, match="rank 1 did not come"):
        first.gather("calls", 1, patience_s=0.05)


def test_ranks_of_several_hosts_need_a_folder_that_all_of_them_see() -> None:
    with pytest.raises(
        BackendError, match="4 ranks, 2 of them on this host, share no folder: name a file in a shared folder"
    ):
        Ranks(Rank(0, 4, "test", 2)).hello()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match="ranks cannot write there"):
        Ranks(Rank(0, 2, "test", 2), tmp_path / "file" / "run.json").hello()


def test_a_launch_has_the_name_that_its_launcher_gives_it() -> None:
    assert launch_of({"PMIX_NAMESPACE": "prterun-vm-1@1", **SLURM}) == "prterun-vm-1@1"
    assert launch_of(SLURM) == "9-0"
    assert launch_of({}).endswith(f"-{os.getppid()}-{started_at(os.getppid())}")


@pytest.mark.processes
def test_a_process_runs_until_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert is_running(process.pid)
        process.kill()
        process.wait()
    assert not is_running(process.pid)
