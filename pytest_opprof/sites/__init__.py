"""Which line of the user's code asked for an op: call chains, from a line tracer or from frames. No framework here.

`chains.Chains` numbers the chains. `tracer.Tracer` says in which one the program is, where a profiler records ops
beside Python; `stack.here` says it where each op runs through Python code of ours. `code` decides whose lines are
sites, `shown` which line of a chain is shown.
"""
