"""Replace baselines: which ones a run replaces, and by what content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..measure.plan import Settings
from ..profile.environment import Environment
from ..profile.site_calls import kept_sites
from ..profile.timings import ProcessTimes
from ..results.test_id import split_id
from ..results.test_result import TestRecord
from ..results.window_result import BODY, SitesByOp, WindowResult
from ..verdict.times.noise import clean_processes
from ..verdict.times.stored_rule import STORED_RULE, has_lone_best
from ..verdict.tolerances import LEAST_ROUNDS
from .entry import WindowBaseline, entry_of
from .files.by_rank import combined, of_rank
from .files.paths import module_of
from .files.python_file import Functions
from .store import Saved, Store

_Where = tuple[Environment, str, str, str]
_WORDS = ("new", "changed", "unchanged")


class Updates:
    """The baseline changes of a run that may write them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._new: set[_Where] = set()
        """The windows that had no baseline before this run."""
        self.others: Sequence[Mapping[str, TestRecord]] = ()
        """The measurements of other ranks, by test: from rank 1 on."""

    def is_new(self, test: TestRecord) -> bool:
        """Return True if *test* has no baseline at all."""
        entries = [self._store.entry(*_where(test.id, window)) for window in _compared(test)]
        return bool(entries) and not any(entries)

    def changes_calls(self, test: TestRecord) -> bool:
        """Return True if `write` would change the stored calls of *test*."""
        return any(self._changes_calls(_where(test.id, window), window) for window in _compared(test))

    def changes_coarse(self, test: TestRecord) -> bool:
        """Return True if `write` would record the coarse time of *test* here."""
        return any(self._changes_coarse(_where(test.id, window), window) for window in _compared(test))

    def _changes_coarse(self, where: _Where, window: WindowResult) -> bool:
        base, now = self._store.entry(*where), entry_of(window).coarse
        if base is None or self._settings.update != "all":
            return False
        return any(base.lacks_coarse(machine, each) for machine, each in now.items())

    def _changes_calls(self, where: _Where, window: WindowResult) -> bool:
        base, now = self._store.entry(*where), entry_of(window)
        if base is None or self._settings.update != "all":
            return base is None
        # A later run that does more is known from this process alone: other processes measure it, too.
        return not base.allows(now) or base.lacks_python(now) or now.warm is not None

    def lacks_sites(self, test: TestRecord) -> bool:
        """Return True if a window of *test* has no stored source lines."""
        return any(self._lacks_sites(_where(test.id, window)) for window in _compared(test))

    def _lacks_sites(self, where: _Where) -> bool:
        """Return True if a window has no stored lines, or only old ones without FLOPs that its calls have."""
        sites, base = self._store.sites(*where), self._store.entry(*where)
        if isinstance(sites, str):
            return True
        computes = base is not None and any(each.flops and each.flops.most for each in base.ops.values())
        return computes and all(calls.flops is None for of_op in sites.values() for calls in of_op.values())

    def write_sites(self, test: TestRecord, sites: Mapping[str, SitesByOp]) -> None:
        """Store the source lines of a test's ops, by window."""
        for window in _compared(test):
            where = _where(test.id, window)
            if self._store.entry(*where) and (found := sites.get(window.name)):
                self._store.put_sites(*where, kept_sites(found))

    def lacks_times(self, node_id: str, window: WindowResult) -> bool:
        """Return True if the baseline of a window needs times from more processes."""
        base = self._store.entry(*_where(node_id, window))
        if window.processes:
            entry = self._entry_to_put(_where(node_id, window), window)
            return entry is not None and (base is None or entry.times != base.times)
        runs = base.times.get(window.machine, ()) if base else ()
        return base is None or (self._settings.update == "all" and (not runs or self._is_noisy(runs)))

    def write(self, tests: Iterable[TestRecord], times: bool) -> tuple[dict[str, int], Saved]:
        """Write the baselines of the tests that passed; without new *times* of windows that are still being timed.

        Return the numbers of tests that are new, changed, unchanged, not written, and the files. Raises BaselineError.
        """
        words: dict[str, str] = {}
        for test in tests:
            done = {self._put(_where(test.id, window), window, times) for window in _compared(test)}
            if test.outcome == "passed" and self._settings.update == "all" and self._drop_gone_windows(test):
                done.add("changed")
            if word := next((word for word in _WORDS if word in done), ""):
                words[test.id] = word
        saved = self._store.save()
        lost = {module_of(self._store.root, path) for path in saved.errors}
        words |= {test: "not written" for test in words if split_id(test)[0] in lost and words[test] != "unchanged"}
        counts = Counter(words.values())
        return {word: counts[word] for word in (*_WORDS, *({"not written"} & counts.keys()))}, saved

    def gone_windows(self, record: TestRecord) -> Iterator[tuple[Environment, str]]:
        """Yield the windows that have a baseline and were not measured; a body is measured only on request."""
        for environment, windows in by_environment(record).items():
            for window in set(self._store.windows(environment, *split_id(record.id))) - windows - {BODY}:
                yield environment, window

    def _drop_gone_windows(self, record: TestRecord) -> bool:
        gone = list(self.gone_windows(record))
        for environment, window in gone:
            self._store.drop(environment, *split_id(record.id), window)
        return bool(gone)

    def _put(self, where: _Where, window: WindowResult, times: bool) -> str:
        entry = self._entry_to_put(where, window, times)
        self._put_functions(where, window, entry is not None)
        if entry is None:
            return "unchanged"
        word = "changed" if self._store.of_all_ranks(*where) else "new"
        if word == "new":
            self._new.add(where)
        self._store.put(*where, entry)
        return word

    def _put_functions(self, where: _Where, window: WindowResult, is_changed: bool) -> None:
        """Store the calls of Python functions, if a baseline has none or is written anew."""
        found = window.python
        if found is None or found.uncounted or (self._settings.update == "new" and not is_changed):
            return
        if is_changed or isinstance(self._store.functions(*where), str):
            self._store.put_functions(*where, Functions.of(found.functions, found.loops or {}, found.own))

    def _entry_to_put(self, where: _Where, window: WindowResult, times: bool = True) -> WindowBaseline | None:
        """Return the new baseline of a window, None if the old one stays."""
        if not self.others:
            return self._of_one(where, self._store.of_all_ranks(*where), window, times)
        whole, test = self._store.of_all_ranks(*where), f"{where[1]}::{where[2]}"
        found: list[WindowBaseline | None] = []
        for rank, records in enumerate([None, *self.others]):
            record, base = records.get(test) if records else None, of_rank(whole, rank)
            windows = {each.name: each for each in record.windows} if record else {}
            now = windows.get(window.name) if records is not None else window
            found.append((self._of_one(where, base, now, times=False) or base) if now else None)
        entry = combined(found)
        return None if entry == whole else entry

    def _of_one(
        self, where: _Where, base: WindowBaseline | None, window: WindowResult, times: bool
    ) -> WindowBaseline | None:
        """Return the new baseline of a window of one rank, None if *base* stays."""
        now = entry_of(window)
        if not times or window.rounds < LEAST_ROUNDS:
            now = replace(now, times={})  # times of so few rounds are never judged
        if base is None:
            return now
        if self._settings.update == "new" and where not in self._new:
            return None
        noisy = self._is_noisy(base.times.get(window.machine, ()))
        entry = base.updated(now, window.machine, window.times_changed or noisy)
        return None if entry == base else entry

    def _is_noisy(self, runs: Sequence[ProcessTimes]) -> bool:
        """Return True if the times of a baseline are too noisy for judging."""
        least = min(STORED_RULE.least_base_processes, len(runs))
        weak = clean_processes(runs) < least or has_lone_best(runs, self._settings.tolerances)
        return self._settings.noise != "ignore" and weak


def _compared(test: TestRecord) -> list[WindowResult]:
    """Return the windows of a test that have baselines: none if the test failed."""
    return [window for window in test.windows if window.verdict is not None] if test.outcome == "passed" else []


def _where(node_id: str, window: WindowResult) -> _Where:
    """Return the key of a window's baseline in the store."""
    return (window.environment.environment, *split_id(node_id), window.name)


def by_environment(record: TestRecord) -> dict[Environment, set[str]]:
    """Return the names of a test's measured windows, by environment."""
    found: dict[Environment, set[str]] = {}
    for window in record.windows:
        found.setdefault(window.environment.environment, set()).add(window.name)
    return found
