"""The times of a window in one process: the raw samples by which times are judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .environment import Environment

if TYPE_CHECKING:
    from .op_profile import OpProfile

# In place of an op: the CPU time of a round outside its ops.
OUTSIDE = "(outside ops)"


def run_of(profile: OpProfile, threads: int = 0, wall: bool = True) -> ProcessTimes | None:
    """Return the times of *profile*; None if it has none, or none of finished work (`disturbed`).

    On a CPU the whole (if *wall*) is the wall time of a round, and its part outside ops is `OUTSIDE`; on an
    accelerator, which works while the host goes on, it is the time of its ops, and the host's load does not matter.
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
    """Return True if times depend on other work of the host, as an accelerator's do not."""
    return environment.device == "cpu"


def disturbances(runs: Iterable[ProcessTimes]) -> str:
    """Return in words the disturbances of any of the processes."""
    return "; ".join(dict.fromkeys(what for run in runs for what in run.disturbed))


def incomparable(runs: Sequence[ProcessTimes]) -> str:
    """Return why the runs cannot be compared with each other; the first is the reference."""
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
    """The time that the process's threads were ready to run and had no CPU; empty if the system does not tell."""
    yardstick_ns: tuple[int, ...] = ()
    """A fixed piece of work before each round, which shows the speed of the core; empty if not measured."""
    threads: int = 0
    """The number of threads for an op; 0: no limit."""
    disturbed: tuple[str, ...] = ()
    """Other influences on its times, in words: a GPU was throttled, or shared. Not in baselines."""

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.total_ns)

    def clean(self, share: float, yardstick_ns: float = math.inf) -> set[int]:
        """Return the rounds that had the core to themselves.

        A round is not clean if it waited for a CPU more than *share* of its time, or if the fixed piece of work before
        or after it took more than *yardstick_ns*.
        """
        waited = {i for i, (ns, wait) in enumerate(zip(self.total_ns, self.wait_ns)) if wait > share * ns}
        slow = {i for i, ns in enumerate(self.yardstick_ns) if ns > yardstick_ns}
        return {*range(self.rounds)} - waited - slow - {i - 1 for i in slow}


def without_noise(run: ProcessTimes) -> ProcessTimes:
    """Return *run* without its noise data, so that all of its rounds count."""
    return replace(run, wait_ns=(), yardstick_ns=(), disturbed=())
