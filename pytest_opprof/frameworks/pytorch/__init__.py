"""PyTorch: what its events mean and its ops work on; live by torch.profiler; saved traces of it."""
