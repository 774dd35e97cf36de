"""The test that starts JAX on a real GPU is recorded as later ones are. `test_frameworks` gives it its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_opprof.frameworks.nvidia.live import backend

pytestmark = [pytest.mark.gpu, pytest.mark.processes]

TESTS = """
import jax
import jax.numpy as jnp

def test_first():
    assert (jnp.ones((64, 64)) @ jnp.ones((64, 64))).sum() > 0

def test_second():
    assert (jnp.ones((64, 64)) @ jnp.ones((64, 64))).sum() > 0
"""


def test_the_first_test_is_recorded_by_the_backend_of_the_gpu(tmp_path: Path) -> None:
    if not find_spec("jax"):
        pytest.skip("jax is not installed (pip install jax[cuda13])")
    if reason := backend.backend().unavailable():
        pytest.skip(f"the cuda backend cannot run here: {reason}")
    (tmp_path / "test_a.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--opprof-all", "--opprof-json=run.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tests = json.loads((tmp_path / "run.json").read_text())["tests"]
    windows = [window for test in tests for window in test["windows"]]
    assert [window["environment"]["device"].split()[0] for window in windows] == ["NVIDIA", "NVIDIA"]
    assert all(window["facts"]["launches"][0] > 0 for window in windows)
