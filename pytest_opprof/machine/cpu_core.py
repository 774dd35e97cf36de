"""The core that this process runs on: how fast it is now, and patience until it is as fast as it can be."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from time import monotonic, perf_counter_ns

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


def yardstick_ns(clock_ns: Callable[[], int] = perf_counter_ns) -> int:
    """Return how long a fixed piece of work takes now, at best: the SHA-3 of 4 KiB, about 10 us.

    SHA-3 keeps all units of a core busy. Where the other hardware thread of the core belongs to somebody else, ops take
    1.6 times as long for 50 ms to seconds at a time, and nothing in /proc tells. This takes 1.4 to 1.8 times as long
    then, and 1.03 times in quiet; SHA-256, one long chain of instructions, took 1.04 times in both.
    """
    return min(_timed(_DATA, clock_ns) for _ in range(_YARDSTICK_TRIES))


def _timed(data: bytes, clock_ns: Callable[[], int]) -> int:
    begin = clock_ns()
    hashlib.sha3_256(data).digest()
    return clock_ns() - begin


_DATA = bytes(_YARDSTICK_BYTES)


class Core:
    """The core that this process runs on: how fast it is at its best, and patience until it is so again."""

    def __init__(
        self,
        best_ns: float = math.inf,
        patience_s: float = PATIENCE_S,
        clock_s: Callable[[], float] = monotonic,
        work_ns: Callable[[], int] = yardstick_ns,
    ) -> None:
        """*best_ns*: how long the fixed piece of work took at best in another process, where that is known.

        *work_ns* does that work and returns how long it took.
        """
        self.best_ns = best_ns
        self._patience_s = patience_s
        self._insisting_s = MOST_INSISTING_S
        self._clock_s = clock_s
        self._work_ns = work_ns
        self._begin_s = clock_s()
        self._waited_s = 0.0

    def insist(self) -> None:
        """Be patient for longer: much depends on the rounds that come."""
        more_s = min(INSISTING_S, self._insisting_s)
        self._insisting_s -= more_s
        self._patience_s += more_s

    def yardstick_ns(self) -> int:
        """Return how long the fixed piece of work takes, once that is as long as ever, or patience is at an end."""
        begin_s, ns = self._clock_s(), self._work_ns()
        patience_s = self._patience_s + PATIENCE * (begin_s - self._begin_s) - self._waited_s
        # Not asleep: caches and clock would have to recover.
        while ns > YARDSTICK * self.best_ns and self._clock_s() - begin_s < patience_s:
            ns = self._work_ns()
        self._waited_s += self._clock_s() - begin_s
        self.best_ns = min(self.best_ns, ns)
        return ns
