"""NVIDIA's profilers, which record kernels instead of ops: Nsight Systems, Nsight Compute."""
