"""Profilers of GPUs that know no ops: Nsight Systems, Nsight Compute, rocprofv3."""
