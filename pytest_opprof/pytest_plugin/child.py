"""The hooks of a pytest that another run started: its loop takes the place of pytest's, and runs the requested
tests.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from ..errors import UsageError
from ..machine.cpu_core import LOOKING_PATIENCE_S, PATIENCE_S, Core
from ..processes.collection import Collection, SideTest
from ..processes.parent import Parent, why
from ..processes.pool import Batch, Measured
from ..processes.request import put_request
from ..processes.this_run import CORE, COUNTED
from ..results.plain import converted, plain
from ..results.test_id import id_of
from ..results.test_result import TestRecord
from ..verdict.times.coarse import Coarse
from ..verdict.tolerances import LEAST_ROUNDS
from .body import why_not_again
from .fixture import compiling
from .options import change_settings
from .reruns.order import Order
from .test_run import TestRun

_INSTALLED = frozenset(["site-packages", "dist-packages"])


class Fresh:
    """The hooks of a fresh process: it collects, then measures requested tests and answers with the results.

    It goes on until the run that started it ends. Nothing ran in it before.
    """

    def __init__(self, config: pytest.Config, parent: Parent, order: Order) -> None:
        self._config = config
        self._parent = parent
        self._order = order
        self._files = {Path(file) for file in parent.told["files"]}
        """The files of the tests that may be requested."""
        self._errors: dict[str, str] = {}
        self._answer = Measured()
        # Tests that precede the one that the user named may be requested.
        config.args = list(dict.fromkeys(arg.partition("::")[0] for arg in config.args))
        config.option.keyword = ""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Collect only these files."""
        return None if collection_path.is_dir() or collection_path in self._files else True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember collection errors."""
        if report.failed:
            self._errors[report.nodeid] = why(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> NoReturn:
        """Run the requested tests; `Parent.ask` ends the loop."""
        items = self._order.items
        for test in map(TestRun.of, session.items if self._parent.told["closely"] else ()):
            test.read_marks_anew(is_close=True)
        answers: dict[str, Measured] = {}
        while True:
            batch = converted(self._parent.ask("ready", plain(answers)), Batch)
            request = batch.request
            # Up to six batches look at a coarse time.
            patience_s = PATIENCE_S if request.one_thread else LOOKING_PATIENCE_S
            self._config.stash[CORE] = Core(batch.best_ns or math.inf, patience_s)
            found = [items[test] for test in batch.tests if test in items]
            answers = {test: self._missing(test) for test in batch.tests if test not in items}
            if batch.until:
                wanted = {*batch.tests}
                before = [items[each] for each in self._order.before(batch.until) if each in wanted]
                found = [*before, items[batch.until]] if batch.until in items else []
            # pytest tears down all that the node after an item does not need. This node keeps the module's fixtures for
            # the next batch.
            last = found[-1].parent if found and batch.stays else None
            for item, following in zip(found, [*found[1:], last]):
                if request.anew and not compiling(TestRun.of(item)):
                    answers[id_of(item)] = Measured(why="no framework can forget the functions that it compiled")
                    continue
                self._answer = answers[id_of(item)] = Measured()
                put_request(self._config, replace(request, sites=request.sites or id_of(item) in batch.sites))
                run = session.config.hook.pytest_runtest_protocol
                times: dict[str, Coarse | None] | None = None
                scopes = {each.scope for each in TestRun.of(item).lasting_fixtures}
                if batch.repeats and scopes - {"session"}:
                    # Only a repeat with the same fixtures shows the work that an earlier test of the class had done;
                    # those of the session remain anyway.
                    run(item=item, nextitem=item.parent)
                    times = {window.name: window.coarse for window in self._answer.windows}
                run(item=item, nextitem=following)
                if times is not None:
                    windows = self._answer.windows
                    self._answer.windows = [replace(each, coarse=times.get(each.name)) for each in windows]
                self._answer.python = self._config.stash.setdefault(COUNTED, {})
                del self._config.stash[COUNTED]

    def _missing(self, test: str) -> Measured:
        errors = [f"{file}: {error}" for file, error in self._errors.items() if test.startswith(file)]
        return Measured(why="; ".join(errors) or "pytest did not collect it there")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the results, and the errors."""
        if report.when == "call" and hasattr(report, "opprof"):
            record = converted(report.opprof, TestRecord)
            self._answer.windows = record.windows
            if not record.windows:
                self._answer.why = "; ".join(said for each in record.remarks.values() for said in each)
        # A measured body fails for its budget or baseline, which the requesting run reports itself.
        if not report.passed and not (report.when == "call" and self._answer.windows):
            self._answer.why = f"{'skipped' if report.skipped else 'failed'}: {why(report)}"


