"""What measuring costs with MindSpore on a CPU: windows beside the same work without one, and beside its own profiler.

    python benchmarks/mindspore_cost.py

Each line is a median of interleaved repeats of one run, so that what else the machine does hits both sides. PyNative
mode runs with `launch_blocking`: without it its threads wait by spinning, and on two cores nothing can be told.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

os.environ.setdefault("GLOG_v", "3")

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.profiler import ProfilerActivity, profile, tensorboard_trace_handler

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.mindspore.live.backend import backend
from pytest_opprof.frameworks.mindspore.live.profiler import recorded, wait

REPEATS = 15
Around = Callable[[], AbstractContextManager[object]]


class Block(nn.Cell):
    def __init__(self, n: int = 64) -> None:
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm((n,)),
            nn.Dense(n, 4 * n, activation="gelu"),
            nn.Dense(4 * n, n),
        )
        self.key, self.value = nn.Dense(n, n), nn.Dense(n, n)

    def construct(self, x):
        x = x + ops.matmul(ops.softmax(ops.matmul(x, self.key(x).swapaxes(-1, -2))), self.value(x))
        return x + self.narrow(self.wide(self.norm(x)))


def net(layers: int) -> nn.Cell:
    return nn.SequentialCell([Block() for _ in range(layers)])


X = ms.Tensor(np.random.default_rng(0).random((2, 8, 64)).astype(np.float32))
SMALL = ms.Tensor(np.ones((8, 8), np.float32))


def window() -> AbstractContextManager[object]:
    return backend().collect(Options())


def its_own() -> AbstractContextManager[object]:
    handler = tensorboard_trace_handler(tempfile.mkdtemp(), analyse_flag=False)
    return profile(activities=[ProfilerActivity.CPU], on_trace_ready=handler)


def seconds(around: Around, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    with around():
        work()
        wait()
    return time.perf_counter() - begin


def compared(what: str, work: Callable[[], object], *arounds: Around) -> None:
    """Print how long *work* takes in each context, and the ratio to the first."""
    work()
    times: list[list[float]] = [[] for _ in arounds]
    for _ in range(REPEATS):
        for taken, around in zip(times, arounds):
            taken.append(seconds(around, work))
    medians = [statistics.median(taken) * 1e3 for taken in times]
    ratios = "  ".join(f"{name} {ms_:8.2f} ms (x{ms_ / medians[0]:.2f})" for name, ms_ in zip(NAMES[arounds], medians))
    print(f"{what:44} {ratios}")


NAMES = {
    (nullcontext, window): ("bare", "window"),
    (nullcontext, recorded, window, its_own): ("bare", "C++ profiler", "window", "its own profiler"),
}


def compiling(layers: int, is_watched: bool) -> float:
    """Return the seconds to compile and run a training step of so many layers, in which MindSpore writes its graph."""
    context, level = ms.context._context(), ms.context.ms_ctx_param.__members__["save_graphs"]
    context.set_param(level, 0)
    if is_watched:
        backend().begin_test()
    cell = net(layers)
    step = nn.TrainOneStepCell(nn.SequentialCell([cell, nn.ReLU()]), nn.Adam(cell.trainable_params()))
    return seconds(window if is_watched else nullcontext, lambda: step(X))


def main() -> None:
    ms.runtime.launch_blocking()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    print(f"MindSpore {ms.__version__}, {len(os.sched_getaffinity(0))} cores")
    compared("empty window", lambda: None, nullcontext, recorded, window, its_own)

    def eager() -> None:
        x = SMALL
        for _ in range(500):
            x = ops.relu(x + 1.0)

    compared("PyNative, 1000 small ops", eager, nullcontext, window)
    cell = net(4)
    compared("PyNative, transformer of 4 cells", lambda: cell(X), nullcontext, window)
    gradients = ms.value_and_grad(lambda x: cell(x).sum(), None, cell.trainable_params())
    compared("PyNative, its gradients", lambda: gradients(X), nullcontext, window)
    ms.set_context(mode=ms.GRAPH_MODE)
    graph = net(4)
    compared("graph, transformer of 4 cells", lambda: graph(X), nullcontext, window)
    step = nn.TrainOneStepCell(graph, nn.Adam(graph.trainable_params()))
    compared("graph, a training step of it", lambda: step(X), nullcontext, window)
    for layers in (2, 8):
        plain, watched = zip(*[(compiling(layers, False), compiling(layers, True)) for _ in range(3)])
        bare, ours = min(plain), min(watched)
        print(f"compiling a training step, {layers} cells: bare {bare:.2f} s, window {ours:.2f} s (x{ours / bare:.2f})")


if __name__ == "__main__":
    main()
