"""``--opprof-report-only``: everything is measured and said, and nothing fails for it."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

FAKE = ("-p", "pytest_opprof.plugin", "--opprof", "--opprof-backend=fake", "--opprof-report-only")
TESTS = """\
import unittest
import pytest
from pytest_opprof.backends import fake

@pytest.mark.op_budget(MatMul=1)
def test_over():
    fake.launch("MatMul")
    fake.launch("MatMul")

@pytest.mark.op_budget(MatMul=1)
def test_kept():
    fake.launch("MatMul")

@pytest.mark.op_budget(MatMul=1)
def test_empty():
    pass
"""
OWN_FAILURES = """
@pytest.mark.op_budget(MatMul=1)
def test_wrong():
    fake.launch("MatMul")
    assert 0

class TestCase(unittest.TestCase):
    @pytest.mark.opprof(rounds=3)
    def test_wrong(self):
        fake.launch("MatMul")
        self.fail("its own")
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *FAKE, *arguments)


def test_a_test_over_its_budget_passes_and_the_run_says_that_it_would_fail(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=TESTS)
    result = run(pytester, "--opprof-json=run.json", "--opprof-summary=summary.md", "--junitxml=junit.xml")
    assert result.ret == 0
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "would fail: op budget exceeded: test_m.py::test_over *",
            "  MatMul: 2 calls (budget: 1)",
            "would fail: opprof could not measure test_m.py::test_empty: nothing was recorded*",
            "opprof: 3 tests measured, *2 would fail without --opprof-report-only*",
        ]
    )
    document = json.loads((pytester.path / "run.json").read_text())
    told = {test["id"].partition("::")[2]: (test["outcome"], test["status"]) for test in document["tests"]}
    assert told["test_over"] == ("passed", "over budget")
    (over,) = [test for test in document["tests"] if test["status"] == "over budget"]
    assert over["reported"].startswith("op budget exceeded: test_m.py::test_over")
    summary = (pytester.path / "summary.md").read_text()
    assert summary.startswith("## opprof: 1 of 3 tests exceeds its budget or baseline")
    assert "The run passes all the same: `--opprof-report-only`." in summary
    assert not list(ElementTree.parse(pytester.path / "junit.xml").iter("failure"))


def test_what_the_tests_themselves_assert_still_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=TESTS + OWN_FAILURES)
    result = run(pytester)
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=2)


@pytest.mark.parametrize("flag", ["--opprof-strict", "--opprof-noise=fail"])
def test_other_demands_of_a_run_are_reported_too(pytester: pytest.Pytester, flag: str) -> None:
    pytester.makepyfile(test_m=TESTS)
    result = run(pytester, flag)
    assert result.ret == 0
    if flag == "--opprof-strict":
        result.stdout.fnmatch_lines(["would fail: no baseline for *test_m.py::test_kept*"])


@pytest.mark.slow
@pytest.mark.processes
def test_a_damaged_baseline_file_is_said_and_fails_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=TESTS)
    pytester.runpytest_inprocess("-p", "no:cacheprovider", *FAKE[:-1], "--opprof-update")
    for path in pytester.path.glob("baselines/*/*.json"):
        path.write_text("{")
    result = run(pytester)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["opprof: error: *test_m.py.json*", "opprof: 3 tests measured*1 error"])


def test_without_opprof_the_flag_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_m=TESTS)
    result = pytester.runpytest_inprocess("-p", "pytest_opprof.plugin", "--opprof-report-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --opprof-report-only does nothing without --opprof"])
