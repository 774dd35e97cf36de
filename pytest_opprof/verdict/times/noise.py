"""Detect noise: count the undisturbed processes, and explain a missing verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...machine.cpu_core import YARDSTICK
from ...profile.timings import ProcessTimes, disturbances
from ..tolerances import CLEAN_ROUNDS, CLEAN_SHARE, STEADY, STORED
from .repeats import LEAST_TIMED_PROCESSES


def clean_processes(runs: Sequence[ProcessTimes], yardstick_ns: float | None = None) -> int:
    """Return the number of processes with enough clean rounds, by their own best yardstick if none is given."""
    yardstick_ns = yardstick_limit_ns(runs) if yardstick_ns is None else yardstick_ns
    return sum(is_clean(run, yardstick_ns) for run in runs)


def is_steady(runs: Sequence[ProcessTimes]) -> bool:
    """Return True if the fastest processes took about the same time; the best of them is then the code's true time."""
    fastest = sorted(min(run.total_ns) for run in runs)[:LEAST_TIMED_PROCESSES] or [0]
    return fastest[-1] - fastest[0] <= max(STEADY * fastest[0], STORED.floor_ns)


def is_clean(run: ProcessTimes, yardstick_ns: float) -> bool:
    """Return True if a process had enough clean rounds: an unshared core and no other disturbance."""
    return not run.disturbed and len(run.clean(CLEAN_SHARE, yardstick_ns)) >= CLEAN_ROUNDS * run.rounds


def yardstick_limit_ns(runs: Iterable[ProcessTimes]) -> float:
    """Return the longest allowed yardstick time before a clean round, in ns; infinite without a yardstick."""
    return YARDSTICK * min((ns for run in runs for ns in run.yardstick_ns), default=math.inf)


def why_noisy(runs: Sequence[ProcessTimes], clean: int, yardstick_ns: float) -> str:
    """Return why so few processes are *clean*: the number of rounds that waited, and of rounds on a slow core."""
    rounds = sum(run.rounds for run in runs)
    seen = {
        "waited for a CPU": rounds - sum(len(run.clean(CLEAN_SHARE)) for run in runs),
        f"had a core {YARDSTICK - 1:.0%} slower than at its best, by a fixed piece of work": sum(
            ns > yardstick_ns for run in runs for ns in run.yardstick_ns
        ),
    }
    said = ", ".join(f"{count} {what}" for what, count in seen.items() if count)
    processes = f"{clean or 'no'} process{'es' * (clean > 1)}"
    needed = math.ceil(CLEAN_ROUNDS * runs[0].rounds)  # all have as many
    few = f"{processes} of {len(runs)} had {needed} clean rounds"
    return "; ".join(filter(None, [disturbances(runs), f"{few}: of {rounds} rounds {said}" if said else few]))
