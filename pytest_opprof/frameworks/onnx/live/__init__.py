"""ONNX Runtime, by its own profiler: the optimised nodes that its sessions run."""
