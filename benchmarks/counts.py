"""Are counts free of noise? One training step in 30 processes: its op tables, and how its times differ.

python benchmarks/counts.py [PROCESSES]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

STEP = """
import json, os
os.environ["KINETO_LOG_LEVEL"] = "6"
import torch
from pytest_opprof.backends import Options
from pytest_opprof.backends.torch import backend
from pytest_opprof.recorder import Recorder, Window
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(32, 64)
window = Window("step")
recorder = Recorder([backend()], Options(), explicit=True)
for measured in (False, True):
    if measured:
        opened = recorder.open(window); opened.__enter__(); step = recorder.step(window); step.__enter__()
    optimizer.zero_grad(); model(batch).square().mean().backward(); optimizer.step()
    if measured:
        step.__exit__(None, None, None); opened.__exit__(None, None, None)
print(json.dumps([{s.op: s.most_calls for s in window.ops}, window.device_ns]))
"""


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    tables, times = set(), []
    for _ in range(processes):
        done = subprocess.run([sys.executable, "-c", STEP], check=True, capture_output=True, text=True, env=os.environ)
        table, device_ns = json.loads(done.stdout.splitlines()[-1])
        tables.add(json.dumps(table, sort_keys=True))
        times.append(device_ns)
    print(f"{processes} processes: {len(tables)} distinct op table(s); goal: 1")
    print(f"  {len(json.loads(min(tables)))} ops, {sum(json.loads(min(tables)).values())} calls")
    print(
        f"  device time of that step: {min(times) / 1e3:.0f} to {max(times) / 1e3:.0f} us,"
        f" {max(times) / min(times):.1f} times apart, median {statistics.median(times) / 1e3:.0f} us"
    )


if __name__ == "__main__":
    main()
