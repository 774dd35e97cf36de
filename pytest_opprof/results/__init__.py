"""Results of windows, tests and runs, and the JSON in which they travel. Imports `measure` and the packages below it.

A new number of a window for `--opprof-json` is a field in `window_result`; `make schemas` writes its schema.
"""
