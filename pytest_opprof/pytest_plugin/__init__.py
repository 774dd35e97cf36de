"""The pytest plugin: options, marks, the fixture, hooks, judging, outcome. Imports every package except `cli`.

`hooks` has the hooks in the order of a run, and registers all: `measuring` where tests run, `closing` at the end of a
run, `xdist`, and `against` a revision. `reruns` runs a test again, to confirm a worse result and to find its cause.

pytest loads `plugin` (one level up); a run that does not measure imports nothing from here. A new flag goes into
`plugin` and `options`, a keyword of a mark into `marks`.
"""
