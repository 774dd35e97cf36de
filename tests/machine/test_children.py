"""Whether a process was started in between: in a process of its own each, as what watches Python stays for good."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pytest_opprof.machine.children import counting

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system does not tell"),
]
PROGRAM = """
import ctypes, multiprocessing, os, subprocess, sys
from pytest_opprof.machine.children import children, counting, not_seen, only_python
{watch}
before, ways = children(), (subprocess.__dict__.get("_fork_exec"), os.posix_spawn, os.system)
with counting() as outer:
    with counting() as started:
        {start}
print(not_seen(before, children(), started()).split(" started")[0])
assert outer() == started()
assert ways == (subprocess.__dict__.get("_fork_exec"), os.posix_spawn, os.system)
"""
BY_PYTHON = "subprocess.run([sys.executable, '-c', ''])"
FORKED = "p = multiprocessing.get_context('fork').Process(target=os.getpid); p.start(); p.join()"
SPAWNED = FORKED.replace("'fork'", "'spawn'")
BY_C = "ctypes.CDLL(None).system(b'true')"


@pytest.mark.parametrize(
    ("watch", "start", "found"),
    [
        ("", "pass", ""),
        ("", BY_PYTHON, "1 process was"),
        ("", f"{BY_PYTHON}; {BY_PYTHON}", "2 processes were"),
        ("", "subprocess.run(['true'], preexec_fn=os.getpid)", "1 process was"),
        ("", "os.system('true'); os.posix_spawn('/bin/true', ['true'], {}); os.wait()", "2 processes were"),
        ("", "os.spawnv(os.P_WAIT, '/bin/true', ['true'])", "1 process was"),
        ("", FORKED, "1 process was"),
        ("", SPAWNED, "2 processes were"),  # one is multiprocessing's resource tracker
        ("", BY_C, "at least 1 process was"),
        ("only_python()", "pass", ""),
        ("only_python()", BY_PYTHON, "1 process was"),
        ("only_python()", "os.fork() or os._exit(0); os.wait()", "1 process was"),
        ("only_python()", BY_C, ""),  # MindSpore's own code asks a shell for the frequency of the CPU
    ],
)
def test_processes_that_were_started_are_counted(watch: str, start: str, found: str) -> None:
    program = PROGRAM.format(watch=watch, start=start)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{found}\n"


def test_a_function_that_counts_is_no_method_and_goes_although_the_program_put_it_back() -> None:
    real = os.system
    with counting() as started:
        found = os.system  # what a mock saves

        class Shell:
            run = os.system

        assert Shell().run("true") == 0
        assert started() == 1
        os.system = lambda command: 0
    os.system = found  # the end of the mock
    with counting():
        pass
    assert os.system is real
