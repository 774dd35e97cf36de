"""Live collectors, a module or package for each framework: the only place that imports the framework.

They import `profile` and what is below. `contract` says what every backend does. A new one of ours is a module here and
a line in `registry`; a third party adds one through the entry-point group ``pytest_opprof.backends``: a name and a
callable without arguments that returns a `Backend`. docs/backends.md says how to write one.
"""

from .contract import Backend, KnownWork, Options

__all__ = ["Backend", "KnownWork", "Options"]
