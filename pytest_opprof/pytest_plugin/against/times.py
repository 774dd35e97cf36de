"""The times of tests on two sides: pairs of processes that ran them once in one thread, or in rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ...baselines.entry import WindowBaseline
from ...processes.collection import SideTest
from ...processes.turns import SideRun
from ...profile.timings import ProcessTimes, without_noise
from ...python_calls.causes import sleeps_more
from ...results.judged_window import JudgedWindow
from ...verdict.diff import Diff
from ...verdict.quantities import CPU_TIME
from ...verdict.times.coarse import SEEMING, Coarse, Limit, Slower, slower, together, waits_long
from ...verdict.times.pair_rule import judge_in_rounds
from ...verdict.times.repeats import COARSE_PROCESSES, ROUND_PAIRS, SHORT_BODY_NS, SHORT_ROUNDS
from ...verdict.tolerances import LEAST_ROUNDS
from ...verdict.verdicts import TimingVerdict, Verdict
from ..reruns.coarse import explained, is_judged
from .side_reports import Windows, windows_of


class CoarsePairs:
    """The times of pairs of processes that measured tests in one thread."""

    def __init__(self) -> None:
        self._pairs: dict[str, list[tuple[Windows, Windows]]] = {}
        self.doubted = set[str]()
        """The tests that make fewer calls, so that a shorter time counts; their pairs measure a later run."""
        self._busy = ""

    def add(self, test: str, before: Windows, after: Windows, busy: str) -> None:
        """Add the times of a pair in *test*; *busy*: who else used the machine meanwhile."""
        self._pairs.setdefault(test, []).append((before, after))
        self._busy = self._busy or busy

    def still_slower(self, test: str) -> bool:
        """Return True if a window of a test is slower in all pairs so far."""
        names = {name for before, _ in self._pairs.get(test, []) for name in before}
        return any(self._slower(test, name) is not None for name in names)

    def judged(self, test: str, window: JudgedWindow, diff: Diff, *, seems_slower: bool) -> JudgedWindow:
        """Return a window with its *diff*, and with its time if all pairs agree that it is slower.

        *seems_slower*: whether the first pair found it so, which measured many tests.
        """
        window = replace(window, diff=diff, coarsely=window.numbers.coarse is not None)
        pairs = self._pairs.get(test, [])
        if seems_slower and self._is_missing(test, window.name):
            return replace(window, undecided="it seemed slower, but a further pair of processes did not measure it")
        if len(pairs) < COARSE_PROCESSES or not is_judged(diff):
            return window
        is_sure = self._waits_long(test, window.name) or sleeps_more(window.base_functions, window.numbers.python)
        if found := self._slower(test, window.name, wall=not self._busy or is_sure):
            was_recorded = any(side[window.name].ops for pair in pairs for side in pair)
            work = found.work(*explained(window, found, was_recorded=was_recorded))
            confirmed = f"confirmed in {COARSE_PROCESSES} pairs of processes, in one thread"
            looked = "; ".join(filter(None, [confirmed, window.looked]))
            return replace(window, diff=diff.with_slower(found, work), looked=looked)
        if waits := self._slower(test, window.name):
            return replace(window, undecided=f"{waits.line(diff.then)}, unreliable while {self._busy}")
        return window

    def _waits_long(self, test: str, window: str) -> bool:
        """Return True if a window waits for so much longer in each pair that no other program explains it."""
        both = _joined(*self._sides(test, window))
        return both is not None and waits_long(*both)

    def _sides(self, test: str, window: str) -> tuple[list[WindowBaseline], list[WindowBaseline]]:
        """Return a window of each side in all pairs; none if a pair lacks it."""
        pairs = [] if self._is_missing(test, window) else self._pairs[test]
        return [before[window] for before, _ in pairs], [after[window] for _, after in pairs]

    def _is_missing(self, test: str, window: str) -> bool:
        """Return True if a pair did not measure a window on both sides."""
        return any(window not in side for pair in self._pairs.get(test, []) for side in pair)

    def _slower(self, test: str, window: str, wall: bool = True) -> Slower | None:
        return slower_than(*self._sides(test, window), wall=wall, doubted=test in self.doubted)


def slower_than(
    before: Sequence[WindowBaseline], after: Sequence[WindowBaseline], *, wall: bool = True, doubted: bool = False
) -> Slower | None:
    """Return the time by which processes of *after* exceed their limit; None if none does or no time is known."""
    both = _joined(before, after)
    return slower(*both, wall=wall, doubted=doubted) if both else None


def _joined(before: Sequence[WindowBaseline], after: Sequence[WindowBaseline]) -> tuple[Coarse, Coarse] | None:
    """Return the times of the processes of both sides; None if one has none."""
    base, now = ([each for entry in side for each in entry.coarse.values()] for side in (before, after))
    return (together(base), together(now)) if base and now else None


def with_its_time(window: JudgedWindow, base: Coarse | None, *, is_judged_later: bool) -> JudgedWindow:
    """Return a window that fails for something else than time with its time in the first pair, if that is clearly more
    than the time of its *base*. One pair proves no time, so this is no finding. *is_judged_later*: a time that the
    extra work does not explain is judged in rounds once that work is accepted.
    """
    now, diff = window.numbers.coarse, window.diff
    if base is None or now is None or diff is None or not window.does_more:
        return window
    is_more = now.cpu_ns[0] > SEEMING.of(base.cpu_ns, elsewhere=False)
    if not is_more or any(row.verdict is Verdict.SLOWER for row in window.worse):
        return window
    took = Slower(CPU_TIME, base.cpu_ns[0], now.cpu_ns[0])
    later = "; judged once the rest is accepted" if is_judged_later and not diff.explains(took.factor) else ""
    return replace(window, weighs=f"{took.line(diff.then)}, in the first pair{later}")


class RoundPairs:
    """The times of tests in rounds that no mark asks for, since they seemed slower: pairs of processes."""

    def __init__(self, *, is_noise_ignored: bool) -> None:
        self._is_noise_ignored = is_noise_ignored
        self._times = defaultdict[tuple[str, str], list[tuple[ProcessTimes, ProcessTimes]]](list)
        """By test and window."""

    def add(self, test: SideTest, pair: Sequence[SideRun]) -> bool:
        """Add a *pair*; return whether a window of the test is slower by all pairs so far."""
        sides = [side.reports.get(test.nodeid, []) for side in pair]
        if any(report["outcome"] != "passed" for reports in sides for report in reports):
            return False  # it cannot run so often
        before, after = map(windows_of, sides)
        is_slower = False
        for name in before.keys() & after.keys():
            for there, here in zip(before[name].processes, after[name].processes):
                if min(there.rounds, here.rounds) < LEAST_ROUNDS:
                    continue
                times = (without_noise(there), without_noise(here)) if self._is_noise_ignored else (there, here)
                self._times[test.nodeid, name].append(times)
                found = judge_in_rounds(self._times[test.nodeid, name], test.tolerances.in_rounds)
                is_slower |= found.verdict is not Verdict.OK
        return is_slower

    def verdict(self, test: SideTest, window: str) -> TimingVerdict | None:
        """Return the verdict on the times of a window if all pairs together find it slower, or too noisy."""
        times = self._times.get((test.nodeid, window), [])
        found = judge_in_rounds(times, test.tolerances.in_rounds) if len(times) == ROUND_PAIRS else None
        return found if found and found.verdict is not Verdict.OK else None


class Seeming(NamedTuple):
    """A test that seems slower."""

    factor: float
    """How many times as long it takes."""
    rounds: int
    """The number of rounds that judge it."""
    ns: int
    """The time that they take on both sides, in all pairs."""


def seeming(there: Windows, here: Windows, limit: Limit) -> Seeming | None:
    """Return how many times as long the slowest window takes *here* if that is above the *limit*, and in how many
    rounds to judge it; None if none is.
    """
    both = [
        (base, now)
        for name in there.keys() & here.keys()
        for base, now in zip(there[name].coarse.values(), here[name].coarse.values())
        if now.cpu_ns[0] > limit.of(base.cpu_ns, elsewhere=False)
    ]
    if not both:
        return None
    factor = max(now.cpu_ns[0] / max(base.cpu_ns[0], 1) for base, now in both)
    ns = sum(base.wall_ns[0] + now.wall_ns[0] for base, now in both)
    rounds = LEAST_ROUNDS if max(now.wall_ns[0] for _, now in both) > SHORT_BODY_NS else SHORT_ROUNDS
    return Seeming(factor, rounds, ns * (rounds + 1) * ROUND_PAIRS)
