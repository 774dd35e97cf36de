"""What is asked of the machine; what it answers is made up here."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.machine import load as machine_load
from pytest_opprof.machine.allocator import keep_memory
from pytest_opprof.machine.cpu_core import Core, yardstick_ns
from pytest_opprof.machine.load import Usage, Watch, usage, waited_ns
from pytest_opprof.machine.threads import threads_limited

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


def task(folder: Path, thread: int, schedstat: str) -> None:
    (folder / str(thread)).mkdir()
    (folder / str(thread) / "schedstat").write_text(schedstat)


def test_what_every_thread_waited_is_added_up(tmp_path: Path) -> None:
    task(tmp_path, 7, "9000 120 33\n")
    task(tmp_path, 8, "9000 30 33\n")
    assert waited_ns(tmp_path) == 150


def test_a_thread_that_ended_or_tells_nothing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "6").mkdir()
    task(tmp_path, 7, "")
    assert waited_ns(tmp_path) is None
    task(tmp_path, 8, "9000 30 33\n")
    assert waited_ns(tmp_path) == 30


def test_where_nothing_tells_nobody_is_said_to_have_waited(tmp_path: Path) -> None:
    assert waited_ns(tmp_path / "nowhere") is None


@linux
def test_what_was_waited_for_never_becomes_less() -> None:
    before, after = waited_ns(), waited_ns()
    assert before is None or (after is not None and after >= before >= 0)


def test_the_yardstick_is_the_best_of_its_tries() -> None:
    clock = iter([0, 90, 100, 170, 200, 295])
    assert yardstick_ns(lambda: next(clock)) == 70
    assert next(clock, None) is None


class Work:
    """A fixed piece of work that takes so many ns, one after the other, and each time as long by the clock."""

    def __init__(self, *took_ns: int, seconds_each: float) -> None:
        self.now_s = 0.0
        self._left_ns = list(took_ns)
        self._seconds_each = seconds_each

    def __call__(self) -> int:
        self.now_s += self._seconds_each
        return self._left_ns.pop(0)

    def core(self, *known: float) -> Core:
        return Core(*known, clock_s=lambda: self.now_s, work_ns=self)


def test_a_round_waits_until_the_core_is_as_fast_as_ever() -> None:
    work = Work(100, 116, 180, 114, 80, 93, 91, seconds_each=0.001)
    core = work.core()
    assert [core.yardstick_ns() for _ in range(4)] == [100, 114, 80, 91]


def test_a_process_may_know_from_another_how_fast_the_core_can_be() -> None:
    work = Work(180, 170, 114, seconds_each=0.001)
    assert work.core(100).yardstick_ns() == 114


def test_nobody_waits_who_knows_nothing_faster() -> None:
    work = Work(180, 170, seconds_each=9.0)
    core = work.core()
    assert [core.yardstick_ns(), core.yardstick_ns()] == [180, 170]


def test_patience_is_two_seconds_and_a_share_of_the_time_in_all() -> None:
    work = Work(100, *[200] * 100, seconds_each=0.25)
    core = work.core()
    core.yardstick_ns()
    assert core.yardstick_ns() == 200
    assert work.now_s == 2.25
    core.yardstick_ns()
    assert work.now_s == 2.5  # a look, but no wait
    work.now_s += 10
    core.yardstick_ns()
    assert work.now_s == 14.5


def test_a_process_that_only_measures_again_has_more_patience() -> None:
    work = Work(*[200] * 100, seconds_each=0.25)
    assert work.core(100, 10).yardstick_ns() == 200
    assert work.now_s == 10.0


@pytest.mark.parametrize(("times", "waits_s"), [(1, 4.25), (5, 12.25), (8, 12.25)])
def test_where_much_depends_on_it_a_process_waits_longer_but_not_for_ever(times: int, waits_s: float) -> None:
    work = Work(100, *[200] * 100, seconds_each=0.25)
    core = work.core()
    core.yardstick_ns()
    for _ in range(times):
        core.insist()
    core.yardstick_ns()
    assert work.now_s == waits_s


TOUCH = """
import resource, sys
from pytest_opprof.machine.allocator import keep_memory
def touch():
    for size in (2**20, 2**23):
        bytearray(b"x") * size
