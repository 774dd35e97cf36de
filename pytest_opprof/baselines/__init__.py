"""Baselines in the repository: files, their entries, what is stale, what an update writes. Imports `results` and below.

What a baseline keeps is `entry`; how that looks in the two files of a module is `format`; how they are read, matched
and written is `file`. A new fact of a window is a field in `entry` and in `format`, an older version of a file a
function in `upgrade`.
"""
