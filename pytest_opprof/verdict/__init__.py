"""Whether it is worse: budgets, comparison with a baseline, the rules of time. Pure functions of profiles.

Nothing here reads a file or asks the machine. Every tuned number stands in `tolerances`; a new kind of limit goes into
`budgets`, a new kind of change into `compare`. `stored_rule` and `pair_rule` are the two rules of time, `noise` says
which processes were left alone.
"""
