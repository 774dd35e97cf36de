"""Our own op counts, kept in `baselines/` and compared by `make performance`: what a profile of columns costs to read.

The work on a profile must grow with its ops and steps, not with its events: a training step is 10**5 of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pytest_opprof.frameworks.numpy.live import callers
from pytest_opprof.profile import op_profile
from pytest_opprof.profile.op_profile import OpProfile

from ..conftest import profile_of


@pytest.fixture(autouse=True)
def _our_own_calls_count(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Here alone: where the list stayed longer, each window of another test had what opprof itself computes."""
    folder = os.path.join(os.path.dirname(op_profile.__file__), "")
    monkeypatch.setattr(callers, "WORK", [*callers.WORK, folder])
    for known in (callers.whose, callers._kinds):  # whose a code is may be known from before
        known.clear()
    yield
    for known in (callers.whose, callers._kinds):
        known.clear()


@pytest.fixture
def profile(events: int) -> OpProfile:
    return profile_of([("Cast", 5), ("Add", 7), ("aten::mm", 9)] * events)


@pytest.mark.parametrize("events", [10, 10_000])
@pytest.mark.op_budget(Cast=0, Copy=0, calls="1..100")
def test_the_numbers_of_every_op_take_a_fixed_number_of_passes(profile: OpProfile, events: int) -> None:
    assert [stats.calls for stats in profile.ops] == [(events,)] * 3


@pytest.mark.parametrize("events", [10_000])
@pytest.mark.op_budget(Cast=0, Copy=0, calls="1..30")
def test_one_op_takes_a_few_passes(profile: OpProfile, events: int) -> None:
    assert profile.stats("aten::mm").calls == (events,)
