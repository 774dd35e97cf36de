"""Calls of Python functions in one call of a test's body, counted exactly: by function, and by the line that calls.

`counter.Counter` counts, `counted.PythonCalls` is the result, `causes` says which functions grew. Imports no framework.
"""
