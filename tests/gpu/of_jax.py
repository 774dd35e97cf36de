"""JAX on a real GPU, recorded by the cuda backend. `test_frameworks` runs it in a process of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live import registry
from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.nvidia.live import backend
from pytest_opprof.measure.memory.leaks import left_by
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.events.assembly import assemble

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


@pytest.fixture(scope="module")
def jax() -> Any:
    if not find_spec("jax"):
        pytest.skip("jax is not installed (pip install jax[cuda13])")
    import jax

    if jax.default_backend() != "gpu":
        pytest.skip(f"jax finds no GPU, its backend is {jax.default_backend()}")
    if reason := backend.backend().unavailable():
        pytest.skip(f"the cuda backend cannot run here: {reason}")
    return jax


def test_the_same_work_has_the_same_kernels_and_its_copies_are_counted(jax: Any) -> None:
    step = jax.jit(lambda x: (x @ x).astype(jax.numpy.float16).sum())
    x = jax.numpy.ones((256, 256), jax.numpy.float32)
    for _ in range(2):
        step(x).block_until_ready()  # compiles, loads
    assert backend.backend().in_use()
    with backend.backend().collect(Options()) as log:
        for _ in range(4):
            log.mark()
            np.asarray(step(x))
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2, 4: 3})], [1] * 4)
    assert len({*(profile.launches or ())}) == 1
    assert min(profile.launches or (0,)) >= 1
    assert min(profile.total.device_ns or (0,)) > 0
    assert profile.stats("MemcpyDtoH").calls == (1, 1, 1, 1)


def test_functions_that_are_compiled_again_are_counted_beside_the_kernels(jax: Any) -> None:
    by_number = jax.jit(lambda x, n: x * n, static_argnums=1)
    x = jax.numpy.ones(7)
    registry.begin_run(["jax"])
    backends = registry.load_all(None)
    for each in backends:
        each.begin_test()
    window = Window("w")
    recorder = Recorder(backends, Options())
    with recorder.open(window):
        for n in (1, 2, 2):
            with recorder.step(window):
                by_number(x, n)
    assert window.profile.counted("recompilations") == (0, 1, 0)
    assert window.profile.stats("jax::compile").calls == (1, 1, 0)
    assert window.profile.launches == (1, 1, 1)
    assert "cpu" not in window.profile.environment.device
    kept: list[Any] = []
    left = left_by(lambda: kept.append(x * 2), device_bytes=recorder.device_bytes)
    assert left.device_bytes > 0
