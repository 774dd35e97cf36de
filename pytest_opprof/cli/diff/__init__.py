"""``opprof diff``: `sides` reads both files, `windows` judges each window, and `command` prints the result.

`whole` has the time of a step before its ops.
"""
