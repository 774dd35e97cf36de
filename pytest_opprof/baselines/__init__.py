"""Baselines in the repository: files, their entries, what is stale, what an update writes. Imports `results` and below.

What a baseline keeps is `entry`; how that looks in a file is `file`.
"""
