"""Find the source line of GPU work: push a number in CUPTI whenever the program comes to another line.

CUPTI writes the number beside each call of CUDA that the thread makes (external correlation), and the work has the
correlation of its call. Nothing of CuPy or Numba is hooked. Threads without the tracer, such as XLA's, push none, so
their work has no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ....errors import BackendError
from ....profile.events.event_log import EventLog
from ....sites.chains import UNKNOWN, Chains
from ...live.lines import traced
from .calls import Calls
from .cupti import Cupti
from .cupti_records import Table

# Added to each node, as others may push numbers, too.
_OURS = 0x6F707072 << 32


class Pushed:
    """The pushed number of this thread: the current line of the program."""

    def __init__(self, cupti: Cupti) -> None:
        self.problem = ""
        """The reason why the lines of the window are unknown."""
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
                log.remark(f"source lines of GPU work are unknown: {self.problem}", about="lines")

    def _comes_to(self, node: int) -> None:
        """Replace the number by that of *node*. An error must not end the program's line, which calls this."""
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


def sites_of(calls: Calls, external: Table) -> list[tuple[int, bool]]:
    """Return the line of each call as `EventLog.asked_at` takes it, by the pushed numbers; UNKNOWN without one."""
    ours = external["pushed"] >> np.uint64(32) == _OURS >> 32
    number, node = external["correlation"][ours], (external["pushed"][ours] & np.uint64(0xFFFFFFFF)).astype(np.int64)
    found = np.full(len(calls.start), UNKNOWN)
    if len(number):
        order = np.argsort(number, kind="stable")
        at = np.minimum(np.searchsorted(number[order], calls.correlation), len(order) - 1)
        found = np.where(number[order][at] == calls.correlation, node[order][at], UNKNOWN)
    # A call of the runtime and the driver calls inside it come from one line, whichever has the number.
    inside = np.full(len(found), UNKNOWN)
    np.maximum.at(inside, calls.outer, found)
    return [(node, False) for node in np.where(found == UNKNOWN, inside, found).tolist()]
