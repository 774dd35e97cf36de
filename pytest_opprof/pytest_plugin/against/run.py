"""``--opprof-against=REV``: run the tests at another revision and in the working tree by turns, and compare them."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import pytest

from ...errors import BackendError, OpprofError, UsageError
from ...machine.load import Watch
from ...machine.scratch import scratch
from ...processes import turns
from ...processes.base import Base, messages
from ...processes.base_cache import BaseCache
from ...processes.base_install import KeptEnvironment, check_python, installed
from ...processes.child import Command, interrupted_once
from ...processes.collection import Choice, Collection, SideTest, Wanted
from ...processes.request import Request
from ...processes.this_run import command, say
from ...processes.turns import SideRun, side_command
from ...processes.worktree import Worktree, worktree
from ...profile.op_counts import listed
from ...report.escaping import terminal
from ...report.summary import Summary
from ...results.acceptance import Acceptance, lines_of, parsed, proposed
from ...results.test_id import function_of, split_id
from ...sites.changed import Changes
from ...units import format_ns, plural
from ...verdict.times.repeats import CALL_PAIRS, COARSE_PROCESSES, FEW_TESTS, ROUND_PAIRS, ROUNDS_NS, TIMED_PAIRS
from .pairs import Found
from .side_reports import report_of
from .times import Seeming

_HERE = "the working tree"


class Against:
    """The hooks of a run that compares two versions: it runs no test itself, and reports the results of both sides."""

    def __init__(self, config: pytest.Config, base: Base, python: str, summary: Summary) -> None:
        self._config = config
        self._base = base
        self._python = python
        self._summary = summary
        self._tests: list[SideTest] = []
        """The tests to measure, as the working tree has collected them."""
        self._everything = False
        """Whether all tests are measured because none has a mark."""
        self._later = set[str]()
        """The tests of which further pairs measure a later run: the first does no more, or imports."""
        self._rounds: dict[str, int] = {}
        """The rounds of tests that ask for none, and seem slower, so that their times are judged."""
        self._closely = set[str]()
        """The tests measured as closely as marked ones: all of few; in further pairs those whose calls of Python
        functions the first pair counted.
        """
        if coverage := config.pluginmanager.get_plugin("_cov"):
            coverage.options.no_cov = True  # no test runs here: it would report 1 % and overwrite its files

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Choose one seed for all processes if pytest-randomly is installed and the user chose none.

        Each would draw its own otherwise, and random sizes would differ. The seed is that of the commit, so that
        results of an earlier run can be compared.
        """
        if getattr(self._config.known_args_namespace, "randomly_seed", None) == "default":
            self._config.option.randomly_seed = int(self._base.commit[:8], 16)

    def pytest_report_header(self) -> list[str]:
        """Name the commit that the working tree is compared with."""
        lines = [f"opprof: compared with {self._base}"]
        if self._config.pluginmanager.hasplugin("_cov"):
            lines.append("opprof: pytest-cov is off: the processes that measure run without it")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        """Collect nothing here, like the controller of pytest-xdist: importing the tests may take longer than they."""
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run both sides and report each test. Raises pytest.UsageError if that is impossible."""
        try:
            found = self._measured(session)
        except (OpprofError, OSError) as error:
            raise pytest.UsageError(str(error)) from error
        if found is None:
            return True
        self._say_what_is_only_there(found)
        if compiled := found.first[0].borrowed:
            self._summary.lines.append(
                f"opprof: {self._base.name} ran with compiled modules of the working tree, so their changes are not"
                f" compared: {listed(compiled)}. --opprof-against-install builds them there"
            )
        try:
            for test in self._tests:
                self._report(test, found)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            self._summary.lines += found.acceptances()
            self._summary.accept = "\n".join(map(terminal, proposed(found.worse)))
        return True

    def _accepted_by_commits(self) -> Iterator[Acceptance]:
        """Yield the acceptances of commits since the base; report trailers that cannot be parsed."""
        for commit, message in messages(self._config.invocation_params.dir, self._base):
            for text in lines_of(message):
                try:
                    yield parsed(text, commit)
                except UsageError as error:
                    self._summary.lines.append(str(error))

    def _measured(self, session: pytest.Session) -> Found | None:
        """Run both sides; return None without tests."""
        with ExitStack() as stack:
            stack.enter_context(interrupted_once())
            tree = stack.enter_context(worktree(self._config.invocation_params.dir, self._base.commit))
            folder = stack.enter_context(scratch())
            if self._base.is_the_working_tree:
                but = f", the base in {self._python}" if self._python else ""
                say(
                    self._config, f"opprof: no tracked file differs from that commit: both sides run the same code{but}"
                )
            if python := self._python:
                check_python(python)
            if install := self._config.option.opprof_against_install:
                python = self._installed(folder / "base", tree.path, install)

            def make_sides() -> list[list[Command]]:
                return [
                    _commands(self._config, tree, folder / f"{number}", python) for number in range(self._workers())
                ]

            return self._taking_turns(make_sides, tree, session)

    def _workers(self) -> int:
        """Return the number of pairs that run at once: no more than the files that the command names."""
        workers: int = getattr(self._config.option, "opprof_against_workers", 1)
        here = self._config.invocation_params.dir
        files = {Path(here, split_id(word)[0]) for word in self._config.args}
        return min(workers, len(files)) if all(file.is_file() for file in files) else workers

    def _collected(self, session: pytest.Session, collection: Collection) -> None:
        """Report the collection of the working tree as pytest reports its own. Raises UsageError for invalid marks."""
        if collection.wrong_marks:
            raise UsageError("\n".join(dict.fromkeys(collection.wrong_marks)))
        for data in collection.reports:
            report = report_of(self._config, data)
            report.result = []
            self._config.hook.pytest_collectreport(report=report)
        if terminal_reporter := self._config.pluginmanager.get_plugin("terminalreporter"):
            # Other plugins read attributes of all that pytest counts.
            terminal_reporter.pytest_deselected([SimpleNamespace(nodeid=each) for each in collection.deselected])
        self._tests, self._everything = collection.tests, collection.everything
        if len(self._tests) <= FEW_TESTS:
            self._tests = [replace(each, tolerances=replace(each.tolerances, is_of_many=False)) for each in self._tests]
            self._closely.update(test.nodeid for test in self._tests)
        session.testscollected = len(self._tests)
        self._summary.marked = bool(self._tests)
        left_out = f", {len(collection.deselected)} deselected" if collection.deselected else ""
        say(self._config, f"collected {plural(len(self._tests), 'test')}{left_out}")
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.testsfailed and not self._config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{plural(session.testsfailed, 'error')} during collection")

    def _installed(self, folder: Path, tree: Path, command: str) -> str:
        """Return the Python of the installed base: kept by an earlier run, or made in *folder*."""
        kept = KeptEnvironment(place, self._base.commit, command) if (place := self._cache_folder()) else None
        if kept and (python := kept.python()):
            say(self._config, f"opprof: an earlier run installed the base: {command}")
            return python
        say(self._config, f"opprof: installing the base: {command}")
        python = installed(folder, tree, command)
        if kept:
            kept.keep(folder)
            self._summary.lines += [f"opprof: {kept.problem}"] if kept.problem else []
        return (kept and kept.python()) or python

    def _taking_turns(
        self, make_sides: Callable[[], list[list[Command]]], tree: Worktree, session: pytest.Session
    ) -> Found | None:
        cache = self._cache()
        begin = monotonic()
        sides, first = self._first_pair(make_sides, tree, session, cache.load() if cache else SideRun())
        took_s = monotonic() - begin
        tests = self._tests
        if not tests:
            return None
        lines = {} if self._config.option.opprof_against_tests == "here" else tree.changed_lines()
        changes = Changes(self._config.rootpath, "--opprof-against", tree.commit)
        changed = {test.nodeid: lines[path] for test in tests if (path := Path(test.file).resolve()) in lines}
        found = Found(self._base.name, self._config, list(self._accepted_by_commits()), changed, changes)
        found.add(first)
        self._closely |= found.counted
        if cache:
            cache.keep(first[0], {test.nodeid for test in tests if not test.may_judge_times})
            self._summary.lines += [f"opprof: {cache.problem}"] if cache.problem else []
        self._run_todays(sides, [test for test in tests if test.nodeid in changed], tree, found)
        self._run_later(sides, [test for test in tests if found.does_more_later(test)], found)
        self._locate(sides, tests, found, "to confirm and ")
        wanted = list(tests)
        for number in range(1, TIMED_PAIRS[1]):
            if number in (1, CALL_PAIRS, TIMED_PAIRS[0]):
                wanted = [test for test in wanted if found.is_open(test)]
            if not wanted:
                break
            self._say_pair(number, wanted, f", about {took_s:.0f} s")
            begin = monotonic()
            found.add(turns.joined(self._pair(sides, wanted, bool(number % 2))))
            took_s = monotonic() - begin
        doubted = {test.nodeid for test in tests if found.doubts(test)}
        self._later |= doubted  # a first use, as an import, takes more than this limit
        found.coarse.doubted |= doubted
        slow = [test for test in tests if found.suspects(test) or test.nodeid in doubted]
        self._confirm_coarse(sides[0], slow, found)
        self._judge_in_rounds(sides[0], found.seem_slower(tests), found)
        ids = [test.nodeid for test in tests]
        found.check_complete(ids)
        found.check_compared(ids)
        self._locate(sides, tests, found, slow=True)
        return found

    def _say_pair(self, number: int, tests: Sequence[SideTest], estimate: str = "") -> None:
        judges_times = any(test.may_judge_times for test in tests)
        of = f" of {TIMED_PAIRS[number >= TIMED_PAIRS[0]]}" if judges_times else ""
        reason = " to confirm" if number and not judges_times else ""
        say(self._config, f"opprof: pair {number + 1}{of}, {plural(len(tests), 'test')}{reason}{estimate}")

    def _first_pair(
        self, make_sides: Callable[[], list[list[Command]]], tree: Worktree, session: pytest.Session, known: SideRun
    ) -> tuple[list[list[Command]], list[SideRun]]:
        """Collect in the working tree, and run all tests on both sides; there only tests whose results are not *known*.

        Return the commands for further pairs, and the results.

        Both sides start at once, unless the base needs nothing, or the test files of the working tree.
        """
        is_laid_over = self._config.option.opprof_against_tests == "here"
        starts_apart = is_laid_over or bool(known.reports)
        sides = make_sides()
        others: list[SideTest] = []

        def chosen(collection: Collection) -> list[Wanted]:
            self._collected(session, collection)
            if not self._tests:
                return []
            say(self._config, f"opprof: {_forecast(self._tests, self._everything)}")
            self._say_pair(0, self._tests)
            now = [test for test in self._tests if len(sides) == 1 or not test.may_judge_times]
            if starts_apart:
                now = [test for test in self._tests if _is_known(test, known)]
                if now:
                    say(self._config, f"opprof: an earlier run measured the base in {plural(len(now), 'test')}")
            runs = {test.nodeid for test in now}
            others[:] = [test for test in self._tests if test.nodeid not in runs]
            return self._wanted(_shards(now, len(sides)))

        choice = Choice(chosen)
        started = [side[1:] for side in (sides[:1] if is_laid_over else sides)] if starts_apart else sides
        ran = turns.run_at_once([(side, partial(choice.of, each)) for each, side in enumerate(started)], swapped=False)
        if is_laid_over:
            files = {Path(test.file) for test in self._tests}
            laid_over = _with_files_around(tree, files)
            if helpers := sorted(str(each.relative_to(tree.top)) for each in laid_over - files):
                self._summary.lines.append(f"{self._base.name} ran with these files as they are now: {listed(helpers)}")
            tree.lay_over(laid_over)
            sides = make_sides()  # the base has more files now
        pairs = [] if is_laid_over else [[known, *ran] if starts_apart else ran]
        return sides, turns.joined([*pairs, *(self._pair(sides, others, swapped=False) if others else [])])

    def _wanted(self, shards: Sequence[Sequence[str]], *, in_turns: bool = False) -> list[Wanted]:
        timed = {test.nodeid for test in self._tests if test.may_judge_times}
        return [
            Wanted(
                shard,
                everything=self._everything,
                closely=[*self._closely.intersection(shard)],
                later=[*self._later.intersection(shard)],
                rounds={test: self._rounds[test] for test in shard if test in self._rounds},
                in_turns=in_turns or not timed.isdisjoint(shard),
            )
            for shard in shards
        ]

    def _run_todays(
        self, sides: Sequence[Sequence[Command]], tests: Sequence[SideTest], tree: Worktree, found: Found
    ) -> None:
        """Run changed *tests* that do more as they are now on both sides: the change may be in the test alone."""
        asked = [
            test
            for test in tests
            if found.is_open(test) or found.suspects(test) or found.does_more_later(test) or found.seems_slower(test)
        ]
        if not asked:
            return
        say(self._config, f"opprof: one more pair, {plural(len(asked), 'changed test')} as now on both sides")
        functions = [(test.nodeid, Path(test.file)) for test in asked if test.is_function]
        changed = {test for test, file in functions if _code_of(test, file) != _code_of(test, tree.twin(file))}
        tree.lay_over({Path(test.file) for test in asked})
        try:
            kept = found.add_todays(asked, turns.joined(self._pair(sides, asked, False)), changed)
        except BackendError as error:
            kept = {test.nodeid for test in asked}
            self._summary.lines.append(f"opprof: changed tests were compared as each side has them: {error}")
        tree.restore({Path(test.file) for test in asked if test.nodeid in kept})

    def _run_later(self, sides: Sequence[Sequence[Command]], tests: Sequence[SideTest], found: Found) -> None:
        """Compare a later run of *tests* that do more there, although their first run does not: a lost cache."""
        if not tests:
            return
        does = "does" if len(tests) == 1 else "do"
        say(self._config, f"opprof: one more pair, {plural(len(tests), 'test')} that {does} more when run again")
        self._later.update(test.nodeid for test in tests)
        self._later &= found.add_later(tests, turns.joined(self._pair(sides, tests, False)))

    def _locate(
        self,
        sides: Sequence[Sequence[Command]],
        tests: Sequence[SideTest],
        found: Found,
        why: str = "",
        *,
        slow: bool = False,
    ) -> None:
        """Look up the source lines of tests that fail for their work; *why*: another purpose of the pair.

        *slow*: the tests that are left fail for their time.
        """
        groups = found.alike([test for test in tests if found.asks_for_lines(test)])
        if not groups:
            return
        failing, every = [group[0] for group in groups], sum(map(len, groups))
        of = f" of {every}, one for each group of parameters with the same change" if len(failing) < every else ""
        say(self._config, f"opprof: one more pair, {plural(len(failing), 'test')}{of}, {why}to look up source lines")
        shards = self._wanted(_shards(failing, len(sides)))
        takes_more = any(map(found.takes_more_memory, failing))
        request = Request(sites=True, causes=True, slow=slow, memory=takes_more, since=self._base.commit)
        found.locate(groups, turns.run_at_once([*zip(sides, shards)], False, request))

    def _confirm_coarse(self, sides: Sequence[Command], tests: Sequence[SideTest], found: Found) -> None:
        """Measure *tests* in further pairs of processes, one at a time and in one thread, while they remain slower."""
        for number in range(COARSE_PROCESSES):
            if not tests:
                return
            what = (
                f"takes longer than in {self._base.name}"
                if len(tests) == 1
                else f"take longer than in {self._base.name}"
            )
            say(
                self._config,
                f"opprof: {plural(len(tests), 'test')} {what}; pair {number + 1} of {COARSE_PROCESSES} to confirm",
            )
            watch = Watch()
            [wanted] = self._wanted([[test.nodeid for test in tests]], in_turns=True)
            request = Request(one_thread=True, ops_only=True, unrecorded=True)
            pair = turns.run_at_once([(sides, wanted)], bool(number % 2), request)
            found.add_coarse([test.nodeid for test in tests], pair, watch.busy())
            tests = [test for test in tests if found.coarse.still_slower(test.nodeid)]

    def _judge_in_rounds(
        self, sides: Sequence[Command], tests: Sequence[tuple[SideTest, Seeming]], found: Found
    ) -> None:
        """Judge the times of *tests* that are a little slower, in rounds that take turns, while the pairs agree."""
        in_rounds, left_out, left_ns = list[SideTest](), list[str](), ROUNDS_NS
        for test, seems in tests:
            if seems.ns <= left_ns:
                in_rounds.append(test)
                self._rounds[test.nodeid] = seems.rounds
                left_ns -= seems.ns
            else:
                left_out.append(test.nodeid)
        self._say_not_in_rounds(left_out, f"in rounds they take more than {format_ns(ROUNDS_NS)}")
        number = 0
        while in_rounds and number < ROUND_PAIRS:
            seem = "seems" if len(in_rounds) == 1 else "seem"
            of = f"pair {number + 1} of {ROUND_PAIRS}, in rounds"
            say(self._config, f"opprof: {plural(len(in_rounds), 'test')} {seem} slower than in {self._base.name}; {of}")
            [wanted] = self._wanted([[test.nodeid for test in in_rounds]], in_turns=True)
            try:
                pair = turns.run_at_once([(sides, wanted)], bool(number % 2), Request(ops_only=True))
            except BackendError as error:
                # Without the test that ended a side, the others go on.
                ended = [test.nodeid for test in in_rounds if test.nodeid in str(error)]
                ended = ended or [test.nodeid for test in in_rounds]
                self._say_not_in_rounds(ended, str(error))
                in_rounds = [test for test in in_rounds if test.nodeid not in ended]
                continue
            in_rounds = found.add_rounds(in_rounds, pair)
            number += 1

    def _say_not_in_rounds(self, tests: Sequence[str], why: str) -> None:
        if tests:
            self._summary.lines.append(f"opprof: slower at first, and not judged in rounds: {listed(tests)}: {why}")

    def _pair(
        self, sides: Sequence[Sequence[Command]], tests: Sequence[SideTest], swapped: bool
    ) -> list[list[SideRun]]:
        """Run *tests* on both sides: timed tests with nothing beside them, counted ones in parallel."""
        timed = [test for test in tests if test.may_judge_times] if len(sides) > 1 else []
        counted = [test for test in tests if not (timed and test.may_judge_times)]
        batches = [zip(sides, self._wanted(_shards(counted, len(sides)))), zip(sides, self._wanted(_shards(timed, 1)))]
        return [turns.run_at_once(pairs, swapped) for each in batches if (pairs := [*each])]

    def _cache(self) -> BaseCache | None:
        """Return the cache of the base's results; None if another run could measure other results."""
        config, options = self._config, self._config.option
        if self._python or options.opprof_against_install or options.opprof_against_tests == "here":
            return None  # that Python's packages, or the test files, may change while the commit stays the same
        folder = self._cache_folder()
        return BaseCache(folder, self._base.commit, list(map(str, config.invocation_params.args))) if folder else None

    def _cache_folder(self) -> Path | None:
        if folder := self._config.option.opprof_cache:
            return Path(self._config.invocation_params.dir, folder)
        has_cache = self._config.pluginmanager.hasplugin("cacheprovider")
        return self._config.cache.mkdir("opprof") if has_cache else None

    def _say_what_is_only_there(self, found: Found) -> None:
        for test in found.only_there:
            say(self._config, f"opprof: only {self._base.name} has {test}")

    def _report(self, test: SideTest, found: Found) -> None:
        hook = self._config.hook
        hook.pytest_runtest_logstart(nodeid=test.nodeid, location=test.location)
        for report in found.reports(test):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=test.nodeid, location=test.location)


