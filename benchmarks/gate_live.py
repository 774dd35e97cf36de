"""The time gate at work: a suite of 10 tests, run again and again under a bounded load, unchanged and made slower.

    python benchmarks/gate_live.py [--runs 20] [--pairs 3] [--quiet]

Three lines: the stored baseline with nothing changed and with a real slowdown of 25 % in one function; two versions
that take turns (A/B), the same with 10 %; and, if it is installed, pytest-benchmark on the same functions with
--benchmark-compare-fail=min:5%. Of each: how many runs failed, whether a failing one named the right test and op, and
how long a run takes beside one that only measures (median by median).
Time alone is slower: calls, dtypes, shapes, bytes and FLOPs stay as they are, or counts would find it first. Some of a
function's calls get the same numbers as a view whose elements lie apart, which NumPy's vector code does not take. How
many, and how far apart, is measured for each op as it begins, and the slowdown that this makes is printed. The load is
one process that computes 40 % of the time, in bursts of 20 to 200 ms; --quiet leaves it out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

OPS = ("tanh", "exp", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "log", "arcsinh")
CANONICAL = ("Tanh", "Exp", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Log", "Asinh")
"""Of sin, cos and sqrt the speed hardly depends on where elements lie."""
CALLS = 20
SIZES = (25_000, 30_000, 60_000, 60_000, 60_000, 30_000, 25_000, 25_000, 30_000, 20_000)
"""Elements of a call: 1 to 4 ms for all calls of a function."""
APART = (2, 8, 64)
"""How many elements the view may skip."""

WORK = '''"""Ten functions: a heavy op, called so often, and some light ones."""

import numpy as np

SIZES = {sizes}
APART = {apart}
FAR = {far}


def data(number):
    near = np.linspace(0.1, 1.0, SIZES[number])
    far = np.zeros((SIZES[number], APART[number]))[:, 0]
    far[:] = near
    return near, far


def work(number, op, near, far):
    for call in range({calls}):
        heavy = getattr(np, op)(far if call < FAR[number] else near)
    return (heavy * 2 + 1).sum()
'''
TESTS = """import pytest
from work import data, work

@pytest.mark.opprof(rounds=30)
@pytest.mark.parametrize(("number", "op"), list(enumerate({ops})), ids=lambda value: str(value))
def test_work(opprof, number, op, kept={{}}):
    if number not in kept:
        kept[number] = data(number)
    work(number, op, *kept[number])
"""
PEER = """import pytest
from work import data, work

@pytest.mark.parametrize(("number", "op"), list(enumerate({ops})))
def test_work(benchmark, number, op):
    benchmark(work, number, op, *data(number))
"""
LOAD = """
import random, time
chance = random.Random(1)
while True:
    burst = chance.uniform(0.02, 0.2)
    end = time.perf_counter() + burst
    while time.perf_counter() < end:
        sum(range(2_000))
    time.sleep(burst * 1.5)
"""


@dataclass
class Series:
    """Runs of one kind."""

    runs: int = 0
    failed: int = 0
    named: int = 0
    """Failed, with the op or test that was made slower named and no other test failed."""
    undecided: int = 0
    """Passed, with a test that was too noisy to judge."""
    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.failed:3} of {self.runs} failed, {self.named} named the test and op, {self.undecided} too noisy;"
            f" {self.typical_s:.1f} s each"
        )

    @property
    def typical_s(self) -> float:
        """The median run."""
        return median(self.seconds)


class Project:
    """A repository with the suite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write()
        (folder / "test_work.py").write_text(TESTS.format(ops=OPS))
        (folder / "peer.py").write_text(PEER.format(ops=OPS))
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "unchanged")
        self.plain_s = 0.0
        """How long a run takes that judges nothing."""

    def write(self, number: int = 0, far: int = 0, apart: int = APART[0]) -> None:
        """Write the functions: of one of them so many calls read elements that lie so far *apart*."""
        each_far, each_apart = [0] * len(OPS), [APART[0]] * len(OPS)
        each_far[number], each_apart[number] = far, apart
        text = WORK.format(sizes=SIZES, apart=each_apart, far=each_far, calls=CALLS)
        (self.folder / "work.py").write_text(text)

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True)

    def pytest(self, *arguments: str) -> tuple[int, str, float]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        begin = perf_counter()
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, perf_counter() - begin

    @contextlib.contextmanager
    def slower(self, number: int, by: float) -> Iterator[None]:
        """Let the op of a function take so much longer, by no more work than before."""
        far, apart, real = slowdown(number, by)
        print(f"{OPS[number]}: +{real:.0%}, {far} of {CALLS} calls on elements {apart} apart", flush=True)
        self.write(number, far, apart)
        try:
            yield
        finally:
            self.write()


