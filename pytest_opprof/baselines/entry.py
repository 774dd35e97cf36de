"""The baseline of one window: its calls, and the times of each process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..machine.identity import machine, with_python
from ..profile.environment import Environment
from ..profile.op_counts import Done, OpCounts, counts_of
from ..profile.range import Range
from ..profile.timings import ProcessTimes, run_of
from ..python_calls.names import PYTHON, differing, other_versions
from ..verdict.facts import compared, derived
from ..verdict.quantities import FACTS, HOST_MEMORY, KEPT_MEMORY, OF_PYTHON, PYTHON_CALLS, SUMS, Gate
from ..verdict.times import coarse
from ..verdict.times.coarse import Coarse, Slower, clearly_more
from ..verdict.times.stored_rule import STORED_RULE
from ..verdict.tolerances import LEAST_ROUNDS
from ..verdict.verdicts import Status

if TYPE_CHECKING:
    from ..profile.op_profile import OpProfile
    from ..results.window_result import WindowNumbers, WindowResult
    from .files.file_types import KeptTimes


@dataclass(frozen=True, slots=True)
class WindowBaseline:
    """One window of one test."""

    ops: Mapping[str, OpCounts]
    """The calls and work of each op."""
    times: Mapping[str, tuple[ProcessTimes, ...]] = field(default_factory=dict)
    """By machine: the times of each process."""
    _: KW_ONLY
    mismatched: Mapping[str, KeptTimes] = field(default_factory=dict)
    """By machine: stored times that belong to other calls. They judge nothing, and only an update of this window drops
    them, because reverting the calls may make them valid again."""
    facts: Mapping[str, Range] = field(default_factory=dict)
    """The facts of the window as a whole (`verdict.facts`), except facts that follow from its calls."""
    python: Mapping[str, str] = field(default_factory=dict)
    """The versions of Python and of packages for its calls of Python functions; empty if it has none."""
    ranks: Mapping[str, WindowBaseline] = field(default_factory=dict)
    """If ranks differ, the entry of each (`by_rank`); all other fields are then those of the first of them."""
    coarse: Mapping[str, Coarse] = field(default_factory=dict)
    """By machine and Python (`identity.with_python`): the coarse time of a round."""
    compiled_anew: bool = False
    """Whether its functions compiled again include those of a run with no function compiled before."""
    warm: Done | None = None
    """The differences in a later run of the same process; None if there are none, or in a measurement without such a
    run. The work of a first use in a process (an import, a cache, a library's set-up) is that of whichever test comes
    first."""
    alone: Done | None = None
    """The differences in a process that runs no other test; None if that was not measured."""

    @classmethod
    def of(cls, profile: OpProfile, machine: str, threads: int = 0) -> WindowBaseline:
        """Return the baseline of *profile*, measured in one process on *machine*."""
        run = run_of(profile, threads)
        return cls(counts_of(profile), {machine: (run,)} if run else {})

    @property
    def processes(self) -> list[ProcessTimes]:
        """The times of each process, of all machines."""
        return [run for runs in self.times.values() for run in runs]

    @property
    def in_other_orders(self) -> dict[str, Any]:
        """The fields about other orders of the tests; an update measures all of them, or none."""
        return {"compiled_anew": self.compiled_anew, "warm": self.warm, "alone": self.alone}

    @property
    def all_facts(self) -> dict[str, Range]:
        """The facts of the window as a whole."""
        return {**derived(self.ops), **self.facts}

    @property
    def done(self) -> Done:
        """The calls and all facts."""
        return self.ops, self.all_facts

    def with_differences(self, other: Done) -> Done:
        """Return all calls and facts of another run, from its differences: `warm` or `alone`."""
        ops = {op: each for op, each in {**self.ops, **other[0]}.items() if each.calls.most}
        return ops, {**derived(ops), **self.facts, **other[1]}

    @property
    def later(self) -> Done | None:
        """The calls and facts of a later run of the same process; None if not measured."""
        return None if self.warm is None else self.with_differences(self.warm)

    def differences(self, other: WindowBaseline) -> Done:
        """Return what differs in another run; an op that it lacks has no calls.

        A few bytes of the host's memory are no difference: each process has others, and each update would write them.
        """
        ops = {op: other.ops.get(op, OpCounts(Range(0))) for op in {**self.ops, **other.ops}}
        ops = {op: each for op, each in ops.items() if op not in self.ops or not self.ops[op].in_range(each)}
        known, follow = self.all_facts, self.with_differences((ops, {}))[1]
        alike = _OF_OBJECTS - {name for name, _ in compared(follow, other.all_facts)}
        facts = {
            name: each
            for name, each in other.all_facts.items()
            if name in known and name not in alike and FACTS[name].needs != "leaks" and follow.get(name) != each
        }
        return ops, facts

    def comparable(self, now: Mapping[str, str]) -> WindowBaseline:
        """Return the entry without calls of Python functions, if the versions *now* differ."""
        if not other_versions(self.python, now):
            return self
        return replace(self, facts={name: each for name, each in self.facts.items() if name not in OF_PYTHON})

    @property
    def coarse_here(self) -> Coarse | None:
        """The coarse time of a round on this machine, by this Python; None if unknown."""
        return self.coarse.get(with_python(machine()))

    def grown_across_versions(self, now: WindowNumbers) -> Slower | None:
        """Return the CPU time of a window if it rose with its calls of Python functions, in spite of other versions.

        Another version of a package has other functions, so each number alone may mean nothing.
        """
        calls, after = self.facts.get(PYTHON_CALLS), now.fact_ranges.get(PYTHON_CALLS)
        base = self.coarse_here
        differ = differing(self.python, now.python.versions) if now.python else []
        if not differ or PYTHON in differ or not (calls and after and base and now.coarse):
            return None
        return clearly_more(base, now.coarse) if _OF_OTHER_VERSIONS.direction(calls, after) > 0 else None

    def comparable_here(self, now: WindowNumbers) -> WindowBaseline:
        """Return the entry without facts of other versions than those of *now*.

        An object has another size in each version of Python; only coarse times say which one recorded the entry.
        """
        found = self.comparable(now.python.versions) if now.python else self
        if self.grown_across_versions(now):
            found = replace(found, facts={**found.facts, PYTHON_CALLS: self.facts[PYTHON_CALLS]})
        if not self.coarse or any(key.endswith(with_python("")) for key in self.coarse):
            return found
        return replace(found, facts={name: each for name, each in found.facts.items() if name not in _OF_OBJECTS})

    def lacks_python(self, now: WindowBaseline) -> bool:
        """Return True if *now* has calls of Python functions that this entry lacks, or has for other versions."""
        return bool(now.python) and (not self.python or bool(other_versions(self.python, now.python)))

    def allows(self, now: WindowBaseline) -> bool:
        """Return True if the calls and facts of *now* are no change."""
        return self._allows_ops(now) and not self._changed_facts(now)

    def _changed_facts(self, now: WindowBaseline) -> list[str]:
        """Return the changed facts, except facts that vary with the ops."""
        vary = any(each.some_vary for each in self.ops.values())
        before = self.comparable(now.python).all_facts
        return [name for name, _ in compared(before, now.all_facts) if not (vary and before[name].varies)]

    def _allows_ops(self, now: WindowBaseline) -> bool:
        gone = OpCounts(Range(0))
        return now.ops.keys() <= self.ops.keys() and all(
            each.in_range(now.ops.get(op, gone)) for op, each in self.ops.items()
        )

    def updated(self, now: WindowBaseline, machine: str, times_changed: bool) -> WindowBaseline:
        """Return the entry to keep after an accepted run that measured *now*.

        If the calls are the same, times of other machines stay. Times of this machine stay too, unless they are
        missing, too few, of other rounds or threads, or *times_changed*: an update writes only relevant changes. Times
        belong to calls, so a change of other facts drops none. Stored times of other calls are dropped.
        """
        if not self._allows_ops(now):
            return now
        here = {key: each for key, each in now.coarse.items() if self.lacks_coarse(key, each)}
        fresh = machine in now.times and (times_changed or self._is_unlike(now, machine))
        ops = {op: each.completed(now.ops[op]) if op in now.ops else each for op, each in self.ops.items()}
        facts = {**now.all_facts, **self.facts}
        facts |= {name: now.all_facts[name] for name in self._changed_facts(now)}
        python = self.python
        if self.lacks_python(now) or any(name in OF_PYTHON for name in self._changed_facts(now)):
            # All of them, because one run counted them together.
            python, facts = now.python, facts | {name: each for name, each in now.facts.items() if name in OF_PYTHON}
        facts = _that_do_not_follow(facts, ops)
        measured = self if now.warm is None else now
        orders = {**measured.in_other_orders, "warm": measured.warm if any(measured.warm or ()) else None}
        return replace(
            self,
            ops=ops,
            facts=facts,
            python=python,
            times={**self.times, **now.times} if fresh else self.times,
            coarse={**self.coarse, **here},
            mismatched={},
            **orders,
        )

    def lacks_coarse(self, machine: str, now: Coarse) -> bool:
        """Return True if the coarse time of a round on *machine* should be recorded: it is unknown, or has changed."""
        return machine not in self.coarse or coarse.differs(self.coarse[machine], now)

    def _is_unlike(self, now: WindowBaseline, machine: str) -> bool:
        before, after = self.times.get(machine, ()), now.times[machine]
        few = after[0].rounds >= LEAST_ROUNDS and len(before) < STORED_RULE.least_base_processes
        return few or {(run.rounds, run.threads) for run in before} != {(run.rounds, run.threads) for run in after}


# Sizes of objects: each version of Python has others, and a few bytes differ in each process.
_OF_OBJECTS = frozenset([HOST_MEMORY, KEPT_MEMORY])
# Four real slowdowns between versions (dask, xarray, SQLAlchemy, networkx: x1.4 to x1.5) were below the limit of CPU
# time and made more calls. 1,000 calls take about 0.1 ms, so fewer do not explain 2 ms.
_OF_OTHER_VERSIONS = Gate(more="more calls", status=Status.MORE_CALLS, tolerance=0.1, floor=1_000)
# The entry of a window without any work.
NOTHING = WindowBaseline({})


@dataclass(frozen=True, slots=True)
class Baselines:
    """The baselines of one test module in one environment: entries by test id, then by window."""

    environment: Environment
    tests: Mapping[str, Mapping[str, WindowBaseline]] = field(default_factory=dict)
    unused_times: tuple[str, ...] = ()
    """The times in its files that judge nothing, and why, in words."""

    @property
    def windows(self) -> dict[tuple[str, str], WindowBaseline]:
        """Its entries by test and window."""
        return {(test, window): entry for test, windows in self.tests.items() for window, entry in windows.items()}


def entry_of(window: WindowResult) -> WindowBaseline:
    """Return the baseline of a measured window; times measured in parallel are left out."""
    ops = {**window.counts, **window.vary}
    facts = _that_do_not_follow({**window.fact_ranges, **window.facts_vary}, ops)
    versions = window.python.versions if window.python else {}
    times = {window.machine: window.processes} if window.processes else {}
    # Ranks wait for each other, which takes CPU time in some libraries.
    is_alone = window.environment.ranks == 1
    coarse = {with_python(window.machine): window.coarse} if window.coarse is not None and is_alone else {}
    return WindowBaseline(
        ops=ops,
        times=times,
        facts=facts,
        python=versions,
        coarse=coarse,
        warm=window.warm,
        alone=window.alone,
        compiled_anew=window.compiled_anew,
    )


def _that_do_not_follow(facts: Mapping[str, Range], ops: Mapping[str, OpCounts]) -> dict[str, Range]:
    follow = derived(ops)
    vary = any(each.some_vary for each in ops.values())  # then their sums are not judged
    return {name: each for name, each in facts.items() if not (vary and name in SUMS) and follow.get(name) != each}
