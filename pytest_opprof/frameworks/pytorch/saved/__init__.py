"""Profiles of PyTorch: traces of its profiler (Kineto), and execution traces."""
