"""The core that this process runs on: its current speed, and patience until it is at its best."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from time import monotonic, perf_counter_ns

_YARDSTICK_BYTES, _YARDSTICK_TRIES = 4096, 3
# A core that takes 15 % longer for a fixed piece of work than at its best is shared, or a slower one. In quiet it takes
# 3 % longer; when it took 23 % longer, ops took up to twice as long.
YARDSTICK = 1.15
# The longest total wait of a process for a core to itself: this time, plus that share of its run time. Under a load of
# 40 % of one core of two, ten unchanged tests took 4.6 s on average; without patience 38 s, since most were measured
# again.
PATIENCE_S, PATIENCE = 2.0, 0.2
# The first of these for a process that only measures again: another process costs as much if it imports PyTorch.
LOOKING_PATIENCE_S = 10.0
# The additional wait of a process if a test looks slower, each time and in all: a fresh process costs more.
INSISTING_S, MOST_INSISTING_S = 2.0, 10.0


def yardstick_ns(clock_ns: Callable[[], int] = perf_counter_ns) -> int:
    """Return the time of a fixed piece of work now, at best: the SHA-3 of 4 KiB, about 10 us.

    SHA-3 keeps all units of a core busy. If another process has the other hardware thread of the core, ops take 1.6
    times as long for 50 ms to seconds at a time, and nothing in /proc shows it. This takes 1.4 to 1.8 times as long
    then, and 1.03 times in quiet; SHA-256, one long chain of instructions, took 1.04 times in both.
    """
    return min(_timed(_DATA, clock_ns) for _ in range(_YARDSTICK_TRIES))


def _timed(data: bytes, clock_ns: Callable[[], int]) -> int:
    begin = clock_ns()
    hashlib.sha3_256(data).digest()
    return clock_ns() - begin


_DATA = bytes(_YARDSTICK_BYTES)


class Core:
    """The core that this process runs on: its best speed, and patience until it returns to it."""

    def __init__(
        self,
        best_ns: float = math.inf,
        patience_s: float = PATIENCE_S,
        clock_s: Callable[[], float] = monotonic,
        work_ns: Callable[[], int] = yardstick_ns,
    ) -> None:
        """*best_ns*: the best time of the fixed piece of work in another process, if known.

        *work_ns* does that work and returns its time.
        """
        self.best_ns = best_ns
        self._patience_s = patience_s
        self._insisting_s = MOST_INSISTING_S
        self._clock_s = clock_s
        self._work_ns = work_ns
        self._begin_s = clock_s()
        self._waited_s = 0.0

    def insist(self) -> None:
        """Be patient for longer, because much depends on the next rounds."""
        more_s = min(INSISTING_S, self._insisting_s)
        self._insisting_s -= more_s
        self._patience_s += more_s

    def yardstick_ns(self) -> int:
        """Return the time of the fixed piece of work, once it is as short as ever, or patience is at an end."""
        begin_s, ns = self._clock_s(), self._work_ns()
        patience_s = self._patience_s + PATIENCE * (begin_s - self._begin_s) - self._waited_s
        # Not asleep, since caches and clock would have to recover.
        while ns > YARDSTICK * self.best_ns and self._clock_s() - begin_s < patience_s:
            ns = self._work_ns()
        self._waited_s += self._clock_s() - begin_s
        self.best_ns = min(self.best_ns, ns)
        return ns
