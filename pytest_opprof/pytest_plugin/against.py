"""``--opprof-against=REV``: the tests at another revision and in the working tree, compared while both run in turns."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from ..baselines.entry import WindowBaseline, entry_of
from ..errors import BackendError, OpprofError, UsageError
from ..escaping import terminal
from ..machine.git import git
from ..machine.load import Watch
from ..machine.scratch import scratch
from ..measure.plan import TestPlan
from ..processes import turns
from ..processes.base import Base, messages
from ..processes.base_cache import BaseCache
from ..processes.base_install import check_python, installed
from ..processes.child import Command, terminated_as_by_ctrl_c
from ..processes.recording import CALL_PROCESSES
from ..processes.this_run import command, say
from ..processes.turns import SideRun, side_command
from ..processes.worktree import Worktree, worktree
from ..profile.op_counts import facts_in_all, in_all
from ..profile.site_calls import kept_sites
from ..profile.timings import ProcessTimes, without_noise
from ..python_calls.causes import Before
from ..python_calls.counted import PythonCalls
from ..python_calls.names import other_versions
from ..report import colours
from ..report.summary import Summary
from ..results.judged_window import JudgedWindow
from ..results.plain import converted, plain
from ..results.run_result import TestRecord
from ..results.test_id import split_id
from ..results.window_result import SitesByOp, WindowResult
from ..units import plural
from ..verdict.acceptance import TRAILER, Acceptance, accepted, lines_of, parsed, proposed
from ..verdict.coarse import PROCESSES
from ..verdict.compare import Diff, Row, compare_counts_first
from ..verdict.pair_rule import judge_pairs
from ..verdict.quantities import COARSE
from ..verdict.stored_rule import unjudged
from ..verdict.tolerances import LEAST_ROUNDS, LOOKS, Tolerances
from ..verdict.verdicts import TimingVerdict
from .coarse import is_judged
from .coarse_pairs import CoarsePairs, slower_than
from .marks import measure_all, plan_of
from .options import settings_of
from .outcome import concluded

_HERE = "the working tree"
_Windows = dict[str, WindowBaseline]
"""What a process did, by window."""
_Sites = dict[str, SitesByOp]
"""Which lines asked for ops, by window."""


class Against:
    """The hooks of a run that compares two versions: it runs no test itself, and reports what both sides did."""

    def __init__(self, config: pytest.Config, base: Base, python: str, summary: Summary) -> None:
        self._config = config
        self._base = base
        self._python = python
        self._summary = summary
        self._everything = False
        """Whether all tests are measured because none has a mark."""

    def pytest_report_header(self) -> str:
        """Name the commit that the working tree is compared with."""
        return f"opprof: compared with {self._base}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the tests that measure nothing; measure all of them where none has a mark."""
        if not any(map(_measures, items)):
            measure_all(self._config, items)
            self._everything = True
        measuring: list[pytest.Item] = []
        idle: list[pytest.Item] = []
        for item in items:
            (measuring if _measures(item) else idle).append(item)
        if idle:
            self._config.hook.pytest_deselected(items=idle)
            items[:] = measuring

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run both sides, and report each test. Raises pytest.UsageError where that cannot be."""
        options = session.config.option
        failed = session.testsfailed and not options.continue_on_collection_errors
        if options.collectonly or failed or not session.items:
            return None  # pytest lists the tests, or says what was wrong with them
        try:
            found = self._measured(session.items)
        except (OpprofError, OSError) as error:
            raise pytest.UsageError(str(error)) from error
        self._say_what_is_only_there(found)
        try:
            for item in session.items:
                self._report(item, found)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            self._summary.lines += found.acceptances()
            self._summary.accept = terminal(proposed(found.worse))
        return True

    def _accepted_by_commits(self) -> Iterator[Acceptance]:
        """Yield what commits since the base accept; say what cannot be read."""
        for commit, message in messages(self._config.invocation_params.dir, self._base):
            for text in lines_of(message):
                try:
                    yield parsed(text, commit)
                except UsageError as error:
                    self._summary.lines.append(str(error))

    def _measured(self, items: Sequence[pytest.Item]) -> Found:
        with ExitStack() as stack:
            stack.enter_context(terminated_as_by_ctrl_c())
            tree = stack.enter_context(worktree(self._config.invocation_params.dir, self._base.commit))
            if self._config.option.opprof_against_tests == "here":
                _lay_over(tree, items)
            folder = stack.enter_context(scratch())
            say(self._config, f"opprof: {_forecast(items, self._everything)}")
            if self._base.is_the_working_tree:
                but = f", the base in {self._python}" if self._python else ""
                say(
                    self._config, f"opprof: no tracked file differs from that commit: both sides run the same code{but}"
                )
            workers = min(getattr(self._config.option, "opprof_against_workers", 1), len(items))
            if python := self._python:
                check_python(python)
            if install := self._config.option.opprof_against_install:
                say(self._config, f"opprof: installing the base: {install}")
                python = installed(folder / "base", tree.path, install)
            sides = []
            for number in range(workers):
                place = folder / f"{number}"
                place.mkdir()
                sides.append(_commands(self._config, tree, str(place), python, self._everything))
            changed = {} if self._config.option.opprof_against_tests == "here" else _changed_tests(tree, items)
            return self._taking_turns(sides, items, changed)

    def _taking_turns(
        self, sides: Sequence[Sequence[Command]], items: Sequence[pytest.Item], changed: Mapping[str, int]
    ) -> Found:
        found = Found(self._base.name, self._config, list(self._accepted_by_commits()), changed)
        cache = self._cache()
        known = cache.load() if cache else SideRun()
        wanted, took_s = list(items), 0.0
        for number in range(LOOKS[1]):
            if number in (1, CALL_PROCESSES, LOOKS[0]):
                wanted = [item for item in wanted if found.is_open(item)]
            if not wanted:
                break
            estimate = f", about {took_s:.0f} s" if took_s else ""
            what = f"pair {number + 1} of {LOOKS[number >= LOOKS[0]]}, {plural(len(wanted), 'test')}"
            say(self._config, f"opprof: {what}{estimate}")
            begin = monotonic()
            if number == 0 and cache:
                counted = [item for item in wanted if not _may_judge_times(item)]
                alone = [item for item in counted if _is_known(item, known)]
                pair = self._pair(sides, [item for item in wanted if item not in alone], False)
                if alone:
                    said = f"opprof: an earlier run measured the base in {plural(len(alone), 'test')}"
                    say(self._config, said)
                    here = [([side[1]], tests) for side, tests in zip(sides, _shards(alone, len(sides)))]
                    pair.append([known, *turns.run_at_once(here, False)])
                found.add(turns.joined(pair))
                cache.keep(found.first[0], {item.nodeid for item in counted})
                self._summary.lines += [f"opprof: {cache.problem}"] if cache.problem else []
            else:
                found.add(turns.joined(self._pair(sides, wanted, bool(number % 2))))
            took_s = monotonic() - begin
        self._confirm_coarse(sides[0], [item for item in items if found.suspects(item)], found)
        found.check_complete([item.nodeid for item in items])
        if failing := [item for item in items if found.asks_for_lines(item)]:
            say(self._config, f"opprof: one more pair, {plural(len(failing), 'test')}, to see which lines ask for ops")
            shards = _shards(failing, len(sides))
            found.locate(turns.run_at_once([*zip(sides, shards)], swapped=False, sites=True))
        return found

    def _confirm_coarse(self, sides: Sequence[Command], items: Sequence[pytest.Item], found: Found) -> None:
        """Let pairs of processes measure *items* alone, in one thread, while they still take longer."""
        for number in range(PROCESSES):
            if not items:
                return
            what = (
                f"takes longer than in {self._base.name}"
                if len(items) == 1
                else f"take longer than in {self._base.name}"
            )
            say(
                self._config,
                f"opprof: {plural(len(items), 'test')} {what}; pair {number + 1} of {PROCESSES} to confirm",
            )
            watch = Watch()
            pair = turns.run_at_once([(sides, [item.nodeid for item in items])], bool(number % 2), one_thread=True)
            found.add_coarse(pair, watch.busy())
            items = [item for item in items if found.coarse.still_slower(item.nodeid)]

    def _pair(
        self, sides: Sequence[Sequence[Command]], items: Sequence[pytest.Item], swapped: bool
    ) -> list[list[SideRun]]:
        """Run *items* on both sides: what is timed has nothing else beside it, counts do not mind."""
        timed = [item.nodeid for item in items if _may_judge_times(item)] if len(sides) > 1 else []
        counted = _shards([item for item in items if item.nodeid not in timed], len(sides))
        batches = [[*zip(sides, counted)], [(sides[0], timed)] if timed else []]
        return [turns.run_at_once(each, swapped) for each in batches if each]

    def _cache(self) -> BaseCache | None:
        """Return the file that keeps what the base did; None where it would not be the same in another run."""
        config, options = self._config, self._config.option
        if self._python or options.opprof_against_install or options.opprof_against_tests == "here":
            return None  # packages of that Python, or test files, may change while the commit does not
        if options.opprof_cache:
            folder = Path(config.invocation_params.dir, options.opprof_cache)
        elif config.pluginmanager.hasplugin("cacheprovider"):
            folder = config.cache.mkdir("opprof")
        else:
            return None
        return BaseCache(folder, self._base.commit, list(map(str, config.invocation_params.args)))

    def _say_what_is_only_there(self, found: Found) -> None:
        for test in found.only_there:
            say(self._config, f"opprof: only {self._base.name} has {test}")

    def _report(self, item: pytest.Item, found: Found) -> None:
        hook = item.ihook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in found.reports(item):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _measures(item: pytest.Item) -> bool:
    try:
        return "opprof" in getattr(item, "fixturenames", ()) or plan_of(item).measured
    except UsageError:
        return True  # the session says what is wrong with its marks


def _lay_over(tree: Worktree, items: Sequence[pytest.Item]) -> None:
    """Put the files of tests, and what pytest imports around them, over those of the revision."""
    files = {item.path for item in items}
    folders = {parent for file in files for parent in file.parents if parent.is_relative_to(tree.top)}
    around = {folder / name for folder in folders for name in ("conftest.py", "__init__.py")}
    # Of the package itself it is the revision's that is to run.
    around = {file for file in around if file.name == "conftest.py" or not tree.has(file)}
    for file in sorted(files | {each for each in around if each.is_file()}):
        twin = tree.twin(file)
        twin.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, twin)


def _changed_tests(tree: Worktree, items: Sequence[pytest.Item]) -> dict[str, int]:
    """Return in how many lines the file of each test differs from the revision's; those that do not are left out."""
    changed: dict[Path, int] = {}
    for line in git(tree.top, "--opprof-against", "diff", "--numstat", "-z", tree.commit, "--").split("\0"):
        added, _, rest = line.partition("\t")
        removed, _, name = rest.partition("\t")
        if added.isdigit() and removed.isdigit():
            changed[tree.top / name] = max(int(added), int(removed))
    return {item.nodeid: changed[path] for item in items if (path := item.path.resolve()) in changed}


