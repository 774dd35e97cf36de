"""The machine that a process runs on: which one it is, its cores, load, threads, files.

Imports `units` and `errors` alone. What decides how long code takes beside the code, and can be asked of the system,
belongs here.
"""
