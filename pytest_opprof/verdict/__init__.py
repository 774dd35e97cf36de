"""Judge a window: budgets, comparison with a baseline, the rules for times. Pure functions of profiles.

No module here reads a file or asks the machine. Every tuned number is in `tolerances`; a new kind of limit goes into
`budgets`, a new kind of change into `compare`. `times` has the rules for times.
"""
