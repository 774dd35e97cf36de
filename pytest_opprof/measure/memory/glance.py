"""A glance at a body: whether a few calls leave anything behind. `leaks` looks for it where they do."""

from __future__ import annotations

import gc
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

from ...machine.garbage import frozen_again, older_objects_apart
from ...machine.left import InUse, in_use, open_files, with_threads_ended
from ...verdict.quantities import OPEN_THINGS
from . import cycles
from .leaks import LEAST_EQUAL_BYTES, LEAST_WEAK, WEAK

# The longest body that runs at a glance for all that it leaves behind: a search takes up to 30 calls, in each process
# that confirms. A longer one is looked at only for threads, files and processes.
SHORT_NS: Final = 100_000_000
LONGEST_NS: Final = 1_000_000_000
# A body of which the baseline tells what it leaves may take so many times as long, since its time varies.
KNOWN: Final = 2
# The most calls at a glance: the first may fill a cache.
_GLANCES: Final = 4
# Open files before garbage is collected, objects with a finalizer, weak references and other objects come before the
# fields of `InUse`.
_FILES, _FINALIZED, _WEAK, _OBJECTS, _IN_USE = range(5)
_SEEN: Final = _IN_USE + len(InUse._fields)
_BLOCKS: Final = _IN_USE + InUse._fields.index("blocks")
_OPEN: Final = tuple(_IN_USE + InUse._fields.index(name) for name in OPEN_THINGS)
_KEPT_FILES: Final = _IN_USE + InUse._fields.index("files")
# The growth in two calls that means nothing, as in a search: calls of PyTorch move its allocator by some KiB.
_SLACK: Final = array("q", bytes(8 * _SEEN))
_SLACK[_IN_USE + InUse._fields.index("allocated_bytes")] = 2 * LEAST_EQUAL_BYTES
_SLACK[_WEAK] = 2 * LEAST_WEAK - 1


class Glance(NamedTuple):
    """The kinds of leftovers that a body does not have."""

    leaves_nothing: bool
    leaves_nothing_open: bool
    """No thread, open file or process."""


@frozen_again()
def glance(call: Callable[[], object], device_bytes: Callable[[], int] = lambda: 0, *, only_open: bool) -> Glance:
    """Look for two calls in a row that leave nothing behind, of up to `_GLANCES`; *only_open*: for one that leaves
    nothing open, of two.

    Two, since blocks of Python's memory come and go: one number that each call keeps was missed in a third of the runs.
    """
    calls, call = 1 if only_open else 2, with_threads_ended(call)
    # Nothing of opprof's may grow meanwhile, so these have their full size before.
    seen = [array("q", bytes(8 * _SEEN)) for _ in range(3)]

    def look(into: array[int]) -> None:
        into[_FILES], into[_FINALIZED] = open_files(), len(cycles.finalized())  # which closes files
        gc.collect()
        weak = 0
        for into[_OBJECTS], each in enumerate(gc.get_objects()):
            weak += isinstance(each, WEAK)
        into[_WEAK] = weak
        into[_OBJECTS] -= weak
        for at, value in enumerate(in_use(device_bytes)):
            into[_IN_USE + at] = value
        into[_BLOCKS] -= weak  # a block each

    def left(after: array[int], before: array[int]) -> tuple[bool, bool]:
        """Return whether anything is left, and whether anything is left open."""
        look(after)
        no_more = all(now <= earlier + slack for now, earlier, slack in zip(after, before, _SLACK))
        # Files of cycles are closed by each look: of as many in each call the last look's number is no more.
        is_open = after[_FILES] > before[_KEPT_FILES] or any(after[at] > before[at] for at in _OPEN)
        return bool(after[_FINALIZED]) or is_open or not no_more, is_open

    leaves_something = leaves_open = True
    with older_objects_apart():
        for _ in range(3):
            left(seen[0], seen[0])  # the first call loads modules, and what runs first takes a block
        for number in range(1, (2 if only_open else _GLANCES) + 1):
            call()
            more, is_open = left(seen[number % 3], seen[(number - calls) % 3])
            if number >= calls:
                leaves_something, leaves_open = more, leaves_open and is_open
            if not (leaves_open if only_open else leaves_something):
                break
    return Glance(not leaves_something, not leaves_open)
