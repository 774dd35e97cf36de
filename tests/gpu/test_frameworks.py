"""The tests on a real GPU, those of each framework in a process of its own: CUPTI serves one profiler a process.

All are marked as starting processes, as frameworks do: PyTorch for CUDA asks ldconfig for libraries when imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_opprof.frameworks.nvidia.live.driver import opened

HERE = Path(__file__).parent
PATIENCE_S = 900


@pytest.mark.gpu
@pytest.mark.processes
@pytest.mark.parametrize("framework", sorted(path.stem.removeprefix("of_") for path in HERE.glob("of_*.py")))
def test_all_holds_with(framework: str, tmp_path: Path) -> None:
    """To see more of one: ``pytest -m gpu -v tests/gpu/of_torch.py``."""
    if opened() is None and not os.environ.get("OPPROF_REQUIRE_GPU"):
        pytest.skip("no NVIDIA driver")  # eleven processes would say the same
    found = tmp_path / "found.xml"
    # What a version of a framework warns of is no failure of ours.
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-W", "default", f"--junitxml={found}"]
    # JAX would take three quarters of the GPU's memory.
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        done = subprocess.run(
            [*command, str(HERE / f"of_{framework}.py")],
            cwd=HERE.parents[1],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"it hangs: {error}\n{error.output}", pytrace=False)
    print(done.stdout)
    if done.returncode:
        pytest.fail(done.stdout, pytrace=False)
    (suite,) = ElementTree.parse(found).iter("testsuite")
    if suite.get("tests") == suite.get("skipped"):
        pytest.skip("; ".join(dict.fromkeys(str(each.get("message")) for each in suite.iter("skipped"))))
