"""Backends, which collect ops live: a module or package for each framework, and the only one that imports it.

They import `profile` and packages below it. `contract` says what every backend does. A new backend of this package is a
module here and a line in `registry`. Another package adds one by an entry point in the group
``pytest_opprof.backends``: a name, and a callable without arguments that returns a `Backend`. docs/backends.md says how
to write one.
"""

from .contract import Backend, KnownWork, Options

__all__ = ["Backend", "KnownWork", "Options"]
