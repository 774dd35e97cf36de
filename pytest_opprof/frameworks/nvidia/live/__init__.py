"""CUDA of any framework, by CUPTI; it also asks the driver, and NVML if it is installed."""
