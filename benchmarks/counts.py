"""Are counts free of noise? A training step and an inference in 30 processes each: their ops, facts and times.

The processes differ by what must not matter: PYTHONHASHSEED, threads (1 or 2), and whether other work ran before.

python benchmarks/counts.py [PROCESSES]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

STEP = """
import json, os, sys
os.environ["KINETO_LOG_LEVEL"] = "6"
import torch
from pytest_opprof.backends import Options
from pytest_opprof.frameworks.pytorch.live.backend import TorchBackend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.results.window_result import WindowNumbers
what, threads, before = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "later"
torch.set_num_threads(threads)
if before:  # as after other tests of the process
    kept = [torch.nn.Conv2d(3, 5, 3)(torch.randn(2, 3, 20 + n, 20)).sum() for n in range(9)]
    sum(kept).backward()
    kept = kept[::2]
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Dropout(), torch.nn.Linear(256, 8)
)
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(256, 64)
def train():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
@torch.no_grad()
def inference():
    return model.eval()(batch).softmax(-1)
window = Window("step")
recorder = Recorder([TorchBackend()], Options(memory=True), {}, explicit=True)
for measured in (False, True):
    if measured:
        opened = recorder.open(window); opened.__enter__(); step = recorder.step(window); step.__enter__()
    result = globals()[what]()
    if measured:
        step.__exit__(None, None, None); opened.__exit__(None, None, None)
numbers = WindowNumbers.of("step", window.profile)
calls = {op: each.calls[0] for op, each in numbers.ops.items()}
facts = {name: each.most for name, each in numbers.fact_ranges.items()}
print(json.dumps([calls, facts, window.device_ns]))
"""


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    for what in ("train", "inference"):
        tables, facts, times = set(), set(), []
        for number in range(processes):
            variant = [what, str(1 + number % 2), "later" if number % 4 > 1 else "first"]
            done = subprocess.run(
                [sys.executable, "-c", STEP, *variant],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONHASHSEED": str(number)},
            )
            table, found, device_ns = json.loads(done.stdout.splitlines()[-1])
            tables.add(json.dumps(table, sort_keys=True))
            facts.add(json.dumps(found, sort_keys=True))
            times.append(device_ns)
        print(f"{what}, {processes} processes: {len(tables)} op table(s), {len(facts)} set(s) of facts; goal: 1")
        print(f"  {len(json.loads(min(tables)))} ops, {sum(json.loads(min(tables)).values())} calls")
        for each in sorted(facts):
            print(f"  {each}")
        print(
            f"  device time of that step: {min(times) / 1e3:.0f} to {max(times) / 1e3:.0f} us,"
            f" {max(times) / min(times):.1f} times apart, median {statistics.median(times) / 1e3:.0f} us"
        )


if __name__ == "__main__":
    main()
