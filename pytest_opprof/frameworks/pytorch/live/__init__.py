"""PyTorch, by torch.profiler; PyTorch is imported only in a process that uses it."""
