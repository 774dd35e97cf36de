"""The rules for times. `stored_rule` and `pair_rule` judge rounds against a baseline and in pairs, `coarse` the CPU and
wall time of each test; `noise` finds the processes that ran undisturbed, `repeats` says how many there are.
"""
