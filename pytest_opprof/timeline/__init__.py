"""Timelines: the start times of a saved profile, and results that need only these.

A profile by op has sums, and no start times: readers make a `spans.Timeline` of the same file by a second reading.
"""
