"""Ascend: kernels of torch_npu, MindSpore and ACL as MSPTI records them. No NPU has seen it yet."""
