"""The cost of ``--opprof-against`` beside plain pytest: an unchanged suite, the first and the second run on one base.

    python benchmarks/against.py PROJECT BASE [--python PYTHON] [--rounds 3] [-- PYTEST ARGUMENTS]

PROJECT is a git repository whose tests PYTHON can run, with pytest-opprof installed; BASE a revision of it from which
no file under test differs. The three runs take turns; *first* starts with an empty ``--opprof-cache``, *second* has the
one that the first left. A number is a ratio of wall time or CPU time (of the run and its processes) to plain pytest's
in the same round; the median of the rounds is shown with the least and the most.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("project", type=Path)
    parser.add_argument("base")
    parser.add_argument("--python", default=sys.executable, help="as it is called in the project")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("arguments", nargs="*", help="of pytest: files and options, after --")
    chosen = parser.parse_intermixed_args()
    pytest = [chosen.python, "-m", "pytest", "-q", *chosen.arguments]
    ratios: dict[str, list[tuple[float, float]]] = {"first": [], "second": []}
    for _ in range(chosen.rounds):
        with tempfile.TemporaryDirectory() as cache:
            against = ["--opprof-all", f"--opprof-against={chosen.base}", f"--opprof-cache={cache}"]
            plain = timed([*pytest, "-p", "no:opprof"], chosen.project)
            for name, rows in ratios.items():
                run = timed([*pytest, *against], chosen.project, plain[2])
                rows.append((run[0] / plain[0], run[1] / plain[1]))
                print(f"{name}: {run[0]:.1f} s, CPU {run[1]:.1f} s; plain pytest {plain[0]:.1f} s, {plain[1]:.1f} s")
    for name, rows in ratios.items():
        for unit, values in zip(("wall time", "CPU time"), zip(*rows, strict=True), strict=True):
            print(
                f"{name} run, {unit}: {median(values):.2f} times plain pytest ({min(values):.2f} to {max(values):.2f})"
            )


def timed(command: list[str], folder: Path, code: int | None = None) -> tuple[float, float, int]:
    """Return wall time and CPU time of *command* and its processes, s, and its exit code.

    Tests of other people fail, too, but an exit code that is not that of the plain run is an error.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode not in ((0, 1) if code is None else (code,)):
        sys.exit(f"{' '.join(command)}: exit code {run.returncode}\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, run.returncode


if __name__ == "__main__":
    main()
