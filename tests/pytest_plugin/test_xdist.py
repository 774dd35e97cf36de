"""Under pytest-xdist: the same verdicts, baselines written once, times marked."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ..conftest import thrice

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
    assert {t: w["body"]["calls"] for t, w in parallel.items()} == {t: w["body"]["calls"] for t, w in alone.items()}
    # Times are measured after the tests, in processes that have the machine to themselves.
    assert [len(t["total_us"]) for t in times["test_a[0]"]["body"].values()] == [2]
    model(pytester, more=1)
    for flags in ((), ("-n2",)):
        assert summary(suite("--opprof", *flags)) == (
            "opprof: 7 tests measured, 0 ok, 1 over budget, 6 with more calls, no times judged"
        )


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


@pytest.mark.processes
def test_an_update_in_parallel_keeps_the_times_there_are(pytester: pytest.Pytester, suite: Suite) -> None:
    model(pytester)
    suite("--opprof-update")
    thrice(pytester)
    paths = list(pytester.path.glob("baselines/*/*.json"))
    before = [path.read_text() for path in paths]
    suite("--opprof-update", "-n2").stdout.fnmatch_lines(["baselines of 6 tests: 0 new, 0 changed, 6 unchanged"])
    assert [path.read_text() for path in paths] == before


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
    assert "op_budget(Cast=-1): write a number of calls" in result.stdout.str() + result.stderr.str()


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