def slowdown(number: int, by: float) -> tuple[int, int, float]:
    """Return how many calls are to read elements how far apart, and how much longer that takes: at least *by*."""
    near = np.linspace(0.1, 1.0, SIZES[number])
    before = fastest_s(OPS[number], near)
    found = []
    for apart in APART:
        far = np.zeros((SIZES[number], apart))[:, 0]
        far[:] = near
        more = fastest_s(OPS[number], far) / before - 1
        calls = next((calls for calls in range(1, CALLS + 1) if calls * more / CALLS >= by), CALLS)
        found.append((abs(calls * more / CALLS - by), calls, apart, calls * more / CALLS))
    _, calls, apart, real = min(found)
    assert real > by / 2, f"{OPS[number]} takes no longer on elements that lie apart"
    return calls, apart, real


def fastest_s(op: str, x: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return how long a call takes, at best."""
    times = []
    for _ in range(30):
        begin = perf_counter()
        getattr(np, op)(x)
        times.append(perf_counter() - begin)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--pairs", type=int, help="runs of the A/B comparison (default: as --runs)")
    parser.add_argument("--quiet", action="store_true", help="without the load")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        load = None if arguments.quiet else subprocess.Popen([sys.executable, "-c", LOAD])
        try:
            stored(project, arguments.runs)
            against(project, arguments.pairs or arguments.runs)
            peer(project, arguments.runs)
        finally:
            if load:
                load.kill()


def stored(project: Project, runs: int) -> None:
    plain = [project.pytest("--opprof", "test_work.py")[2] for _ in range(5)]
    project.plain_s = median(plain)
    print(f"without baselines: {project.plain_s:.1f} s")
    code, attempts = 1, 0
    while code and attempts < 5:
        # By default an update that refuses the times of a busy machine passes; no run after it would judge any.
        code, output, seconds = project.pytest("--opprof-update", "--opprof-noise=fail", "test_work.py")
        attempts += 1
    if code:
        busy = re.search(r"the machine was busy[^.]*", output)
        raise SystemExit(f"no baseline was recorded in {attempts} attempts: {busy[0] if busy else output}")
    print(f"baseline recorded in {seconds:.1f} s, at attempt {attempts}")
    compare(project, "stored baseline", runs, 0.25, "--opprof", "test_work.py")


def against(project: Project, runs: int) -> None:
    compare(project, "A/B", runs, 0.10, "--opprof", "--opprof-against=HEAD", "test_work.py")


def compare(project: Project, what: str, runs: int, by: float, *arguments: str) -> None:
    unchanged, slower = Series(), Series()
    for _ in range(runs):
        take(project, unchanged, None, *arguments)
    print(f"{what:16} unchanged {unchanged}, {unchanged.typical_s / project.plain_s:.2f} times as long", flush=True)
    chance = random.Random(0)
    for _ in range(runs):
        number = chance.randrange(len(OPS))
        with project.slower(number, by):
            take(project, slower, number, *arguments)
    print(f"{what:16} +{by:.0%} {slower}", flush=True)


def take(project: Project, series: Series, number: int | None, *arguments: str) -> None:
    code, output, seconds = project.pytest(*arguments)
    assert code in (0, 1), output
    series.runs += 1
    series.failed += code
    series.undecided += not code and "too noisy to judge" in output
    series.seconds.append(seconds)
    if number is not None and code:
        failed = re.findall(r"^FAILED \S+\[(\d+)-", output, re.MULTILINE)
        named = f"time of {CANONICAL[number]}: " in output
        series.named += failed == [str(number)] and named
        if not (failed == [str(number)] and named):
            print(output)
    elif code:
        print(output)


def peer(project: Project, runs: int) -> None:
    if importlib.util.find_spec("pytest_benchmark") is None:
        print("pytest-benchmark is not installed: not compared")
        return
    project.pytest("peer.py", "--benchmark-save=base")
    unchanged = Series()
    for _ in range(runs):
        arguments = ("peer.py", "--benchmark-compare=0001", "--benchmark-compare-fail=min:5%")
        code, _, seconds = project.pytest(*arguments)
        unchanged.runs += 1
        unchanged.failed += code != 0
        unchanged.seconds.append(seconds)
    print(f"pytest-benchmark min:5% unchanged {unchanged}")


if __name__ == "__main__":
    main()
