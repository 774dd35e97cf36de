"""Files of profiles: their places, their formats, and helpers shared by readers of several frameworks.

A new format is a module in `saved` of its framework with a `format.Format` named ``FORMAT``, and a line in
`formats.FORMATS`. It imports `profile` and the packages below it, no framework and no backend.
"""
