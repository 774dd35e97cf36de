"""Coarse times: the rule is pure, over times that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.verdict.quantities import CPU_TIME, WALL_TIME
from pytest_opprof.verdict.times.coarse import (
    CPU,
    STEEP,
    STEEPEST,
    WALL,
    Coarse,
    Limit,
    Slower,
    as_before,
    base_for,
    clearly_more,
    differs,
    is_split_only,
    recording,
    repeats_limit_ns,
    rounded,
    slower,
    slower_despite_tracer,
    slower_repeated,
    together,
    waits_long,
    where,
)

MS = 1_000_000


def took(cpu: float, wall: float | None = None, most: float | None = None, most_wall: float | None = None) -> Coarse:
    """Return what processes took, from least to most, in ms."""
    wall = cpu if wall is None else wall
    return Coarse(
        (int(cpu * MS), int((cpu if most is None else most) * MS)),
        (int(wall * MS), int((wall if most_wall is None else most_wall) * MS)),
    )


@pytest.mark.parametrize(
    ("base", "now", "found"),
    [
        (took(12), took(3900), "CPU time: 3.9 s (baseline: 12 ms), x325"),
        (took(20), took(40), "CPU time: 40 ms (baseline: 20 ms), x2"),
        (took(0.3), took(580), "CPU time: 580 ms (baseline: 300 us), x1,933"),
        (took(0), took(21), "CPU time: 21 ms (baseline: below 100 us)"),
        (took(1, 1), took(1, 201), "wall time: 201 ms (baseline: 1 ms), x201"),
        (took(0.1), took(9.8), "CPU time: 9.8 ms (baseline: 100 us), x98"),
        (took(3), took(9.1), "CPU time: 9.1 ms (baseline: 3 ms), x3.03"),
        (took(3), took(9), None),
        (took(1.6), took(6.2), "CPU time: 6.2 ms (baseline: 1.6 ms), x3.88"),
        (took(0.2), took(2.1), "CPU time: 2.1 ms (baseline: 200 us), x10.5"),
        (took(0.5), took(2.5), None),  # 2 ms may be noise
        (took(8), took(22), None),  # so are 14 ms of less than x3
        (took(1000), took(1600), None),  # a core that another hardware thread shares
        (took(1, 1), took(1, 50), None),
        (took(40, 40), took(40, 110), None),
    ],
)
def test_what_is_slower_is_told_with_its_factor(base: Coarse, now: Coarse, found: str | None) -> None:
    over = slower(base, now, wall=True)
    assert (over and over.line()) == found


@pytest.mark.parametrize(("limit", "floor_ms", "factor", "elsewhere"), [(CPU, 15, 1.7, 5), (WALL, 50, 3, 7.5)])
def test_a_limit_is_the_factor_or_the_floor_whichever_allows_more(
    limit: Limit, floor_ms: int, factor: float, elsewhere: float
) -> None:
    for is_elsewhere, times in ((False, factor), (True, elsewhere)):
        assert limit.of((0, 0), elsewhere=is_elsewhere) == floor_ms * MS
        assert limit.of((1_000 * MS, 1_000 * MS), elsewhere=is_elsewhere) == times * 1_000 * MS


def test_wall_time_says_nothing_where_the_machine_is_busy_and_cpu_time_does() -> None:
    assert slower(took(1, 1), took(1, 900), wall=False) is None
    over = slower(took(1, 1), took(300, 900), wall=True)
    assert over is not None
    assert over.name == CPU_TIME
    waits = slower(took(1, 1), took(1, 900), wall=True)
    assert waits is not None
    assert waits.name == WALL_TIME


def test_wall_time_that_cpu_time_explains_is_no_wait() -> None:
    """A baseline in 16 threads took 30 ms of wall time for 480 ms of CPU time, which one thread takes one by one."""
    assert slower(took(480, 30), took(480, 490), wall=True) is None
    assert slower(took(480, 30), took(480, 700), wall=True) is not None
    assert slower(took(480, 30), took(480, 530, most_wall=900), wall=True) is None
    assert slower(took(480, 30), took(480, 531), wall=True) is not None
    assert slower(took(480, 30), took(480, 531, most=900), wall=True) is not None


def test_the_least_of_the_processes_counts_on_both_sides() -> None:
    base = together([took(100), took(110), took(150)])
    assert base == Coarse((100 * MS, 150 * MS), (100 * MS, 150 * MS), 3)
    assert slower(base, together([took(900), took(900), took(120)]), wall=True) is None
    over = slower(base, together([took(900), took(900), took(180)]), wall=True)
    assert over is not None
    assert over.text == "100 ms -> 180 ms"


def test_a_test_that_does_other_work_in_some_processes_is_judged_by_the_most_and_that_is_said() -> None:
    base = took(30, most=100)
    assert base.split == "CPU time differs from process to process: 30 ms to 100 ms"
    assert slower(base, took(100), wall=False) is None
    assert is_split_only(base, took(100))
    assert is_split_only(base, took(100, 900))  # whatever the wall time is
    assert not is_split_only(base, took(40))
    assert not is_split_only(base, took(40, most=90))  # the fastest process decides
    over = slower(base, took(171), wall=False)
    assert over is not None
    assert over.line() == "CPU time: 171 ms (baseline: 30 ms), x5.7"
    assert took(30, most=123).split.endswith("30 ms to 120 ms")
    assert took(30, most=40).split == ""
    assert is_split_only(base, took(151), elsewhere=True)
    assert not is_split_only(base, took(150), elsewhere=True)
    assert not is_split_only(base, took(501), elsewhere=True)


@pytest.mark.parametrize(
    ("least", "most", "is_split"), [(10, 25, False), (10, 26, True), (100, 170, False), (100, 171, True)]
)
def test_processes_differ_by_more_than_the_factor_and_the_floor_or_agree(least: int, most: int, is_split: bool) -> None:
    assert bool(took(least, most=most).split) is is_split


def test_another_machine_has_a_looser_limit_and_the_slowest_of_them_counts() -> None:
    times = {"A": took(10), "B": took(40)}
    assert base_for(times, "A") == (took(10), False)
    assert base_for(times, "C") == (took(40), True)
    assert base_for({"A": took(10, most=90), "B": took(40)}, "C") == (took(40), True)  # its fastest process counts
    assert base_for({}, "C") is None
    assert slower(took(40), took(200), wall=False, elsewhere=True) is None
    assert slower(took(40), took(201), wall=False, elsewhere=True) is not None
    assert slower(took(40, 40), took(40, 290), wall=True, elsewhere=True) is None


def test_the_finding_names_the_revision_that_it_is_compared_with() -> None:
    over = slower(took(12), took(3900), wall=False)
    assert over is not None
    work = over.work("ops unchanged", "", "the time is between ops")
    assert work.number is not None
    assert work.number.told("HEAD~1") == "CPU time: 3.9 s (HEAD~1: 12 ms), x325; ops unchanged; the time is between ops"
    assert work.text == "12 ms -> 3.9 s"


@pytest.mark.parametrize(
    ("in_ops", "wall", "said"),
    [
        (40, 100, "the time is between ops"),
        (50, 100, "50% of it is in ops"),
        (1, 2, "50% of it is in ops"),
        (83, 100, "83% of it is in ops"),
        (834, 1_000, "83% of it is in ops"),
        (120, 100, "100% of it is in ops"),
        (None, 100, ""),
        (1, 0, ""),
        (1, 1, "100% of it is in ops"),
    ],
)
def test_where_the_time_is(in_ops: int | None, wall: int, said: str) -> None:
    assert where(in_ops, wall) == said


@pytest.mark.parametrize(
    ("calls", "ms", "said"), [(96_040, 580, True), (500, 4, True), (500, 5, False), (500, 0, False)]
)
def test_a_time_that_recording_takes_part_of_says_so(calls: int, ms: int, said: bool) -> None:
    assert recording(calls, ms * MS) == (f"recording {calls:,} calls of ops takes part of it" if said else "")


def test_one_process_takes_the_mean_of_its_rounds_and_says_if_other_threads_took_part() -> None:
    found = Coarse.of([10 * MS, 30 * MS], [10 * MS, 30 * MS], [11 * MS, 33 * MS])
    assert found == took(20, 22)
    assert not found.threaded
    in_threads = Coarse.of([47 * MS], [24 * MS], [30 * MS])
    assert in_threads is not None
    assert in_threads.threaded
    assert Coarse.of([], [], [MS]) is None  # where a tracer watches each line nothing is timed
    assert Coarse.of([MS], [MS], []) is None
    assert Coarse.of([MS], [MS], [MS, MS]) is None
    assert Coarse.of([], [], []) is None


@pytest.mark.parametrize(
    ("cpu", "thread", "threaded"), [(100, 90, False), (100, 89, True), (10, 8, False), (10, 7.9, True)]
)
def test_other_threads_took_part_from_a_tenth_of_the_time_and_2_ms_on(
    cpu: float, thread: float, threaded: bool
) -> None:
    found = Coarse.of([int(cpu * MS)], [int(thread * MS)], [int(cpu * MS)])
    assert found is not None
    assert found.threaded is threaded
    assert together([took(1), found, took(2)]).threaded is threaded


def test_beside_a_tracer_the_mean_wall_time_of_the_rounds_has_the_limit_of_another_machine() -> None:
    base = took(900, 40, most_wall=60)
    assert slower_despite_tracer(base, [150 * MS, 250 * MS]) is None
    over = slower_despite_tracer(base, [10 * MS, 410 * MS])
    assert over is not None
    assert over.line() == "wall time: 210 ms (baseline: 40 ms), x5.25"


def test_calls_without_extra_time_are_told_from_5_ms_on() -> None:
    assert (
        as_before(took(12, most=14), took(13, most=20), "HEAD~1") == "CPU time: 13 ms (HEAD~1: 12 ms), within its limit"
    )
    spread = as_before(took(8.9, most=29), took(47), "baseline")
    assert spread == "CPU time: 47 ms (baseline: 8.9 ms to 29 ms), within its limit"
    assert as_before(took(8), took(10), "HEAD~1") == "CPU time: 10 ms (HEAD~1: 8 ms), x1.25, within its limit"
    assert as_before(took(5), took(3), "baseline") == "CPU time: 3 ms (baseline: 5 ms), within its limit"
    assert as_before(took(4.9, 90, most=6), took(4.9), "baseline") == ""


def test_a_base_that_took_clearly_longer_is_not_said_to_be_as_before() -> None:
    assert as_before(took(220), took(40), "baseline") == ""


@pytest.mark.parametrize(
    ("ns", "kept"),
    [(3_934_567_890, 3_900_000_000), (12_345_678, 12_000_000), (999_999, 1_000_000), (240_000, 200_000), (-5, 0)],
)
def test_a_time_has_two_digits_and_no_step_below_100_us(ns: int, kept: int) -> None:
    assert rounded(ns) == kept


@given(st.integers(0, 10**15))
def test_rounding_changes_a_time_by_five_percent_or_50_us_at_most(ns: int) -> None:
    assert abs(rounded(ns) - ns) <= max(0.051 * ns, 50_001)
    assert rounded(rounded(ns)) == rounded(ns)


spans = st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)).map(lambda each: (min(each), max(each)))
times = st.builds(Coarse, spans, spans)


@given(times, times, st.booleans())
def test_what_a_process_of_the_baseline_took_is_never_slower(base: Coarse, now: Coarse, elsewhere: bool) -> None:
    most = Coarse((base.cpu_ns[1],) * 2, (base.wall_ns[1],) * 2)
    for each in (most, base):
        assert slower(base, each, wall=True, elsewhere=elsewhere) is None
    if over := slower(base, now, wall=True, elsewhere=elsewhere):
        limits = [WALL] if over.name == WALL_TIME else [CPU] if elsewhere else [CPU, STEEP, STEEPEST]
        beyond = [max(over.base_ns * each.factor, over.base_ns + each.floor_ns) for each in limits]
        assert over.now_ns > min(beyond)
        # One more process that is fast enough lets it pass.
        seen = together([now, base])
        assert slower(base, seen, wall=True, elsewhere=elsewhere) is None


def test_an_update_records_what_became_slower_or_faster() -> None:
    assert differs(took(10), took(100))
    assert differs(took(100), took(10))
    assert not differs(took(10), took(12))
    assert differs(took(1, 1), took(1, 900))  # or a longer wait could not be accepted
    assert not differs(took(1, 1), took(1, 50))
    assert differs(took(1, 900), took(1, 1))


def test_a_first_run_is_kept_beside_a_later_one_that_takes_clearly_less() -> None:
    assert took(10).beside(took(500)).at_first == took(500)
    assert took(10).beside(took(20)) == took(10)
    assert took(10).at_first == took(10)


def test_an_update_compares_first_runs_with_first_runs_and_later_ones_with_later_ones() -> None:
    base = took(10).beside(took(500))
    assert differs(base, took(550)), "a first run alone may hide a later one that became slower"
    assert not differs(base, took(12).beside(took(520)))
    assert differs(took(500), took(12).beside(took(520))), "a baseline of before has no first run"
    assert differs(base, took(2000))
    assert differs(base, took(100).beside(took(520)))


@pytest.mark.parametrize(
    ("base", "now", "found"),
    [
        (took(22), took(30), "CPU time: 30 ms (baseline: 22 ms), x1.36"),
        (took(20), took(25), None),  # noise of one process
        (took(4), took(6), None),
        (took(4), took(6.1), "CPU time: 6.1 ms (baseline: 4 ms), x1.52"),
        (took(20, most=40), took(40), None),  # a process of the baseline took as long
        (took(20, most=40), took(41), "CPU time: 41 ms (baseline: 20 ms), x2.05"),
        (took(20), replace(took(40), threaded=True), None),  # threads that spin
        (replace(took(20), threaded=True), took(40), None),
        (replace(took(20), first=took(300)), took(330), None),  # a first run imports
        (replace(took(20), first=took(300)), took(400), "CPU time: 400 ms (baseline: 300 ms), x1.33"),
    ],
)
def test_one_process_takes_clearly_more_from_a_quarter_and_2_ms_on(
    base: Coarse, now: Coarse, found: str | None
) -> None:
    over = clearly_more(base, now)
    assert (over.line() if over else None) == found


def test_a_time_that_may_be_noise_is_told_in_doubt() -> None:
    over = clearly_more(took(20, most=40), took(40), in_doubt=True)
    assert over == Slower("cpu_time", 20 * MS, 40 * MS, 40 * MS)
    assert over.line() == "CPU time: 40 ms (baseline: 20 ms to 40 ms), x2"
    assert clearly_more(took(20), replace(took(40), threaded=True), in_doubt=True) is not None
    assert clearly_more(took(20), took(25)) is None
    assert clearly_more(took(20), took(19), in_doubt=True) is not None
    assert clearly_more(took(20), took(18), in_doubt=True) is None
    assert clearly_more(took(1), took(2), in_doubt=True) is not None
    assert clearly_more(took(1), took(2)) is None


def test_a_shorter_time_counts_where_fewer_calls_are_in_doubt() -> None:
    assert slower(took(1), took(2), wall=True) is None
    over = slower(took(1), took(2), wall=True, doubted=True)
    assert over is not None
    assert over.factor == 2
    assert slower(took(2), took(3), wall=True, doubted=True) is None
    assert slower(took(1), took(2), wall=True, doubted=True, elsewhere=True) is None
    assert slower(took(1), took(2), wall=True, doubted=True, shared=True) is None


def repeated(least_us: int, most_us: int | None = None) -> Coarse:
    """Return a time of 1 ms whose repeated runs took so many us, in the fastest and the slowest process."""
    return replace(took(1), repeated_ns=(least_us * 1000, (most_us or least_us) * 1000))


@pytest.mark.parametrize(
    ("base", "now", "found"),
    [
        (repeated(350), repeated(720), "CPU time: 720 us (baseline: 350 us), x2.06"),
        (repeated(5000), repeated(7010), "CPU time: 7.01 ms (baseline: 5 ms), x1.4"),
        (repeated(5000), repeated(7000), None),
        (repeated(100), repeated(300), None),  # 200 us may be noise
        (repeated(100), repeated(301), "CPU time: 301 us (baseline: 100 us), x3.01"),
        # the slowest process of the baseline, the fastest now
        (repeated(1000, 1500), repeated(2100, 9000), None),
        (repeated(1000, 1500), repeated(2101, 9000), "CPU time: 2.1 ms (baseline: 1.5 ms), x1.4"),
        (took(1), repeated(9000), None),
        (repeated(1), took(900), None),
    ],
)
def test_repeated_runs_are_slower_beyond_x1_4_and_200_us(base: Coarse, now: Coarse, found: str | None) -> None:
    seen = slower_repeated(base, now)
    assert (seen and seen.line()) == found
    assert differs(base, now) or not found


def test_beside_others_repeated_runs_are_slower_beyond_x2_5() -> None:
    assert slower_repeated(repeated(1000), repeated(2500), shared=True) is None
    assert slower_repeated(repeated(1000), repeated(2501), shared=True)
    assert repeats_limit_ns(repeated(1000), shared=True) == 2_500_000
    assert repeats_limit_ns(took(1)) == float("inf")


def test_an_update_records_repeated_runs_that_are_faster_or_were_not_there() -> None:
    assert differs(took(1), repeated(1000))
    assert differs(repeated(1000), repeated(600))
    assert not differs(repeated(1000), repeated(900))
    assert not differs(repeated(1000), took(1))


def test_repeated_runs_of_several_processes_are_joined_and_kept_to_two_digits() -> None:
    seen = [took(1).with_repeats(234_567), took(2).with_repeats(241_000), took(3).with_repeats(None)]
    assert together(seen).repeated_ns == (234_567, 241_000)
    assert together(seen).kept_repeats == (230_000, 240_000)
    assert together(seen[2:]).kept_repeats is None


@pytest.mark.parametrize("cpu", [1, 13, 50])
def test_the_cpu_time_of_waiting_is_no_finding_beside_the_wait(cpu: float) -> None:
    base, now = took(0.5, 0.5), took(cpu, 1000)
    seen = slower(base, now, wall=True)
    assert seen is not None
    assert seen.name == WALL_TIME
    assert slower(base, now, wall=False) is None
    works = slower(base, took(60, 1000), wall=True)
    assert works is not None
    assert works.name == CPU_TIME


def test_on_a_busy_machine_a_wait_of_x50_and_half_a_second_counts() -> None:
    assert waits_long(took(1, 14), took(1, 1000))
    assert not waits_long(took(1, 14), took(1, 700))
    assert not waits_long(took(1, 1), took(1, 500))
    assert not waits_long(took(1, 14), took(400, 1000))  # it works for most of the time
    assert not waits_long(took(1, 1), took(1, 1000), elsewhere=True)