def _is_known(item: pytest.Item, known: SideRun) -> bool:
    return item.nodeid in known.reports or (bool(known.collected) and item.nodeid not in known.collected)


def _may_judge_times(item: pytest.Item) -> bool:
    return plan_of(item).rounds >= LEAST_ROUNDS or "opprof" in getattr(item, "fixturenames", ())


def _shards(items: Sequence[pytest.Item], number: int) -> list[list[str]]:
    """Return the tests in at most so many parts of similar size; a file stays whole, as its fixtures may be shared."""
    files: dict[str, list[str]] = {}
    for item in items:
        files.setdefault(split_id(item.nodeid)[0], []).append(item.nodeid)
    shards: list[list[str]] = [[] for _ in range(number)]
    for tests in sorted(files.values(), key=len, reverse=True):
        min(shards, key=len).extend(tests)
    return [shard for shard in shards if shard]


def _forecast(items: Sequence[pytest.Item], everything: bool) -> str:
    """Return how many processes the comparison takes."""
    timed = [item for item in items if _may_judge_times(item)]
    marks = "no test has a mark, so all are measured; " if everything else ""
    times = f"; {plural(len(timed), 'test')} may judge times: {LOOKS[0]} pairs, {LOOKS[1]} where they differ"
    return f"{marks}{plural(len(items), 'test')}, 1 process a side{times if timed else ''}"


