"""How often the gate on coarse times cries wolf, and how often it sees a slowdown: the shipped rule on samples.

    python benchmarks/coarse_quality.py [FOLDER] [--record FOLDER] [--json OUT]

FOLDER holds `SUITE.MODE.RUN.csv.gz` of unchanged code: test, CPU time of the process and wall time of one cold call of
its body (ns), each RUN in a fresh process; MODE is quiet or load (four busy loops on two cores). kornia and suites
whose name ends in ``1`` ran in one thread, as the processes do that decide. Where there is no FOLDER, tests of NumPy
and plain Python are recorded into that of ``--record``, quiet and loaded: 12 processes, about two minutes.

A comparison is the least of three processes against that of three others, all choices of them. Slowdowns are put in
afterwards: CPU time of all three times a factor. A baseline whose processes differ is judged by the most of them, and
says so: no slowdown of it is counted.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from pytest_opprof.verdict.times.coarse import Coarse, slower, together
from pytest_opprof.verdict.times.repeats import COARSE_PROCESSES

SHARED = Path(__file__).parents[2] / "shared" / "gate-samples" / "coarse"
FACTORS = (1.5, 2.0, 2.5, 3.0)
LEAST_NS = 20_000_000
"""How much slower a slowdown is at least that is to be seen."""
RUNS = 6
Samples = dict[str, tuple[int, int]]
"""By test: CPU time and wall time, ns."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=SHARED)
    parser.add_argument("--record", type=Path, help="where to record samples if the folder has none")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not folder.is_dir():
        if arguments.record is None:
            parser.error(f"{folder} is not there; say --record FOLDER to make samples")
        folder = arguments.record
        record(folder)
    rows = list(compared(folder))
    for row in rows:
        print(f"{row['suite']}: {row['condition']}, {row['tests']} tests, {row['comparisons']} comparisons")
        print(f"  unchanged: {row['alarms']} alarms of CPU time, of {row['tests with alarms']} tests;", end=" ")
        print(f"{row['alarms of wall time']} of wall time, which is judged only on a quiet machine")
        for factor, (seen, of) in row["seen"].items():
            print(f"  x{factor}, where that is {LEAST_NS // 1_000_000} ms or more: {seen} of {of} seen", end="")
            print(f" ({seen / of:.2%})" if of else "")
    alone = [row for row in rows if row["in one thread"]]
    alarms, comparisons = (sum(row[key] for row in alone) for key in ("alarms", "comparisons"))
    seen, of = (sum(row["seen"][2.0][index] for row in alone) for index in (0, 1))
    print(f"in one thread: {alarms} alarms in {comparisons} comparisons ({alarms / max(comparisons, 1):.6%})", end="; ")
    print(f"x2 seen in {seen} of {of} ({seen / max(of, 1):.2%})")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def compared(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what became of the comparisons of each suite and condition."""
    samples: dict[tuple[str, str], list[Samples]] = {}
    for path in sorted(folder.glob("*.csv.gz")):
        suite, mode, _ = path.name.split(".", 2)
        samples.setdefault((suite, mode), []).append(read(path))
    for suite in dict.fromkeys(suite for suite, _ in samples):
        for base, now in (("quiet", "quiet"), ("quiet", "load"), ("load", "load"), ("load", "quiet")):
            if (suite, base) in samples and (suite, now) in samples:
                yield conditions(suite, base, now, samples[suite, base], samples[suite, now])


def conditions(suite: str, base: str, now: str, before: list[Samples], after: list[Samples]) -> dict[str, Any]:
    tests = sorted(set.intersection(*map(set, before), *map(set, after)))
    alarms: dict[str, int] = {}
    comparisons = of_wall = 0
    seen = {factor: [0, 0] for factor in FACTORS}
    for test in tests:
        old, new = ([coarse(*run[test]) for run in runs] for runs in (before, after))
        for left, right in choices(old, new, base == now):
            baseline, current = together(left), together(right)
            comparisons += 1
            if slower(baseline, current, wall=False):
                alarms[test] = alarms.get(test, 0) + 1
            of_wall += slower(baseline, current, wall=True) is not None and not slower(baseline, current, wall=False)
            for factor, counts in seen.items():
                if current.cpu_ns[0] * (factor - 1) >= LEAST_NS and not baseline.split:
                    cpu = int(current.cpu_ns[0] * factor)
                    counts[0] += slower(baseline, Coarse((cpu, cpu), current.wall_ns), wall=False) is not None
                    counts[1] += 1
    return {
        "suite": suite,
        "condition": f"{base} -> {now}",
        "in one thread": suite.endswith("1") or suite == "kornia",
        "tests": len(tests),
        "comparisons": comparisons,
        "alarms": sum(alarms.values()),
        "tests with alarms": len(alarms),
        "alarms of wall time": of_wall,
        "seen": seen,
    }


def choices(old: list[Coarse], new: list[Coarse], same: bool) -> Iterator[tuple[list[Coarse], list[Coarse]]]:
    """Yield the processes of a baseline and of a run; of those that are *same* no process is on both sides."""
    for left in combinations(range(len(old)), COARSE_PROCESSES):
        rest = [index for index in range(len(new)) if not (same and index in left)]
        for right in combinations(rest, min(COARSE_PROCESSES, len(rest))):
            yield [old[index] for index in left], [new[index] for index in right]


def coarse(cpu_ns: int, wall_ns: int) -> Coarse:
    found = Coarse.of([cpu_ns], [cpu_ns], [wall_ns])
    assert found is not None
    return found


def read(path: Path) -> Samples:
    with gzip.open(path, "rt", newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == 3 and row[1].isdecimal()]
    return {test: (int(cpu), int(wall)) for test, cpu, wall in rows}


BUSY = "while True: pass"
PROGRAM = """
import sys, time
import numpy as np
from threadpoolctl import threadpool_limits
def loop(n): return lambda: sum(i * i for i in range(n))
def lists(n): return lambda: sorted(str(i) for i in range(n))
def products(n): return lambda: np.ones((n, n)) @ np.ones((n, n))
def sums(n): return lambda: [np.arange(n).sum() for _ in range(20)]
def waits(n): return lambda: time.sleep(n / 1e3)
made = {f"{of.__name__}[{n}]": of(n) for of, sizes in {
    loop: range(1000, 800_000, 16_000), lists: range(1000, 200_000, 8000), products: range(50, 650, 50),
    sums: range(1000, 400_000, 20_000), waits: range(1, 40, 8)}.items() for n in sizes}
for name, body in made.items():
    with threadpool_limits(1):
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        body()
        print(name, time.process_time_ns() - cpu, time.perf_counter_ns() - wall, sep=",")
"""


def record(folder: Path) -> None:
    """Record unchanged tests, each in fresh processes, quiet and beside four busy loops."""
    folder.mkdir(parents=True, exist_ok=True)
    for mode in ("quiet", "load"):
        others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(4 * (mode == "load"))]
        try:
            time.sleep(1)
            for number in range(1, RUNS + 1):
                ran = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True)
                (folder / f"made1.{mode}.{number}.csv.gz").write_bytes(gzip.compress(ran.stdout))
        finally:
            for other in others:
                other.kill()


if __name__ == "__main__":
    main()
