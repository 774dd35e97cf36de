"""Other users of the machine: the time that this process's threads waited for a CPU, and the processes that took it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, sleep

_PROC = Path("/proc")
_TASKS = _PROC / "self" / "task"
# In the environment of processes that a pytest run starts, the number of that run's process: the fresh processes,
# workers and sides below it hold contexts on the same GPU, and take turns.
RUN = "OPPROF_RUN"
# The share of a machine's cores used by others from which on recorded times are no baseline: a busy loop on one of two
# cores made unchanged code up to 14 % slower.
BUSY = 0.25

# The longest wait of an update for a quiet machine: a build beside it is often over by then.
QUIET_PATIENCE_S = 60


def waited_ns(tasks: Path = _TASKS) -> int | None:
    """Return the time that this process's threads were ready to run without a CPU; None if unknown.

    Linux, second field of schedstat of each thread, ns. 15 us for the first thread and 7 for each further one.
    """
    try:
        threads = os.listdir(tasks)
    except OSError:
        return None
    waits = [wait for thread in threads if (wait := _waited_ns(tasks, thread)) is not None]
    return sum(waits) if waits else None


def _waited_ns(tasks: Path, thread: str) -> int | None:
    try:
        with open(f"{tasks}/{thread}/schedstat", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return None  # the thread has ended, or the kernel keeps no statistics


@dataclass(frozen=True, slots=True)
class Usage:
    """The CPU time used so far."""

    at_s: float
    busy_s: float
    """CPU time of all processes of the machine."""
    own_s: float
    """That of this process and its ended children."""
    by_process: dict[tuple[int, str], float]


def usage() -> Usage | None:
    """Return the CPU time used so far; None if unknown."""
    try:
        line = (_PROC / "stat").read_text(encoding="ascii").partition("\n")[0]
        user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, line.split()[1:9])
    except (OSError, ValueError):
        return None
    own = os.times()
    return Usage(
        monotonic(),
        (user + nice + system + irq + softirq) / _ticks(),
        own.user + own.system + own.children_user + own.children_system,
        dict(_others()),
    )


def _others() -> Iterator[tuple[tuple[int, str], float]]:
    """Yield the CPU time of every other visible process."""
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                name, _, rest = (entry / "stat").read_text(errors="replace").partition(" (")[2].rpartition(") ")
            except OSError:
                continue  # it has ended
            fields = rest.split()
            if len(fields) > 12:
                yield (int(entry.name), name), (int(fields[11]) + int(fields[12])) / _ticks()


class Watch:
    """Watches other users of the machine, from its creation on."""

    def __init__(
        self,
        look: Callable[[], Usage | None] = usage,
        cores: int | None = None,
        is_ours: Callable[[int], bool] | None = None,
    ) -> None:
        """*is_ours* returns whether a process belongs to this run."""
        self._look = look
        self._is_ours = is_ours or is_of_this_run
        self._cores = cores or os.cpu_count() or 1
        self._begin = look()

    def busy(self) -> str:
        """Return the users of the machine beside this process and its children; empty if they used little, or are
        unknown.
        """
        begin, end = self._begin, self._look()
        if begin is None or end is None or end.at_s <= begin.at_s:
            return ""
        passed = end.at_s - begin.at_s
        others = (end.busy_s - begin.busy_s - (end.own_s - begin.own_s)) / passed
        if others <= BUSY * self._cores:
            return ""
        # By its number alone, because a thread of the kernel changes its name with its work.
        before = {pid: s for (pid, _), s in begin.by_process.items()}
        used = {who: (s - before.get(who[0], 0.0)) / passed for who, s in end.by_process.items()}
        # Living processes of this run are not in any sum of ended children.
        ours = {who for who, share in used.items() if share > _SHOWN and self._is_ours(who[0])}
        others -= sum(used[who] for who in ours)
        if others <= BUSY * self._cores:
            return ""
        named = _named({who: share for who, share in used.items() if who not in ours})
        return f"other processes used {others:.1f} of {self._cores} cores" + (f": {', '.join(named)}" if named else "")


def quiet_again(patience_s: float = QUIET_PATIENCE_S, watch: Callable[[], Watch] = Watch) -> bool:
    """Wait until nobody else uses the machine; return whether it became quiet in time."""
    began_s = monotonic()
    while True:
        look = watch()
        sleep(min(_LOOK_S, patience_s))
        if not look.busy():
            return True
        if monotonic() - began_s >= patience_s:
            return False


_LOOK_S = 1.0
# Processes that used less of a core are not named.
_SHOWN = 0.05


def _named(used: Mapping[tuple[int, str], float]) -> list[str]:
    """Return the largest users, added up by name: seven of 0.1 cores are one disturbance."""
    by_name: dict[str, list[tuple[float, int]]] = {}
    for (pid, name), share in used.items():
        if share > 0:
            by_name.setdefault(name, []).append((share, pid))
    worst = sorted(((sum(share for share, _ in each), name) for name, each in by_name.items()), reverse=True)[:3]
    found = []
    for cores, name in worst:
        if cores <= _SHOWN:
            continue
        pids = [pid for _, pid in sorted(by_name[name], reverse=True)]
        more = f" and {len(pids) - 1} more" if len(pids) > 1 else ""
        found.append(f"{name} (pid {pids[0]}{more}) {cores:.1f} cores")
    return found


def is_of_this_run(pid: int) -> bool:
    """Return True if a process, or a thread's process, is this one or belongs to the same run of pytest."""
    if pid == os.getpid():
        return True
    ours, status = {str(os.getpid()), os.environ.get(RUN, "")}, _status(pid)
    while status:
        if status.get("Tgid") in ours:
            return True
        status = _status(status.get("PPid", 0))
    return False


def is_running(pid: int) -> bool:
    """Return True if a process runs: an ended one that nobody has waited for does not."""
    if _PROC.joinpath("self/status").exists():
        return _status(pid).get("State", "X")[:1] not in "ZX"
    try:
        if os.name == "posix":  # elsewhere this would end the process
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user
    return True


def started_at(pid: int) -> str:
    """Return the start time of a process in the system's ticks, since process numbers recur. Empty if unknown."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return ""


def named(pid: int) -> str:
    """Return a process in words: with its name, if visible."""
    name = _status(pid).get("Name")
    return f"process {pid} ({name})" if name else f"process {pid}"


def _status(pid: int | str) -> dict[str, str]:
    """Return the system's status of a process or thread; empty if it is gone or invisible."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@cache
def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")
