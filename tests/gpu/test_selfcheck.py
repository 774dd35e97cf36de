"""``opprof selfcheck`` on a real GPU, with CuPy. Skipped where there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

from pytest_opprof.backends.cuda import driver

pytestmark = pytest.mark.gpu


def test_all_holds_on_this_gpu() -> None:
    if problem := driver.problem():
        pytest.skip(problem)
    if not find_spec("cupy"):
        pytest.skip("CuPy is not installed (pip install cupy-cuda13x, or cupy-cuda12x)")
    # In a process of its own: torch with CUDA, where it is installed, is imported by these tests and owns CUPTI then.
    command = [sys.executable, "-m", "pytest_opprof", "selfcheck", "--device", "cuda", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    checks = json.loads(done.stdout)["checks"]
    # Whether times can be decided is up to who else uses the GPU.
    assert {check["check"] for check in checks if check["status"] == "ok"} >= {"counts", "one Cast more", "windows"}
