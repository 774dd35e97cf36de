"""kernel_details.csv of 100 000 rows: `opprof`'s reader against pandas, each in a process of its own.

Run ``python benchmarks/read_csv.py [--python PYTHON_WITH_PANDAS] [--rows N] [--rounds N]``. Prints CPU seconds (user
and system, the whole process, the least of the rounds), the most memory, and the ratio. Both count calls and sum, least
and most time of all rows that are alike in step, name, type, core, shapes, dtypes and formats.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

KEYS = ["Step Id", "Name", "Type", "Accelerator Core", "Input Shapes", "Input Data Types", "Input Formats"]
KEYS += ["Output Shapes", "Output Data Types", "Output Formats"]
METRICS = 25
OURS = """
from pathlib import Path
from pytest_opprof.frameworks.ascend.saved import profile as ascend
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
records = ascend.read(Place(Path(FILE)), Options()).records
print(len(records), sum(record.calls for record in records))
"""
PANDAS = """
import pandas
rows = pandas.read_csv(FILE, usecols=[*KEYS, "Duration(us)"])
groups = rows.groupby(KEYS, dropna=False)["Duration(us)"].agg(["count", "sum", "min", "max"])
print(len(groups), groups["count"].sum())
"""
USAGE = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="a Python that has pandas")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel_details.csv")
        write(file, options.rows)
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(run(sys.executable, OURS, file))
            theirs.append(run(options.python, PANDAS, file))
        print(f"{options.rows} rows, {file.stat().st_size / 2**20:.1f} MiB")
        assert ours[0][2:] == theirs[0][2:], f"other groups or calls: {ours[0][2:]}, {theirs[0][2:]}"
    for name, runs in (("opprof", ours), ("pandas", theirs)):
        print(f"{name}: {min(run[0] for run in runs):.3f} s CPU, {max(run[1] for run in runs):.0f} MiB")
    print(f"opprof / pandas: {min(run[0] for run in ours) / min(run[0] for run in theirs):.2f}")


def write(file: Path, rows: int) -> None:
    """Write what a training of 50 steps of 191 kernels gives: 46 columns, shapes in quotes, a tab after each start."""
    chance = random.Random(1)
    kernels = [kernel(chance, index) for index in range(191)]
    with open(file, "w", encoding="utf-8", newline="") as out:
        header = ["Step Id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core"]
        header += ["Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible"]
        header += [*KEYS[4:], "Context ID", *(f"aic_metric_{index}" for index in range(METRICS))]
        out.write(",".join(header) + "\r\n")
        for row in range(rows):
            name, kind, shapes, duration = kernels[row % len(kernels)]
            start, took = f"17364088837{row:05}.{row % 1000:03}", duration * chance.uniform(0.9, 1.1)
            metrics = ",".join(f"{chance.random():.3f}" for _ in range(METRICS))
            out.write(
                f"{50 + row // 9550},4294967295,{row},2,{name},{kind},dynamic,AI_VECTOR_CORE,{start}\t,{took:.3f},"
                f"0,32,0,NO,{shapes},N/A,{metrics}\r\n"
            )


def kernel(chance: random.Random, index: int) -> tuple[str, str, str, float]:
    kind = chance.choice(["TransData", "Conv2D", "MatMulV2", "Cast", "Mul", "ReduceSum", "MemSet", "Transpose"])
    shape = f'"""{32},{chance.choice([3, 64, 256])},{chance.choice([13, 27, 55])},{chance.choice([13, 27, 55])}"""'
    described = f"{shape},FLOAT,NCHW,{shape},FLOAT,NC1HWC0"
    return chance.choice([f"{kind}{index}", f"aclnn{kind}_{kind}_{kind}"]), kind, described, chance.uniform(1, 600)


def run(python: str, code: str, file: Path) -> list[float]:
    program = f"FILE = {str(file)!r}\nKEYS = {KEYS!r}\n{code}{USAGE}"
    printed = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    return [float(printed[2]), float(printed[3]), float(printed[0]), float(printed[1])]


if __name__ == "__main__":
    main()
