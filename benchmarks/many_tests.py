"""What a suite of many modules costs a test: measuring, comparing with baselines, writing them.

Each module has 25 tests of NumPy, of three ops each. CPU time of all processes in ms a test: it is linear if the
columns stay the same as modules are added. Goal: comparing takes at most 1 ms a test more than measuring, and an update
after a change in one module writes the files of one module.

    python benchmarks/many_tests.py 40 200        # 1,000 and 5,000 tests: 2 minutes
    python benchmarks/many_tests.py 2000          # 50,000 tests
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from update_cost import cpu_s

TESTS = 25
SOURCE = """\
import numpy as np, pytest

@pytest.mark.opprof
@pytest.mark.parametrize("n", range({tests}))
def test_filter(n):
    a = np.arange(n + 1.0)
    np.sqrt(a + {more}).sum()
"""
MODES = {
    "plain": ("-p", "no:opprof"),
    "measured": ("--opprof",),  # there are no baselines yet
    "written": ("--opprof-update",),
    "compared": ("--opprof",),
    "updated": ("--opprof-update",),
}


def main() -> None:
    print(f"{'modules':>8} {'tests':>8} " + " ".join(f"{mode:>9}" for mode in MODES) + "  (ms a test)")
    for modules in map(int, sys.argv[1:] or ["40", "200"]):
        with tempfile.TemporaryDirectory() as folder:
            suite = Path(folder)
            (suite / "pytest.ini").write_text("[pytest]\n")
            for number in range(modules):
                (suite / f"test_{number:04}.py").write_text(SOURCE.format(tests=TESTS, more=1))
            took = {mode: cpu_s(suite, *flags) for mode, flags in MODES.items()}
            tests = modules * TESTS
            print(f"{modules:8} {tests:8} " + " ".join(f"{1000 * each / tests:9.2f}" for each in took.values()))
            (suite / "test_0000.py").write_text(SOURCE.format(tests=TESTS, more="1 + a"))
            before = stamps(suite)
            update = cpu_s(suite, "--opprof-update")
            changed = sorted(
                str(path.relative_to(suite)) for path, at in stamps(suite).items() if before.get(path) != at
            )
            print(f"an update after a change in one module: {1000 * update / tests:.2f} ms a test, wrote {changed}")


def stamps(suite: Path) -> dict[Path, int]:
    """Return when each file of the baselines was written last, in ns."""
    return {path: path.stat().st_mtime_ns for path in (suite / "baselines").rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()
