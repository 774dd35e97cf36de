"""When events ran, told by logs that have clocks of their own."""

from __future__ import annotations

import numpy as np

from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.assembly import assemble, joined
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.kernels import Events, places
from pytest_opprof.profile.moments import Lane, later_ns
from pytest_opprof.profile.op_profile import OpProfile

MARKS = [1_000, 2_000]
"""When both rounds began, on the clock of the recorder."""


def log_of(framework: str, clock_ns: int | None = None) -> EventLog:
    """Return a log with two marks; its own clock was *clock_ns* at the first, and goes on a little faster."""
    log = EventLog(Environment(((framework, "1"),)))
    log.mark()
    log.mark()
    log.marked_ns = None if clock_ns is None else [clock_ns, clock_ns + 1_001]
    return log


def window(*logs: EventLog) -> OpProfile:
    parts = [(log.freeze(None, MARKS), {1: 0, 2: 1}) for log in logs]
    return assemble(parts, [500, 500], ran_ns=[(1_000, 1_500), (2_000, 2_500)])


def rows(profile: OpProfile) -> list[tuple[int, str, int, int, Lane]]:
    moments = profile.moments
    assert moments is not None
    columns = (moments.step, moments.key, moments.start_ns, moments.end_ns, moments.lane)
    return [
        (step, profile.keys[key].raw, start, end, moments.lanes[lane])
        for step, key, start, end, lane in zip(*(column.tolist() for column in columns))
    ]


def test_clocks_are_put_side_by_side_where_each_round_begins() -> None:
    torch, numpy = log_of("torch", 70_000), log_of("numpy")
    torch.ran(torch.add(torch.name("aten::mm"), 40, interval=1), 70_010, 70_050)
    torch.ran(torch.add(torch.name("aten::add"), 40, interval=2), 71_011, 71_051, "thread 8")
    numpy.ran(numpy.add(numpy.name("Cast"), 5, interval=2), 2_100, 2_105, "MainThread")
    assert rows(window(torch, numpy)) == [
        (0, "aten::mm", 1_010, 1_050, ("torch 1", "thread of the test", False)),
        (1, "aten::add", 2_010, 2_050, ("torch 1", "thread 8", False)),
        (1, "Cast", 2_100, 2_105, ("numpy 1", "MainThread", False)),
    ]


def test_what_begins_a_range_sets_no_clock_anew_as_it_may_be_inside_an_op() -> None:
    assert later_ns([10, 25, 40], [110, 130, 145], {2}) == [0, 100, 100, 105]


def test_work_of_a_device_is_on_its_stream() -> None:
    log = log_of("cuda", 0)
    event = log.add(log.name("my_kernel"), 7, interval=1)
    log.on_device = Events(np.array([event]), places(np.array([1]), np.array([13])), np.array([7]))
    log.ran(event, 20, 27)
    assert rows(window(log)) == [(0, "my_kernel", 1_020, 1_027, ("device 1", "stream 13", True))]


def test_a_part_without_a_time_of_its_own_stands_where_what_holds_it_begins() -> None:
    log = log_of("jax")
    fusion = log.add(log.name("fusion"), 90, interval=1)
    log.add(log.name("dot"), ABSENT, fusion, interval=1)
    log.ran(fusion, 1_010, 1_100)
    assert [row[1:4] for row in rows(window(log))] == [("fusion", 1_010, 1_100), ("dot", 1_010, 1_010)]


def test_who_does_not_tell_when_is_named_and_only_where_that_is_asked() -> None:
    tells, silent, idle = log_of("torch"), log_of("mine"), log_of("numpy")
    tells.ran(tells.add(tells.name("aten::mm"), 40, interval=1), 1_010, 1_050)
    silent.add(silent.name("Cast"), 40, interval=1)
    found = window(tells, silent, idle)
    assert (found.untold, len(rows(found))) == (("mine",), 1)
    unasked = assemble([(silent.freeze(), {1: 0, 2: 1})], [500, 500])
    assert (unasked.untold, unasked.moments, unasked.ran_ns) == ((), None, ())


def test_rounds_of_windows_of_one_name_follow_each_other() -> None:
    log = log_of("torch")
    log.ran(log.add(log.name("aten::mm"), 40, interval=2), 2_010, 2_050)
    both = joined([window(log), window(log)])
    assert both.ran_ns == ((1_000, 1_500), (2_000, 2_500)) * 2
    assert [row[0] for row in rows(both)] == [1, 3]


def test_work_of_intervals_that_are_in_no_window_is_in_no_trace() -> None:
    log = log_of("torch")
    log.ran(log.add(log.name("aten::mm"), 40, interval=0), 900, 940)
    assert rows(window(log)) == []
