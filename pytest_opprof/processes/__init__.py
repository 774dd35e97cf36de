"""Other Pythons: fresh processes, two sides that take turns, git worktrees, ranks. Imports `report` and the packages
below it.

Code that starts, asks and ends another process belongs here.
"""
