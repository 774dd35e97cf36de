"""``--opprof-against=REV``: run the tests at another revision and in the working tree by turns, and compare them."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from ..errors import BackendError, OpprofError, UsageError
from ..machine.load import Watch
from ..machine.scratch import scratch
from ..processes import turns
from ..processes.base import Base, messages
from ..processes.base_cache import BaseCache
from ..processes.base_install import KeptEnvironment, check_python, installed
from ..processes.child import Command, terminated_as_by_ctrl_c
from ..processes.recording import CALL_PROCESSES
from ..processes.this_run import command, say
from ..processes.turns import SideRun, side_command
from ..processes.worktree import Worktree, worktree
from ..profile.op_counts import listed
from ..report.escaping import terminal
from ..report.summary import Summary
from ..results.test_id import split_id
from ..units import plural
from ..verdict.acceptance import Acceptance, lines_of, parsed, proposed
from ..verdict.coarse import PROCESSES
from ..verdict.tolerances import LEAST_ROUNDS, LOOKS
from .options import SETTINGS, settings_of
from .pairs import Found
from .test_run import TestRun

_HERE = "the working tree"


class Against:
    """The hooks of a run that compares two versions: it runs no test itself, and reports the results of both sides."""

    def __init__(self, config: pytest.Config, base: Base, python: str, summary: Summary) -> None:
        self._config = config
        self._base = base
        self._python = python
        self._summary = summary
        self._everything = False
        """Whether all tests are measured because none has a mark."""
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

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect tests without measurements; if no test has a mark, measure all."""
        tests = [TestRun.of(item) for item in items]
        if not any(map(_measures, tests)):
            self._config.stash[SETTINGS] = replace(settings_of(self._config), everything=True)
            for test in tests:
                test.read_marks_anew()
            self._everything = self._summary.marked = True
        measuring: list[pytest.Item] = []
        idle: list[pytest.Item] = []
        for test in tests:
            (measuring if _measures(test) else idle).append(test.item)
        if idle:
            self._config.hook.pytest_deselected(items=idle)
            items[:] = measuring

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run both sides and report each test. Raises pytest.UsageError if that is impossible."""
        options = session.config.option
        failed = session.testsfailed and not options.continue_on_collection_errors
        if options.collectonly or failed or not session.items:
            return None  # pytest lists the tests, or reports the collection errors
        try:
            tests = [TestRun.of(item) for item in session.items]
            found = self._measured(tests)
        except (OpprofError, OSError) as error:
            raise pytest.UsageError(str(error)) from error
        self._say_what_is_only_there(found)
        if compiled := found.first[0].borrowed:
            self._summary.lines.append(
                f"opprof: {self._base.name} ran with compiled modules of the working tree, so their changes are not"
                f" compared: {listed(compiled)}. --opprof-against-install builds them there"
            )
        try:
            for test in tests:
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

    def _measured(self, tests: Sequence[TestRun]) -> Found:
        with ExitStack() as stack:
            stack.enter_context(terminated_as_by_ctrl_c())
            tree = stack.enter_context(worktree(self._config.invocation_params.dir, self._base.commit))
            if self._config.option.opprof_against_tests == "here":
                tree.lay_over(_with_files_around(tree, {test.item.path for test in tests}))
            folder = stack.enter_context(scratch())
            say(self._config, f"opprof: {_forecast(tests, self._everything)}")
            if self._base.is_the_working_tree:
                but = f", the base in {self._python}" if self._python else ""
                say(
                    self._config, f"opprof: no tracked file differs from that commit: both sides run the same code{but}"
                )
            workers = min(getattr(self._config.option, "opprof_against_workers", 1), len(tests))
            if python := self._python:
                check_python(python)
            if install := self._config.option.opprof_against_install:
                python = self._installed(folder / "base", tree.path, install)
            sides = []
            for number in range(workers):
                place = folder / f"{number}"
                place.mkdir()
                sides.append(_commands(self._config, tree, str(place), python, self._everything))
            lines = {} if self._config.option.opprof_against_tests == "here" else tree.changed_lines()
            changed = {test.nodeid: lines[path] for test in tests if (path := test.item.path.resolve()) in lines}
            return self._taking_turns(sides, tests, tree, changed)

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
        self,
        sides: Sequence[Sequence[Command]],
        tests: Sequence[TestRun],
        tree: Worktree,
        changed: Mapping[str, int],
    ) -> Found:
        found = Found(self._base.name, self._config, list(self._accepted_by_commits()), changed)
        cache = self._cache()
        known = cache.load() if cache else SideRun()
        wanted, took_s = list(tests), 0.0
        for number in range(LOOKS[1]):
            if number in (1, CALL_PROCESSES, LOOKS[0]):
                wanted = [test for test in wanted if found.is_open(test)]
            if not wanted:
                break
            estimate = f", about {took_s:.0f} s" if took_s else ""
            judges_times = any(map(_may_judge_times, wanted))
            of = f" of {LOOKS[number >= LOOKS[0]]}" if judges_times else ""
            reason = " to confirm" if number and not judges_times else ""
            what = f"pair {number + 1}{of}, {plural(len(wanted), 'test')}{reason}"
            say(self._config, f"opprof: {what}{estimate}")
            begin = monotonic()
            if number == 0 and cache:
                counted = [test for test in wanted if not _may_judge_times(test)]
                alone = [test for test in counted if _is_known(test, known)]
                pair = self._pair(sides, [test for test in wanted if test not in alone], False)
                if alone:
                    said = f"opprof: an earlier run measured the base in {plural(len(alone), 'test')}"
                    say(self._config, said)
                    here = [([side[1]], tests) for side, tests in zip(sides, _shards(alone, len(sides)))]
                    pair.append([known, *turns.run_at_once(here, False)])
                found.add(turns.joined(pair))
                cache.keep(found.first[0], {test.nodeid for test in counted})
                self._summary.lines += [f"opprof: {cache.problem}"] if cache.problem else []
            else:
                found.add(turns.joined(self._pair(sides, wanted, bool(number % 2))))
            took_s = monotonic() - begin
            if number == 0:
                self._run_todays(sides, [test for test in tests if test.nodeid in changed], tree, found)
                self._locate(sides, tests, found, "to confirm and ")
        self._confirm_coarse(sides[0], [test for test in tests if found.suspects(test)], found)
        ids = [test.nodeid for test in tests]
        found.check_complete(ids)
        found.check_compared(ids)
        self._locate(sides, tests, found)
        return found

    def _run_todays(
        self, sides: Sequence[Sequence[Command]], tests: Sequence[TestRun], tree: Worktree, found: Found
    ) -> None:
        """Run changed *tests* that do more as they are now on both sides: the change may be in the test alone."""
        asked = [test for test in tests if found.is_open(test) or found.suspects(test)]
        if not asked:
            return
        say(self._config, f"opprof: one more pair, {plural(len(asked), 'changed test')} as now on both sides")
        functions = [test for test in asked if isinstance(test.item, pytest.Function)]
        changed = {each.nodeid for each in functions if _code_of(each) != _code_of(each, tree.twin(each.item.path))}
        tree.lay_over({test.item.path for test in asked})
        try:
            kept = found.add_todays(asked, turns.joined(self._pair(sides, asked, False)), changed)
        except BackendError as error:
            kept = {test.nodeid for test in asked}
            self._summary.lines.append(f"opprof: changed tests were compared as each side has them: {error}")
        tree.restore({test.item.path for test in asked if test.nodeid in kept})

    def _locate(
        self, sides: Sequence[Sequence[Command]], tests: Sequence[TestRun], found: Found, why: str = ""
    ) -> None:
        """Look up the source lines of tests that fail for their work; *why*: another purpose of the pair."""
        groups = found.alike([test for test in tests if found.asks_for_lines(test)])
        if not groups:
            return
        failing, every = [group[0] for group in groups], sum(map(len, groups))
        of = f" of {every}, one for each group of parameters with the same change" if len(failing) < every else ""
        say(self._config, f"opprof: one more pair, {plural(len(failing), 'test')}{of}, {why}to look up source lines")
        shards = _shards(failing, len(sides))
        found.locate(groups, turns.run_at_once([*zip(sides, shards)], swapped=False, sites=True))

    def _confirm_coarse(self, sides: Sequence[Command], tests: Sequence[TestRun], found: Found) -> None:
        """Measure *tests* in further pairs of processes, one at a time and in one thread, while they remain slower."""
        for number in range(PROCESSES):
            if not tests:
                return
            what = (
                f"takes longer than in {self._base.name}"
                if len(tests) == 1
                else f"take longer than in {self._base.name}"
            )
            say(
                self._config,
                f"opprof: {plural(len(tests), 'test')} {what}; pair {number + 1} of {PROCESSES} to confirm",
            )
            watch = Watch()
            pair = turns.run_at_once([(sides, [test.nodeid for test in tests])], bool(number % 2), one_thread=True)
            found.add_coarse(pair, watch.busy())
            tests = [test for test in tests if found.coarse.still_slower(test.nodeid)]

    def _pair(self, sides: Sequence[Sequence[Command]], tests: Sequence[TestRun], swapped: bool) -> list[list[SideRun]]:
        """Run *tests* on both sides: timed tests with nothing beside them, counted ones in parallel."""
        timed = [test.nodeid for test in tests if _may_judge_times(test)] if len(sides) > 1 else []
        counted = _shards([test for test in tests if test.nodeid not in timed], len(sides))
        batches = [[*zip(sides, counted)], [(sides[0], timed)] if timed else []]
        return [turns.run_at_once(each, swapped) for each in batches if each]

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

    def _report(self, test: TestRun, found: Found) -> None:
        hook = test.item.ihook
        hook.pytest_runtest_logstart(nodeid=test.nodeid, location=test.item.location)
        for report in found.reports(test):
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=test.nodeid, location=test.item.location)


def _measures(test: TestRun) -> bool:
    try:
        return test.has_fixture or test.plan.measured
    except UsageError:
        return True  # the session reports the errors in its marks


def _with_files_around(tree: Worktree, files: set[Path]) -> set[Path]:
    """Return test *files*, with the files that pytest imports around them."""
    folders = {parent for file in files for parent in file.parents if parent.is_relative_to(tree.top)}
    around = {folder / name for folder in folders for name in ("conftest.py", "__init__.py")}
    # An `__init__.py` of the package itself stays the revision's, since that code is under test.
    around = {file for file in around if file.name == "conftest.py" or not tree.has(file)}
    return files | {each for each in around if each.is_file()}


def _code_of(test: TestRun, file: Path | None = None) -> str:
    """Return the code of a test in its file, or in another *file*, without comments and layout; empty if it has none
    there.
    """
    node: ast.AST | None = ast.parse((file or test.item.path).read_bytes())
    _, names = split_id(test.nodeid)
    for name in names.partition("[")[0].split("::"):
        node = next((each for each in getattr(node, "body", ()) if getattr(each, "name", "") == name), None)
    return ast.dump(node) if node else ""


def _is_known(test: TestRun, known: SideRun) -> bool:
    return test.nodeid in known.reports or (bool(known.collected) and test.nodeid not in known.collected)


def _may_judge_times(test: TestRun) -> bool:
    return test.plan.rounds >= LEAST_ROUNDS or test.has_fixture


def _shards(tests: Sequence[TestRun], number: int) -> list[list[str]]:
    """Split the tests into at most *number* parts of similar size; a file stays whole, since its tests may share
    fixtures.
    """
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(split_id(test.nodeid)[0], []).append(test.nodeid)
    shards: list[list[str]] = [[] for _ in range(number)]
    for ids in sorted(files.values(), key=len, reverse=True):
        min(shards, key=len).extend(ids)
    return [shard for shard in shards if shard]


def _forecast(tests: Sequence[TestRun], everything: bool) -> str:
    """Return a line that says how many processes the comparison takes."""
    timed = [test for test in tests if _may_judge_times(test)]
    marks = "no test has a mark, so all are measured; " if everything else ""
    times = f"; {plural(len(timed), 'test')} may judge times: {LOOKS[0]} pairs, {LOOKS[1]} where they differ"
    return f"{marks}{plural(len(tests), 'test')}, 1 process a side{times if timed else ''}"


def _commands(config: pytest.Config, tree: Worktree, folder: str, python: str, everything: bool) -> list[Command]:
    """Return the commands that start the revision and the working tree; *everything*: they measure all tests."""
    root, here = config.rootpath.resolve(), config.invocation_params.dir.resolve()
    for path in (root, here):
        if not path.is_relative_to(tree.top):
            raise UsageError(f"--opprof-against: {path} is not in the repository {tree.top}")
    seed = getattr(config.option, "randomly_seed", None)
    chosen = ["--opprof-all"] if everything else []
    chosen += [] if seed is None else [f"--randomly-seed={seed}"]
    lines = []
    for name in ("there", "here"):
        Path(folder, name).mkdir()
        lines.append([*command(config, f"{folder}/{name}"), *_ONLY_MEASURES, *chosen])
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
