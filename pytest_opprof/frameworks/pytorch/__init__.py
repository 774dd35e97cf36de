"""PyTorch: the meaning of its events and the work of its ops; live by torch.profiler; saved traces of it."""
