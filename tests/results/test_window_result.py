"""The coarse time of a measured window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_opprof.verdict.times.coarse import Coarse

from ..conftest import COARSE, profile_of

MS = 1_000_000
coarse_of = COARSE[0]


@pytest.mark.parametrize(
    ("cpu_ms", "thread_ms", "waited_ms", "wall_ms"),
    [
        (20, 20, 25, 20),  # the waiting of several threads is subtracted, and is more than the test itself waited
        (20, 20, 5, 35),
        (90, 2, 0, 40),  # two processes that it started worked side by side
    ],
)
def test_wall_time_is_at_least_what_the_thread_worked(
    cpu_ms: int, thread_ms: int, waited_ms: int, wall_ms: int
) -> None:
    profile = replace(
        profile_of([("Add", 1)]),
        host_ns=(40 * MS,),
        wait_ns=(waited_ms * MS,),
        cpu_ns=((cpu_ms * MS, thread_ms * MS),),
    )
    found = coarse_of(profile)
    assert found == Coarse((cpu_ms * MS,) * 2, (wall_ms * MS,) * 2, threaded=cpu_ms > thread_ms)


def test_a_round_without_cpu_time_has_no_coarse_time() -> None:
    profile = replace(profile_of([("Add", 1)], [("Add", 1)]), cpu_ns=((MS, MS),))
    assert coarse_of(profile) is None
