"""What an update costs: the CPU of plain pytest, of --opprof-update of all that is new, and of the next run.

python benchmarks/update_cost.py examples/numpy_filter examples/torch_models
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def cpu_s(folder: Path, *flags: str) -> float:
    """Return the CPU that pytest and all processes it starts take there."""
    before = os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    after = os.times()
    if done.returncode:
        print(f"{flags}: exit code {done.returncode}: {done.stdout.strip().splitlines()[-1]}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    for given in sys.argv[1:] or ["examples/numpy_filter"]:
        with tempfile.TemporaryDirectory() as folder:
            suite = Path(folder, "suite")
            shutil.copytree(given, suite, ignore=shutil.ignore_patterns("baselines"))
            plain, update, later = cpu_s(suite), cpu_s(suite, "--opprof-update"), cpu_s(suite, "--opprof")
            print(f"{given}: plain {plain:.1f} s, update {update:.1f} s, next run {later:.1f} s:", end=" ")
            print(f"{update / plain:.1f} times plain, {update / later:.1f} times the next run")


if __name__ == "__main__":
    main()
