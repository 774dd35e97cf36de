"""Other Pythons: fresh processes, two sides that take turns, git worktrees, ranks. Imports `report` and what is below.

What is started, asked and ended as a process of its own belongs here.
"""
