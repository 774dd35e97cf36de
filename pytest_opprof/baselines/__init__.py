"""Baselines in the repository: files, their entries, stale entries, updates. Imports `results` and the packages below
it.

`entry` is the content of a baseline; `file_types` its form in the files of a module; `file` reads, matches and writes
them; `paths` locates them. A new fact of a window is a field in `entry` and in `file_types`; versions are in `schemas`.
"""
