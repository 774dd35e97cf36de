"""What an installed and unused plugin costs: 1000 trivial tests with it and without, and importing it.

    python benchmarks/idle.py [REPEATS]

pytest-benchmark is measured beside it where it is installed. Configurations take turns, so that a slow moment of the
machine hits all of them; what a plugin costs is the median of its differences from the run beside it.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = "import pytest\n@pytest.mark.parametrize('n', range(1000))\ndef test_a(n): pass\n"
IMPORT = "import pytest, time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    plugins = {"no plugin": [], "pytest-opprof": ["-p", "pytest_opprof.plugin"]}
    modules = {"pytest-opprof": "pytest_opprof.plugin"}
    if importlib.util.find_spec("pytest_benchmark"):
        plugins["pytest-benchmark"] = ["-p", "pytest_benchmark.plugin"]
        modules["pytest-benchmark"] = "pytest_benchmark.plugin"
    runs: dict[str, list[float]] = {name: [] for name in plugins}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_trivial.py").write_text(TESTS)
        for _ in range(repeats):
            for name, flags in plugins.items():
                runs[name].append(seconds([*flags, "-q", "-p", "no:cacheprovider"], folder))
    base = runs["no plugin"]
    print(f"{'1000 trivial tests':24} {'seconds':>8} {'more':>10} {'ratio':>7}")
    for name, values in runs.items():
        more = statistics.median(value - beside for value, beside in zip(values, base))
        ratio = statistics.median(value / beside for value, beside in zip(values, base))
        print(f"{name:24} {statistics.median(values):8.3f} {1000 * more:+7.0f} ms {ratio:7.3f}")
    for name, module in modules.items():
        print(f"import {name:24} {1000 * min(imported(module) for _ in range(repeats)):6.1f} ms")
    print("goal: at most +20 ms, import at most 10 ms")


def seconds(flags: list[str], folder: str) -> float:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": ""}
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", *flags], cwd=folder, env=environment, check=True, capture_output=True
    )
    return time.perf_counter() - begin


def imported(module: str) -> float:
    done = subprocess.run([sys.executable, "-c", IMPORT.format(module)], check=True, capture_output=True, text=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
