"""Profilers of GPUs, which record kernels and not ops: Nsight Systems, Nsight Compute, rocprofv3."""
