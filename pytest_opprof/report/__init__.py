"""What people read: the message of a failing test, tables, lists, the end of a run.

Imports `baselines` and what is below. A column of the failing table goes into `op_table`, one of ``opprof show`` into
`listing`.
"""
