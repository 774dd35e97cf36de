"""MindSpore's profiler on the CPU, on GPUs, and on Ascend up to 2.4."""