def _with_files_around(tree: Worktree, files: set[Path]) -> set[Path]:
    """Return test *files*, with the files that pytest imports around them, and changed files of their ``tests`` folder.

    Only there, since a changed module beside a test may be the code under test.
    """
    inside = [[each for each in file.resolve().parents if tree.top in each.parents] for file in files]
    of_tests = {each for folders in inside for each in folders if each.name in ("test", "tests")}
    around = {file for file in tree.changed_files() if not of_tests.isdisjoint(file.parents)}
    folders = {parent for file in files for parent in file.parents if parent.is_relative_to(tree.top)}
    around |= {folder / name for folder in folders for name in ("conftest.py", "__init__.py")}
    # An `__init__.py` of the package itself stays the revision's, since that code is under test.
    around = {file for file in around if file.name != "__init__.py" or not tree.has(file)}
    return files | {each for each in around if each.is_file()}


def _code_of(test: str, file: Path) -> str:
    """Return the code of a test in a *file*, without comments and layout; empty if it has none there."""
    node: ast.AST | None = ast.parse(file.read_bytes())
    _, names = split_id(function_of(test))
    for name in names.split("::"):
        node = next((each for each in getattr(node, "body", ()) if getattr(each, "name", "") == name), None)
    return ast.dump(node) if node else ""


