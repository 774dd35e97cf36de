"""Who records the GPUs of this process: CUPTI serves one profiler, torch's where that records any, else our own."""

from __future__ import annotations

import sys
from typing import Any

from . import driver as cuda_driver


def torch_records() -> bool:
    """Tell whether torch is imported, and its profiler records GPUs here.

    It does in a build for CUDA with CUPTI that finds a GPU, from PyTorch 2.10 on: earlier ones do not say how many
    bytes a copy has.
    """
    torch: Any = sys.modules.get("torch")
    if getattr(getattr(torch, "version", None), "cuda", None) is None:
        return False
    if not hasattr(getattr(getattr(torch, "autograd", None), "_KinetoEvent", None), "metadata_json"):
        return False
    if driver := cuda_driver.opened():
        driver.remember_devices()
    return torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities()
