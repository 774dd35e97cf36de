"""Under pytest-xdist: the same verdicts, baselines written once, times marked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock, Timeout

from pytest_opprof.baselines.stale import Collected
from pytest_opprof.processes.this_run import command
from pytest_opprof.pytest_plugin.options import settings_of
from pytest_opprof.pytest_plugin.xdist import Controller, is_worker, taking_turns, tell_controller
from pytest_opprof.report.summary import Summary

from ..conftest import coarsely, thrice

pytest.importorskip("xdist", reason="pytest-xdist is not installed (pip install pytest-opprof[test])")
Suite = Callable[..., pytest.RunResult]
MODEL = """
import pytest
from pytest_opprof.backends import fake
@pytest.mark.opprof(rounds=10)
@pytest.mark.parametrize("n", range({tests}))
def test_a(n):
    for _ in range(n + {more}): fake.launch("Cast", device_ns={ns})
    fake.launch("Add")
@pytest.mark.op_budget(Cast=0)
def test_over(): fake.launch("Cast")
"""


def model(pytester: pytest.Pytester, tests: int = 6, more: int = 0, ns: int = 1_000) -> None:
    pytester.makepyfile(test_m=MODEL.format(tests=tests, more=more, ns=ns))


def summary(result: pytest.RunResult) -> str:
    (line,) = (line for line in result.stdout.lines if line.startswith("opprof: ") and " measured, " in line)
    return line


@pytest.mark.slow
@pytest.mark.processes
def test_verdicts_and_files_are_those_of_one_process(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    updated = suite("--opprof-update", "-n2", "--opprof-processes=2")
    assert summary(updated) == "opprof: 7 tests measured, 6 ok, 1 over budget"
    path, times_path = sorted(pytester.path.glob("baselines/*/*.json"))
    parallel, times = json.loads(path.read_text())["tests"], json.loads(times_path.read_text())["times"]
    path.unlink()
    suite("--opprof-update")
    alone = json.loads(path.read_text())["tests"]
    assert {t: w["body"]["ops"] for t, w in parallel.items()} == {t: w["body"]["ops"] for t, w in alone.items()}
    # Times are measured after the tests, in processes that have the machine to themselves.
    assert [len(t["total_us"]) for t in times["test_a[0]"]["body"].values()] == [2]
    model(pytester, more=1)
    for flags in ((), ("-n2",)):
        assert summary(suite("--opprof", *flags)) == (
            "opprof: 7 tests measured, 0 ok, 1 over budget, 6 with more calls, no times judged"
        )


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("once")
def test_times_measured_in_parallel_are_marked_and_not_judged(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, tests=2, ns=100_000)
    suite("--opprof-update")
    thrice(pytester)
    model(pytester, tests=2, ns=900_000)
    result = suite("--opprof", "-n2", "--opprof-json=run.json")
    assert summary(result) == (
        "opprof: 3 tests measured, 0 ok, 1 over budget, 2 with times not compared, no times judged"
    )
    why = "measured in parallel with other tests (--opprof-serialize: one at a time)"
    result.stdout.fnmatch_lines([f"times not judged, {why}: *test_a*, *test_a*"])
    run = json.loads((pytester.path / "run.json").read_text())
    assert all(window["parallel"] for test in run["tests"] for window in test["windows"])
    assert summary(suite("--opprof")) == "opprof: 3 tests measured, 1 ok, 1 over budget, 1 slower"


@pytest.mark.slow
@pytest.mark.processes
def test_an_update_in_parallel_keeps_the_times_there_are(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    coarsely(monkeypatch)  # as workers do
    model(pytester)
    suite("--opprof-update")
    thrice(pytester)
    paths = list(pytester.path.glob("baselines/*/*.json"))
    before = [path.read_text() for path in paths]
    result = suite("--opprof-update", "-n2", "--no-opprof-leaks")  # `suite` looks for none in its own process
    result.stdout.fnmatch_lines(["baselines of 6 tests: 0 new, 0 changed, 6 unchanged"])
    assert [path.read_text() for path in paths] == before


@pytest.mark.slow
@pytest.mark.processes
def test_stale_baselines_are_named_once(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, tests=6)
    suite("--opprof-update")
    model(pytester, tests=5)
    result = suite("--opprof", "-n2")
    result.stdout.fnmatch_lines(["1 stale baseline (*", "  *test_m.py.json: test_a[[]5[]]"])


@pytest.mark.processes
def test_a_wrong_mark_stops_the_run(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m="import pytest\n@pytest.mark.op_budget(Cast=-1)\ndef test_a(): pass\n")
    result = suite("--opprof", "-n2")
    assert result.ret != 0
    assert "op_budget(Cast=-1): write a number" in result.stdout.str() + result.stderr.str()


@pytest.mark.slow
@pytest.mark.processes
def test_a_crashed_worker_loses_only_its_test(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    pytester.makepyfile(test_crash="import os\ndef test_crash(): os._exit(1)\n")
    result = suite("--opprof-update", "-n2")
    assert summary(result) == "opprof: 7 tests measured, 6 ok, 1 over budget"
    result.stdout.fnmatch_lines(["baselines of 6 tests: 6 new, *"])


@pytest.mark.processes
def test_without_the_flag_budgets_that_are_not_enforced_are_counted(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    result = suite("-n2")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["opprof: 1 op budget not enforced (no --opprof)"])


@pytest.mark.slow
@pytest.mark.processes
def test_serialized_workers_measure_one_at_a_time_and_times_are_judged(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester, tests=1, more=1, ns=100_000)
    suite("--opprof-update")
    thrice(pytester)
    model(pytester, tests=1, more=1, ns=120_000)
    result = suite("--opprof", "-n2", "--opprof-serialize", "--opprof-json=run.json")
    assert summary(result) == "opprof: 2 tests measured, 0 ok, 1 over budget, 1 slower"
    result.stdout.fnmatch_lines(["  device time: 101 us -> 121 us (+19.8%), limit 13%, in 6 processes"])
    run = json.loads((pytester.path / "run.json").read_text())
    assert not any(window["parallel"] for test in run["tests"] for window in test["windows"])


@pytest.mark.slow
@pytest.mark.processes
def test_serialized_workers_hold_one_lock(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m="""
        import os, pathlib, pytest
        from pytest_opprof.backends import fake
        @pytest.mark.opprof(rounds=10)
        @pytest.mark.parametrize("n", range(8))
        def test_a(n):
            fake.launch("Add")
            (pathlib.Path(__file__).parent / "order").open("a").write(f"{os.getpid()} {n}\\n")
        """
    )
    suite("--opprof", "-n2", "--opprof-serialize").assert_outcomes(passed=8)
    lines = (pytester.path / "order").read_text().splitlines()
    # Rounds of two workers at once would be mixed.
    assert len([line for line, before in zip(lines, [None, *lines]) if line != before]) == 8


# --- what the controller and its workers tell each other; pytest-xdist takes no part in these


class Parallel:
    """A controller, and workers that it starts."""

    def __init__(self, pytester: pytest.Pytester, *arguments: str, serialize: bool = False) -> None:
        self._pytester = pytester
        config = self.config = pytester.parseconfig(*arguments)
        self.settings = replace(settings_of(config), serialize=serialize)
        self.collected, self.summary = Collected(config.rootpath, [], config.rootpath), Summary()
        self.controller = Controller(config, self.settings, self.collected, self.summary)

    def worker(self) -> pytest.Config:
        """Start a worker, and return its configuration."""
        config, node = self._pytester.parseconfig(), SimpleNamespace(workerinput={})
        self.controller.pytest_configure_node(node)
        config.workerinput, config.workeroutput = node.workerinput, {}  # as pytest-xdist does
        return config

    def ends(self, config: pytest.Config, *tests: str, errors: Sequence[str] = ()) -> None:
        """Let a worker end that collected *tests*."""
        collected, summary = Collected(config.rootpath, [], config.rootpath), Summary(errors=[*errors])
        collected.add(tests)
        tell_controller(config, collected, summary)
        sent = json.loads(json.dumps(config.workeroutput))  # pytest-xdist sends only what is plain
        self.controller.pytest_testnodedown(SimpleNamespace(workeroutput=sent))


Controlled = Callable[..., Parallel]


@pytest.fixture
def parallel(pytester: pytest.Pytester) -> Iterator[Controlled]:
    pytester.makeini("[pytest]\naddopts = -p opprof\n")
    runs = []

    def started(*arguments: str, **how: bool) -> Parallel:
        runs.append(Parallel(pytester, *arguments, **how))
        return runs[-1]

    yield started
    for run in runs:
        run.config._ensure_unconfigure()


def locks(config: pytest.Config) -> list[str]:
    """Return the locks that a worker is told of; nothing else that it is told is text."""
    return [value for value in getattr(config, "workerinput", {}).values() if isinstance(value, str)]


def lock_of(config: pytest.Config) -> str:
    (lock,) = locks(config)
    return lock


def test_a_worker_starts_fresh_processes_as_the_run_was_started(parallel: Controlled) -> None:
    worker = parallel("-k", "not slow", "tests").worker()
    assert command(worker, "elsewhere")[3:6] == ["-k", "not slow", "tests"]


def test_one_worker_at_a_time_measures_where_that_is_wanted(parallel: Controlled) -> None:
    run = parallel(serialize=True)
    first, second = run.worker(), run.worker()
    with taking_turns(first, run.settings), pytest.raises(Timeout):
        FileLock(lock_of(second), timeout=0).acquire()
    with taking_turns(second, run.settings), pytest.raises(Timeout):
        FileLock(lock_of(first), timeout=0).acquire()


def test_the_lock_is_gone_after_the_run(parallel: Controlled) -> None:
    run = parallel(serialize=True)
    worker = run.worker()
    with taking_turns(worker, run.settings):
        assert Path(lock_of(worker)).exists()
    run.config._ensure_unconfigure()
    assert not Path(lock_of(worker)).parent.exists()


@pytest.mark.parametrize("serialize", [False, True])
def test_who_is_no_worker_or_need_not_wait_has_no_lock(
    parallel: Controlled, pytester: pytest.Pytester, serialize: bool
) -> None:
    run = parallel(serialize=serialize)
    config = pytester.parseconfig() if serialize else run.worker()
    assert is_worker(config) is not serialize
    with taking_turns(config, run.settings):
        assert locks(config) == []


def test_the_controller_knows_the_tests_and_errors_of_all_workers(parallel: Controlled) -> None:
    run = parallel()
    run.ends(run.worker(), "t.py::a", "t.py::b", errors=["a file is broken"])
    run.ends(run.worker(), "t.py::b", "u.py::c", errors=["another one is"])
    assert run.collected.tests == {"t.py": {"a", "b"}, "u.py": {"c"}}
    assert run.summary.errors == ["a file is broken", "another one is"]


def test_a_worker_that_crashed_says_nothing_and_takes_nothing_from_the_others(parallel: Controlled) -> None:
    run = parallel()
    run.ends(run.worker(), "t.py::a")
    run.controller.pytest_testnodedown(SimpleNamespace())
    run.controller.pytest_testnodedown(SimpleNamespace(workeroutput={}))
    assert (run.collected.tests, run.summary.errors) == ({"t.py": {"a"}}, [])
