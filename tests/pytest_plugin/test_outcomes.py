"""Failing happens in the test itself, so that everything built on outcomes is right."""

from __future__ import annotations

import signal
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from pytest_opprof.frameworks.fake.live import FakeBackend

Suite = Callable[..., pytest.RunResult]
HEAD = "import pytest\nfrom pytest_opprof.backends import fake\n"
BROKEN = HEAD + "@pytest.mark.op_budget(Cast=0)\ndef test_a(): fake.launch('Cast')\ndef test_b(): pass\n"


def test_xfail_covers_a_broken_budget(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.xfail(strict=True)
@pytest.mark.op_budget(Cast=0)
def test_a(): fake.launch("Cast")
@pytest.mark.xfail(strict=True)
@pytest.mark.op_budget(Cast=1)
def test_b(): fake.launch("Cast")
"""
    )
    suite("--opprof").assert_outcomes(xfailed=1, failed=1)


def test_the_first_broken_budget_stops_a_run_with_x(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(BROKEN)
    result = suite("--opprof", "-x")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 0 ok, 1 over budget", "*stopping after 1 failures*"])


def test_last_failed_runs_it_again(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BROKEN)
    flags = ("--opprof", "--opprof-backend=fake", "-p", "no:hypothesispytest", "-p", "no:asyncio")
    pytester.runpytest_inprocess(*flags).assert_outcomes(failed=1, passed=1)
    pytester.runpytest_inprocess(*flags, "--lf").assert_outcomes(failed=1)


def test_a_rerun_is_measured_anew(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
runs = []
@pytest.mark.op_budget(Cast=0)
@pytest.mark.opprof(baseline=False)
def test_a(opprof):
    runs.append(1)
    with opprof() as p: fake.launch("Add")
    assert p.count("Add") == 1
    if len(runs) < 3: fake.launch("Cast")
"""
    )
    result = suite("--opprof", "-p", "rerunfailures", "--reruns=2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 1 ok", "*1 passed, 2 rerun*"])


