"""MindSpore, by its own profiler in C++; MindSpore is imported only in a process that uses it."""
