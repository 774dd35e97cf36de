"""ONNX Runtime, by its own profiler: the nodes that its sessions run, each as it was optimised."""
