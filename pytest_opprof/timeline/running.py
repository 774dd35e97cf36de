"""What ran at given times, on each thread: one pass over the spans, however they overlap."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from .spans import Lane, Span

Value = TypeVar("Value")


def running(
    spans: Iterable[Span], times: Sequence[int], value: Callable[[Value | None, Span], Value]
) -> Iterator[tuple[int, Value]]:
    """Yield the index of each of *times* at which a span runs, with the value of the innermost one, lane after lane.

    *value* makes that of a span from that of the span around it; it is called once for each span. *times* are in order;
    a span runs at its end, too.
    """
    on: Lane | None = None
    around: list[tuple[int, Value]] = []
    at = 0

    def until(end: float) -> Iterator[tuple[int, Value]]:
        nonlocal at
        while at < len(times) and times[at] < end:
            while around and around[-1][0] < times[at]:
                around.pop()
            if not around:
                return
            yield at, around[-1][1]
            at += 1

    for span in spans:
        if span.lane != on:
            yield from until(math.inf)
            on, around = span.lane, []
        yield from until(span.start_ns)
        while around and (span.start_ns >= around[-1][0] or span.end_ns > around[-1][0]):
            around.pop()
        if not around:
            at = bisect_left(times, span.start_ns)
        around.append((span.end_ns, value(around[-1][1] if around else None, span)))
    yield from until(math.inf)
