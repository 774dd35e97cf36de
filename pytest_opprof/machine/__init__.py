"""The machine that a process runs on: its identity, cores, load, threads, files.

Imports only `units` and `errors`. Everything besides the code that affects its time, and that the system can tell,
belongs here.
"""
