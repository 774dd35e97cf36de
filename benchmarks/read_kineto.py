"""What a PyTorch trace of 10**6 events costs to show, beside orjson, pandas and HolisticTraceAnalysis.

    python benchmarks/read_kineto.py [--peers PYTHON] [--trace TRACE.json.gz] [--events N] [--keep FILE]

The file is a recording many times over: the A100 one of ../shared, else the CPU one of the tests. Each side is a
process of its own, taking turns, the best of three; CPU is user + sys of the whole process, start-up included. PYTHON
is an interpreter that has orjson, pandas and HolisticTraceAnalysis, or some of them.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CUDA = ROOT.parent / "shared" / "profiles" / "torch-cuda" / "hta_a100_rank0_shapes.json.gz"
CPU = ROOT / "tests" / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"
REPEATS = 3
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""So that all are compiled, as they are when installed."""

LOOP = """
totals = {}
for event in loaded["traceEvents"]:
    if event.get("ph") == "X":
        key, duration = (event.get("cat"), event["name"]), event["dur"]
        total = totals.get(key)
        if total is None:
            totals[key] = [1, duration, duration, duration]
        else:
            total[0] += 1
            total[1] += duration
            if duration < total[2]:
                total[2] = duration
            elif duration > total[3]:
                total[3] = duration
"""
PEERS = {
    "orjson": (
        "orjson, gc off",
        "import gc, orjson, sys\ngc.disable()\nloaded = orjson.loads(open(sys.argv[1], 'rb').read())" + LOOP,
    ),
    "json": ("json, gc off", "import gc, json, sys\ngc.disable()\nloaded = json.load(open(sys.argv[1], 'rb'))" + LOOP),
    "pandas": (
        "pandas",
        "import json, sys, pandas\nframe = pandas.DataFrame(json.load(open(sys.argv[1], 'rb'))['traceEvents'])\n"
        "frame[frame.ph == 'X'].groupby(['cat', 'name']).dur.agg(['count', 'sum', 'min', 'max'])",
    ),
    "hta": (
        "HolisticTraceAnalysis",
        "import sys\nfrom hta.trace_analysis import TraceAnalysis\n"
        "TraceAnalysis(trace_files={0: sys.argv[1]}).get_gpu_kernel_breakdown(visualize=False)",
    ),
}
GOALS = {"orjson": "at most 0.9x", "pandas": "6 times less", "hta": "15 times less"}
READ = """
import sys
from pathlib import Path
from pytest_opprof.frameworks.pytorch.saved import kineto
from pytest_opprof.frameworks.files.format import Options
from pytest_opprof.frameworks.files.place import Place
kineto.read(Place(Path(sys.argv[1])), Options())
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default=sys.executable, help="an interpreter that has the other libraries")
    parser.add_argument("--trace", type=Path, default=CUDA if CUDA.exists() else CPU)
    parser.add_argument("--events", type=int, default=10**6)
    parser.add_argument("--keep", type=Path, help="where to build the file, to use it again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder, "large.json")
        if not path.exists():
            # In a process of its own: the peak memory of a process begins with that of the one that started it.
            maker = multiprocessing.Process(target=make, args=(arguments.trace, arguments.events, path))
            maker.start()
            maker.join()
        size = path.stat().st_size
        print(f"{arguments.trace.name} to {arguments.events} events, {size / 1e6:.0f} MB; CPU s (user + sys), peak RSS")
        show = [sys.executable, "-m", "pytest_opprof", "show", str(path), "-t", "10"]
        commands = {
            "show": ("opprof show", [*show, "--aggregate-by", "type", "--format", "json"]),
            "read": ("frameworks.pytorch.saved.kineto", [sys.executable, "-c", READ, str(path)]),
        }
        for module, (title, code) in PEERS.items():
            if has(arguments.peers, module):
                commands[module] = (title, [arguments.peers, "-c", code, str(path)])
        runs = {key: [measure(command)] for key, (_, command) in commands.items()}
        for _ in range(REPEATS - 1):
            for key, (_, command) in commands.items():
                runs[key].append(measure(command))
        report({key: (title, *map(min, zip(*runs[key]))) for key, (title, _) in commands.items()}, size)


def report(measured: dict[str, Any], size: int) -> None:
    ours = measured["show"]
    for key, (title, cpu, memory) in measured.items():
        ratio = f"ours is {ours[1] / cpu:.2f}x the CPU ({cpu / ours[1]:.1f} times less)" if key in PEERS else ""
        goal = f"; goal: {GOALS[key]}" if key in GOALS else ""
        print(f"{title:24} {cpu:7.2f} s {memory / 1e6:7.0f} MB  {ratio}{goal}")
    print(f"peak memory {ours[2] / size:.2f}x the file (goal: at most 0.5x)")


def make(trace: Path, events: int, path: Path) -> None:
    with path.open("w") as file:
        file.writelines(large(json.loads(gzip.decompress(trace.read_bytes())), events))


def large(document: Any, wanted: int) -> Iterator[str]:
    """Yield the text of a trace that holds the events of *document* many times, one after the other in time."""
    events = document.pop("traceEvents")
    timed = [event for event in events if event.get("ph") == "X" and isinstance(event["pid"], int)]
    span = max(event["ts"] + event["dur"] for event in timed) - min(event["ts"] for event in timed) + 100
    apart = 1 + max(event.get("args", {}).get(key, 0) for event in timed for key in ("External id", "correlation"))
    yield json.dumps({**document, "traceEvents": []})[:-2]
    for number in range(wanted):
        copy, index = divmod(number, len(events))
        yield (",\n" if number else "\n") + json.dumps(moved(events[index], copy * span, copy * apart))
    yield "]}\n"


def moved(event: dict[str, Any], later: float, apart: int) -> dict[str, Any]:
    args = event.get("args", {})
    ids = {key: args[key] + apart for key in ("External id", "correlation") if key in args}
    times = {"ts": round(event["ts"] + later, 3)} if "ts" in event else {}
    return {**event, **times, **({"args": {**args, **ids}} if args else {})}


def has(python: str, module: str) -> bool:
    if python == sys.executable:
        return importlib.util.find_spec(module) is not None
    return not subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode


def measure(command: list[str]) -> tuple[float, int]:
    """Return the CPU seconds and the peak memory, in bytes, of a process."""
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=ROOT, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:200]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


if __name__ == "__main__":
    main()
