"""What pytest-opprof is for, in one minute: record baselines, pass, make a change, see which op it cost.

    python examples/demo.py [SUITE]          (or: make demo)

Works on copies of the example suites in a temporary folder. PyTorch's is shown where torch is installed, JAX's where it
is asked for: python examples/demo.py jax_models
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

CHANGES = {
    "numpy_filter": ("features.py", "return features @ components", "return features.astype(np.float64) @ components"),
    "torch_models": (
        "models.py",
        "return self.linear(x.bfloat16()).float()",
        "return self.linear(x.bfloat16()).half().float()",
    ),
    "jax_models": (
        "models.py",
        "state = jnp.tanh(state @ weight + x)",
        "state = jnp.tanh(state @ weight + x).astype(jnp.bfloat16).astype(jnp.float32)",
    ),
}
"""By suite: file, a line of it, and what a well-meant change makes of it."""


def main() -> int:
    suites = sys.argv[1:] or ["numpy_filter"] + (["torch_models"] if importlib.util.find_spec("torch") else [])
    with tempfile.TemporaryDirectory() as folder:
        for suite in suites:
            if not show(suite, Path(shutil.copytree(HERE / suite, Path(folder, suite)))):
                return 1
    if not importlib.util.find_spec("torch"):
        print("\n(torch is not installed: its example suite was left out)")
    print("\nThat is all: the suites passed, and the change that added casts failed the tests it made worse.")
    return 0


def show(suite: str, folder: Path) -> bool:
    file, before, after = CHANGES[suite]
    print(f"\n=== {suite}: record what each test does\n", flush=True)
    recorded = run(folder, "--opprof-update")
    print(f"\n=== {suite}: from then on, compare\n", flush=True)
    compared = run(folder, "--opprof")
    print(
        "\n(These tests run once or a few times: their calls are judged, which have no noise. Times are judged from 10"
    )
    print("rounds on, against a baseline of five processes: see docs/times.md.)", flush=True)
    print(f"\n=== {suite}: a change is made in {file}\n\n- {before}\n+ {after}\n", flush=True)
    path = folder / file
    path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    return recorded == compared == 0 and run(folder, "--opprof") == 1


def run(folder: Path, flag: str) -> int:
    command = ["pytest", flag, "-q", "-p", "no:cacheprovider"]
    print("$", *command[:3], flush=True)
    # What else is installed is no part of the show.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command, "-p", "pytest_opprof.plugin"], cwd=folder, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
