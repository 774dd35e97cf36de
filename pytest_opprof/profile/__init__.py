"""What was measured, live or read from a file: events, profiles, calls, times. Imports `ops` and what is below.

A new thing to know about events is a column of `event_log` and `op_profile`, or a field of `saved`.
"""
