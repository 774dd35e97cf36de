"""A measured stretch of a test, and its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ..errors import UsageError
from ..profile.events.assembly import joined
from ..profile.op_profile import ALWAYS, About, OpProfile, OpStats, Remark
from ..profile.site_calls import SiteCalls, site_calls
from ..sites.shown import Shown
from ..verdict.quantities import KEPT_MEMORY, LEAKED_MEMORY, LEFT_BEHIND, LEFT_OPEN
from .memory.host_memory import HostMemory
from .memory.leaks import Left

OPEN = "is still open"
LEFT = "was left before its end"


class Window:
    """A measured stretch of a test. It has its numbers once it is closed."""

    def __init__(self, name: str, aliases: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._aliases = aliases
        self._parts: list[tuple[OpProfile, dict[int, int]]] = []
        self._host_ns: list[int] = []
        self._wait_ns: list[int] = []
        self._yardstick_ns: list[int] = []
        self._ran_ns: list[tuple[int, int]] = []
        self._cpu_ns: list[tuple[int, int]] = []
        """CPU time of the process and of the thread, in each step."""
        self._ended_ns: list[int] = []
        """CPU time of the processes that this one started and that ended, in each step."""
        self._profile: OpProfile | None = None
        self.unfinished = OPEN
        """The reason why it has no numbers; empty once it has."""
        self.threads = 0
        """The number of threads for an op; 0: no limit."""
        self.shown: Shown | None = None
        """Chooses the lines that stand for lines of packages."""

    def __repr__(self) -> str:
        return f"<opprof window {self.name!r}>"

    @property
    def profile(self) -> OpProfile:
        """The measured profile. Raises UsageError while the window is open."""
        __tracebackhide__ = True
        if self._profile is None:
            raise UsageError(f"window {self.name!r} has no numbers: it {self.unfinished}")
        return self._profile

    def remark(self, text: str, about: About = "ops") -> None:
        """Add a remark on the whole of the closed window."""
        self._profile = replace(self.profile, remarks=(*self.profile.remarks, (ALWAYS, Remark(text, about))))

    def left(self, left: Left) -> None:
        """Add the leftovers of each call to the closed window."""
        nbytes = left.nbytes + left.device_bytes
        self._left({LEFT_BEHIND: left.number, LEFT_OPEN: left.open, LEAKED_MEMORY: nbytes}, left)

    def left_open(self, left: Left) -> None:
        """Add the threads, files and processes that each call leaves behind, if nothing else is known of it."""
        self._left({LEFT_OPEN: left.open}, left)

    def _left(self, found: Mapping[str, int], left: Left) -> None:
        counts = {name: dict.fromkeys(range(self.profile.steps), number) for name, number in found.items()}
        told = dict.fromkeys(counts, str(left)) if left.number else {}
        at = dict.fromkeys(counts, left.line) if left.number and left.line else {}
        self._profile = replace(
            self.profile,
            counts={**self.profile.counts, **counts},
            left_behind=left.objects,
            explained={**self.profile.explained, **told},
            explained_at={**self.profile.explained_at, **at},
        )

    def used_on_host(self, memory: HostMemory) -> None:
        """Add the memory of the host to the closed window."""
        # In whole KiB, so that an update writes no other number for a string.
        kept = dict.fromkeys(range(self.profile.steps), memory.kept >> 10 << 10)
        counts = {**self.profile.counts, KEPT_MEMORY: kept}
        self._profile = replace(self.profile, host_memory=(memory.peak,) * self.profile.steps, counts=counts)

    def repeats(self, cpu_ns: int) -> None:
        """Add the CPU time of the fastest later run to the closed window."""
        self._profile = replace(self.profile, repeated_ns=cpu_ns)

    @property
    def ops(self) -> tuple[OpStats, ...]:
        """The numbers of each op, the most expensive first."""
        return self.profile.ops

    @property
    def calls(self) -> int:
        """Calls of all ops, in the worst step."""
        return self.profile.total.most_calls

    @property
    def device_ns(self) -> int:
        """Time in ops in the fastest step, in nanoseconds."""
        return self.profile.total.fastest_ns

    @property
    def host_ns(self) -> int:
        """Wall time of the fastest step, in nanoseconds."""
        return min(self.profile.host_ns)

    def count(self, op: str) -> int:
        """Return the calls of *op* (canonical, raw or a glob) in the worst step.

        Raises UsageError for an unknown name, and if nothing at all was recorded: a zero would then say nothing about
        the program.
        """
        __tracebackhide__ = True
        return self.stats(op).most_calls

    def stats(self, op: str) -> OpStats:
        """Return all numbers of *op*, with the errors of `count`."""
        __tracebackhide__ = True
        if self.profile.is_empty:
            raise UsageError(
                f"window {self.name!r} recorded no op at all, so a count of {op!r} says nothing. To expect no op,"
                " assert window.calls == 0"
            )
        try:
            return self.profile.stats(op, self._aliases)
        except UsageError as error:
            raise UsageError(str(error)) from None  # ends the traceback at the user's line

    def sites(self, op: str) -> tuple[SiteCalls, ...]:
        """Return the source lines of *op* in the worst step, in the order of the program.

        Raises UsageError if they were not recorded, and for an unknown name.
        """
        __tracebackhide__ = True
        if not self.profile.has_sites:
            raise UsageError(f"window {self.name!r} did not record source lines: run pytest --opprof --opprof-sites")
        try:
            return site_calls(self.profile, op, self.shown or Shown(Path()), self._aliases)
        except UsageError as error:
            raise UsageError(str(error)) from None  # ends the traceback at the user's line

    def top(self, k: int) -> tuple[OpStats, ...]:
        """Return the *k* most expensive ops by device time."""
        return self.profile.top(k)


def profiles_of(windows: Iterable[Window]) -> dict[str, OpProfile]:
    """Return the profiles of the windows by name, without windows that have no end."""
    by_name: dict[str, list[OpProfile]] = {}
    for window in windows:
        if not window.unfinished:
            by_name.setdefault(window.name, []).append(window.profile)
    return {name: joined(parts) for name, parts in by_name.items()}
