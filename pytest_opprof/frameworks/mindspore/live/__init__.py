"""MindSpore, by its own profiler in C++, and the graphs that it compiles."""
