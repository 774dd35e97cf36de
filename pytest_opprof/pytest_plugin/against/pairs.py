"""Judge each test by pairs of processes, one of another revision and one of the working tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import pytest
from msgspec import structs

from ...errors import BackendError, UsageError
from ...measure.function_times import longer
from ...measure.memory.host_memory import without
from ...measure.memory.traced import LINE_NUMBER, Where, joined
from ...measure.sampled import within
from ...processes.collection import SideTest
from ...processes.parent import why
from ...processes.turns import SideRun
from ...profile.op_counts import in_all
from ...profile.site_calls import kept_sites
from ...profile.timings import ProcessTimes, without_noise
from ...python_calls.causes import that_grew
from ...python_calls.counted import PythonCalls
from ...python_calls.growth import Before
from ...python_calls.names import of_python, other_versions
from ...results.acceptance import TRAILER, Acceptance, accepted
from ...results.judged_window import JudgedWindow
from ...results.plain import converted, plain
from ...results.test_id import function_of, split_id
from ...results.test_result import TestRecord
from ...results.window_result import SitesByOp, WindowResult
from ...sites.changed import Changes
from ...units import plural
from ...verdict.compare import changes, compare, compare_counts_first
from ...verdict.diff import UNSTEADY, Diff, Row
from ...verdict.quantities import COARSE, FACTS, KEPT_MEMORY, PEAKS
from ...verdict.times.coarse import SEEMING, SEEMING_OF_FEW, Slower
from ...verdict.times.pair_rule import judge_pairs
from ...verdict.times.repeats import CALL_PAIRS, FEW_TESTS
from ...verdict.times.stored_rule import unjudged
from ...verdict.tolerances import LEAST_ROUNDS
from ...verdict.verdicts import TimingVerdict, Verdict
from ..options import settings_of
from ..outcome import concluded
from ..reruns.causes import OF_TIME, in_words
from ..reruns.coarse import is_judged
from ..reruns.counts import LATER
from .side_reports import Failure, Windows, measured, python_of, report_of, results_of, sites_of, windows_of
from .times import CoarsePairs, RoundPairs, Seeming, seeming, slower_than, with_its_time

# The source lines of each op, by window.
_Sites = dict[str, SitesByOp]
# The quantities whose lines the working tree looks up itself.
_OF_MEMORY = PEAKS | {KEPT_MEMORY}
_EXPLAINED = {*OF_TIME, *_OF_MEMORY}
# So many reasons why the revision fails or skips tests are shown, and so many characters of each.
_REASONS, _LONG = 3, 120


class Found:
    """The results of the pairs of processes."""

    def __init__(
        self,
        revision: str,
        config: pytest.Config,
        acceptances: Sequence[Acceptance] = (),
        changed: Mapping[str, int] = {},
        changes: Changes | None = None,
    ) -> None:
        """*changed*: how many lines changed in each test's file; *changes*: the changed statements of all files."""
        self._config = config
        self._changed = changed
        self._changes = changes
        self._today = set[str]()
        """The tests whose file changed, and which the revision ran as they are now."""
        self._later = dict[str, bool]()
        """The tests that seemed to do more only in a later run, and whether another pair found the same."""
        self._confirmed = set[str]()
        """The tests that do more, by the same numbers in two pairs."""
        self._revision = revision
        self._then = revision.removeprefix("the ")
        self._acceptances = acceptances
        self._allowed: list[tuple[Acceptance, str, str]] = []
        """The acceptance that let a test do more, with the test and the op."""
        self.worse: dict[str, list[Row]] = {}
        """By test: the regressions against the revision that were not accepted."""
        self._settings = settings_of(config)
        self._first: tuple[SideRun, SideRun] | None = None
        """The first pair, which ran every test."""
        self._windows: dict[str, list[tuple[Windows, Windows]]] = {}
        """By test: the windows of both sides, for each pair that ran it."""
        self._diffs = defaultdict[str, dict[tuple[str, int], Diff]](dict)
        """By test: the comparison of each window, by the number of pairs."""
        self.coarse = CoarsePairs()
        self._rounds = RoundPairs(is_noise_ignored=self._settings.noise == "ignore")
        self._sites: dict[str, tuple[_Sites, _Sites]] = {}
        """By test: the source lines of ops, on both sides."""
        self._lines: dict[str, tuple[dict[str, PythonCalls], dict[str, PythonCalls]]] = {}
        """By test: on both sides, by window, the calls of Python functions with the lines that make them."""
        self._explained: dict[str, dict[str, Mapping[str, Where]]] = {}
        """By test, window and quantity: the lines of the working tree that take its time, or hold its memory."""
        self._reasons = set[str]()
        """Why the revision fails or skips tests, by the first few."""
        self._failing: dict[object, str] = {}
        """The first failing test of each cause."""

    def add(self, pair: Sequence[SideRun]) -> None:
        """Add the results of a pair of processes."""
        before, after = pair
        self._first = self._first or (before, after)
        for test, reports in after.reports.items():
            both = windows_of(before.reports.get(test, [])), windows_of(reports)
            self._windows.setdefault(test, []).append(both)

    def add_todays(self, tests: Sequence[SideTest], pair: Sequence[SideRun], body_changed: set[str]) -> set[str]:
        """Replace the results of *tests* by those of a pair in which the revision ran today's files.

        Return the tests that keep their results: they pass at the revision only as they were, although their body is
        the same. A test with another body then has nothing to compare with.
        """
        before, _ = pair
        passed = {
            test.nodeid
            for test in tests
            if (reports := before.reports.get(test.nodeid)) and all(each["outcome"] == "passed" for each in reports)
        }
        kept = {test.nodeid for test in tests} - passed - body_changed
        files = {split_id(test)[0] for test in kept}
        for test in (test for test in tests if split_id(test.nodeid)[0] not in files):
            self._replace(test, pair)
            self._today.add(test.nodeid)
        return kept

    def _replace(self, test: SideTest, pair: Sequence[SideRun]) -> None:
        """Replace the results of a test by those of a *pair*."""
        for known, side in zip(self.first, pair):
            known.reports[test.nodeid] = side.reports.get(test.nodeid, [])
        before, after = (windows_of(side.reports.get(test.nodeid, [])) for side in pair)
        self._windows[test.nodeid] = [(before, after)]
        self._diffs.pop(test.nodeid, None)

    def does_more_later(self, test: SideTest) -> bool:
        """Return True if a later run of a test's body does more than at the base, but its first run does not."""
        before, after = self._first_windows(test.nodeid)
        return not self.does_more(test) and any(
            each.does_more
            for name in before.keys() & after.keys()
            if (there := before[name].later) and (here := after[name].later)
            for each in changes(there, here, test.tolerances).values()
        )

    def add_later(self, tests: Sequence[SideTest], pair: Sequence[SideRun]) -> set[str]:
        """Replace the results of *tests* by those of a pair that measured a later run, if that does more here.

        Return these tests.
        """
        for test in tests:
            first = [side.reports.get(test.nodeid, []) for side in self.first]
            self._replace(test, pair)
            self._later[test.nodeid] = self.does_more(test)
            if not self._later[test.nodeid]:
                self._replace(test, [SideRun(reports={test.nodeid: each}) for each in first])
        return {test for test, is_same in self._later.items() if is_same}

    def does_more(self, test: SideTest) -> bool:
        """Return True if a window of a test does more than at the base."""
        return any(diff.verdict.does_more for diff in self._diffs_of(test).values())

    def suspects(self, test: SideTest) -> bool:
        """Return True if a test is slower than the base in the first pair.

        So is one that does more: accepting its calls accepts no time.
        """
        return self._is_slower(test, doubted=False)

    def doubts(self, test: SideTest) -> bool:
        """Return True if a test that only makes fewer calls of Python functions may take longer all the same."""
        return not self.suspects(test) and self._is_slower(test, doubted=True)

    def _is_slower(self, test: SideTest, *, doubted: bool) -> bool:
        return any(
            is_judged(diff)
            and (diff.only_calls_less or not doubted)
            and self._slower_at_first(test.nodeid, name, doubted=doubted)
            for name, diff in self._diffs_of(test).items()
        )

    def _first_windows(self, test: str) -> tuple[Windows, Windows]:
        """Return the windows of both sides in the first pair; none if it did not run the test."""
        return next(iter(self._windows.get(test, [])), ({}, {}))

    def _slower_at_first(self, test: str, window: str, *, doubted: bool = False) -> Slower | None:
        """Return the time by which a window is slower in the first pair; None if it is not, or if a side lacks it."""
        sides = [[side[window]] for side in self._first_windows(test) if window in side]
        return slower_than(*sides, doubted=doubted) if len(sides) > 1 else None

    def add_coarse(self, tests: Iterable[str], pair: Sequence[SideRun], busy: str) -> None:
        """Add the coarse times that a pair of *tests* took in one thread; *busy*: who else used the machine."""
        for test in tests:
            before, after = (windows_of(side.reports.get(test, [])) for side in pair)
            self.coarse.add(test, before, after, busy)

    def seems_slower(self, test: SideTest) -> Seeming | None:
        """Return by how much a test seems slower in the first pair; None if it does not, or judges times anyway."""
        if test.may_judge_times or test.tolerances.is_of_many:
            return None
        is_one_of_few = len(self._windows) <= FEW_TESTS
        return seeming(*self._first_windows(test.nodeid), SEEMING_OF_FEW if is_one_of_few else SEEMING)

    def seem_slower(self, tests: Sequence[SideTest]) -> list[tuple[SideTest, Seeming]]:
        """Return the tests that pass and seem slower in the first pair, first the ones that grew most."""
        found = []
        for test in tests:
            # Of a changed file the two sides have different tests, unless both ran today's.
            is_same = (test.nodeid in self._changed) is (test.nodeid in self._today)
            seems = self.seems_slower(test) if is_same else None
            if seems is None or any(diff.explains(seems.factor) for diff in self._diffs_of(test).values()):
                continue
            # A test that does more passes if a commit accepts that. A coarse time that one accepts is slower, too.
            windows = self._compared_in_all(test)
            if not any(window.verdict.is_regression or COARSE.keys() & window.allowed.keys() for window in windows):
                found.append((test, seems))
        return sorted(found, key=lambda each: -each[1].factor)

    def add_rounds(self, tests: Sequence[SideTest], pair: Sequence[SideRun]) -> list[SideTest]:
        """Add a pair that ran *tests* in rounds; return the ones that are slower by all such pairs so far."""
        for test in tests:
            self._diffs.pop(test.nodeid, None)
        return [test for test in tests if self._rounds.add(test, pair)]

    def locate(self, groups: Sequence[Sequence[SideTest]], pair: Sequence[SideRun]) -> None:
        """Add the source lines of ops on both sides, and whether the same work is more there, too.

        The *pair* ran the first test of each group of tests that are `alike`, and its results hold for all of them.
        """
        for group in groups:
            tests = [test.nodeid for test in group]
            there, here = (measured(side.reports.get(tests[0], [])) for side in pair)
            base = {window.name: window for window in there}
            explained = {each.name: self._explained_there(tests[0], each, base.get(each.name)) for each in here}
            self._sites |= dict.fromkeys(tests, (sites_of(there), sites_of(here)))
            self._lines |= dict.fromkeys(tests, (python_of(there), python_of(here)))
            self._explained |= dict.fromkeys(tests, explained)
            if self._is_confirmed(group[0], pair):
                self._confirmed.update(tests)

    def _explained_there(self, test: str, window: WindowResult, base: WindowResult | None) -> Mapping[str, Where]:
        """Return why a *window* is slow, by coarse time: its lines, and the functions with more time or calls than at
        the *base*; and by peak the lines that hold its memory.

        A test whose calls are judged anyway names them there.
        """
        said = {name: each for name, each in window.explanations.items() if name in _EXPLAINED}
        there = base.explanations if base else {}
        for name in PEAKS & said.keys() & there.keys():
            said[name] = without(said[name], there[name])
        slower = self._slower_at_first(test, window.name)
        in_all = (slower.base_ns, slower.now_ns) if slower else (0, 0)
        if grew := longer((base.functions if base else ()) or (), window.functions or (), self._then, in_all):
            function, where = grew
            for name in OF_TIME:
                known = said.get(name)
                if known is None or not function.has(known.line):
                    # Lines of other functions took as long before, unless they changed.
                    changed = [known] if known and self._is_changed(known.line) else []
                    inside = within(known, function.has) if known and not changed else []
                    of_function = Where(where.text, inside[0].line) if inside else where
                    said[name] = joined([*changed, of_function, *inside])
        before, now = base.python if base else None, window.python
        first = python_of(measured(self.first[1].reports.get(test, [])))
        if before is None or now is None or window.name in first or before.uncounted or now.uncounted:
            return said
        if other_versions(self._judged(before.versions), self._judged(now.versions), self._then):
            return said
        more = in_words(that_grew(Before(before.functions, then=self._then), now))
        slow = {time: joined([*([said[time]] if time in said else []), *more]) for time in OF_TIME}
        return {**said, **slow} if more else said

    def _is_changed(self, place: str) -> bool:
        file, _, line = place.rpartition(":")
        changed = self._changes.of([file]).get(file, ()) if self._changes else ()
        return any(int(line) in each for each in changed)

    def takes_more_memory(self, test: SideTest) -> bool:
        """Return True if a peak of memory is higher in the first pair, or beyond its budget."""
        windows = self._compared_in_all(test)
        rows = (row.op for window in windows for row in window.worse)
        budgets = (each.rule for window in windows for each in window.budget)
        return not _OF_MEMORY.isdisjoint([*rows, *budgets])

    def alike(self, tests: Sequence[SideTest]) -> list[list[SideTest]]:
        """Return *tests* in groups: one function with several parameters whose windows do the same more."""
        groups: dict[object, list[SideTest]] = {}
        for test in tests:
            more = [
                (name, row.op, row.verdict, str(row.calls), row.work.text)
                for name, diff in self._diffs_of(test).items()
                for row in diff.rows
                if row.verdict.does_more
            ]
            groups.setdefault((function_of(test.nodeid), *more) if more else test.nodeid, []).append(test)
        return [*groups.values()]

    def _is_confirmed(self, test: SideTest, pair: Sequence[SideRun]) -> bool:
        """Return True if each op or fact that is more in the first pair is the same in another *pair*.

        A peak of memory is no count: one that is more in both is confirmed. It varied between 500 and 617 KiB in one
        test, by what the process had run before.
        """
        again = [windows_of(side.reports.get(test.nodeid, [])) for side in pair]
        for name, diff in self._diffs_of(test).items():
            if any(name not in side for side in again):
                return False
            more = {row.op for row in diff.rows if row.verdict.does_more}
            there, here = (side[name].done for side in again)
            compared = changes(there, here, diff.tolerances).items()
            peaks = {op for op, verdict in compared if op in PEAKS and verdict.does_more}
            first = (side[name].done for side in self._windows[test.nodeid][0])
            varied = [changes(*each, diff.tolerances) for each in zip(first, (there, here))]
            if any(more & each.keys() - peaks for each in varied):
                return False
        return True

    @property
    def first(self) -> tuple[SideRun, SideRun]:
        """The results of the first pair."""
        assert self._first is not None
        return self._first

    @property
    def counted(self) -> set[str]:
        """The tests whose calls of Python functions the working tree counted in the first pair."""
        return {test for test, reports in self.first[1].reports.items() if python_of(measured(reports))}

    @property
    def only_there(self) -> list[str]:
        """The tests that only the revision has; files of which only some tests were requested are left out."""
        before, after = self.first
        root, here = self._config.rootpath, self._config.invocation_params.dir
        parts = {(here / split_id(word)[0]).resolve() for word in self._config.args if "::" in word}
        tests = {*before.collected} - {*after.collected}
        return sorted(test for test in tests if (root / split_id(test)[0]).resolve() not in parts)

    def check_complete(self, tests: Sequence[str]) -> None:
        """Raise BackendError for a test that the working tree did not run."""
        if missing := [test for test in tests if test not in self._windows]:
            raise BackendError(f"the working tree did not run {missing[0]}, although it was collected")

    def check_compared(self, tests: Sequence[str]) -> None:
        """Raise UsageError if the revision can import no file of the *tests*, so that none can be compared."""
        errors = self.first[0].errors
        if not tests or any(split_id(test)[0] not in errors for test in tests):
            return
        file = split_id(tests[0])[0]
        advice = (
            "If the package does not install a file that they import, install it in its own tree:"
            " --opprof-against-install='pip install --no-deps -e .'"
            if self._config.option.opprof_against_install
            else "Install a package that is built, or that generates files, there:"
            " --opprof-against-install='pip install --no-deps .'"
        )
        raise UsageError(
            f"--opprof-against: nothing was compared, since {self._revision} can import none of the test files; the"
            f" first is {file} ({errors[file]}). {advice}"
        )

    def is_open(self, test: SideTest) -> bool:
        """Return True if more pairs could change a verdict, or tell whether extra calls vary."""
        if any(not diff.timing.settled for diff in self._diffs_of(test).values()):
            return True
        if test.nodeid in self._confirmed or not self.does_more(test):
            return False
        return len(self._windows[test.nodeid]) < CALL_PAIRS

    def asks_for_lines(self, test: SideTest) -> bool:
        """Return True if the working tree fails for its work, so that source lines are needed, and still unknown."""
        if test.nodeid in self._sites:
            return False
        windows = self._compared_in_all(test)
        explains = any(window.is_slow or any(row.op in _OF_MEMORY for row in window.worse) for window in windows)
        return explains or any(window.asked or window.wanted_functions for window in windows)

    def reports(self, test: SideTest) -> Iterator[pytest.TestReport]:
        """Yield the reports of a test: the working tree's, with the outcome of the comparison."""
        for data in self.first[1].reports.get(test.nodeid, []):
            report = report_of(self._config, data)
            # A test that exceeds its budget failed in the fresh process already, without a comparison.
            if report.when == "call" and hasattr(report, "opprof") and not report.skipped:
                found = [] if report.passed else converted(report.opprof, TestRecord).findings
                if report.passed or any(each.breaks_budget for each in found):
                    self._conclude(test, report)
            yield report

    def _conclude(self, test: SideTest, report: Any) -> None:
        windows = [self._compared(test, window) for window in results_of(report.opprof)]
        verbosity = self._config.get_verbosity()
        if rows := [row for window in windows for row in window.worse]:
            self.worse[test.nodeid] = rows
        self._allowed += [(each, test.nodeid, op) for window in windows for op, each in window.allowed.items()]
        first = self._failing if test.shows_failure else {}
        record, message, cause = concluded(test.nodeid, windows, test, self._settings, verbosity, first)
        if message:
            report.outcome, report.longrepr = "failed", Failure(message, cause, test)
        line = report.opprof["line"]
        report.opprof = plain(structs.replace(record, outcome=report.outcome, line=line))

    def _compared_in_all(self, test: SideTest) -> list[JudgedWindow]:
        """Return all windows of a test in the working tree, compared with the base."""
        return [self._compared(test, each) for each in measured(self.first[1].reports.get(test.nodeid, []))]

    def _compared(self, compared: SideTest, result: WindowResult) -> JudgedWindow:
        name, test = result.name, compared.nodeid
        runs = tuple(after for _, after in self._runs(test, name))
        if any(each.about == "compilations" for each in result.remarks):
            result = self._with_new_reasons_first(test, result)
        window = JudgedWindow(result, result.broken, processes=runs, limits=result.limits)
        if name not in self._windows[test][0][0]:
            return replace(window, no_baseline=f"nothing to compare with: {self._revision} {self._lacks(test)}")
        before, after = self._sites.get(test, ({}, {}))
        if found := after.get(name):
            window = replace(
                window, numbers=structs.replace(result, sites=found), base_sites=kept_sites(before.get(name, {}))
            )
        if explained := self._explained.get(test, {}).get(name):
            window = replace(window, numbers=window.numbers.explained_by(explained))
        window = self._with_functions(compared, window)
        # A test that changed, too, is not the cause of what the code under test does.
        if self._changes:
            own = self._changes.name_of(Path(compared.file))
            window = replace(window, changed=self._changes.of(window.files - {own}))
        lines = plural(self._changed.get(test, 0), "line")
        changed = f"the file of the test changed, too: {lines}" if test in self._changed else ""
        if test in self._today:
            changed = f"the file of the test changed ({lines}), so {self._revision} ran it as it is now"
        if differ := self._other_environment(test, window):
            window = window.with_remark(differ)
        is_later = self._later.get(test)
        if is_later is False and not any(row.verdict.is_change for row in self._diff(compared, name).rows):
            window = window.with_remark(f"{LATER}, it did more than at the base once, and not again")
        window = replace(window, looked="; ".join(filter(None, [LATER if is_later else "", changed, differ])))
        is_doubted = test in self.coarse.doubted
        seems_slower = self._slower_at_first(test, name, doubted=is_doubted) is not None
        window = self.coarse.judged(test, window, self._diff(compared, name), seems_slower=seems_slower)
        there = next(iter(self._windows[test][0][0][name].coarse.values()), None)
        window = window.weighed(there)
        assert window.diff is not None  # it was given one
        window = replace(window, allowed=accepted(self._acceptances, test, window.diff))
        window = with_its_time(window, there, is_judged_later=self.seems_slower(compared) is not None)
        # A failing test says it below its name.
        return window.with_remark(changed) if test in self._today and not window.worse else window

    def _with_new_reasons_first(self, test: str, result: WindowResult) -> WindowResult:
        """Return a window whose reasons for compiling again that its base lacks come first: a failure shows three."""
        known = {
            LINE_NUMBER.sub("", each.text)
            for window in self._there(test, result.name)
            for each in window.remarks
            if each.about == "compilations"
        }
        return structs.replace(
            result, remarks=tuple(sorted(result.remarks, key=lambda each: LINE_NUMBER.sub("", each.text) in known))
        )

    def _other_environment(self, test: str, window: JudgedWindow) -> str:
        """Return the environments of the two sides; empty if they differ at most in the frameworks that ran ops."""
        there = self._there(test, window.name)[0]
        before, now = there.environment.environment, window.numbers.environment.environment
        if before.is_like(now):
            return ""
        both = f"{before.full} in {self._revision}, {now.full} here"
        return f"the environments differ: {both}: ops and times may differ for that reason alone"

    def _there(self, test: str, window: str) -> list[WindowResult]:
        """Return the results of a test's window at the base, of the first pair."""
        return [each for each in measured(self.first[0].reports.get(test, [])) if each.name == window]

    def _with_functions(self, compared: SideTest, window: JudgedWindow) -> JudgedWindow:
        """Return a window with the Python functions of both sides, and their callers."""
        now, name, test = window.numbers.python, window.name, compared.nodeid
        base = python_of(self._there(test, name)).get(name)
        if compared.tolerances.is_of_many and (now is None) is not (base is None):
            return window  # it is short enough on one side, which nobody asked for
        if now is None and base is not None and not base.uncounted:
            why = f"only {self._revision} counted them; --opprof-python counts on both sides"
            return window.with_remark(f"calls of Python functions not compared: {why}")
        if now is None or now.uncounted:
            return window
        if base is None or base.uncounted:
            why = (
                base.uncounted if base else f"{self._revision} did not count them; --opprof-python counts on both sides"
            )
            return window.with_remark(f"calls of Python functions not compared: {why}")
        there, here = (side[name].python for side in self._windows[test][0])
        if differ := other_versions(self._judged(there), self._judged(here), self._then):
            return window.with_remark(f"calls of Python functions not compared: {differ}")
        if differ := other_versions(there, here, self._then):
            window = window.with_remark(f"calls of Python functions compared across versions: {differ}")
        before, after = (side.get(name) for side in self._lines.get(test, ({}, {})))
        lines = before.lines if before is not None and after is not None else ()
        functions, loops = (Before(each, 0, self._then, lines) for each in (base.functions, base.loops or {}))
        window = replace(window, base_functions=functions, base_loops=loops)
        if after is None:
            return window
        numbers = structs.replace(window.numbers, python=now.with_lines(after))
        return replace(window, numbers=numbers)

    def _judged(self, versions: Mapping[str, str]) -> Mapping[str, str]:
        """Return the *versions* that have to be the same on both sides for calls to be compared."""
        return of_python(versions) if self._settings.against_python else versions

    def acceptances(self) -> Iterator[str]:
        """Yield the effect of each acceptance, or that it had none."""
        for acceptance in self._acceptances:
            of_it = [(test, op) for each, test, op in self._allowed if each is acceptance]
            if of_it:
                ops, tests = (", ".join(dict.fromkeys(op for _, op in of_it)), {test for test, _ in of_it})
                yield f"accepted by commit {acceptance}: {ops} in {plural(len(tests), 'test')}"
            else:
                named = ", ".join(acceptance.ops)
                yield f"{TRAILER}: {named} in commit {acceptance} matches no regression here"

    def _lacks(self, test: str) -> str:
        before = self.first[0]
        file, _ = split_id(test)
        if file in before.errors:
            return f"cannot import {file} ({before.errors[file]})"
        if test not in before.collected:
            function = function_of(test)
            if function != test and any(function_of(each) == function for each in before.collected):
                return "has other parameters (--opprof-against-tests=here runs today's on both sides)"
            return "does not have the test"
        reports = before.reports.get(test, [])
        outcomes = {report["outcome"] for report in reports} - {"passed"}
        if test in self._today:
            now = "skips" if outcomes == {"skipped"} else "fails" if reports else "cannot import the file of"
            return f"{now} the test as it is now, and the test changed"
        if not outcomes:
            return "does not have the window"
        said = why(next(report_of(self._config, each) for each in reports if each["outcome"] != "passed"))
        if len(self._reasons | {said}) <= _REASONS:
            self._reasons.add(said)
        reason = f" ({shorten(said, _LONG, placeholder=' ...')})" if said in self._reasons else ""
        return f"{'skips' if outcomes == {'skipped'} else 'fails'} it{reason}"

    def _diffs_of(self, test: SideTest) -> dict[str, Diff]:
        """Return the comparison of each window that both sides have."""
        before, after = self._first_windows(test.nodeid)
        return {name: self._diff(test, name) for name in before.keys() & after.keys()}

    def _diff(self, test: SideTest, window: str) -> Diff:
        # Four questions about each test ask for it; once is 0.7 ms.
        every = self._windows[test.nodeid]
        diffs, key = self._diffs[test.nodeid], (window, len(every))
        if (known := diffs.get(key)) is not None:
            return known
        pairs = [pair for pair in every if all(window in side for side in pair)]
        before, after = ([pair[side][window] for pair in pairs] for side in (0, 1))
        before = [entry.comparable(self._judged(after[0].python)) for entry in before]
        in_rounds = self._rounds.verdict(test, window)
        both = in_all([entry.done for entry in before]), in_all([entry.done for entry in after])
        timing = in_rounds or self._timing(test, window)
        tolerances = test.tolerances.in_rounds if in_rounds else test.tolerances
        found = compare_counts_first(*both, timing, tolerances, test.top, self._then)
        if found.verdict.does_more and self._accepts(test, found):
            timed = compare(*both, timing, tolerances, test.top, self._then)
            is_slower = any(row.verdict is Verdict.SLOWER for row in timed.worse)
            if is_slower and not found.explains((timed.total.now_ns or 0) / (timed.total.base_ns or 1)):
                found = timed
        if less := found.does_less:
            # Draws without a seed make less in one run and more in the next (dynesty: 319 and 326 of one op).
            there, here = (
                [run for each in side for run in (each.done, each.later or each.done)] for side in (before, after)
            )
            again = [changes(in_all(there), run, test.tolerances) for run in here]
            if not all(op in FACTS or all(op in each and each[op].is_improvement for each in again) for op in less):
                found = found.without(less, UNSTEADY)
        diffs[key] = found
        return found

    def _accepts(self, test: SideTest, diff: Diff) -> bool:
        """Return True if commits accept all that a window does more."""
        allowed = accepted(self._acceptances, test.nodeid, diff)
        return all(row.accepted_as in allowed for row in diff.worse)

    def _timing(self, test: SideTest, window: str) -> TimingVerdict:
        pairs = self._runs(test.nodeid, window)
        rounds = min((run.rounds for pair in pairs for run in pair), default=0)
        if rounds < LEAST_ROUNDS:
            return unjudged(f"{rounds} of {LEAST_ROUNDS} rounds measured", [run for _, run in pairs])
        if not test.may_judge_times:
            return unjudged("its rounds were not known when the sides began to run", [run for _, run in pairs])
        if self._settings.noise == "ignore":
            pairs = [(without_noise(before), without_noise(after)) for before, after in pairs]
        return judge_pairs(pairs, test.tolerances)

    def _runs(self, test: str, window: str) -> list[tuple[ProcessTimes, ProcessTimes]]:
        """Return the times of a window in each pair of processes."""
        both = [[windows[window].processes for windows in pair if window in windows] for pair in self._windows[test]]
        return [(sides[0][0], sides[1][0]) for sides in both if len(sides) == 2 and all(sides)]
