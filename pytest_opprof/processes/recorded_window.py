"""A window of a test that an update records, and its numbers in each process."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from msgspec.structs import replace

from ..baselines.entry import WindowBaseline, entry_of
from ..profile.op_counts import OpCounts, in_all
from ..profile.range import Range
from ..profile.timings import ProcessTimes
from ..results.test_result import TestRecord
from ..results.window_result import WindowResult, titled
from ..verdict.quantities import OF_PYTHON, RECOMPILATIONS
from ..verdict.times.coarse import Coarse, together
from ..verdict.times.noise import clean_processes, is_steady
from ..verdict.times.repeats import CALL_PROCESSES, VARYING_PROCESSES
from ..verdict.times.stored_rule import STORED_RULE
from ..verdict.tolerances import LEAST_ROUNDS
from .pool import Answer


def is_timed(window: WindowResult) -> bool:
    """Return True if a window has enough rounds for judged times."""
    return window.rounds >= LEAST_ROUNDS and (not window.ops or any(each.device_ns for each in window.ops.values()))


class RecordedWindow:
    """A window of a test, and its measurements in each process."""

    def __init__(self, test: TestRecord, index: int) -> None:
        self.test = test
        self._index = index
        self.lost = ""
        """The reason why measurements of other processes are unusable."""
        self._seen = [entry_of(self.result)]
        # Beside other tests it takes longer, and the first test of each worker includes imports.
        self._coarse = [] if self.result.parallel or self.result.coarse is None else [self.result.coarse]
        self._later: list[Coarse] = []
        """The time of later runs in a process; in one thread, if several took CPU time."""
        self._unrecorded: Coarse | None = None
        """The time of a run in which no op was recorded, if this is clearly less than that of the run before it."""
        self._warm: WindowBaseline | None = None
        self._anew: Range | None = None

    @property
    def result(self) -> WindowResult:
        """Its stored result."""
        return self.test.windows[self._index]

    def keep(self, runs: Sequence[ProcessTimes]) -> None:
        """Keep the times of these processes, and no others."""
        self.test.windows[self._index] = replace(self.result, processes=tuple(runs))

    @property
    def title(self) -> str:
        """Its title."""
        return titled(self.test.id, self.result.name)

    def lacks(self, processes: int, judged: bool) -> bool:
        """Return True if it needs one more process: up to twice as many, if too few were undisturbed or alike."""
        runs = self.result.processes
        usable = [run for run in runs if not run.disturbed]
        few = len(usable) < processes or clean_processes(runs) < min(STORED_RULE.least_base_processes, processes)
        few = few or not is_steady(usable)
        return len(runs) < (2 * processes if judged and few else processes)

    def add(self, number: int, answer: Answer) -> None:
        """Add the measurement of a process."""
        entry = answer.windows.get(self.result.name)
        if entry is None:
            self.lost = self.lost or f"it was not measured in process {number} ({answer.why or 'nothing was recorded'})"
            return
        self._seen.append(entry)
        self._coarse += entry.coarse.values()
        if is_timed(self.result) and not self.lost:
            self._add_times(number, entry)

    def add_in_one_thread(self, answer: Answer) -> None:
        """Add the coarse time that a process took in one thread."""
        entry = answer.windows.get(self.result.name)
        self._later += entry.coarse.values() if entry else ()

    def is_faster_unrecorded(self, answer: Answer) -> bool:
        """Add the coarse time that a process took while it recorded no op, after a later run that did.

        Return True if it is clearly less, and kept.
        """
        entry = answer.windows.get(self.result.name)
        bare = next(iter(entry.coarse.values()), None) if entry else None
        # A test with the fixture records its ops all the same.
        if entry and bare and not entry.ops and self._later and self._later[-1].is_clearly_above(bare):
            self._unrecorded = bare
        return self._unrecorded is not None

    def add_recorded_again(self, answer: Answer) -> None:
        """Add the time of a run that records ops after the one that did not, which may be as fast for itself."""
        entry = answer.windows.get(self.result.name)
        again = next(iter(entry.coarse.values()), None) if entry else None
        if again and self._unrecorded and not again.is_clearly_above(self._unrecorded):
            self._later.append(again)
            self._unrecorded = None

    def add_warm(self, answer: Answer) -> None:
        """Add the measurement of a process that ran the test before."""
        self._warm = None if answer.why else answer.windows.get(self.result.name)
        if self._warm and not self.is_threaded:
            self._later += self._warm.coarse.values()

    @property
    def counts_compilations(self) -> bool:
        """Whether functions compiled again are counted; rounds that are timed are warm anyway."""
        return RECOMPILATIONS in self._seen[0].facts and not is_timed(self.result)

    def add_compiled_anew(self, answer: Answer) -> None:
        """Add the functions compiled again in a run with no function compiled before.

        Of that run nothing else is kept: compiling runs ops, too.
        """
        entry = answer.windows.get(self.result.name)
        self._anew = entry.facts.get(RECOMPILATIONS) if entry else None

    @property
    def needs_alone(self) -> bool:
        """Whether it did work of a first use, of which it might do more alone."""
        return any(self.result.warm or ())

    def keep_alone(self, answer: Answer) -> None:
        """Store how the measurement of a process without other tests differs."""
        if entry := answer.windows.get(self.result.name):
            self.test.windows[self._index] = replace(self.result, alone=self._seen[0].differences(entry))

    @property
    def is_threaded(self) -> bool:
        """Whether several threads took CPU time, so that its coarse time is to be taken again in one."""
        return not is_timed(self.result) and any(each.threaded for each in self._coarse)

    @property
    def is_recording(self) -> bool:
        """Whether recording ops may take a notable part of its coarse time."""
        takes_long = any(each.may_be_recording for each in self._coarse)
        return takes_long and bool(self.result.environment.frameworks) and not is_timed(self.result)

    @property
    def split(self) -> str:
        """A remark that its CPU time differs from process to process; empty if it does not."""
        return self.result.coarse.split if self.result.coarse else ""

    def keep_coarse(self) -> None:
        """Store the coarse time of all processes: of later runs in one thread, if several took CPU time."""
        if not self._coarse:
            return
        first = together(self._coarse)
        later = together(self._later).beside(first) if self._later else first
        found = later if later.first or self.is_threaded else first
        found = dataclasses.replace(
            found, unrecorded=self._unrecorded, repeated_ns=first.kept_repeats, yardstick_ns=first.yardstick_ns
        )
        self.test.windows[self._index] = replace(self.result, coarse=found)

    def _add_times(self, number: int, entry: WindowBaseline) -> None:
        before, after = self._seen[0].processes, entry.processes
        if entry.ops != self._seen[0].ops:
            self.lost = f"other ops ran in process {number}"
        elif not after or len({(run.rounds, run.threads, frozenset(run.ops_ns)) for run in (*before, *after)}) != 1:
            self.lost = f"other rounds or ops were timed in process {number}"
        else:
            self.keep([*self.result.processes, *after])

    @property
    def varies(self) -> bool:
        """Whether an op did more in one process than in another: with random sizes, numbers of calls may vary, too."""
        ops, facts = in_all([entry.done for entry in self._seen])
        return any(each.some_vary for each in ops.values()) or any(
            name in facts and facts[name].varies for name in OF_PYTHON
        )

    @property
    def why_it_varies(self) -> str:
        """Whether its calls follow the order of sets, by pairs of processes with one hash seed; "" if unknown."""
        seeded = self._seen[1:]
        if len(self._seen) < VARYING_PROCESSES or all(each.ops == seeded[0].ops for each in seeded):
            return ""
        pairs = zip(seeded[: CALL_PROCESSES - 1], seeded[CALL_PROCESSES - 1 :])
        if all(one.ops == other.ops for one, other in pairs):
            return "processes with the same PYTHONHASHSEED agree: sort sets"
        return "processes with the same PYTHONHASHSEED differ: seed random numbers"

    def keep_calls_that_vary(self) -> dict[str, OpCounts]:
        """Store, and return, the calls and work of each op that differ between processes."""
        ops, facts = in_all([entry.done for entry in self._seen])
        vary = self.result.vary | {op: each for op, each in ops.items() if each.some_vary}
        facts_vary = {name: each for name, each in facts.items() if each.varies}
        if self._anew is not None:  # on workers of xdist another test ran before in each process
            facts_vary[RECOMPILATIONS] = Range(max(self._anew.most, facts[RECOMPILATIONS].most))
        self.test.windows[self._index] = replace(
            self.result, vary=vary, facts_vary=facts_vary, compiled_anew=self._anew is not None
        )
        if vary:
            self.lost = "its calls vary from run to run"
        elif self._warm:
            warm_ops, warm_facts = self._seen[0].differences(self._warm)
            beyond = {
                name: each
                for name, each in warm_facts.items()
                if name not in facts_vary or not facts_vary[name].allows(each)
            }
            self.test.windows[self._index] = replace(self.result, warm=(warm_ops, beyond))
        return vary
