"""The time in each function of the program, by Python's own profiler, and which function's time grew.

`sampled` names lines, but sees code where it hands Python's lock over. A function that ends without a call or a turn of
a loop is seen where its caller goes on: in pypdf the time of a shift was seen at the next `write`, and what grew was
less than half of the time, beside an encoder that took as long before.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from types import CodeType
from typing import Annotated

from msgspec import Meta, Struct

from ..sites.chains import Frame, qualified_name
from ..sites.shown import Shown
from ..units import format_ns
from .memory.traced import Where

# A function that took this share of all growth is its cause.
_MOST = 0.5
# The body runs so often, or so long.
_RUNS, _LONG_S = 3, 1


class FunctionTime(Struct, frozen=True, forbid_unknown_fields=True):
    """The time in a function, without other functions of Python that it calls."""

    file: Annotated[str, Meta(description="Relative to the root directory, if it is below it.")]
    function: str
    line: Annotated[int, Meta(description="Its first line.")]
    last: Annotated[int, Meta(description="Its last line.")]
    ns: int

    def has(self, place: str) -> bool:
        """Return True if it has the line at a *place*: ``engine.py:9``."""
        file, _, line = place.rpartition(":")
        return file == self.file and self.line <= int(line or 0) <= self.last


def function_times(call: Callable[[], object], shown: Shown) -> list[FunctionTime]:
    """Run a body as a *call* with Python's profiler, and return the time of each of the program's functions in a run.

    Empty if another profiler runs.
    """
    from cProfile import Profile  # only a slower test pays for it

    if sys.getprofile() is not None:  # before Python 3.12 it would be replaced
        return []
    profile = Profile(builtins=False)  # their time is that of the function that calls them
    try:
        profile.enable()
    except ValueError:
        return []
    begin, runs = monotonic(), 0
    try:
        while runs < _RUNS and monotonic() - begin < _LONG_S:
            call()
            runs += 1
    finally:
        profile.disable()
    return [
        FunctionTime(
            shown.site([Frame(code.co_filename, code.co_name, code.co_firstlineno)]).file,
            qualified_name(code),
            code.co_firstlineno,
            max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno),
            round(each.inlinetime * 1e9 / runs),
        )
        for each in profile.getstats()
        if isinstance(code := each.code, CodeType) and shown.is_own(code.co_filename)
    ]


def longer(
    before: Sequence[FunctionTime], now: Sequence[FunctionTime], then: str, in_all_ns: tuple[int, int]
) -> tuple[FunctionTime, Where] | None:
    """Return the function whose time explains most of what a body takes longer than *before*, and so in words.

    None if there is none, or if its time is less than half of the rise of *in_all_ns*, the body's time before and now,
    which packages take, or a first run alone. *then* names the base.
    """
    sides = []
    for times, body_ns in zip((before, now), in_all_ns):
        side = Counter[tuple[str, str]]()
        for each in times:
            side[each.file, each.function] += each.ns
        # The profiler takes time at each call: 160 ms of black's 12 were said to be in one generator.
        scale = min(body_ns / max(side.total(), 1), 1) if body_ns else 1
        sides.append(Counter({name: round(ns * scale) for name, ns in side.items()}))
    was, took = sides
    rise = max(took.total() - was.total(), in_all_ns[1] - in_all_ns[0])
    first = max(took, key=lambda name: took[name] - was[name], default=None)
    if first is None or not before or took[first] - was[first] < _MOST * rise or rise <= 0:
        return None
    each = max((each for each in now if (each.file, each.function) == first), key=lambda each: each.ns)
    place = f"{each.file}:{each.line}"
    said = f"self time of `{each.function}` at {place}: {format_ns(took[first])} ({then}: {format_ns(was[first])})"
    return each, Where(said, place)
