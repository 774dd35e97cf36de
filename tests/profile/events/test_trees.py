"""The owners of events whose trees are equal, against the rule that decides one event after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.profile.events.attribution import NOBODY, owners
from pytest_opprof.profile.events.trees import owners_of_trees

from .test_attribution import MEANINGS, forests


@given(forests(), st.integers(1, 3), st.lists(st.integers(0, len(MEANINGS) - 1), max_size=3))
def test_equal_trees_and_events_that_are_alone_are_decided_as_one_event_after_the_other(
    forest: tuple[list[int], list[int]], times: int, alone: list[int]
) -> None:
    parents, names = forest
    size = len(parents)
    repeated = [parent if parent == NOBODY else parent + size * each for each in range(times) for parent in parents]
    repeated += [NOBODY] * len(alone)
    names = names * times + alone
    assert owners_of_trees(repeated, names, MEANINGS).tolist() == owners(repeated, names, MEANINGS)
