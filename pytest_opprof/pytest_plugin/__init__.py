"""The plugin as pytest sees it: options, marks, the fixture, hooks, judging, outcome. Imports everything but `cli`.

`plugin` (one level up) is what pytest loads; a run that does not measure imports nothing of this. A new flag goes into
`plugin` and `options`, a keyword of a mark into `marks`.
"""
