"""Our own op counts, kept in `baselines/` and compared by `make performance`: what a profile of columns costs to read.

The work on a profile must grow with its ops and steps, not with its events: a training step is 10**5 of them.
"""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.pytest_plugin.fixture import Opprof

from ..conftest import profile_of


def watched(opprof: Opprof, profile: OpProfile) -> OpProfile:
    columns = {field.name: getattr(profile.columns, field.name) for field in fields(profile.columns)}
    seen = {name: np.asarray(column) for name, column in columns.items() if column is not None}
    return replace(profile, columns=replace(profile.columns, **seen))  # type: ignore[arg-type]


@pytest.fixture
def profile(opprof: Opprof, events: int) -> OpProfile:
    return watched(opprof, profile_of([("Cast", 5), ("Add", 7), ("aten::mm", 9)] * events))


@pytest.mark.parametrize("events", [10, 10_000])
@pytest.mark.op_budget(Cast=0, Copy=0, calls="1..60")
def test_the_numbers_of_every_op_take_a_fixed_number_of_passes(profile: OpProfile, events: int) -> None:
    assert [stats.calls for stats in profile.ops] == [(events,)] * 3


@pytest.mark.parametrize("events", [10_000])
@pytest.mark.op_budget(Cast=0, Copy=0, calls="1..20")
def test_one_op_takes_a_few_passes(profile: OpProfile, events: int) -> None:
    assert profile.stats("aten::mm").calls == (events,)
