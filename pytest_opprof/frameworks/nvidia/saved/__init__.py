"""Profilers of NVIDIA, which record kernels and not ops: Nsight Systems, Nsight Compute."""
