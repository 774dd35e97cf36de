"""NVIDIA's GPUs under any framework: live by CUPTI, saved by Nsight Systems and Nsight Compute."""