def test_each_round_has_a_log_of_its_own(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
import logging
@pytest.mark.opprof(rounds=3, warmup=1)
def test_a(caplog):
    fake.launch("Add")
    logging.getLogger().warning("once")
    assert [each.message for each in caplog.records] == ["once"] and caplog.text.count("once") == 1
    assert caplog.get_records("call") == caplog.records
runs = []
@pytest.mark.opprof(rounds=3)
def test_b():
    fake.launch("Add")
    runs.append(1)
    logging.getLogger().warning("in run %d", len(runs))
    assert len(runs) != 2
import unittest
class T(unittest.TestCase):
    runs = []
    @pytest.mark.opprof(rounds=3)
    def test_c(self):
        fake.launch("Add")
        self.runs.append(1)
        logging.getLogger().warning("in round %d", len(self.runs))
        self.assertNotEqual(len(self.runs), 2)
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*Captured log call*", "*in run 2", "*Captured log call*", "*in round 2"])
    for earlier in ("*in run 1", "*in round 1"):
        result.stdout.no_fnmatch_line(earlier)


def test_junit_has_the_failure_and_its_message(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(BROKEN)
    suite("--opprof", "--junit-xml=junit.xml")
    (case,) = ET.parse(pytester.path / "junit.xml").getroot().iterfind(".//testcase[@name='test_a']")
    (failure,) = case.iterfind("failure")
    assert "Cast: 1 call (budget: 0)" in (failure.text or "")


def test_collecting_measures_nothing_and_says_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(BROKEN)
    for flags in (["--co"], ["--co", "-q"], ["--setup-plan"], ["--setup-only"]):
        result = suite("--opprof-update", "--opprof-json=run.json", *flags)
        assert result.ret == 0
        result.stdout.no_fnmatch_line("*tests measured*")
        assert not (pytester.path / "baselines").exists()


def test_without_the_plugin_a_suite_runs_where_its_conftest_registers_the_marks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.op_budget(Cast=0)\ndef test_a(): pass\n")
    pytester.makeini("[pytest]\nmarkers =\n    op_budget: needs pytest-opprof\n    opprof: needs pytest-opprof\n")
    pytester.runpytest_inprocess("-p", "no:opprof", "-p", "no:asyncio", "--strict-markers").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    "flags", [["--strict-markers"], ["-W", "error"], ["-p", "no:xdist"], ["-p", "no:terminal"], ["-o", "strict=true"]]
)
def test_it_works_under(pytester: pytest.Pytester, suite: Suite, flags: list[str]) -> None:
    pytester.makepyfile(
        HEAD + "@pytest.mark.op_budget(Cast=1)\n@pytest.mark.opprof(rounds=2)\ndef test_a(): fake.launch('Cast')\n"
    )
    assert suite("--opprof", *flags).ret == 0
    assert suite("--opprof-update", *flags).ret == 0
    assert list(pytester.path.glob("baselines/*/*.json"))


INTERRUPTED = (
    HEAD
    + """
@pytest.mark.opprof
def test_a(): fake.launch("Add")
@pytest.mark.opprof
def test_b():
    import os, signal
    fake.launch("Add")
    os.kill(os.getpid(), signal.SIGINT)
@pytest.mark.opprof
def test_c(): fake.launch("Add")
"""
)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_ctrl_c_leaves_no_baseline_and_no_half_written_file_behind(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(INTERRUPTED)
    flags = ("--opprof-backend=fake", "-p", "no:cacheprovider")
    result = pytester.runpytest_subprocess("--opprof-update", "--opprof-json=run.json", *flags)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["opprof: error: interrupted: no baseline was written"])
    assert not (pytester.path / "baselines").exists()
    assert '"interrupted": true' in (pytester.path / "run.json").read_text()
    assert not list(pytester.path.rglob("*.opprof-tmp"))


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ there")
@pytest.mark.processes
def test_a_killed_run_leaves_the_old_baselines(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=HEAD + "@pytest.mark.opprof\ndef test_a(): fake.launch('Add')\n")
    suite("--opprof-update")
    (path,) = pytester.path.glob("baselines/*/*.json")
    before = path.read_text()
    pytester.makepyfile(
        test_m=HEAD + "import os\n@pytest.mark.opprof\ndef test_a(): fake.launch('Exp')\n"
        f"def test_b(): os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
    )
    pytester.runpytest_subprocess("--opprof-update", "-p", "no:hypothesispytest")
    assert path.read_text() == before


def test_no_summary_is_no_summary(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(BROKEN)
    assert (
        "opprof:"
        not in suite("--opprof", "--no-summary").stdout.str().split("test session starts")[1].split("collected")[1]
    )


def test_rounds_of_a_unittest_end_with_the_first_that_fails_or_is_skipped(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile(
        HEAD
        + """
import unittest
runs = []
@pytest.mark.opprof(rounds=3, warmup=1)
class TestU(unittest.TestCase):
    def test_fails(self): runs.append(1); fake.launch("Add"); self.fail("mine")
    def test_is_skipped(self): self.skipTest("why")
    @unittest.expectedFailure
    def test_is_expected_to_fail(self): self.fail("mine")
def test_runs(): assert len(runs) == 1
"""
    )
    result = suite("--opprof")
    result.assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*AssertionError: mine"])
    result.stdout.no_fnmatch_line("*at teardown*")


def test_a_test_with_a_failing_subtest_did_not_pass(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + """
import unittest
@pytest.mark.opprof
class TestU(unittest.TestCase):
    def test_u(self):
        fake.launch("Add")
        with self.subTest("s"): self.fail("mine")
"""
    )
    result = suite("--opprof-update", "--opprof-json=run.json")
    assert result.ret == 1
    assert not list(pytester.path.glob("baselines/*/*.json"))


def test_a_marked_test_where_no_backend_sees_anything_fails_in_one_line(
    pytester: pytest.Pytester, suite: Suite
) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.op_budget(Cast=1)\ndef test_a(): pass\n")
    result = suite("--opprof", "--opprof-backend=numpy")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*nothing was recorded: no op ran, or no backend sees it*"])
    result.stdout.no_fnmatch_line("*recorder.py*")
    result.stdout.fnmatch_lines(["opprof: 1 test measured, 0 ok, 1 not measured"])


def test_a_window_with_a_baseline_that_records_nothing_fails(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        test_m=HEAD + "def test_a(opprof):\n    with opprof('w'): fake.launch('Add'); fake.launch('Mul')\n"
    )
    suite("--opprof-update")
    pytester.makepyfile(test_m=HEAD + "def test_a(opprof):\n    with opprof('w'): pass\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  nothing was recorded, 2 calls of 2 ops in the baseline",
            "to accept this change: pytest test_m.py::test_a --opprof-update",
            "opprof: 1 test measured, 0 ok, 1 not measured*",
            "FAILED test_m.py::test_a - not seen",
        ]
    )
    suite("--opprof-update").stdout.fnmatch_lines(["*: Add: 0 calls (baseline: 1)", "*1 changed*"])


@pytest.mark.parametrize("body", ["pass", "fake.launch('Mul'); fake.launch('Add')"])
def test_an_unmarked_test_with_a_baseline_does_not_vanish(pytester: pytest.Pytester, suite: Suite, body: str) -> None:
    pytester.makepyfile(test_m=HEAD + "def test_a(): fake.launch('Add'); fake.launch('Mul')\n")
    suite("--opprof-update", "--opprof-all")
    pytester.makepyfile(test_m=HEAD + f"def test_a(): {body}\n")
    suite("--opprof", "--opprof-all").assert_outcomes(passed=body != "pass", failed=body == "pass")


def test_a_budget_of_no_call_is_kept_by_a_window_that_records_nothing(pytester: pytest.Pytester, suite: Suite) -> None:
    marked = HEAD + "@pytest.mark.op_budget(calls={})\ndef test_a(): {}\n"
    pytester.makepyfile(test_m=marked.format(1, "fake.launch('Add')"))
    suite("--opprof-update")
    pytester.makepyfile(test_m=marked.format(0, "pass"))
    suite("--opprof").assert_outcomes(passed=1)


def test_summaries_say_the_cause_and_point_at_the_test(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(test_m=HEAD + "\n\n@pytest.mark.op_budget(Cast=0, Add=1)\ndef test_a(): fake.launch('Cast')\n")
    result = suite("--opprof", "--tb=line", "--junit-xml=junit.xml")
    path = pytester.path / "test_m.py"
    result.stdout.fnmatch_lines([f"{path}:5: Cast 1, budget 0", "FAILED test_m.py::test_a - Cast 1, budget 0"])
    (failure,) = ET.parse(pytester.path / "junit.xml").iter("failure")
    assert failure.attrib["message"] == "Cast 1, budget 0"
    assert "Cast: 1 call (budget: 0)" in (failure.text or "")


@pytest.mark.parametrize("flags", [(), ("--opprof-backend=fake",)])
def test_a_framework_that_is_too_old_is_one_usage_error_and_no_failure_of_each_test(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setattr(FakeBackend, "unsupported", lambda self: "fake 0.1 is installed, and opprof records fake 1")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.opprof
        @pytest.mark.parametrize("n", range(9))
        def test_a(n): pass
        def test_b(): pass
        """
    )
    result = suite("--opprof", *flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    why = "opprof cannot measure with the fake backend: fake 0.1 is installed, and opprof records fake 1"
    assert result.stderr.str().count(why) == 1
    suite("--opprof", "-k", "test_b").assert_outcomes(passed=1)


@pytest.mark.parametrize(("flags", "said"), [((), 1), (("--benchmark-disable",), 0)])
def test_the_table_of_pytest_benchmark_is_said_to_be_taken_under_the_profiler(
    pytester: pytest.Pytester, suite: Suite, flags: tuple[str, ...], said: int
) -> None:
    """pytest-benchmark is stood for by its option and fixture."""
    pytester.makeconftest(
        """
        import pytest
        def pytest_addoption(parser): parser.addoption("--benchmark-disable", action="store_true")
        @pytest.fixture
        def benchmark(): return lambda function: function()
        """
    )
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.op_budget(Cast=1)
def test_a(benchmark): benchmark(lambda: fake.launch("Cast"))
@pytest.mark.op_budget(Cast=1)
def test_b(benchmark): benchmark(lambda: fake.launch("Cast"))
"""
    )
    result = suite("--opprof", *flags)
    result.assert_outcomes(passed=2)
    assert result.stdout.str().count("pytest-benchmark timed this under opprof's profiler") == said
    if said:
        result.stdout.fnmatch_lines(["*its times run it without --opprof: *::test_a, *::test_b"])


IMPORTS = """
import pytest
CALLS = []

@pytest.mark.opprof
def test_a():
    import torch
    CALLS.append(torch.ones(2) + 1){once}
"""


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
def test_a_body_that_imports_a_framework_is_measured_when_it_runs_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    flags = ("-p", "pytest_opprof.plugin", "--opprof")
    pytester.makepyfile(test_m=IMPORTS.format(once=""))
    pytester.runpytest_subprocess(*flags, "--opprof-update").assert_outcomes(passed=1)
    pytester.makepyfile(test_m=IMPORTS.format(once="\n    CALLS[0] + 1"))
    result = pytester.runpytest_subprocess(*flags)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  Add: 2 calls (baseline: 1)*",
            "*the body ran twice, and the second run was measured: the first one imported a framework*",
        ]
    )

    pytester.makepyfile(test_m=IMPORTS.format(once="\n    assert len(CALLS) == 1"))
    result = pytester.runpytest_subprocess(*flags)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*torch was first imported inside the measured window, so its ops were missed.*"])


def test_a_test_that_fails_is_no_pass_where_opprof_has_a_defect_meanwhile(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr("pytest_opprof.measure.recorder.DueCollection.__exit__", broken)
    pytester.makepyfile("import pytest\n@pytest.mark.opprof\ndef test_a(): assert 1 == 2\n")
    result = suite("--opprof")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert 1 == 2*", "opprof: error: *was not measured*a defect*"])
