"""Baselines in the repository: files, their entries, stale entries, updates. Imports `results` and the packages below
it.

`entry` is the content of a baseline; `files` has its form in the files of a module, finds, reads and writes them. A new
fact of a window is a field in `entry` and in `files.file_types`; versions are in `files.schemas`.
"""
