"""The public names for backends of other packages, which collect ops live, and the fake device, to try a setup.

A backend of another package is an entry point in the group ``pytest_opprof.backends``: a name, and a callable without
arguments that returns a `Backend`. docs/backends.md explains how to write one. The built-in ones are in `frameworks`,
each the only one that imports its framework, and have a line in `frameworks.live.registry`; nothing in this package
imports this module.
"""

from .frameworks.fake import live as fake
from .frameworks.live.contract import Backend, KnownWork, Options

__all__ = ["Backend", "KnownWork", "Options", "fake"]
