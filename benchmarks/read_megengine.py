"""What reading a MegEngine graph profile of 100,000 operators costs, beside json.load and beside MegEngine's own tool.

    python benchmarks/read_megengine.py [--megengine-python PYTHON] [--keep FILE]

The file is the recorded transformer encoder 351 times over. Each side is a process of its own, the best of three; CPU
is user + sys, of the whole process, start-up included. PYTHON is an interpreter with MegEngine 1.13.0 (Python 3.10,
megengine==1.13.0 "numpy<2" "opencv-python<4.10").
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "megengine" / "encoder4.json.gz"
COPIES, REPEATS, APART = 351, 3, 10_000
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""So that all are compiled, as they are when installed."""
JSON_LOAD = "import json, sys; json.load(open(sys.argv[1]))"
GOALS = {"json.load": "", "profile_analyze": "goal: 15 times less CPU, a quarter of the memory"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megengine-python", help="an interpreter that has MegEngine")
    parser.add_argument("--keep", type=Path, help="where to build the file, to use it again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder, "large.json")
        if not path.exists():
            path.write_text("".join(large(json.loads(gzip.decompress(RECORDED.read_bytes())))))
        print(f"{path.stat().st_size / 1e6:.0f} MB, {285 * COPIES} operators; CPU s (user + sys), peak RSS")
        show = [sys.executable, "-m", "pytest_opprof", "show", str(path), "-t", "5", "--format", "json"]
        ours = measure("opprof show", show)
        compare("json.load", ours, [sys.executable, "-c", JSON_LOAD, str(path)])
        compare("opprof, by type", ours, [*show, "--aggregate-by", "type"])
        if arguments.megengine_python:
            tool = [arguments.megengine_python, "-m", "megengine.tools.profile_analyze", str(path), "-t", "5"]
            compare("profile_analyze", ours, tool)


def large(document: Any) -> Iterator[str]:
    """Yield the text of a document that holds *document* many times, its ids and names made distinct."""
    profiler, graph = document["profiler"], document["graph_exec"]
    yield '{"profiler": {"opr_internal_pf": {}'
    for section in ("host", "opr_footprint", "device"):
        yield f', "{section}": {{'
        yield ", ".join(items(profiler[section], copy) for copy in range(COPIES))
        yield "}"
    yield '}, "graph_exec": {"comp_seq": '
    yield json.dumps([moved(each, copy) for copy in range(COPIES) for each in graph["comp_seq"]])
    for section in ("mem_chunk", "var", "operator"):
        yield f', "{section}": {{'
        yield ", ".join(items({k: named(v, copy) for k, v in graph[section].items()}, copy) for copy in range(COPIES))
        yield "}"
    yield "}}"


def items(section: dict[str, Any], copy: int) -> str:
    return json.dumps({moved(key, copy): value for key, value in section.items()})[1:-1]


def moved(identifier: str, copy: int) -> str:
    return str(int(identifier) + copy * APART) if identifier.isdecimal() else f"{identifier}_{copy}"


def named(entry: dict[str, Any], copy: int) -> dict[str, Any]:
    if "input" not in entry:
        return entry
    variables = {side: [moved(each, copy) for each in entry[side]] for side in ("input", "output")}
    return entry | variables | {"id": moved(entry["id"], copy), "name": f"{entry['name']}@{copy}"}


def compare(name: str, ours: tuple[float, float], command: list[str]) -> None:
    seconds, megabytes = measure(name, command)
    print(f"    over opprof show: {seconds / ours[0]:.1f} x CPU, {megabytes / ours[1]:.1f} x memory")


def measure(name: str, command: list[str]) -> tuple[float, float]:
    """Run the command; return its least CPU seconds and its peak memory in MiB."""
    runs = [usage(command) for _ in range(REPEATS)]
    seconds, megabytes = min(seconds for seconds, _ in runs), min(megabytes for _, megabytes in runs)
    print(f"  {name:16} {seconds:6.2f} s  {megabytes:5.0f} MiB")
    return seconds, megabytes


def usage(command: list[str]) -> tuple[float, float]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