def _commands(config: pytest.Config, tree: Worktree, folder: str, python: str, everything: bool) -> list[Command]:
    """Return how to start the two sides: the revision, and the working tree; *everything*: they measure all tests."""
    root, here = config.rootpath.resolve(), config.invocation_params.dir.resolve()
    for path in (root, here):
        if not path.is_relative_to(tree.top):
            raise UsageError(f"--opprof-against: {path} is not in the repository {tree.top}")
    lines = []
    for name in ("there", "here"):
        Path(folder, name).mkdir()
        lines.append([*command(config, f"{folder}/{name}"), *_ONLY_MEASURES, *["--opprof-all"][:everything]])
    there = [tree.word(word) for word in _words_there(config, tree, lines[0][1:])]
    other = tree.twin(here)
    if not other.is_dir():
        raise UsageError(f"--opprof-against: {tree.commit[:10]} has no folder {here.relative_to(tree.top)}")
    return [
        side_command(
            f"{tree.commit[:10]}",
            [python or sys.executable, *there],
            other,
            {} if python else _path_first(tree.twin(root)),
            {"own": str(tree.path), "own_first": "" if python else str(tree.twin(root)), "other": str(tree.top)},
        ),
        side_command(
            _HERE,
            lines[1],
            here,
            _path_first(root),
            {"own": str(tree.top), "own_first": str(root), "other": str(tree.path)},
        ),
    ]


