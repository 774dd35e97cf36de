"""Numba on a real GPU, recorded by the cuda backend. `test_frameworks` runs it in a process of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.nvidia.live import backend

from .windows import of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


@pytest.fixture(scope="module")
def cuda() -> Any:
    if not find_spec("numba_cuda"):
        pytest.skip("numba-cuda is not installed (pip install numba-cuda[cu13])")
    from numba import cuda

    if reason := backend.backend().unavailable():
        pytest.skip(f"the cuda backend cannot run here: {reason}")
    return cuda


def test_kernels_copies_and_waits_are_counted_exactly(cuda: Any) -> None:
    @cuda.jit  # type: ignore[untyped-decorator]  # Numba is not imported where types are checked
    def add_one(x: Any) -> None:
        at = cuda.grid(1)
        if at < x.size:
            x[at] += 1

    x = cuda.to_device(np.zeros(1024, np.float32))
    add_one[8, 128](x)  # compiles
    cuda.synchronize()
    assert backend.backend().in_use()
    found = []

    def body() -> None:
        for _ in range(5):
            add_one[8, 128](x)
        found.extend(x.copy_to_host())
        cuda.synchronize()

    profile = of_cuda(body)
    assert set(found) == {6}
    assert profile.launches == (5,)
    (kernel,) = (stats for stats in profile.kernels or () if "add_one" in stats.kernel)
    assert (kernel.most_calls, kernel.grid, kernel.block) == (5, (8, 1, 1), (128, 1, 1))
    assert profile.stats("MemcpyDtoH").bytes == (1024 * 4,)
    assert (profile.stats("Synchronize").calls or (0,))[0] >= 1
    assert profile.stats("(unlinked)").calls == (0,)
