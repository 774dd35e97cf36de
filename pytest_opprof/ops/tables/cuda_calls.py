"""Nsight Systems: calls of CUDA that wait for the device."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
    "Synchronize": """
        cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cuCtxSynchronize cuStreamSynchronize
        cuEventSynchronize cudaThreadSynchronize
    """,
}
