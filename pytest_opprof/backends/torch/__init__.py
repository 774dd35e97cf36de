"""PyTorch, by torch.profiler; imported only in a process that uses it."""
