"""Under what conditions times are taken: whether threads wait for a CPU, what the machine can do, who else uses it."""

from __future__ import annotations

import ctypes
import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, perf_counter_ns

_PROC = Path("/proc")
_TASKS = _PROC / "self" / "task"
_YARDSTICK_BYTES, _YARDSTICK_TRIES = 4096, 3
YARDSTICK = 1.15
"""A core that takes 15 % longer for a fixed piece of work than it does at best is shared, or a slower one. In quiet it
takes 3 % longer; where it took 23 % longer, ops took up to twice as long."""
PATIENCE_S, PATIENCE = 2.0, 0.2
"""How long a process may wait in all for a core to itself: so long, and that share of its time. Under a load of 40 % of
one core of two, ten unchanged tests took 4.6 s on average; without patience 38 s, since most were measured again."""
LOOKING_PATIENCE_S = 10.0
"""The first of these for a process that only measures again: another one costs as much where it imports PyTorch."""
INSISTING_S, MOST_INSISTING_S = 2.0, 10.0
"""How much longer a process may wait where a test looks slower, each time and in all: a fresh process costs more."""
RUN = "OPPROF_RUN"
"""In the environment of what a run of pytest starts, the number of the process that is that run: the fresh processes,
workers and sides below it hold contexts on the same GPU, and take turns."""
BUSY = 0.25
"""Share of a machine's cores in use by others from which times recorded on it are no baseline: a busy loop on one of
two cores made unchanged code up to 14 % slower."""


def waited_ns() -> int | None:
    """Return how long this process's threads were ready to run without getting a CPU; None where nothing tells.

    Linux, second field of schedstat, ns. 15 us for the first thread and 7 for each further one.
    """
    try:
        threads = os.listdir(_TASKS)
    except OSError:
        return None
    waits = [wait for thread in threads if (wait := _waited_ns(thread)) is not None]
    return sum(waits) if waits else None


