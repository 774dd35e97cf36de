"""Find the line of the user's code that called an op: call chains, from a line tracer or from frames. No framework
here.

`chains.Chains` numbers the chains. `tracer.Tracer` follows the program, if a profiler records ops beside Python;
`stack.here` finds the chain from frames, if each op runs through opprof's Python code. `code` decides whose lines are
sites, `shown` which line of a chain is shown.
"""
