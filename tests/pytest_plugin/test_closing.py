"""The end of a run, from the reports of its tests on."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from msgspec import to_builtins

from pytest_opprof.baselines.stale import Collected
from pytest_opprof.baselines.store import Store
from pytest_opprof.pytest_plugin.closing import Closing
from pytest_opprof.pytest_plugin.options import settings_of
from pytest_opprof.report.summary import Summary
from pytest_opprof.results.judged_window import JudgedWindow
from pytest_opprof.results.test_result import TestRecord
from pytest_opprof.results.window_result import BODY, WindowNumbers

from ..conftest import ENVIRONMENT, profile_of

TEST = "test_m.py::test_a"


class NoOthers:
    """Stands for the pool of a run that must not start a process."""

    @contextmanager
    def started(self, files: set[str], number: int) -> Any:
        pytest.fail(f"{number} processes were started for {files}")
        yield


class Ending:
    """A run that is to end, without tests of its own: they are reported."""

    def __init__(self, config: pytest.Config, keeps: bool = True, **known: Any) -> None:
        settings = replace(settings_of(config), processes=1, **known)
        self.store, self.summary = Store(settings.baselines), Summary()
        self.collected = Collected(config.rootpath, [], config.rootpath)
        self.closing = Closing(
            config,
            settings,
            self.store,
            NoOthers(),  # type: ignore[arg-type]
            self.collected,
            self.summary,
            keeps,
        )
        self.session = pytest.Session.from_config(config)
        self.session.exitstatus = pytest.ExitCode.OK

    def reports(self, when: str = "call", outcome: str = "passed", adds: int = 1, measured: bool = True) -> None:
        report = pytest.TestReport(TEST, ("test_m.py", 0, "test_a"), {}, outcome, None, when)  # type: ignore[arg-type]
        if measured and when == "call":
            window = JudgedWindow(WindowNumbers.of(BODY, profile_of([("Add", 5)] * adds)))
            result = window.result("CPU", parallel=False, compared=True)
            report.opprof = to_builtins(  # type: ignore[attr-defined]
                TestRecord(id=TEST, status="ok", outcome=outcome, windows=[result])  # type: ignore[arg-type]
            )
        self.closing.collect(report)

    def runs(self, error: BaseException | None = None) -> None:
        """Let the loop over the tests end, or be left by an error."""
        loop = self.closing.after_tests()
        next(loop)
        try:
            loop.throw(error) if error else loop.send(True)
        except StopIteration:
            pass

    def finishes(self, status: pytest.ExitCode = pytest.ExitCode.OK) -> int:
        self.session.exitstatus = status
        self.closing.finish(self.session, status)
        return int(self.session.exitstatus)

    def kept(self) -> int | None:
        """Return the calls of Add in the baseline, None if there is none."""
        entry = Store(self.store.root).entry(ENVIRONMENT, "test_m.py", "test_a", BODY)
        return entry.ops["Add"].calls.most if entry else None


End = Callable[..., Ending]


@pytest.fixture
def ending(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> End:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\naddopts = -p opprof\n")
    pytester.makepyfile(test_m="def test_a(): pass")
    return lambda **known: Ending(pytester.parseconfig(), **known)


# --- what was reported


def test_of_a_test_that_is_run_again_the_last_counts(ending: End) -> None:
    run = ending()
    run.reports(adds=1)
    run.reports(adds=2)
    assert run.summary.records[TEST].windows[0].total.calls == (2,)
    run.reports(measured=False, outcome="failed")
    assert run.summary.records == {}


def test_a_test_whose_part_failed_did_not_pass(ending: End) -> None:
    """A subtest reports its own call, before that of its test, which "passed"."""
    run = ending()
    run.reports("setup")
    run.reports("call", "failed", measured=False)
    run.reports("call")
    assert run.summary.records[TEST].outcome == "failed"


def test_a_test_whose_teardown_failed_did_not_pass(ending: End) -> None:
    run = ending()
    for phase, outcome in (("setup", "passed"), ("call", "passed"), ("teardown", "failed")):
        run.reports(phase, outcome)
    assert run.summary.records[TEST].outcome == "failed"


def test_a_test_that_failed_before_it_was_run_again_may_pass(ending: End) -> None:
    run = ending()
    for outcome in ("failed", "passed"):
        run.reports("setup")
        run.reports("call", outcome, measured=outcome == "passed")
    assert run.summary.records[TEST].outcome == "passed"


# --- baselines


def test_an_update_writes_what_passed_and_says_so(ending: End) -> None:
    run = ending(update="all")
    run.reports()
    run.runs()
    assert run.kept() == 1
    assert run.summary.lines[0] == "baselines of 1 test: 1 new, 0 changed, 0 unchanged"
    assert run.summary.lines[1].startswith("  wrote baselines/")
    assert run.finishes() == 0


@pytest.mark.parametrize("known", [{}, {"update": "all", "keeps": False}])
def test_no_other_run_writes_any(ending: End, known: dict[str, Any]) -> None:
    run = ending(**known)
    run.reports()
    run.runs()
    assert (run.kept(), run.summary.lines) == (None, [])


def test_what_passed_before_a_run_stopped_at_a_failure_is_written(ending: End) -> None:
    run = ending(update="all")
    run.reports()
    with pytest.raises(pytest.Session.Failed):
        run.runs(pytest.Session.Failed("stopping after 1 failures"))
    assert run.kept() == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.exit.Exception("enough", 0)])
def test_a_run_that_was_cut_short_writes_nothing_and_fails(ending: End, error: BaseException) -> None:
    run = ending(update="all")
    run.reports()
    with pytest.raises(type(error)):
        run.runs(error)
    assert (run.kept(), run.finishes()) == (None, pytest.ExitCode.TESTS_FAILED)
    assert run.summary.errors == ["interrupted: no baseline was written"]


def test_a_broken_baseline_file_is_an_error_of_the_run_said_once(ending: End, pytester: pytest.Pytester) -> None:
    first = ending(update="all")
    first.reports()
    first.runs()
    (path,) = [path for path in pytester.path.glob("baselines/*/*.json") if "times" not in path.name]
    path.write_text("{")
    run = ending(update="all")
    run.reports()
    run.runs()
    assert run.finishes() == pytest.ExitCode.TESTS_FAILED
    assert len([error for error in run.summary.errors if str(path) in error]) == 1
    assert path.read_text() == "{"


def test_what_goes_wrong_in_here_is_no_failure_of_a_test(ending: End, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ending(update="all")
    run.reports()
    monkeypatch.setattr(run.store, "save", lambda: 1 / 0)
    run.runs()
    (error,) = run.summary.errors
    assert error.startswith("baselines were not written, by a defect of pytest-opprof: ZeroDivisionError: ")


# --- stale baselines, and the JSON


@pytest.mark.parametrize(("strict", "status"), [(False, 0), (True, 1)])
def test_a_baseline_whose_test_is_gone_is_named_and_fails_a_strict_run(ending: End, strict: bool, status: int) -> None:
    first = ending(update="all")
    first.reports()
    first.runs()
    run = ending(strict=strict)
    run.reports()
    run.collected.add(["test_m.py::test_b"])
    assert run.finishes() == status
    (stale,) = run.summary.stale
    assert stale.test == "test_a"
    assert stale.file.startswith("baselines/")


def test_the_status_of_a_run_that_failed_already_stays(ending: End) -> None:
    run = ending()
    run.summary.errors.append("it broke")
    assert run.finishes(pytest.ExitCode.INTERNAL_ERROR) == pytest.ExitCode.INTERNAL_ERROR


def test_an_interrupted_run_judges_no_baseline_stale_and_its_json_says_so(
    ending: End, pytester: pytest.Pytester
) -> None:
    path = pytester.path / "run.json"
    run = ending(json=path)
    run.reports()
    assert run.finishes(pytest.ExitCode.INTERRUPTED) == pytest.ExitCode.INTERRUPTED
    written = json.loads(path.read_text())
    assert (written["interrupted"], [test["id"] for test in written["tests"]]) == (True, [TEST])


def test_json_that_cannot_be_written_fails_the_run(ending: End, pytester: pytest.Pytester) -> None:
    run = ending(json=pytester.path / "test_m.py" / "run.json")
    assert run.finishes() == pytest.ExitCode.TESTS_FAILED
    assert "cannot be written: Not a directory" in run.summary.errors[0]
