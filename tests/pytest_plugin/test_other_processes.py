"""Ops of processes that a test starts are in no window: the window says so."""

from __future__ import annotations

import json

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif("not sys.platform.startswith('linux')", reason="only Linux tells"),
]
TESTS = """\
import multiprocessing, os, subprocess, sys, threading
import pytest
from pytest_opprof.backends import fake

def popen(): subprocess.run([sys.executable, "-c", ""], check=True)

def fork():
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)

def spawn():
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()

def alive():
    global process
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

def in_thread():
    thread = threading.Thread(target=popen)
    thread.start()
    thread.join()

@pytest.mark.opprof
@pytest.mark.parametrize("start", [popen, fork, spawn, alive, in_thread])
def test_starts(start):
    fake.launch("MatMul")
    start()

@pytest.mark.opprof
def test_starts_none():
    fake.launch("MatMul")

def test_ends():
    process.communicate()
"""
SAID = "1 process was started in this window; its ops are not seen"
MORE = "2 processes were started in this window; their ops are not seen"  # multiprocessing starts one of its own


@pytest.fixture(autouse=True)
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_m=TESTS)


def test_a_window_in_which_a_process_was_started_says_so(pytester: pytest.Pytester) -> None:
    flags = ("-p", "pytest_opprof.plugin", "--opprof", "--opprof-backend=fake", "--opprof-json=run.json")
    result = pytester.runpytest_subprocess(*flags)
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines([f"{SAID}: *"])
    remarks = {
        test["id"]: test["windows"][0]["remarks"]
        for test in json.loads((pytester.path / "run.json").read_text())["tests"]
    }
    said = [{each["text"] for each in told if each["about"] == "processes"} for told in remarks.values()]
    assert said == [{SAID}, {SAID}, {MORE}, {SAID}, {SAID}, set()]


def test_a_window_that_is_judged_says_so_with_q(pytester: pytest.Pytester) -> None:
    flags = ("-p", "pytest_opprof.plugin", "--opprof-backend=fake", "-k", "popen or none")
    pytester.runpytest_subprocess(*flags, "--opprof-update")
    result = pytester.runpytest_subprocess(*flags, "--opprof", "-q")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"{SAID}: test_m.py::test_starts?popen?", "opprof: 2 tests measured, 2 ok*"])
    assert "without -q" not in str(result.stdout)


@pytest.mark.slow
def test_strict_fails_it(pytester: pytest.Pytester) -> None:
    flags = ("-p", "pytest_opprof.plugin", "--opprof-backend=fake", "-k", "popen or none")
    pytester.runpytest_subprocess(*flags, "--opprof-update")
    result = pytester.runpytest_subprocess(*flags, "--opprof", "--opprof-strict")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"*test_starts?popen?: {SAID}: --opprof-strict requires all of them"])
