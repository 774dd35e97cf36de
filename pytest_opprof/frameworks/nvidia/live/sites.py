"""Which line asked for work of a GPU: a number pushed in CUPTI whenever the program comes to another line.

CUPTI writes the number beside each call of CUDA that the thread makes (external correlation), and the work has the
correlation of its call: nothing of CuPy's or Numba's is hooked. Threads that the tracer does not follow, as those of
XLA, push none: their work has no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError
from ....profile.event_log import EventLog
from ....sites.chains import UNKNOWN, Chains
from ...live.lines import traced
from .calls import Calls
from .cupti import Cupti
from .cupti_records import Table

_OURS = 0x6F707072 << 32
"""Added to each node, as others may push numbers, too."""


class Pushed:
    """The number that this thread has pushed: that of the line where the program is."""

    def __init__(self, cupti: Cupti) -> None:
        self.problem = ""
        """Why the lines of the window are not known."""
        self._cupti = cupti
        self._is_some = False

    @contextmanager
    def lines(self, chains: Chains, log: EventLog) -> Iterator[None]:
        """Push the node of each line that this thread comes to in the context. It takes 2 us."""
        try:
            with traced(chains, log, self._comes_to):
                yield
        finally:
            self._comes_to(UNKNOWN)
            if self.problem:
                log.remark(f"which lines asked for work of the GPU is not known: {self.problem}")

    def _comes_to(self, node: int) -> None:
        """Replace the number by that of *node*. An error must not end the program's line, in which this is called."""
        if self.problem:
            return
        try:
            if self._is_some:
                self._is_some = False
                self._cupti.pop()
            if node != UNKNOWN:
                self._cupti.push(_OURS | node)
                self._is_some = True
        except BackendError as error:
            self.problem = str(error)


def sites_of(calls: Calls, external: Table) -> NDArray[np.int64]:
    """Return the line of each call, by the records of what was pushed; UNKNOWN where nothing was."""
    ours = external["pushed"] >> np.uint64(32) == _OURS >> 32
    number, node = external["correlation"][ours], (external["pushed"][ours] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    found = np.full(len(calls.start), UNKNOWN)
    if len(number):
        order = np.argsort(number, kind="stable")
        at = np.minimum(np.searchsorted(number[order], calls.correlation), len(order) - 1)
        found = np.where(number[order][at] == calls.correlation, node[order][at], UNKNOWN)
    # A call of the runtime and those of the driver inside it are asked for by one line, whichever has the number.
    inside = np.full(len(found), UNKNOWN)
    np.maximum.at(inside, calls.outer, found)
    return np.where(found == UNKNOWN, inside, found)
