"""Whether tests of other packages come out under --opprof --opprof-all as they do without: test by test.

python benchmarks/outcomes.py pandas.tests.groupby astropy.units      # modules with tests, of installed packages
python benchmarks/outcomes.py --list                                   # those that it runs if none is named
python benchmarks/outcomes.py scipy.stats -- -n 2 -p no:randomly       # what follows -- is for pytest
python benchmarks/outcomes.py --repeats=10 networkx.linalg             # are op tables equal in ten runs?

Each target runs plain and measured, one after the other, in a folder of its own. Prints the tests whose outcome
differs, and how many times the CPU time the measured run took. The exit status is the number of differences.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

TARGETS = (
    "pandas.tests.groupby pandas.tests.reshape.merge pandas.tests.indexing pandas.tests.series.methods"
    " pandas.tests.test_algos scipy.stats.tests.test_correlation scipy.signal.tests.test_windows"
    " scipy.linalg.tests.test_basic scipy.optimize.tests.test_nonlin sklearn.linear_model.tests.test_bayes"
    " sklearn.tree sklearn.cluster.tests.test_k_means xarray.tests.test_dataset xarray.tests.test_variable"
    " xarray.tests.test_interp astropy.units astropy.table.tests.test_table statsmodels.tsa.tests.test_stattools"
    " networkx.linalg networkx.algorithms.tests.test_structuralholes shapely.tests.test_constructive"
    " skimage.filters numpy._core.tests.test_ufunc numpy._core.tests.test_indexing numpy.lib.tests.test_function_base"
    " numpy.ma.tests.test_core numpy.random.tests.test_generator_mt19937 numpy.linalg.tests.test_linalg"
).split()


def main() -> None:
    given = sys.argv[1:]
    more = given[given.index("--") + 1 :] if "--" in given else []
    own = given[: given.index("--") if "--" in given else None]
    targets = [each for each in own if not each.startswith("--")]
    if "--list" in given:
        print("\n".join(TARGETS))
        return
    if repeats := next((int(each.removeprefix("--repeats=")) for each in own if each.startswith("--repeats=")), 0):
        sys.exit(min(_compare_tables(targets or TARGETS, repeats, more), 100))
    total, different, plain_s, measured_s = 0, 0, 0.0, 0.0
    print(f"{'target':44} {'tests':>7} {'plain s':>8} {'measured s':>11} {'times':>6} {'different':>10}", flush=True)
    for target in targets or TARGETS:
        path = _path(target)
        if path is None:
            print(f"{target:44} is not installed", flush=True)
            continue
        plain, took = _outcomes(path, more)
        measured, measured_took = _outcomes(path, ["--opprof", "--opprof-all", *more])
        names = [name for name in {**plain, **measured} if plain.get(name) != measured.get(name)]
        total, different = total + len(plain), different + len(names)
        plain_s, measured_s = plain_s + took, measured_s + measured_took
        times = measured_took / took
        print(f"{target:44} {len(plain):7} {took:8.1f} {measured_took:11.1f} {times:6.2f} {len(names):10}", flush=True)
        for name in names[:20]:
            print(f"    {name}: {_words(plain.get(name))}; measured: {_words(measured.get(name))}", flush=True)
    print(f"{total} tests, {different} with another outcome; {measured_s / max(plain_s, 1e-9):.2f} times plain pytest")
    sys.exit(min(different, 100))


def _compare_tables(targets: Sequence[str], repeats: int, more: list[str]) -> int:
    """Print which tests have another op table in one of the *repeats* than in the first; return their number."""
    total, different = 0, 0
    for target in targets:
        if (path := _path(target)) is None:
            print(f"{target:44} is not installed", flush=True)
            continue
        tables = [_tables(path, more, seed) for seed in range(repeats)]
        names = [name for name, table in tables[0].items() if any(each.get(name) != table for each in tables[1:])]
        total, different = total + len(tables[0]), different + len(names)
        ops = sum(len(windows) > 0 and any(windows.values()) for windows in tables[0].values())
        print(f"{target:44} {len(tables[0]):7} tests, {ops} with ops, {len(names)} with another table", flush=True)
        for name in names[:20]:
            print(f"    {name}", flush=True)
    print(f"{total} tests in {repeats} runs, each with another hash seed: {different} with another op table")
    return different


def _tables(path: Path, more: list[str], seed: int) -> dict[str, dict[str, object]]:
    """Return the ops of each test's windows in a measured run: calls, dtypes, bytes, FLOPs."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "run.json")
        _run(path, ["--opprof", "--opprof-all", f"--opprof-json={result}", *more], folder, PYTHONHASHSEED=str(seed))
        times = {"device_ns", "host_ns", "self_host_ns", "times"}
        return {
            test["id"]: {
                window["name"]: {
                    op: {name: value for name, value in each.items() if name not in times}
                    for op, each in window["ops"].items()
                }
                for window in test["windows"]
            }
            for test in json.loads(result.read_text())["tests"]
        }


def _path(target: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(target)
    except ImportError:
        return None
    if spec is None:
        return None
    return Path(spec.submodule_search_locations[0] if spec.submodule_search_locations else spec.origin or "")


Outcomes = dict[str, Counter[str]]


def _outcomes(path: Path, more: list[str]) -> tuple[Outcomes, float]:
    """Return the outcomes of each test, and how many seconds of the CPU the run took."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.xml")
        begin = sum(os.times()[2:4])
        done = _run(path, ["--tb=short", f"--junitxml={result}", *more], folder)
        took = sum(os.times()[2:4]) - begin
        if not result.exists():
            sys.exit(
                f"{' '.join(done.args)}\nended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        found: Outcomes = {}
        for case in ElementTree.parse(result).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            outcome = next(
                (f"{each.tag} {_stable(each.get('message') or '')}" for each in case if each.tag in _KINDS), "passed"
            )
            found.setdefault(name, Counter())[outcome] += 1
        return found, took


def _run(path: Path, words: list[str], folder: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the tests at *path* in an empty *folder*."""
    packages = [each for each in [path, *path.parents] if (each / "__init__.py").exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(packages[-1])]
    command += ["-W", "ignore", str(path), *words]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **environment}
    return subprocess.run(command, cwd=folder, env=one_thread, capture_output=True, text=True, check=False)


_KINDS = ("failure", "error", "skipped")


def _stable(message: str) -> str:
    """Return the beginning of a message without addresses and numbers that change from run to run."""
    return re.sub(r"0x[0-9a-f]+|\d+\.\d+|/tmp/\S+", "*", message)[:200]


def _words(outcomes: Counter[str] | None) -> str:
    return "not run" if outcomes is None else ", ".join(outcomes)


if __name__ == "__main__":
    main()
