"""Records a window of JAX for `test_recorded`: what the profiler gave, and the programs that ran.

    python -m tests.frameworks.xla.live.record_jax

writes ``tests/data/jax-cpu/windows/jax-VERSION.json.gz`` for the version of JAX that is installed.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.xla.live.backend import backend
from pytest_opprof.frameworks.xla.live.session import Session
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window

from ..hlo_walk import executed_ops

FOLDER = Path(__file__).parents[3] / "data" / "jax-cpu" / "windows"


def total(x: jax.Array) -> jax.Array:
    return jax.lax.psum(x * 2, "d")


def main() -> None:
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")  # where it was recorded is of no interest
    mesh = Mesh(jax.devices(), ("d",))
    x, parts = jnp.ones((48, 48)), jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, PartitionSpec("d")))
    programs = {
        "casts": (lambda a: jnp.tanh(a.astype(jnp.bfloat16) @ a.astype(jnp.bfloat16)).sum(dtype=jnp.float32), x, 1),
        "scan": (lambda a: jax.lax.scan(lambda c, _: (jnp.sort(c @ c, axis=0), c.sum()), a, None, length=5), x, 1),
        "small_loop": (lambda a: jax.lax.fori_loop(0, 3, lambda i, c: c @ c + i, a), x[:4, :4], 1),
        "sort": (lambda a: jnp.sort(a, axis=0), x, 1),
        "sharded": (jax.shard_map(total, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec()), parts, 2),
    }
    compiled = {name: jax.jit(body).lower(argument).compile() for name, (body, argument, _) in programs.items()}
    recorder, window = Recorder([backend()], Options(), explicit=True), Window("recorded")
    kept: list[bytes] = []
    stop = Session.stop
    Session.stop = lambda self: kept.append(stop(self)) or kept[-1]
    with recorder.open(window):
        for name, (_, argument, _) in programs.items():
            with recorder.step(window):
                compiled[name](argument)
    fence = backend()._fence
    assert fence is not None
    document = {
        "jax": jax.__version__,
        "marks": 1 + 2 * len(programs),
        "fence": {"calls": fence.calls, "executions": fence.executions},
        "steps": {
            name: {op: count * programs[name][2] for op, count in executed_ops(each.as_text()).items()}
            for name, each in compiled.items()
        },
        "xspace": base64.b64encode(kept[0]).decode(),
        "programs": {
            name: base64.b64encode(each.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()).decode()
            for name, each in compiled.items()
        },
    }
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"jax-{jax.__version__}.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document, indent=1).encode(), mtime=0))
    print(path, path.stat().st_size, document["steps"])


if __name__ == "__main__":
    main()
