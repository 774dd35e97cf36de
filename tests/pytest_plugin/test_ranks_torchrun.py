"""DDP and FSDP of a small transformer, really run by torchrun with gloo."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.processes]
MODEL = """
import os, pytest, torch, torch.distributed as dist
from datetime import timedelta
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

CHANGES = os.environ.get("CHANGES", "").split()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.embed, self.layers, self.out = nn.Embedding(50, 32), nn.ModuleList([layer(), layer()]), nn.Linear(32, 50)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers: x = layer(x)
        return self.out(x)

@pytest.fixture(scope="session", autouse=True)
def world():
    dist.init_process_group("gloo", timeout=timedelta(seconds=5 if "raise" in CHANGES else 60))
    torch.manual_seed(0)
    yield
    dist.destroy_process_group()

def step(model, x):
    model(x).pow(2).mean().backward()

@pytest.mark.opprof(rounds=3, warmup=2)
@pytest.mark.op_budget(AllReduce=["8", "1 MiB"])
def test_ddp(model=[]):
    if not model:
        model.append(nn.parallel.DistributedDataParallel(Model(), bucket_cap_mb=0.02 if "bucket" in CHANGES else 0.05))
    (ddp,), x = model, torch.zeros(2, 8, dtype=torch.long)
    if "no_sync" in CHANGES: step(ddp, x)
    else:
        with ddp.no_sync(): step(ddp, x)
    step(ddp, x)
    if "loop" in CHANGES:
        for parameter in ddp.parameters(): dist.all_reduce(parameter.grad)
    if "copy" in CHANGES and dist.get_rank() == 1: x.clone()
    if "raise" in CHANGES and dist.get_rank() == 1: raise ValueError("of its own")
    if "raise" in CHANGES: dist.barrier()
    if "kill" in CHANGES and dist.get_rank() == 1: os.kill(os.getpid(), 9)

@pytest.mark.opprof(rounds=2, warmup=1)
def test_fsdp(model=[]):
    if not model:
        made, mesh = Model(), init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in made.layers: fully_shard(layer, mesh=mesh)
        fully_shard(made, mesh=mesh)
        model.append(made)
    step(*model, torch.zeros(2, 8, dtype=torch.long))
"""


def torchrun(folder: Path, size: int, *arguments: str, changes: str = "") -> subprocess.CompletedProcess[str]:
    """Run the tests on so many ranks."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={size}", "-m", "pytest"]
    environ = {**os.environ, "CHANGES": changes, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*torchrun, *arguments], cwd=folder, env=environ, timeout=180, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tests, and with baselines of two ranks."""
    folder = tmp_path_factory.mktemp("dist")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p opprof -p no:cacheprovider\n")
    (folder / "test_dist.py").write_text(MODEL)
    run = torchrun(folder, 2, "--opprof-update")
    assert "baselines of 2 tests: 2 new" in run.stdout, run.stdout + run.stderr
    assert re.search(
        r"^the source lines of their ops were recorded\n  wrote .*test_dist.py.sites.json$", run.stdout, re.M
    )
    return folder


def test_counts_and_bytes_are_those_of_the_model_and_an_unchanged_run_passes(recorded: Path) -> None:
    (path,) = recorded.glob("baselines/torch-*-2-ranks/test_dist.py.json")
    tests = json.loads(path.read_text())["tests"]
    ddp, fsdp = tests["test_ddp"]["body"], tests["test_fsdp"]["body"]  # ranks agree: one entry
    parameters = 4 * (50 * 32 + 2 * (4 * 32 * 32 + 4 * 32 + 2 * 64 * 32 + 64 + 32 + 4 * 32) + 32 * 50 + 50)
    assert (ddp["ops"]["AllReduce"]["calls"], ddp["ops"]["AllReduce"]["bytes"]) == (2, parameters)
    # Each of three modules is gathered for the forward pass, the two layers once more; all gradients are scattered.
    assert (fsdp["ops"]["AllGather"]["calls"], fsdp["ops"]["ReduceScatter"]["calls"]) == (5, 3)
    assert fsdp["ops"]["ReduceScatter"]["bytes"] == parameters
    run = torchrun(recorded, 2, "--opprof")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "opprof: 2 tests measured, 2 ok, no times judged" in run.stdout


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        (
            "loop copy",
            [
                r"AllReduce: \d+ calls \(budget: 8, baseline: 2\)",
                r"Copy: calls differ between ranks: \d+ on rank 0, \d+ on rank 1",
            ],
        ),
        ("no_sync", [r"AllReduce: 4 calls \(baseline: 2\)"]),
        ("bucket", [r"AllReduce: 4 calls \(baseline: 2\)"]),
    ],
)
def test_each_change_that_costs_more_is_named_with_the_lines_that_are_new(
    recorded: Path, changes: str, found: list[str]
) -> None:
    run = torchrun(recorded, 2, "--opprof", "--opprof-ranks=equal", "-k", "ddp", changes=changes)
    assert run.returncode == 1
    for line in found:
        assert re.search(rf"^ +{line}( at test_dist.py:\d+)?$", run.stdout, re.MULTILINE), run.stdout
        assert re.search(rf"^\[rank 1\] +{line}( at test_dist.py:\d+)?$", run.stdout, re.MULTILINE), run.stdout
    new = re.search(r"^ *\+27  test_dist.py:42 in test_ddp  `for parameter in .*\(new\)$", run.stdout, re.M)
    assert bool(new) == ("loop" in changes), run.stdout
    assert "which of these lines are new" not in run.stdout


def test_a_rank_that_raises_is_named_by_the_one_that_waits_for_it(recorded: Path) -> None:
    run = torchrun(recorded, 2, "--opprof", "-k", "ddp", changes="raise")
    assert run.returncode == 1
    assert "opprof: error: rank 1 failed first in test_dist.py::test_ddp: ValueError: of its own" in run.stdout, (
        run.stdout
    )


def test_a_rank_that_was_killed_is_named_and_no_baseline_is_written(recorded: Path) -> None:
    before = {path: path.read_text() for path in recorded.glob("baselines/**/*.json")}
    run = torchrun(recorded, 2, "--opprof-update", changes="kill")
    assert run.returncode == 1
    assert "rank 1 has died: in test_dist.py::test_ddp" in run.stdout, run.stdout
    assert {path: path.read_text() for path in recorded.glob("baselines/[!.]*/**/*") if path.is_file()} == before
