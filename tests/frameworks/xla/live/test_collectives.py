"""Collectives of JAX between four devices of one process, which XLA makes of a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="jax is not installed (make test-jax)")
pytestmark = [pytest.mark.jax, pytest.mark.slow, pytest.mark.processes]
MODEL = """
import os, pytest, numpy as np, jax, jax.numpy as jnp
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
weights = jnp.ones((16, 16))
batch = jax.device_put(jnp.ones((64, 16)), NamedSharding(mesh, P("d")))

@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("d")), out_specs=P())
def gradient(weights, batch):
    sum = jax.lax.psum(batch.T @ (batch @ weights), "d")
    for each in range("LOOP" in os.environ): sum = jax.lax.psum(sum * 1.5, "d")
    return sum

@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
def sharded(batch):
    return jax.lax.psum_scatter(jax.lax.all_gather(batch, "d", tiled=True), "d", tiled=True)

@pytest.mark.opprof(rounds=2)
@pytest.mark.op_budget(AllReduce=["8", "64 KiB"])
def test_psum(): gradient(weights, batch).block_until_ready()

@pytest.mark.opprof(rounds=2)
def test_sharded(): sharded(batch).block_until_ready()
"""


def run(folder: Path, *arguments: str, **environ: str) -> str:
    """Return what pytest prints."""
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "opprof", "-p", "no:cacheprovider", *arguments]
    how = {"capture_output": True, "text": True, "check": False, "timeout": 120}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **devices, **environ}, **how)  # type: ignore[call-overload]
    return str(done.stdout)


def test_a_collective_counts_on_each_device_and_one_in_a_loop_is_caught_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "test_mesh.py").write_text(MODEL)
    assert "baselines of 2 tests: 2 new" in run(tmp_path, "--opprof-update", "--opprof-processes=1")
    (path,) = tmp_path.glob("baselines/*/test_mesh.py.json")
    psum, sharded = (json.loads(path.read_text())["tests"][test]["body"] for test in ("test_psum", "test_sharded"))
    assert (psum["ops"]["AllReduce"]["calls"], psum["ops"]["AllReduce"]["bytes"]) == (4, 4 * 16 * 16 * 4)
    assert {op: sharded["ops"][op]["calls"] for op in ("AllGather", "ReduceScatter")} == {
        "AllGather": 4,
        "ReduceScatter": 4,
    }
    assert sharded["ops"]["ReduceScatter"]["bytes"] == 4 * sharded["ops"]["AllGather"]["bytes"] == 4 * 64 * 16 * 4
    assert "opprof: 2 tests measured, 2 ok" in run(tmp_path, "--opprof")
    failed = run(tmp_path, "--opprof", LOOP="1")
    assert "AllReduce: 8 calls (baseline: 4)" in failed
    assert 'for each in range("LOOP" in os.environ): sum = jax.lax.psum(sum * 1.5, "d")`  (new)' in failed
    assert "communication (not included above): " in failed
