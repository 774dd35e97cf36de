"""What people read: the message of a failing test, tables, lists. Imports `baselines` and what is below.

A column of the failing table goes into `table`, one of ``opprof show`` into `listing`.
"""