def _is_known(test: SideTest, known: SideRun) -> bool:
    return test.nodeid in known.reports or (bool(known.collected) and test.nodeid not in known.collected)


def _shards(tests: Sequence[SideTest], number: int) -> list[list[str]]:
    """Split the tests into at most *number* parts of similar size; a file stays whole, since its tests may share
    fixtures, and each part has the order of *tests*, on which some depend.
    """
    sizes = Counter(split_id(test.nodeid)[0] for test in tests)
    shards, part_of = [0] * number, {}
    for file, size in sizes.most_common():
        part_of[file] = part = shards.index(min(shards))
        shards[part] += size
    parts = ([test.nodeid for test in tests if part_of[split_id(test.nodeid)[0]] == part] for part in range(number))
    return [part for part in parts if part]


def _forecast(tests: Sequence[SideTest], everything: bool) -> str:
    """Return a line that says how many processes the comparison takes."""
    timed = [test for test in tests if test.may_judge_times]
    closely = ", as closely as marked ones" if len(tests) <= FEW_TESTS else ""
    marks = f"no test has a mark, so all are measured{closely}; " if everything else ""
    times = (
        f"; {plural(len(timed), 'test')} may judge times: {TIMED_PAIRS[0]} pairs, {TIMED_PAIRS[1]} where they differ"
    )
    return f"{marks}{plural(len(tests), 'test')}, 1 process a side{times if timed else ''}"


