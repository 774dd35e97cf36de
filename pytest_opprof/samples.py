"""What one process timed of a window: the raw samples that times are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Run:
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


def without_noise(run: Run) -> Run:
    """Return *run* without what tells how noisy it was: all of its rounds count."""
    return replace(run, wait_ns=(), yardstick_ns=(), disturbed=())
