"""CUDA of any framework, by CUPTI; the driver and NVML by ctypes."""