_ONLY_MEASURES = ("--opprof-baselines=", "--maxfail=0", "--continue-on-collection-errors")


def _words_there(config: pytest.Config, tree: Worktree, words: Sequence[str]) -> list[str]:
    """Return the *words* of a command without the files that the revision lacks, and with whole files for their tests.

    pytest would end at what it does not find; which tests run the two sides agree on. Raises UsageError where the
    revision has none of the files.
    """
    here = config.invocation_params.dir
    if config.getoption("pyargs", False):
        return list(words)
    files = {word: split_id(word)[0] for word in config.args if word in words}
    lacking = {word for word, file in files.items() if not tree.has(here / file)}
    if lacking and len(lacking) == len(files):
        raise UsageError(f"--opprof-against: {tree.commit[:10]} has nothing to compare with: no {', '.join(files)}")
    return [files.get(word, word) for word in words if word not in lacking]


def _path_first(root: Path) -> dict[str, str]:
    """Return the environment in which packages come from below *root* if it has them."""
    folders = [str(path) for path in (root / "src", root) if path.is_dir()]
    # Threads of OpenMP spin while they wait, and the side whose turn it is not waits all the time.
    return {
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


class Found:
    """What the pairs of processes did."""

    def __init__(
        self,
        revision: str,
        config: pytest.Config,
        acceptances: Sequence[Acceptance] = (),
        changed: Mapping[str, int] = {},
    ) -> None:
        """*changed*: how many lines changed in a test's file."""
        self._changed = changed
        self._revision = revision
        self._config = config
        self._acceptances = acceptances
        self._allowed: list[tuple[Acceptance, str, str]] = []
        """Which acceptance let which test do more, and of which op."""
        self.worse: dict[str, list[Row]] = {}
        """By test: what is worse than in the revision, and was not accepted."""
        self._settings = settings_of(config)
        self._first: tuple[SideRun, SideRun] | None = None
        """The first pair, which ran every test."""
        self._windows: dict[str, list[tuple[_Windows, _Windows]]] = {}
        """By test: the windows of both sides, for each pair that ran it."""
        self.coarse = CoarsePairs()
        self._sites: dict[str, tuple[_Sites, _Sites]] = {}
        """By test: which lines asked for ops, on both sides."""
        self._lines: dict[str, dict[str, PythonCalls]] = {}
        """By test and window: which lines of the working tree call Python functions."""
        self._slow: dict[str, dict[str, Mapping[str, str]]] = {}
        """By test and window: at which lines of the working tree its time is."""

    def add(self, pair: Sequence[SideRun]) -> None:
        """Add what a pair of processes did."""
        before, after = pair
        self._first = self._first or (before, after)
        for test, reports in after.reports.items():
            both = _windows(before.reports.get(test, [])), _windows(reports)
            self._windows.setdefault(test, []).append(both)

    def suspects(self, item: pytest.Item) -> bool:
        """Tell whether a test takes longer than at the base, by the first pair, and does not do more."""
        pairs, plan = self._windows.get(item.nodeid, []), plan_of(item)
        before, after = pairs[0] if pairs else ({}, {})
        diffs = {name: self._diff(item.nodeid, name, plan) for name in before.keys() & after.keys()}
        if any(diff.verdict.does_more for diff in diffs.values()):
            return False
        return any(is_judged(diff) and slower_than([before[name]], [after[name]]) for name, diff in diffs.items())

    def add_coarse(self, pair: Sequence[SideRun], busy: str) -> None:
        """Add the coarse times of a pair in one thread; *busy*: who else used the machine."""
        before, after = pair
        for test, reports in after.reports.items():
            self.coarse.add(test, _windows(before.reports.get(test, [])), _windows(reports), busy)

    def locate(self, pair: Sequence[SideRun]) -> None:
        """Add which lines asked for ops on both sides."""
        before, after = pair
        for test, reports in after.reports.items():
            self._sites[test] = _sites(before.reports.get(test, [])), _sites(reports)
            self._lines[test] = _python(reports)
            self._slow[test] = {
                window.name: {time: said for time, said in window.explained.items() if time in COARSE}
                for window in _measured(reports)
            }

    @property
    def first(self) -> tuple[SideRun, SideRun]:
        """What the first pair said."""
        assert self._first is not None
        return self._first

    @property
    def only_there(self) -> list[str]:
        """The tests that only the revision has; of a file of which only some tests are asked for nobody knows."""
        before, after = self.first
        root, here = self._config.rootpath, self._config.invocation_params.dir
        parts = {(here / split_id(word)[0]).resolve() for word in self._config.args if "::" in word}
        tests = {*before.collected} - {*after.collected}
        return sorted(test for test in tests if (root / split_id(test)[0]).resolve() not in parts)

    def check_complete(self, tests: Sequence[str]) -> None:
        """Raise BackendError for a test that the working tree did not run."""
        if missing := [test for test in tests if test not in self._windows]:
            raise BackendError(f"a fresh process did not run {missing[0]}, which this one collected")

    def is_open(self, item: pytest.Item) -> bool:
        """Tell whether more pairs could change what is to be said of a test: of more calls, whether they vary."""
        pairs, plan = self._windows.get(item.nodeid, []), plan_of(item)
        common = pairs[0][0].keys() & pairs[0][1].keys() if pairs else ()
        diffs = [self._diff(item.nodeid, name, plan) for name in common]
        more = len(pairs) < CALL_PROCESSES and any(diff.more_calls for diff in diffs)
        return more or any(not diff.timing.settled for diff in diffs)

    def asks_for_lines(self, item: pytest.Item) -> bool:
        """Tell whether the working tree fails for what it did."""
        reports = self.first[1].reports.get(item.nodeid, [])
        windows = [self._compared(item.nodeid, window, plan_of(item)) for window in _measured(reports)]
        slow = any(row.op in COARSE for window in windows for row in window.worse)
        return slow or any(window.asked or window.wanted_functions for window in windows)

    def reports(self, item: pytest.Item) -> Iterator[pytest.TestReport]:
        """Yield the reports of a test: those of the working tree, with the outcome of the comparison."""
        for data in self.first[1].reports.get(item.nodeid, []):
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
            if report.when == "call" and report.passed and hasattr(report, "opprof"):
                self._conclude(item, report)
            yield report

    def _conclude(self, item: pytest.Item, report: Any) -> None:
        plan = plan_of(item)
        windows = [self._compared(item.nodeid, window, plan) for window in _results(report.opprof)]
        verbosity = self._config.get_verbosity()
        if rows := [row for window in windows for row in window.worse]:
            self.worse[item.nodeid] = rows
        self._allowed += [(each, item.nodeid, op) for window in windows for op, each in window.allowed.items()]
        record, failure, cause = concluded(item.nodeid, windows, plan, self._settings, verbosity, recorded=False)
        if failure:
            report.outcome, report.longrepr = "failed", _Failure(failure, cause, item)
        line = report.opprof["line"]
        report.opprof = plain(structs.replace(record, outcome=report.outcome, line=line))

    def _compared(self, test: str, result: WindowResult, plan: TestPlan) -> JudgedWindow:
        name = result.name
        runs = tuple(after for _, after in self._runs(test, name))
        window = JudgedWindow(result, processes=runs, limits=result.limits)
        if name not in self._windows[test][0][0]:
            return replace(window, no_baseline=f"nothing to compare with: {self._revision} {self._lacks(test)}")
        before, after = self._sites.get(test, ({}, {}))
        if found := after.get(name):
            window = replace(
                window, numbers=structs.replace(result, sites=found), base_sites=kept_sites(before.get(name, {}))
            )
        if slow := self._slow.get(test, {}).get(name):
            numbers = structs.replace(window.numbers, explained={**window.numbers.explained, **slow})
            window = replace(window, numbers=numbers)
        window = self._with_functions(test, window)
        lines = self._changed.get(test, 0)
        changed = f"the file of the test changed, too: {plural(lines, 'line')}" if lines else ""
        if differ := self._other_environment(test, window):
            window = window.with_remark(differ)
        window = replace(window, looked="; ".join(filter(None, [changed, differ])))
        window = self.coarse.judged(test, window, self._diff(test, name, plan))
        assert window.diff is not None  # it was given one
        return replace(window, allowed=accepted(self._acceptances, test, window.diff))

    def _other_environment(self, test: str, window: JudgedWindow) -> str:
        """Say in which environments the sides ran; nothing where that is the same."""
        there = [each for each in _measured(self.first[0].reports.get(test, [])) if each.name == window.name]
        before, now = there[0].environment.environment, window.numbers.environment.environment
        if before == now:
            return ""
        both = f"{before.full} in {self._revision}, {now.full} here"
        return f"the environments differ: {both}: so may ops and times, for no fault of the program"

    def _with_functions(self, test: str, window: JudgedWindow) -> JudgedWindow:
        """Return the report of a window with the Python functions of both sides, and the lines that call them."""
        now, name = window.numbers.python, window.name
        if now is None or now.uncounted:
            return window
        base = _python(self.first[0].reports.get(test, [])).get(name)
        if base is None or base.uncounted:
            why = (
                base.uncounted if base else f"{self._revision} did not count them; --opprof-python counts on both sides"
            )
            return window.with_remark(f"calls of Python functions not compared: {why}")
        entries = [side[name].python for side in self._windows[test][0]]
        if differ := other_versions(*entries):
            return window.with_remark(f"calls of Python functions not compared: {differ}")
        window = replace(window, base_functions=Before(base.functions), base_loops=Before(base.loops or {}))
        lines = self._lines.get(test, {}).get(name)
        if lines is None:
            return window
        numbers = structs.replace(window.numbers, python=structs.replace(now, lines=lines.lines))
        return replace(window, numbers=numbers)

    def acceptances(self) -> Iterator[str]:
        """Yield what each acceptance let pass, or that it let nothing pass."""
        for acceptance in self._acceptances:
            of_it = [(test, op) for each, test, op in self._allowed if each is acceptance]
            if of_it:
                ops, tests = (", ".join(dict.fromkeys(op for _, op in of_it)), {test for test, _ in of_it})
                yield f"accepted by commit {acceptance}: {ops} in {plural(len(tests), 'test')}"
            else:
                named = ", ".join(acceptance.ops)
                yield f"{TRAILER}: {named} in commit {acceptance} matches nothing that is worse here"

    def _lacks(self, test: str) -> str:
        before = self.first[0]
        file, _ = split_id(test)
        if file in before.errors:
            return f"cannot import {file} ({before.errors[file]})"
        if test not in before.collected:
            return "does not have the test"
        outcomes = {report["outcome"] for report in before.reports.get(test, [])} - {"passed"}
        return f"has it {min(outcomes)}" if outcomes else "does not have the window"

    def _diff(self, test: str, window: str, plan: TestPlan) -> Diff:
        pairs = [pair for pair in self._windows[test] if all(window in side for side in pair)]
        before, after = ([pair[side][window] for pair in pairs] for side in (0, 1))
        return compare_counts_first(
            in_all([entry.ops for entry in before]),
            in_all([entry.ops for entry in after]),
            self._timing(test, window, plan.tolerances),
            plan.tolerances,
            plan.top,
            (
                facts_in_all([entry.comparable(after[0].python).all_facts for entry in before]),
                facts_in_all([entry.all_facts for entry in after]),
            ),
            self._revision.removeprefix("the "),
        )

    def _timing(self, test: str, window: str, tolerances: Tolerances) -> TimingVerdict:
        pairs = self._runs(test, window)
        rounds = min((run.rounds for pair in pairs for run in pair), default=0)
        if rounds < LEAST_ROUNDS:
            return unjudged(f"{rounds} of {LEAST_ROUNDS} rounds measured", [run for _, run in pairs])
        if self._settings.noise == "ignore":
            pairs = [(without_noise(before), without_noise(after)) for before, after in pairs]
        return judge_pairs(pairs, tolerances)

    def _runs(self, test: str, window: str) -> list[tuple[ProcessTimes, ProcessTimes]]:
        """Return what each pair of processes timed of a window."""
        both = [[windows[window].processes for windows in pair if window in windows] for pair in self._windows[test]]
        return [(sides[0][0], sides[1][0]) for sides in both if len(sides) == 2 and all(sides)]


class _Failure:
    """Why a test failed, for the terminal and JUnit: in full, and in a few words with the place of the test."""

    def __init__(self, message: str, cause: str, item: pytest.Item) -> None:
        self._message = message
        self.reprcrash = SimpleNamespace(path=str(item.path), lineno=(item.location[1] or 0) + 1, message=cause)

    def __str__(self) -> str:
        return self._message

    def toterminal(self, writer: Any) -> None:
        """Write it in full: what pytest calls."""
        colours.write(writer, self._message.splitlines())


def _results(data: object) -> list[WindowResult]:
    return converted(data, TestRecord).windows


def _windows(reports: Sequence[dict[str, Any]]) -> _Windows:
    return {window.name: entry_of(window) for window in _measured(reports)}


def _sites(reports: Sequence[dict[str, Any]]) -> _Sites:
    return {window.name: window.sites for window in _measured(reports)}


def _python(reports: Sequence[dict[str, Any]]) -> dict[str, PythonCalls]:
    return {window.name: window.python for window in _measured(reports) if window.python is not None}


def _measured(reports: Sequence[dict[str, Any]]) -> list[WindowResult]:
    return [window for report in reports if "opprof" in report for window in _results(report["opprof"])]
