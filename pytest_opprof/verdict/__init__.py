"""Judge a window: budgets, comparison with a baseline, the rules for times. Pure functions of profiles.

No module here reads a file or asks the machine. Every tuned number is in `tolerances`; a new kind of limit goes into
`budgets`, a new kind of change into `compare`. `stored_rule` and `pair_rule` are the two rules for times; `noise` finds
the processes that ran undisturbed.
"""
