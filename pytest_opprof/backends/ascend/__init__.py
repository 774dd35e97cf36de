"""Ascend: kernels of torch_npu, MindSpore and ACL as MSPTI records them. Written, and not run on an NPU yet."""
