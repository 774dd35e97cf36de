"""The measurement, live or read from a file: events, profiles, calls, times. Imports `ops` and the packages below it.

A new fact about ops is a field of `op_key.OpKey`; about events, a column of `columns.Columns`; about a window, a field
of `op_profile.OpProfile`; about the ops of files, a field of `saved.SavedOp`. `events.assembly.built` makes all
profiles.
"""
