"""Flags and their twins in the ini file."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pytest_opprof.machine.load import RUN

Suite = Callable[..., pytest.RunResult]
HEAD = "import pytest\nfrom pytest_opprof.backends import fake\n"
OVER = HEAD + "@pytest.mark.op_budget(Cast=0)\ndef test_a(): fake.launch('Cast')\n"


def test_the_ini_file_can_switch_it_on(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(OVER)
    suite("-o", "opprof=true").assert_outcomes(failed=1)
    suite("-o", "opprof=false").assert_outcomes(passed=1)


def test_all_and_strict_have_twins(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(HEAD + "def test_a(): fake.launch('Cast')\n")
    suite("--opprof", "-o", "opprof_all=true", "-o", "opprof_strict=true").assert_outcomes(failed=1)


@pytest.mark.parametrize("started_by", ["", "7"])
def test_what_a_run_starts_can_tell_which_run_it_belongs_to(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, started_by: str
) -> None:
    monkeypatch.setenv(RUN, started_by)
    if not started_by:
        monkeypatch.delenv(RUN)
    test = f"import os\ndef test_a(): assert os.environ[{RUN!r}] == {started_by or str(os.getpid())!r}\n"
    pytester.makepyfile(test)
    suite("--opprof").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--opprof-tolerance=ten"], "*--opprof-tolerance is 'ten'; write a percentage such as '10%'"),
        (["-o", "opprof_tolerance=10"], "*--opprof-tolerance is '10'; write a percentage such as '10%'"),
        (["--opprof-tolerance="], "*--opprof-tolerance is ''; write a percentage such as '10%'"),
        (["-o", "opprof_floor=10"], "*--opprof-floor is '10'; write a time with its unit *"),
        (["--opprof-timing=fast"], "*--opprof-timing is 'fast'; write 'async' or 'sync'"),
        (["--opprof-top=-1"], "*--opprof-top is '-1'; write an int of 0 or more"),
        (["-o", "opprof_aliases=mylib::fused"], "*opprof_aliases has 'mylib::fused'; write a line RAW_NAME = Op*"),
    ],
)
def test_a_value_that_means_nothing_stops_the_run(
    pytester: pytest.Pytester, suite: Suite, arguments: list[str], message: str
) -> None:
    pytester.makepyfile(OVER)
    result = suite("--opprof", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


@pytest.mark.parametrize(
    ("flag", "needs"),
    [
        ("--opprof-strict", "--opprof"),
        ("--opprof-json=x.json", "--opprof"),
        ("--opprof-html=x.html", "--opprof"),
        ("--opprof-against-python=old/bin/python", "--opprof-against=REV"),
        ("--opprof-against-tests=here", "--opprof-against=REV"),
    ],
)
def test_a_flag_that_would_do_nothing_says_so(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, flag: str, needs: str
) -> None:
    pytester.makepyfile(OVER)
    result = suite(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{flag.split('=')[0]} does nothing without {needs}"])
    assert suite(flag, "--markers").ret == 0
    # Of addopts it is for the runs with --opprof.
    monkeypatch.setenv("PYTEST_ADDOPTS", flag)
    suite().assert_outcomes(passed=1)


@pytest.mark.parametrize("flags", [["--opprof-timing=sync"], ["-o", "opprof_timing=sync"]])
def test_sync_timing_lets_launches_of_cuda_block(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "")  # gone afterwards, whatever a run sets
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING")
    pytester.makepyfile("import os\ndef test_a(): assert os.environ.get('CUDA_LAUNCH_BLOCKING') == '1'\n")
    suite("--opprof").assert_outcomes(failed=1)
    suite("--opprof", *flags).assert_outcomes(passed=1)


def test_aliases_give_the_users_own_ops_a_meaning(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile(
        HEAD
        + "@pytest.mark.op_budget(Attention=0, Mine=0)\n"
        + "def test_a(): fake.launch('mylib::fused'); fake.launch('my::op')\n"
    )
    result = suite("--opprof", "-o", "opprof_aliases=mylib::fused = Attention\nmy::op = Mine")
    result.stdout.fnmatch_lines(["  Attention: 1 call (budget: 0)", "  Mine: 1 call (budget: 0)"])


def test_the_help_has_every_flag_and_the_marks(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_inprocess("--help", "-p", "no:asyncio").stdout.str()
    for flag in "opprof opprof-update opprof-update-new opprof-baselines opprof-backend opprof-timing".split():
        assert f"--{flag}" in text
    for flag in "opprof-tolerance opprof-top opprof-all opprof-strict opprof-json".split():
        assert f"--{flag}" in text
    for flag in "opprof-op-tolerance opprof-work-tolerance opprof-floor opprof-threads opprof-noise".split():
        assert f"--{flag}" in text
    marks = pytester.runpytest_inprocess("--markers", "-p", "no:asyncio").stdout.str()
    assert "@pytest.mark.op_budget(" in marks
    assert "@pytest.mark.opprof(" in marks
