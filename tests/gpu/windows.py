"""Windows of the backends that record GPUs. A test in which one is not to be had is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.nvidia.live import backend as cuda
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import OpProfile


def cupy_or_skip() -> Any:
    """Return CuPy, which has not used a GPU yet if nobody else did."""
    if not find_spec("cupy"):
        pytest.skip("CuPy is not installed (pip install cupy-cuda13x, or cupy-cuda12x)")
    import cupy

    if reason := cuda.backend().unavailable():
        pytest.skip(f"the cuda backend cannot run here: {reason}")
    return cupy


def of_cuda(body: Callable[[], object], **options: Any) -> OpProfile:
    """Return the profile of a *body* that PyTorch has no part in."""
    with cuda.backend().collect(Options(**options)) as log:
        body()
    return assemble([(log.freeze(), {0: 0})], [1])


def torch_or_skip() -> Any:
    """Return PyTorch, which has not used a GPU yet if nobody else did."""
    if not find_spec("torch"):
        pytest.skip("torch is not installed")
    import torch

    if not cuda.torch_records():
        pytest.skip("torch's profiler records no GPU: it is not built for CUDA, is before 2.10, or finds none")
    return torch


def of_torch(body: Callable[[], object], **options: Any) -> OpProfile:
    """Return the profile of a *body* of PyTorch."""
    from pytest_opprof.frameworks.pytorch.live.backend import backend

    with backend().collect(Options(**options)) as log:
        log.mark()
        body()
        log.mark()
    return assemble([(log.freeze(), {1: 0})], [1])


def counts(profile: OpProfile) -> dict[str, int]:
    """Return the calls of each op."""
    return {stats.op: stats.most_calls for stats in profile.ops}
