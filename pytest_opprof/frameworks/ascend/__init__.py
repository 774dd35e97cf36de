"""Ascend's NPUs: what kernels of CANN are and work on; live by MSPTI, saved by msprof and torch_npu."""
