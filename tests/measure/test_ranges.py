"""Times of ranges, on profiles made by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_opprof.measure.ranges import Ranges
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_profile import OpProfile

CPU = Environment((("numpy", "2"),))


def recorded(*intervals: int, environment: Environment = CPU) -> OpProfile:
    """Return the profile of one op in each interval, of so many ns."""
    log = EventLog(environment)
    for index, ns in enumerate(intervals):
        if index:
            log.mark()
        log.add(log.name("Add"), ns)
    return log.freeze()


def own_times(
    profiles: list[OpProfile],
    inside_ops: set[int] = frozenset(),  # type: ignore[assignment]
) -> dict[str, tuple[int, ...] | None]:
    """Return the time of range a around range b, cut into five intervals of 100 ns."""
    ranges = Ranges()
    for name in ("", "a", "b"):
        if name:
            ranges.enter(name, ("", "a", "b").index(name))
        ranges.interval_ends(100)
    for interval, name in enumerate(("b", "a"), start=3):
        index = ranges.find(name)
        assert index is not None
        ranges.leave(index, interval)
        ranges.interval_ends(100)
    profile = ranges.profile(profiles, inside_ops, None)
    assert profile is not None
    times = {}
    for stats in profile.ops:
        assert sum(stats.calls) == 1
        times[stats.op] = stats.device_ns and (sum(stats.device_ns),)
    return times  # type: ignore[return-value]


def test_the_time_of_a_range_is_what_neither_an_op_nor_a_range_inside_explains() -> None:
    assert own_times([]) == {"a": (200,), "b": (100,)}
    assert own_times([recorded(50, 30, 60, 20, 50)]) == {"a": (70 + 80,), "b": (40,)}


def test_ops_of_every_backend_are_taken_off() -> None:
    assert own_times([recorded(0, 10, 20, 30, 0), recorded(0, 1, 2, 3, 0)]) == {"a": (89 + 67,), "b": (78,)}


def test_ops_that_a_profiler_says_took_longer_leave_nothing_and_not_less() -> None:
    assert own_times([recorded(0, 0, 105, 0, 0)]) == {"a": (200,), "b": (0,)}


def test_time_inside_an_op_is_that_ops() -> None:
    assert own_times([], {2, 3}) == {"a": (100,), "b": (0,)}


def test_on_an_accelerator_a_range_has_no_time_of_its_own() -> None:
    gpu = Environment((("cuda", "13.0"),), "H100", timing="async")
    assert own_times([recorded(0, 1, 2, 3, 0, environment=gpu)]) == {"a": None, "b": None}


def test_without_a_range_there_is_no_profile_of_ranges() -> None:
    ranges = Ranges()
    ranges.interval_ends(5)
    assert ranges.profile([], (), None) is None


@pytest.mark.parametrize("module", ["numpy", "pytest", "pytest_opprof.recorder"])
@pytest.mark.processes
def test_library_code_that_has_ranges_imports_nothing_else(module: str) -> None:
    program = f"from pytest_opprof import op\nwith op('mine'): pass\nimport sys; print({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