def _commands(config: pytest.Config, tree: Worktree, folder: Path, python: str) -> list[Command]:
    """Return the commands that start the revision and the working tree."""
    root, here = config.rootpath.resolve(), config.invocation_params.dir.resolve()
    for path in (root, here):
        if not path.is_relative_to(tree.top):
            raise UsageError(f"--opprof-against: {path} is not in the repository {tree.top}")
    seed = getattr(config.option, "randomly_seed", None)
    chosen = [] if seed is None else [f"--randomly-seed={seed}"]
    for name in ("there", "here"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if any(getattr(config.option, name, False) for name in ("lf", "failedfirst", "newfirst")):
        # Only the working tree's: the results of the base are kept, and must be of all tests.
        values = config.cache.mkdir("opprof").parents[1] / "v"
        if values.is_dir():
            shutil.copytree(values, folder / "here" / "cache" / "v", dirs_exist_ok=True)
    lines = [[*command(config, str(folder / name)), *_ONLY_MEASURES, *chosen] for name in ("there", "here")]
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
            is_base=True,
        ),
        side_command(
            _HERE,
            lines[1],
            here,
            _path_first(root),
            {"own": str(tree.top), "own_first": str(root), "other": str(tree.path)},
            is_base=False,
        ),
    ]


_ONLY_MEASURES = ("--opprof-baselines=", "--maxfail=0", "--continue-on-collection-errors")


def _words_there(config: pytest.Config, tree: Worktree, words: Sequence[str]) -> list[str]:
    """Return a command's *words* without files that the revision lacks, and with whole files for their tests.

    pytest would stop at a missing file; the two sides agree on the tests to run.
    """
    here = config.invocation_params.dir
    if config.getoption("pyargs", False):
        return list(words)
    files = {word: split_id(word)[0] for word in config.args if word in words}
    lacking = {word for word, file in files.items() if not tree.has(here / file)}
    found = [files.get(word, word) for word in words if word not in lacking]
    # Without a file pytest would collect all tests there.
    return [*found, "--ignore-glob=*"] if lacking and len(lacking) == len(files) else found


def _path_first(root: Path) -> dict[str, str]:
    """Return the environment that imports packages from below *root* first."""
    folders = [str(path) for path in (root / "src", root) if path.is_dir()]
    # OpenMP threads spin while they wait, and the side without its turn waits all the time.
    return {
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