def _waited_ns(thread: str) -> int | None:
    try:
        with open(f"{_TASKS}/{thread}/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None  # the thread has ended, or the kernel keeps no statistics


def yardstick_ns() -> int:
    """Return how long a fixed piece of work takes now, at best: the SHA-3 of 4 KiB, about 10 us.

    SHA-3 keeps all units of a core busy. Where the other hardware thread of the core belongs to somebody else, ops take
    1.6 times as long for 50 ms to seconds at a time, and nothing in /proc tells. This takes 1.4 to 1.8 times as long
    then, and 1.03 times in quiet; SHA-256, one long chain of instructions, took 1.04 times in both.
    """
    return min(_timed(_DATA) for _ in range(_YARDSTICK_TRIES))


def _timed(data: bytes) -> int:
    begin = perf_counter_ns()
    hashlib.sha3_256(data).digest()
    return perf_counter_ns() - begin


_DATA = bytes(_YARDSTICK_BYTES)


class Core:
    """The core that this process runs on: how fast it is at its best, and patience until it is so again."""

    def __init__(self, best_ns: float = math.inf, patience_s: float = PATIENCE_S) -> None:
        """*best_ns*: how long the fixed piece of work took at best in another process, where that is known."""
        self.best_ns = best_ns
        self._patience_s = patience_s
        self._insisting_s = MOST_INSISTING_S
        self._begin_s = monotonic()
        self._waited_s = 0.0

    def insist(self) -> None:
        """Be patient for longer: much depends on the rounds that come."""
        more_s = min(INSISTING_S, self._insisting_s)
        self._insisting_s -= more_s
        self._patience_s += more_s

    def yardstick_ns(self) -> int:
        """Return how long the fixed piece of work takes, once that is as long as ever, or patience is at an end."""
        begin_s, ns = monotonic(), yardstick_ns()
        patience_s = self._patience_s + PATIENCE * (begin_s - self._begin_s) - self._waited_s
        # Not asleep: caches and clock would have to recover.
        while ns > YARDSTICK * self.best_ns and monotonic() - begin_s < patience_s:
            ns = yardstick_ns()
        self._waited_s += monotonic() - begin_s
        self.best_ns = min(self.best_ns, ns)
        return ns


def keep_memory() -> None:
    """Let this process keep the memory that arrays of up to 32 MiB used, where the C library is glibc.

    By default it gives such memory back and asks for it again, each page at 2 us, until a larger array was freed: a
    test of 1.4 ms took 2.2 ms alone, with 370 page faults a round, and none after tests of larger arrays.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return  # another C library, or Windows
    mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)  # the most that it takes
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    # Pages that were never touched are new to the first test that gets them, also in a later round: three arrays of
    # 256 KiB were, in half the processes that ran a test alone, and it took twice as long.
    touched = [bytearray(b"x") * _TOUCHED_BYTES for _ in range(2)]
    touched.clear()


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""From malloc.h."""
_TOUCHED_BYTES = 31 * 2**20


@contextmanager
def threads_limited(threads: int) -> Iterator[None]:
    """Let BLAS and OpenMP use so many threads: two that share a core wait for each other, up to 130 times as long."""
    # Imported here: only tests whose times are judged need it.
    from threadpoolctl import threadpool_limits

    with threadpool_limits(threads):
        yield


@dataclass(frozen=True, slots=True)
class _Usage:
    at_s: float
    busy_s: float
    """CPU time of all processes of the machine."""
    own_s: float
    """That of this process and its children that have ended."""
    by_process: dict[tuple[int, str], float]


class Watch:
    """Looks who else uses the machine, from when it is made on."""

    def __init__(self) -> None:
        self._begin = _usage()

    def busy(self) -> str:
        """Say what used the machine beside this process and its children; empty if little did, or nothing tells."""
        begin, end = self._begin, _usage()
        if begin is None or end is None or end.at_s <= begin.at_s:
            return ""
        passed = end.at_s - begin.at_s
        others = (end.busy_s - begin.busy_s - (end.own_s - begin.own_s)) / passed
        cores = os.cpu_count() or 1
        if others <= BUSY * cores:
            return ""
        # By its number alone: a thread of the kernel changes its name with its work.
        before = {pid: s for (pid, _), s in begin.by_process.items()}
        used = {who: (s - before.get(who[0], 0.0)) / passed for who, s in end.by_process.items()}
        worst = sorted(used.items(), key=lambda item: -item[1])[:3]
        named = [f"{name} (process {pid}) {share:.1f}" for (pid, name), share in worst if share > 0.05]
        return f"other processes used {others:.1f} of {cores} cores" + (f": {', '.join(named)}" if named else "")


def _usage() -> _Usage | None:
    try:
        line = (_PROC / "stat").read_text(encoding="ascii").partition("\n")[0]
        user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, line.split()[1:9])
    except (OSError, ValueError):
        return None
    own = os.times()
    return _Usage(
        monotonic(),
        (user + nice + system + irq + softirq) / _ticks(),
        own.user + own.system + own.children_user + own.children_system,
        dict(_others()),
    )


def _others() -> Iterator[tuple[tuple[int, str], float]]:
    """Yield the CPU time of every other process that can be seen."""
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                name, _, rest = (entry / "stat").read_text(errors="replace").partition(" (")[2].rpartition(") ")
            except OSError:
                continue  # it has ended
            fields = rest.split()
            if len(fields) > 12:
                yield (int(entry.name), name), (int(fields[11]) + int(fields[12])) / _ticks()


def is_of_this_run(pid: int) -> bool:
    """Tell whether a process, or the one that a thread is of, is this one or belongs to the same run of pytest."""
    ours, status = {str(os.getpid()), os.environ.get(RUN, "")}, _status(pid)
    while status:
        if status.get("Tgid") in ours:
            return True
        status = _status(status.get("PPid", 0))
    return False


def named(pid: int) -> str:
    """Return how to speak of a process: with its name, where that can be seen."""
    name = _status(pid).get("Name")
    return f"process {pid} ({name})" if name else f"process {pid}"


def _status(pid: int | str) -> dict[str, str]:
    """Return what the system says of a process or thread; nothing of one that is not there, or not to be seen."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@cache
def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")
