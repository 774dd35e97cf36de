"""The plugin as pytest sees it: options, marks, the fixture, hooks, judging, outcome. Imports everything but `cli`.

`session` registers the hooks: `measuring` where tests run, `closing` at the end of a run, `xdist`, `against` a
revision.

`plugin` (one level up) is what pytest loads; a run that does not measure imports nothing of this. A new flag goes into
`plugin` and `options`, a keyword of a mark into `marks`.
"""
