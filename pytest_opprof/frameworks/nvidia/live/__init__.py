"""CUDA under any framework, by CUPTI; it also asks the driver, and NVML if installed."""
