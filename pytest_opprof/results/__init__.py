"""What windows, tests and runs came to, and the JSON in which that travels. Imports `measure` and what is below.

A new figure of a window that `--opprof-json` is to show is a field in `window_result`; `make schemas` writes its
schema.
"""
