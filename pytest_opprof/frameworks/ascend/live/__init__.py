"""Ascend: kernels of torch_npu, MindSpore and ACL, recorded by MSPTI. Not tested on an NPU yet."""
