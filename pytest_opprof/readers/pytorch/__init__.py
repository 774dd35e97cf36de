"""PyTorch: Kineto's traces and execution traces."""
