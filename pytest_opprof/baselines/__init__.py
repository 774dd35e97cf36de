"""Baselines in the repository: files, their entries, what is stale, what an update writes. Imports `results` and below.

What a baseline keeps is `entry`; how that looks in the two files of a module is `file_types`; how they are read,
matched and written is `file`, where they lie `paths`. A new fact of a window is a field in `entry` and in
`file_types`, their versions are in `schemas`.
"""
