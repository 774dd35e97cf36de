"""``opprof selfcheck`` on a real GPU, with CuPy and PyTorch where they are installed. Skipped where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from pytest_opprof.frameworks.nvidia.live import driver

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


def test_all_holds_on_this_gpu() -> None:
    if problem := driver.problem():
        # make test-gpu was asked for a GPU: to skip all of its tests there would pass in silence.
        (pytest.fail if "OPPROF_REQUIRE_GPU" in os.environ else pytest.skip)(problem)
    if not find_spec("cupy") and not find_spec("torch"):
        pytest.skip("neither CuPy (pip install cupy-cuda13x, or cupy-cuda12x) nor PyTorch is installed")
    command = [sys.executable, "-m", "pytest_opprof", "selfcheck", "--device", "cuda", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    print(done.stdout)
    ok: dict[str, set[str]] = {}
    for check in json.loads(done.stdout)["checks"]:
        ok.setdefault(check["environment"], set())
        if check["status"] == "ok":
            ok[check["environment"]].add(check["check"])
    assert ok
    # Whether times can be decided is up to who else uses the GPU.
    assert all(found >= {"counts", "one Cast more", "windows"} for found in ok.values()), ok
