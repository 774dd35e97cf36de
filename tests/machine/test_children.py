"""Whether a process was started in between: in a process of its own each, as what watches Python stays for good."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the system does not tell"),
]
PROGRAM = """
import ctypes, os, subprocess, sys
from pytest_opprof.machine.children import children, watch_python, were_started
{watch}
before = children()
{start}
print(were_started(before, children()))
"""
BY_PYTHON = "subprocess.run([sys.executable, '-c', ''])"
BY_C = "ctypes.CDLL(None).system(b'true')"


@pytest.mark.parametrize(
    ("watch", "start", "found"),
    [
        ("", "pass", False),
        ("", BY_PYTHON, True),
        ("", BY_C, True),
        ("watch_python()", "pass", False),
        ("watch_python(); watch_python()", BY_PYTHON, True),
        ("watch_python()", "os.fork() or os._exit(0); os.wait()", True),
        ("watch_python()", BY_C, False),  # MindSpore's own code asks a shell for the frequency of the CPU
    ],
)
def test_a_process_that_was_started_is_seen(watch: str, start: str, found: bool) -> None:
    program = PROGRAM.format(watch=watch, start=start)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{found}\n"
