"""Kernels of modules that are unloaded: before 13.4 Update 1 CUPTI may give one the name of another."""

from __future__ import annotations

import pytest

from pytest_opprof.frameworks.nvidia.live import libcupti
from pytest_opprof.frameworks.nvidia.live.backend import _KEEPS_NAMES, _STALE_NAMES

from .windows import counts, cupy_or_skip, of_cuda

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


def test_a_kernel_that_took_the_place_of_another_has_its_own_name_or_a_remark() -> None:
    cp = cupy_or_skip()
    from cupy.cuda import compiler, function

    x, names = cp.ones(1, cp.float32), [f"mine_{n}_{'x' * (n % 5)}" for n in range(40)]
    code = []
    for name in names:
        compiled = compiler.compile_using_nvrtc(f'extern "C" __global__ void {name}(float* x) {{ x[0] = 1; }}')[0]
        code.append(compiled if isinstance(compiled, bytes) else compiled.encode())

    def body() -> None:
        for name, compiled in zip(names, code):
            module = function.Module()
            module.load(compiled)
            module.get_function(name)((1,), (1,), (x,))
            cp.cuda.runtime.deviceSynchronize()
            del module

    for _ in range(3):
        profile = of_cuda(body)
        assert profile.launches == (40,)
        wrong = [name for name in names if counts(profile).get(name) != 1]
        print(f"libcupti {libcupti.opened().version}: {len(wrong)} of 40 kernels have names of others")
        if libcupti.opened().version < _KEEPS_NAMES:
            assert _STALE_NAMES in [said.text for _, said in profile.remarks]
        else:
            assert wrong == []
