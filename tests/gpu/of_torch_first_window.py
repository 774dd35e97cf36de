"""The first windows of a process, before and while PyTorch first uses the GPU, and windows after idle time."""

from __future__ import annotations

import threading

import pytest

from .windows import of_torch, torch_or_skip

pytestmark = [pytest.mark.gpu, pytest.mark.processes]


def test_sessions_without_a_gpu_before_its_first_use_cost_no_kernel_later() -> None:
    """pytorch issue 192021: after idle time a session loses as many kernels as there were sessions before it."""
    torch = torch_or_skip()
    for _ in range(40):
        assert of_torch(lambda: torch.ones(8) + 1).stats("Add").calls == (1,)
    assert not torch.cuda.is_initialized()

    def makes_the_context() -> None:
        x = torch.ones(64, device="cuda")
        for _ in range(3):
            x.double()

    profile = of_torch(makes_the_context)
    assert (profile.stats("Cast").calls, profile.environment.device) == ((3,), torch.cuda.get_device_name(0))
    x = torch.ones(64, device="cuda")
    for _ in range(3):
        threading.Event().wait(4)  # idle: a condition of the defect, not a guess at how long something takes
        assert of_torch(lambda: [x.double() for _ in range(60)]).stats("Cast").calls == (60,)
