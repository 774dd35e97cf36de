"""What measuring costs with ONNX Runtime, beside its own profiler: ratios of one run, in one process.

    python benchmarks/onnxruntime_cost.py

The bare profiler is what a user writes without opprof: a session with enable_profiling is made and run, its profile is
ended, and the file is read by `json`. Needs the package onnx, too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.onnx.live.backend import backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window

CPU = ["CPUExecutionProvider"]
ROUNDS, REPEATS = 30, 5
WEIGHTS = 64  # MB, of the model whose memory is looked at


def chain(nodes: int, size: int = 8) -> bytes:
    """Return a model of so many additions and multiplications, which ONNX Runtime cannot fuse."""
    info = helper.make_tensor_value_info
    work = [helper.make_node("Add" if n % 2 else "Mul", [f"t{n}", "x"], [f"t{n + 1}"]) for n in range(nodes)]
    ends = [info("t0", TensorProto.FLOAT, [size]), info("x", TensorProto.FLOAT, [size])]
    graph = helper.make_graph(work, "chain", ends, [info(f"t{nodes}", TensorProto.FLOAT, [size])])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def product() -> bytes:
    side = round((WEIGHTS * 1e6 / 4) ** 0.5)
    info = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.ones((side, side), np.float32), "W")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "W"], ["y"])],
        "product",
        [info("x", TensorProto.FLOAT, [1, side])],
        [info("y", TensorProto.FLOAT, [1, side])],
        [weights],
    )
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def options() -> Any:
    found = ort.SessionOptions()
    found.intra_op_num_threads, found.log_severity_level = 1, 4
    return found


def session(model: bytes) -> Any:
    return ort.InferenceSession(model, options(), providers=CPU)


def window(work: Callable[[], object], rounds: int) -> Window:
    recorder, opened = Recorder([backend()], Options(), explicit=True), Window("w")
    with recorder.open(opened):
        for _ in range(rounds):
            with recorder.step(opened):
                work()
    return opened


def bare(model: bytes, feed: dict[str, Any], rounds: int, folder: str) -> None:
    profiled = options()
    profiled.enable_profiling, profiled.profile_file_prefix = True, f"{folder}/bare"
    copy = ort.InferenceSession(model, profiled, providers=CPU)
    for _ in range(rounds):
        copy.run(None, feed)
    path = Path(copy.end_profiling())
    json.loads(path.read_bytes())
    path.unlink()


def fastest(*bodies: Callable[[], object]) -> list[float]:
    """Return the seconds of each, the bodies taking turns."""
    taken: list[list[float]] = [[] for _ in bodies]
    for _ in range(REPEATS):
        for body, times in zip(bodies, taken):
            gc.collect()
            begin = time.perf_counter()
            body()
            times.append(time.perf_counter() - begin)
    return [min(times) for times in taken]


def costs(nodes: int, folder: str) -> None:
    model = chain(nodes)
    mine, feed = session(model), {"t0": np.ones(8, np.float32), "x": np.ones(8, np.float32)}

    def run() -> object:
        return mine.run(None, feed)

    window(run, 1)  # compares the copy with the session, once in a process
    plain, making, one, one_bare, many, many_bare = fastest(
        lambda: [run() for _ in range(ROUNDS)],
        lambda: session(model),
        lambda: window(run, 1),
        lambda: bare(model, feed, 1, folder),
        lambda: window(run, ROUNDS),
        lambda: bare(model, feed, ROUNDS, folder),
    )
    rounds = [window(run, ROUNDS).profile.host_ns for _ in range(REPEATS)]
    profiled = min(map(min, rounds)) / 1e9
    print(f"{nodes:6,} nodes: a run {plain / ROUNDS * 1e6:.0f} us, making the session {making * 1e3:.1f} ms")
    for what, ours, theirs in (("1 run", one, one_bare), (f"{ROUNDS} rounds", many, many_bare)):
        ratio = f"{ours / theirs:.2f} x the bare profiler's {theirs * 1e3:.1f} ms"
        print(f"    window of {what}: {ours * 1e3:.1f} ms = {ratio}")
    more = (profiled - plain / ROUNDS) / nodes
    print(f"    a round: {profiled / (plain / ROUNDS):.1f} x a run without a profiler, {more * 1e6:.1f} us a node more")


def memory() -> None:
    model = product()
    side = round((len(model) / 4) ** 0.5)
    mine, feed = session(model), {"x": np.ones((1, side), np.float32)}
    mine.run(None, feed)

    def resident() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    window(lambda: mine.run(None, feed), 1)
    before = resident()
    inside: list[float] = []
    window(lambda: (mine.run(None, feed), inside.append(resident())), 1)
    print(f"a model of {WEIGHTS} MB: {inside[0] - before:+.0f} MB in a window, {resident() - before:+.0f} MB after it")


def main() -> None:
    ort.set_default_logger_severity(4)
    print(f"onnxruntime {ort.__version__}, {os.cpu_count()} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        for nodes in (7, 250, 2500):
            costs(nodes, folder)
    (empty,) = fastest(lambda: [window(lambda: None, 1) for _ in range(100)])
    print(f"an empty window: {empty / 100 * 1e6:.0f} us")
    memory()


if __name__ == "__main__":
    main()
