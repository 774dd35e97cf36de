"""Measure one test in one process: windows, rounds, the user's own ranges. Imports `frameworks` and the packages below
it.

The work around the recording of a window or round (waiting, limiting threads, marking) belongs here; the recording
itself to a backend.
"""
