"""What can go wrong, told to the person who can mend it.

    OpprofError
    ├── UsageError      a mark, flag, argument or name that means nothing
    ├── BackendError    a profiler that cannot run here, or lost what it recorded
    │   └── NothingMeasured  no profiler saw anything, so that nothing can be judged
    ├── BaselineError   a baseline file that cannot be read or written
    └── TraceError      a saved profile that cannot be read

Every message says what was given, what is allowed and what to do next; the edges (pytest, the command line) print it
without a traceback.
"""


class OpprofError(Exception):
    """The root of every error this package raises on purpose."""


class UsageError(OpprofError):
    """A mark, flag, argument or name that means nothing."""


class BackendError(OpprofError):
    """A profiler that cannot run here, or lost what it recorded."""


class NothingMeasured(BackendError):
    """No profiler saw anything, so that nothing can be judged."""


class BaselineError(OpprofError):
    """A baseline file that cannot be read or written."""


class TraceError(OpprofError):
    """A saved profile that cannot be read: which file, what was expected, where it broke."""
