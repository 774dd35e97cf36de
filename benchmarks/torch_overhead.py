"""What measuring costs with PyTorch: a window of 100,000 small ops, reading it, and 2,000 windows in one process.

    python benchmarks/torch_overhead.py

The bare profiler is only started and stopped, nothing is read from it; each side frees what it recorded before its
clock stops. It is measured twice: with the option the window needs (record_shapes, without which PyTorch records no
dtypes and a cast cannot be told from a copy), and with PyTorch's defaults.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "6")

import torch
from torch.profiler import ProfilerActivity, profile

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.pytorch.live.backend import backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window

OPS, WINDOWS, REPEATS = 100_000, 2_000, 5
ONES = torch.ones(8)


def work(ops: int = OPS) -> None:
    for _ in range(ops):
        ONES + ONES


def bare(shapes: bool) -> None:
    session = profile(activities=[ProfilerActivity.CPU], record_shapes=shapes)
    session.start()
    work()
    session.stop()


def window(ops: int = OPS, moments: bool = False) -> Window:
    return measured(lambda: work(ops), moments)


def measured(body: Callable[[], object], moments: bool) -> Window:
    recorder, opened = Recorder([backend()], Options(moments=moments), explicit=True), Window("w")
    with recorder.open(opened), recorder.step(opened):
        body()
    return opened


def training() -> Callable[[], object]:
    """Return a training step of a transformer: four layers, 3,900 events."""
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256)
    model, batch = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(16, 8, 128)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()

    return step


def key_averages() -> float:
    session = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    session.start()
    work()
    session.stop()
    return seconds(lambda: session.key_averages())


def read() -> float:
    """Return the seconds that a window spends on reading what Kineto recorded and on attributing it."""
    from pytest_opprof.frameworks.pytorch.live import backend as module

    session = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    session.start()
    work()
    session.stop()
    log = module.EventLog(module._environment())

    def take() -> None:
        module._read(session.profiler.kineto_results, log, Options())
        assert log.freeze().ops

    return seconds(take)


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def freed(call: Callable[[], object]) -> float:
    def both() -> None:
        call()
        gc.collect()

    gc.collect()
    return seconds(both)


def megabytes() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    torch.set_num_threads(1)
    window(100)  # the first session imports 800 modules
    sides: dict[str, list[float]] = {
        name: [] for name in ("window", "bare, same options", "bare, defaults", "window, --opprof-traces")
    }
    for _ in range(REPEATS):
        sides["window"].append(freed(window))
        sides["bare, same options"].append(freed(lambda: bare(True)))
        sides["bare, defaults"].append(freed(lambda: bare(False)))
        sides["window, --opprof-traces"].append(freed(lambda: window(moments=True)))
    ours = min(sides["window"])
    print(f"{OPS} ops, fastest of {REPEATS}")
    for name, values in sides.items():
        print(f"  {name:23} {min(values):6.2f} s   window / this: {ours / min(values):.2f}")
    print("  goal: at most 1.15 of the bare profiler with the same options")
    theirs, own = min(key_averages() for _ in range(2)), min(read() for _ in range(3))
    print(
        f"reading {OPS} events: {own:.2f} s, key_averages() {theirs:.2f} s: {theirs / own:.0f} times faster (goal: 10)"
    )

    step = training()
    with_traces, without = list[float](), list[float]()
    for _ in range(20):
        without.append(seconds(lambda: measured(step, False)))
        with_traces.append(seconds(lambda: measured(step, True)))
    print(f"a training step of a transformer: --opprof-traces {min(with_traces) / min(without):.3f} times the window")

    sizes, times = [], []
    for number in range(WINDOWS):
        times.append(seconds(lambda: window(20)))
        if number % 400 == 0 or number == WINDOWS - 1:
            sizes.append(megabytes())
    print(f"{WINDOWS} windows: median {1e3 * statistics.median(times):.2f} ms each")
    print(f"  MiB after 1, 401, ...: {', '.join(f'{size:.0f}' for size in sizes)} (goal: no growth after the first)")


if __name__ == "__main__":
    main()
