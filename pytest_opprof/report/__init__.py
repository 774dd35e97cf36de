"""Text and pages for people: the message of a failing test, tables, lists, the end of a run.

Imports `baselines` and the packages below it. `tables` has the one table and its renderers; a column of the failing
table goes into `op_table`, a column of ``opprof show`` into `listing`.
"""
