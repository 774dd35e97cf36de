"""Calls of Python functions in one call of a test's body, counted exactly: by function, and by calling line.

`counter.Counter` counts, `counted.PythonCalls` is the result, `causes` finds the functions that grew. Imports no
framework.
"""
