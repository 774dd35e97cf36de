"""MindSpore: the work of its ops, the text of its graphs; live by its own profiler in C++; saved profiles and
graphs.
"""
