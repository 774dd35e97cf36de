"""What one process timed of a window: the raw samples that times are judged by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .environment import Environment

if TYPE_CHECKING:
    from .op_profile import OpProfile

OUTSIDE = "(outside ops)"
"""In place of an op: what a round takes on a CPU beside its ops."""


def run_of(profile: OpProfile, threads: int = 0, wall: bool = True) -> ProcessTimes | None:
    """Return what *profile* timed; None where it has no times, or none of work that was done (`disturbed`).

    On a CPU the whole (if *wall*) is the wall time of a round, and what ops do not take of it is `OUTSIDE`;
    on an accelerator, which works while the host goes on, it is the time of its ops, and how busy the host was says
    nothing about it.
    """
    ops = {stats.op: stats.device_ns for stats in profile.ops if stats.device_ns is not None}
    total = profile.total.device_ns  # also of an op some of whose calls have no time
    has_wall = wall and profile.environment.device == "cpu" and min(profile.host_ns) >= 0
    if total is None or not (profile.ops or has_wall):
        return None
    if profile.disturbed and works_on_host(profile.environment):
        return None
    if has_wall:
        ops[OUTSIDE] = tuple(max(whole - inside, 0) for whole, inside in zip(profile.host_ns, total))
        total = profile.host_ns
    if not works_on_host(profile.environment):
        return ProcessTimes(total, ops, threads=threads, disturbed=profile.disturbed)
    return ProcessTimes(total, ops, profile.wait_ns, profile.yardstick_ns, threads)


def works_on_host(environment: Environment) -> bool:
    """Tell whether times depend on what else the host does: not those of an accelerator."""
    return environment.device == "cpu"


def disturbances(runs: Iterable[ProcessTimes]) -> str:
    """Return in words what disturbed any of the processes."""
    return "; ".join(dict.fromkeys(what for run in runs for what in run.disturbed))


def incomparable(runs: Sequence[ProcessTimes]) -> str:
    """Return why the runs cannot be compared with each other: the first is what the others should be like."""
    for what in ("rounds", "threads"):
        values = list(dict.fromkeys(getattr(run, what) for run in runs))
        if len(values) > 1:
            return f"{what} differ: {values[0] or 'all'} before, {values[1] or 'all'} now"
    return ""


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """The rounds of one window in one process; times in ns, one a round.

    The process is the unit of judging, not the round: two processes of the same code differ by 1.5 % (median) to 9 %
    (q95) in their fastest round, however many rounds they have.
    """

    total_ns: tuple[int, ...]
    """The whole round: wall time on a CPU, the sum of its ops on an accelerator."""
    ops_ns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Self time of each op."""
    wait_ns: tuple[int, ...] = ()
    """How long threads of ours were ready to run and had no CPU; empty where the system does not tell."""
    yardstick_ns: tuple[int, ...] = ()
    """A fixed piece of work before each round: what the core can do at the time; empty where not measured."""
    threads: int = 0
    """How many threads an op may use; 0: as many as it likes."""
    disturbed: tuple[str, ...] = ()
    """Why its times are not those of the code alone, in words: a GPU was throttled, or shared. Not in baselines."""

    @property
    def rounds(self) -> int:
        """How many there are."""
        return len(self.total_ns)

    def clean(self, share: float, yardstick_ns: float = math.inf) -> set[int]:
        """Return the rounds that had the core to themselves.

        Not those that waited for a CPU more than *share* of their time, nor those before or after which the fixed
        piece of work took more than *yardstick_ns*.
        """
        waited = {i for i, (ns, wait) in enumerate(zip(self.total_ns, self.wait_ns)) if wait > share * ns}
        slow = {i for i, ns in enumerate(self.yardstick_ns) if ns > yardstick_ns}
        return {*range(self.rounds)} - waited - slow - {i - 1 for i in slow}


def without_noise(run: ProcessTimes) -> ProcessTimes:
    """Return *run* without what tells how noisy it was: all of its rounds count."""
    return replace(run, wait_ns=(), yardstick_ns=(), disturbed=())
