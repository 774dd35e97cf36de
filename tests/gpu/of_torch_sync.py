"""Sync timing with PyTorch: launches block, since the variable is set before CUDA is initialised."""

from __future__ import annotations

import os

import pytest

from pytest_opprof.frameworks.nvidia.live.sync_timing import BLOCKING

from .windows import of_torch, torch_or_skip

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


def test_an_op_takes_what_it_took_the_host_and_its_kernel_the_gpus_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, BLOCKING, "1")
    big = torch_or_skip().ones(2**26, device="cuda")
    big.sin_()
    profile = of_torch(lambda: [big.sin_() for _ in range(9)], timing="sync")
    (kernel,) = profile.kernels or ()
    (waited_ns,) = profile.stats("Sin").device_ns or (0,)
    print(f"a sine of 256 MiB: {waited_ns / 9e3:.1f} us for the host, {kernel.fastest_ns / 9e3:.1f} us on the GPU")
    assert profile.stats("Sin").calls == (9,)
    assert kernel.fastest_ns < waited_ns < 2 * kernel.fastest_ns