class Side:
    """The hooks of one side of an A/B comparison: it runs a round of a test at each turn."""

    def __init__(self, config: pytest.Config, parent: Parent) -> None:
        # Both sides run all tests; the run that compares stops at the first that fails.
        for flag in ("stepwise", "stepwise_skip", "stepwise_reset"):
            setattr(config.option, flag, False)
        self._config = config
        self._parent = parent
        self._reports: list[dict[str, Any]] = []
        self._errors: dict[str, str] = {}
        self._modules: list[dict[str, Any]] = []
        """The reports of modules that failed or were skipped."""
        self._deselected: list[str] = []
        self._is_collected = False
        trees = parent.told["trees"]
        self._moved = (trees["own"], trees["other"]) if parent.told["is_base"] else ("", "")

    def _id(self, nodeid: str) -> str:
        """Return the id of a test in the working tree, if its parameters contain the folder of the base's tree."""
        own, other = self._moved
        return nodeid.replace(own, other) if own else nodeid

    def turn(self) -> None:
        """Wait for this side's turn to run a round."""
        self._parent.ask("turn")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember each collection error, in one line, and in full for a collection that is described."""
        if report.failed:
            self._errors[report.nodeid] = why(report)
        if not report.passed:
            self._modules.append(self._plain(report))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remember the tests that an option leaves out."""
        self._deselected += [item.nodeid for item in items]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self) -> None:
        """Note that the tests are collected: without the requested ones pytest raises an error before."""
        self._is_collected = True

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the tests that both sides have, in their common order: of those that no plugin, as --lf, deselected."""
        if not self._is_collected:
            return  # pytest calls this also while an error ends the collection
        tests = [TestRun.of(item) for item in session.items]
        described = [plain(self._described(tests))] if self._parent.told["describes"] else []
        wanted = self._parent.ask("tests", [self._id(test.nodeid) for test in tests], self._errors, *described)
        if wanted["everything"]:
            self._measure_all(tests)
        closely, later = {*wanted["closely"]}, {*wanted["later"]}
        for test in tests:
            test_id = self._id(test.nodeid)
            rounds = 0 if why_not_again(test) else wanted["rounds"].get(test_id, 0)
            test.read_marks_anew(is_close=test_id in closely, is_later=test_id in later, rounds=rounds)
        order = {test: number for number, test in enumerate(wanted["tests"])}
        chosen = (item for item in session.items if self._id(item.nodeid) in order)
        session.items[:] = sorted(chosen, key=lambda item: order[self._id(item.nodeid)])

    def _described(self, tests: Sequence[TestRun]) -> Collection:
        """Describe the *tests* that have measurements; all, if none has a mark."""
        wrong_marks = []
        for test in tests:
            try:
                assert test.plan
            except UsageError as error:
                wrong_marks.append(str(error))
        if wrong_marks:
            return Collection([], [], False, wrong_marks, self._modules)
        if everything := not any(test.measures for test in tests):
            self._measure_all(tests)
        idle = [test.nodeid for test in tests if not test.measures]
        measured = [side_test(test) for test in tests if test.measures]
        return Collection(measured, self._deselected + idle, everything, wrong_marks, self._modules)

    def _measure_all(self, tests: Sequence[TestRun]) -> None:
        change_settings(self._config, everything=True)
        self._config.option.opprof_all = True  # of the processes that this one starts
        for test in tests:
            test.read_marks_anew()

    def _plain(self, report: pytest.CollectReport | pytest.TestReport) -> dict[str, Any]:
        plain: dict[str, Any] = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        return plain

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test together with the other side."""
        self._reports.clear()
        self._parent.ask("begin", self._id(nodeid))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of a phase of the test."""
        self._reports.append(self._plain(report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Send the reports of the test."""
        self._parent.ask("end", self._id(nodeid), self._reports)

    def pytest_sessionfinish(self) -> None:
        """Report packages that were imported from a wrong place."""
        trees = self._parent.told["trees"]
        self._parent.ask("bye", list(misplaced(**trees)), list(borrowed(trees["other"])))


def side_test(test: TestRun) -> SideTest:
    """Describe a test for the run that compares."""
    return SideTest(
        nodeid=test.nodeid,
        file=test.file,
        location=test.item.location,
        tolerances=test.plan.tolerances,
        top=test.plan.top,
        baseline=test.plan.baseline,
        may_judge_times=test.plan.rounds >= LEAST_ROUNDS or test.has_fixture or test.plan.budget.limits_time,
        shows_failure=test.shows_failure,
        is_function=isinstance(test.item, pytest.Function),
    )


def borrowed(other: str) -> Iterator[str]:
    """Yield the compiled modules in packages that are of the *other* tree: an editable install finds them only where
    they were built.
    """
    for name, path in _modules():
        if "." in name and _is_compiled(path) and path.is_relative_to(other) and not _is_installed(path):
            yield name


def misplaced(own: str, own_first: str, other: str) -> Iterator[str]:
    """Yield the imported modules of the *other* tree, and modules that are not from the *own* tree although it has
    them. A package is named without the modules in it; compiled modules in a package are `borrowed`.
    """
    roots = (Path(own, "src"), Path(own)) if own_first else ()
    yielded = set()
    for name, path in _modules():
        package, _, inside = name.partition(".")
        if package in yielded or (inside and _is_compiled(path)):
            continue
        installed = _is_installed(path)
        if path.is_relative_to(own) and not installed:
            continue
        is_own = not inside and any(
            (root / name / "__init__.py").is_file() or (root / f"{name}.py").is_file() for root in roots
        )
        if is_own or (path.is_relative_to(other) and not installed):
            yielded.add(package)
            yield f"{name} from {path}"


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield the modules of this process that have a file, by name; of installed packages only these themselves."""
    for name, module in sorted(sys.modules.items()):
        if not (file := getattr(module, "__file__", None)):
            continue
        # torch.classes is no file, and calls itself _classes.py. With torch there are some 2,000 modules, and a path
        # of each takes 0.3 s.
        if "." not in name or (os.path.isabs(file) and not _is_installed(file)):
            yield name, Path(file).resolve()


def _is_installed(path: Path | str) -> bool:
    return not _INSTALLED.isdisjoint(str(path).split(os.sep))


def _is_compiled(path: Path) -> bool:
    return path.name.endswith(tuple(EXTENSION_SUFFIXES))
