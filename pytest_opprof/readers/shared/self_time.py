"""Self times of events that lie inside each other: what a loop takes beside its body."""

from __future__ import annotations

from array import array
from collections.abc import Sequence


def self_times(threads: Sequence[int], starts: Sequence[int], durations: Sequence[int]) -> array[int]:
    """Return the duration of each event without those directly inside it, which began in it on the same thread.

    >>> self_times([1, 1, 1], [10, 0, 20], [5, 100, 5]).tolist()
    [5, 90, 5]
    """
    own = array("q", durations)
    around: list[int] = []
    for event in sorted(range(len(own)), key=lambda event: (threads[event], starts[event], -durations[event])):
        while around and (
            threads[around[-1]] != threads[event]
            or starts[around[-1]] + durations[around[-1]] < starts[event] + durations[event]
            or starts[around[-1]] + durations[around[-1]] <= starts[event]
        ):
            around.pop()
        if around:
            own[around[-1]] -= durations[event]
        around.append(event)
    return own
