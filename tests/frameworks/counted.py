"""What a saved profile has, for the tests of each reader."""

from __future__ import annotations

from collections import Counter

from pytest_opprof.profile.saved import SavedProfile


def counts(trace: SavedProfile) -> dict[str, int]:
    """Return how often each type of op was called."""
    total: Counter[str] = Counter()
    for record in trace.records:
        total[record.type] += record.calls
    return dict(total)
