"""Ascend's NPUs: the meaning and work of CANN's kernels; live by MSPTI, saved by msprof and torch_npu."""
