"""Measuring one test in one process: windows, rounds, ranges of the user's own. Imports `frameworks` and what is below.

What a window or a round does beside recording (waiting, limiting threads, marking) belongs here; what is recorded
belongs to a backend.
"""