if sys.argv[1] == "keep":
    keep_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
[touch() for _ in range(10)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
@pytest.mark.processes
def test_memory_that_was_freed_is_kept() -> None:
    """In processes of their own: what this one did before would matter."""
    faults = [
        int(subprocess.run([sys.executable, "-c", TOUCH, how], check=True, capture_output=True).stdout)
        for how in ("as is", "keep")
    ]
    assert faults[0] > 1_000 > 100 > faults[1]


@pytest.mark.parametrize("library", [TypeError, OSError, lambda name: object()])
def test_where_memory_cannot_be_kept_nothing_happens(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    def load(name: None) -> object:
        if isinstance(library, type):
            raise library
        return library(name)

    monkeypatch.setattr("ctypes.CDLL", load)
    keep_memory()


def test_threads_are_limited_inside_and_as_before_afterwards() -> None:
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    before = [pool["num_threads"] for pool in threadpool_info()]
    assert before
    with pytest.raises(ZeroDivisionError):
        with threads_limited(1):
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
            raise ZeroDivisionError
    assert [pool["num_threads"] for pool in threadpool_info()] == before


class Machine:
    """A made up /proc on a machine of two cores: seconds of CPU by process."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.own_s = 0.0
        self.by_process: dict[tuple[int, str], float] = {}

    def usage(self) -> Usage:
        busy = self.own_s + sum(self.by_process.values())
        return Usage(self.at_s, busy, self.own_s, dict(self.by_process))

    def watch(self) -> Watch:
        return Watch(self.usage, cores=2, is_ours=lambda pid: pid == 99)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_machine_is_busy_when_others_use_a_quarter_of_its_cores(machine: Machine) -> None:
    machine.by_process = {(7, "make"): 100.0}
    watch = machine.watch()
    machine.at_s, machine.own_s, machine.by_process = 10.0, 20.0, {(7, "make"): 105.0}
    assert watch.busy() == ""
    machine.by_process = {(7, "make"): 105.1}
    assert watch.busy() == "other processes used 0.5 of 2 cores: make (pid 7) 0.5 cores"


def test_those_that_used_most_are_named_the_first_three_of_them(machine: Machine) -> None:
    machine.by_process = {(1, "init"): 5_000.0}
    watch = machine.watch()
    machine.at_s = 10.0
    machine.by_process |= {(2, "a b"): 4.0, (3, "cc"): 6.0, (4, "idle"): 0.1, (5, "ld"): 2.0, (6, "sh"): 1.0}
    said = "cc (pid 3) 0.6 cores, a b (pid 2) 0.4 cores, ld (pid 5) 0.2 cores"
    assert watch.busy() == f"other processes used 1.3 of 2 cores: {said}"


def test_many_processes_of_one_name_are_one_disturbance(machine: Machine) -> None:
    watch = machine.watch()
    machine.at_s, machine.by_process = 10.0, {(number, "cc"): 0.4 for number in range(50)}
    assert watch.busy() == "other processes used 2.0 of 2 cores: cc (pid 49 and 49 more) 2.0 cores"


def test_who_used_little_each_is_not_named(machine: Machine) -> None:
    watch = machine.watch()
    machine.at_s, machine.by_process = 10.0, {(number, f"cc{number}"): 0.4 for number in range(50)}
    assert watch.busy() == "other processes used 2.0 of 2 cores"


def test_processes_of_this_run_that_still_live_are_not_others(machine: Machine) -> None:
    watch = machine.watch()
    machine.at_s, machine.by_process = 10.0, {(99, "python"): 9.0, (7, "make"): 1.0}
    assert watch.busy() == ""
    machine.by_process[7, "make"] = 9.0
    assert watch.busy() == "other processes used 0.9 of 2 cores: make (pid 7) 0.9 cores"


def test_a_machine_that_tells_nothing_is_not_busy(machine: Machine) -> None:
    assert machine.watch().busy() == ""  # no time passed
    looks = iter([machine.usage(), None, None, machine.usage()])
    assert [Watch(lambda: next(looks)).busy() for _ in range(2)] == ["", ""]


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for /proc."""
    monkeypatch.setattr(machine_load, "_PROC", tmp_path)
    monkeypatch.setattr(machine_load, "_ticks", lambda: 100)
    return tmp_path


def stat(folder: Path, name: str, user: int, system: int) -> None:
    folder.mkdir()
    (folder / "stat").write_text(f"{folder.name} ({name}) S 1 2 3 4 5 6 7 8 9 10 {user} {system} 0 0 20 0 1\n")


def test_idle_time_and_time_that_the_host_took_are_nobodys(proc: Path) -> None:
    (proc / "stat").write_text("cpu  100 20 30 9999 8888 4 6 7777 0 0\ncpu0 1 1 1 1 1 1 1 1\n")
    found = usage()
    assert found is not None
    assert found.busy_s == 1.6
    assert found.own_s >= 0


def test_other_processes_are_seen_whatever_they_are_called(proc: Path) -> None:
    (proc / "stat").write_text("cpu  1 1 1 1 1 1 1 1 0 0\n")
    stat(proc / "41", "tmux: (server) S 1", 150, 50)
    stat(proc / str(os.getpid()), "me", 999, 999)
    (proc / "42").mkdir()  # ended meanwhile
    (proc / "43").mkdir()
    (proc / "43" / "stat").write_text("43 (zombie) Z\n")
    (proc / "self").mkdir()
    found = usage()
    assert found is not None
    assert found.by_process == {(41, "tmux: (server) S 1"): 2.0}


@pytest.mark.parametrize("text", [None, "", "cpu  x y z\n", "cpu  1 2 3\n"])
def test_a_proc_that_is_not_there_or_another_ones_tells_nothing(proc: Path, text: str | None) -> None:
    if text is not None:
        (proc / "stat").write_text(text)
    assert usage() is None


@linux
def test_this_machine_tells_how_busy_it_is() -> None:
    found = usage()
    assert found is not None
    assert found.by_process
    said = Watch().busy()  # once: a tick of the clock may fall into one look and not into the next
    assert said == "" or "other processes used" in said


def status(proc: Path, pid: int, parent: int, name: str = "python", group: int | None = None) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(f"Name:\t{name}\nTgid:\t{group or pid}\nPPid:\t{parent}\n")


def test_of_this_run_is_what_its_first_process_started_and_no_other(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status(proc, 1, 0, "init")
    status(proc, 10, 1, "sh")
    status(proc, 20, 10)  # pytest
    status(proc, 21, 20)
    status(proc, 22, 21, group=21)  # a thread
    status(proc, 30, 10)
    status(proc, os.getpid(), 20)
    monkeypatch.delenv(machine_load.RUN, raising=False)
    assert [pid for pid in (1, 10, 20, 21, 22, 30, 40, os.getpid()) if machine_load.is_of_this_run(pid)] == [
        os.getpid()
    ]
    monkeypatch.setenv(machine_load.RUN, "20")
    ours = [20, 21, 22, os.getpid()]
    assert [pid for pid in (1, 10, 20, 21, 22, 30, 40, os.getpid()) if machine_load.is_of_this_run(pid)] == ours


def test_a_process_is_named_where_it_can_be_seen(proc: Path) -> None:
    status(proc, 20, 1, "pt_main_thread")
    assert machine_load.named(20) == "process 20 (pt_main_thread)"
    assert machine_load.named(21) == "process 21"
