"""MindSpore: what its ops work on, what its graphs say; live by its own profiler in C++; saved profiles and graphs."""
