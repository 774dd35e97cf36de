"""Find objects with a finalizer in garbage cycles, which only the garbage collector frees: a file closed at an unknown
time.

Plain garbage cycles do not matter: the collector frees them, and nobody waits for that.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType

from .traced import line_of, traced

_FRAMES = 16


def finalized() -> Mapping[type, int]:
    """Collect garbage, and return the number of objects with a finalizer in it, by type."""
    return Counter(map(type, filter(_has_finalizer, _garbage())))


def made_at(call: Callable[[], object], wanted: Mapping[type, int]) -> Iterator[str]:
    """Run the body once more; yield the lines that made such objects, and their referrers."""
    with traced(_FRAMES) as is_ours:
        if not is_ours:
            return
        call()
        garbage = _garbage()
        found = [each for each in garbage if type(each) in wanted]
        ids = {id(each) for each in garbage}
        # Its referrer, or the referrer of the dict of its attributes, closes the cycle.
        attributes = [vars(each) for each in found if hasattr(each, "__dict__")]
        closing = [each for each in gc.get_referrers(*found, *attributes) if id(each) in ids]
        lines = dict.fromkeys(line for each in [*found, *closing] if (line := _line(each)))
    if lines:
        yield f"made at {', '.join([*lines][:_LINES])}"


_LINES = 3


def _garbage() -> list[object]:
    """Return the objects that only the collector would free, finalizers called; they are freed with the list."""
    flags, before = gc.get_debug(), len(gc.garbage)
    gc.set_debug(flags | gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(flags)
    found = gc.garbage[before:]
    del gc.garbage[before:]
    return found


def _has_finalizer(thing: object) -> bool:
    """Return True if the class of a thing has a finalizer written in Python; generators have one in C."""
    return any(isinstance(each.__dict__.get("__del__"), FunctionType) for each in type(thing).__mro__)


def _line(thing: object) -> str:
    return line_of(tracemalloc.get_object_traceback(thing) or ())
