"""The rules for times: a stored baseline, pairs of processes that took turns, and noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.machine.cpu_core import YARDSTICK
from pytest_opprof.profile.timings import ProcessTimes, without_noise
from pytest_opprof.verdict.times.noise import clean_processes, is_clean, is_steady, why_noisy
from pytest_opprof.verdict.times.pair_rule import hodges_lehmann, interval, judge_pairs
from pytest_opprof.verdict.times.repeats import (
    LEAST_TIMED_PROCESSES,
    MOST_TIMED_PROCESSES,
    TIMED_PAIRS,
    TIMED_PROCESSES,
)
from pytest_opprof.verdict.times.stored_rule import Rule, has_lone_best, judge, unjudged
from pytest_opprof.verdict.tolerances import AGREE, LEAST_ROUNDS, OPS_AGREE, PAIRS, STORED, SUSPICIOUS, Tolerances
from pytest_opprof.verdict.verdicts import TimingVerdict, Verdict

US = 1_000
NO_FLOORS = Tolerances(tolerance=0.13, floor_ns=0, op_tolerance=0.25, op_floor_ns=0, op_share=0.0)
JUDGED = {Verdict.OK, Verdict.SLOWER, Verdict.FASTER, Verdict.NOISY, Verdict.INCOMPARABLE}


def run(total_us: float = 1_000, ops_us: Mapping[str, float] | None = None, rounds: int = LEAST_ROUNDS) -> ProcessTimes:
    """Return a process whose rounds are all the same."""
    ops = {op: (round(us * US),) * rounds for op, us in (ops_us or {}).items()}
    return ProcessTimes((round(total_us * US),) * rounds, ops, threads=1)


BASE = [run(1_000), run(1_050), run(1_020)]


def looked(now: ProcessTimes, base: Sequence[ProcessTimes] = BASE, tolerances: Tolerances = STORED) -> TimingVerdict:
    """Return the judgement after as many processes as can change it."""
    return judge(base, [now] * TIMED_PROCESSES, Rule(tolerances))


# --- limits


@pytest.mark.parametrize(
    ("now_us", "verdict"),
    [(1_000, "OK"), (1_129, "OK"), (1_131, "SLOWER"), (886, "OK"), (884, "FASTER")],
)
def test_the_fastest_round_of_all_processes_is_compared_with_the_tolerance(now_us: int, verdict: str) -> None:
    assert looked(run(now_us)).verdict is Verdict[verdict]
    assert looked(run(now_us)).total is Verdict[verdict]


def test_a_change_below_the_floor_is_no_change() -> None:
    assert looked(run(11.9), [run(10)] * 3).verdict is Verdict.OK
    assert looked(run(12.1), [run(10)] * 3).verdict is Verdict.SLOWER


@pytest.mark.parametrize(
    ("base_us", "now_us", "whole_us", "verdict"),
    [
        (400, 499, 1_000, "OK"),  # 25 % of the op
        (400, 501, 1_000, "SLOWER"),
        (12, 16.9, 50, "OK"),  # 5 us
        (12, 17.1, 50, "SLOWER"),
        (100, 149, 1_000, "OK"),  # 5 % of the window
        (100, 151, 1_000, "SLOWER"),
        (501, 400, 1_000, "FASTER"),
    ],
)
def test_an_op_has_a_relative_limit_an_absolute_one_and_one_relative_to_its_window(
    base_us: float, now_us: float, whole_us: float, verdict: str
) -> None:
    found = looked(run(whole_us, {"MatMul": now_us}), [run(whole_us, {"MatMul": base_us})] * 3)
    assert found.total is Verdict.OK
    assert found.ops == ({} if verdict == "OK" else {"MatMul": Verdict[verdict]})
    assert found.verdict is Verdict[verdict]


def test_a_limit_of_one_op_is_no_limit_of_another() -> None:
    tolerances = replace(STORED, of_op={"Cast": 1.1})
    base, now = run(1_000, {"Cast": 100, "Add": 100}), run(1_000, {"Cast": 205, "Add": 205})
    assert looked(now, [base] * 3, tolerances).ops == {"Add": Verdict.SLOWER}


def test_an_op_that_one_side_does_not_time_is_not_judged() -> None:
    assert looked(run(1_000, {"Exp": 900}), [run(1_000, {"Log": 10})] * 3).verdict is Verdict.OK


def test_an_op_that_became_slower_outweighs_a_whole_that_became_faster() -> None:
    found = looked(run(600, {"Cast": 300}), [run(1_000, {"Cast": 100})] * 3)
    assert (found.verdict, found.total) == (Verdict.SLOWER, Verdict.FASTER)


# --- a stored baseline


def test_slower_is_settled_only_when_enough_processes_agree() -> None:
    for processes in range(1, TIMED_PROCESSES + 1):
        found = judge(BASE, [run(2_000)] * processes)
        assert (found.verdict, found.processes) == (Verdict.SLOWER, processes)
        assert found.settled is (processes == TIMED_PROCESSES)


@pytest.mark.parametrize("us", [1_000, 500])
def test_what_is_not_slower_is_settled_by_one_process(us: int) -> None:
    assert judge(BASE, [run(us)]).settled


def test_one_process_within_the_limits_is_enough_for_a_pass() -> None:
    found = judge(BASE, [run(2_000), run(2_100), run(1_100)])
    assert (found.verdict, found.settled, found.processes) == (Verdict.OK, True, 3)
    assert found.change == pytest.approx(0.1)


def test_a_baseline_whose_processes_differ_takes_more_of_them_to_call_it_slower() -> None:
    base = [run(1_000), run(1_050), run(1_140)]
    for processes in (TIMED_PROCESSES, MOST_TIMED_PROCESSES):
        found = judge(base, [run(2_000)] * processes)
        assert (found.verdict, found.settled) == (Verdict.SLOWER, processes == MOST_TIMED_PROCESSES)


@pytest.mark.parametrize(("now_us", "verdict"), [(1_205, "OK"), (1_210, "SLOWER")])
def test_a_process_nearly_as_fast_as_the_second_one_of_the_baseline_passes(now_us: int, verdict: str) -> None:
    base = [run(us, {"Add": us / 2}) for us in (1_000, 1_100, 1_150, 1_160, 1_170)]
    assert judge(base, [run(now_us, {"Add": now_us / 2})]).verdict is Verdict[verdict]
    assert judge(base, [run(now_us, {"Add": now_us / 2}), run(2_000, {"Add": 1_000})]).verdict is Verdict[verdict]


@pytest.mark.parametrize(("now_us", "ops"), [(515, {}), (525, {"Add": Verdict.SLOWER})])
def test_a_process_is_typical_by_a_share_of_the_tolerance_of_the_op(now_us: int, ops: dict[str, Verdict]) -> None:
    base = [run(2_000, {"Add": us}) for us in (300, 400, 400)]
    assert judge(base, [run(2_000, {"Add": now_us})], Rule(replace(STORED, of_op={"Add": 0.4}))).ops == ops


def test_a_typical_process_that_is_faster_elsewhere_is_faster() -> None:
    base = [run(2_000, {"Add": us, "Exp": 900}) for us in (300, 400, 400)]
    found = judge(base, [run(2_000, {"Add": 420, "Exp": 300})])
    assert (found.verdict, found.total, found.ops) == (Verdict.FASTER, Verdict.OK, {"Exp": Verdict.FASTER})


def test_a_typical_process_with_a_slower_op_is_not_typical() -> None:
    base = [run(us, {"Add": 300}) for us in (1_000, 1_100, 1_150, 1_160, 1_170)]
    found = judge(base, [run(1_150, {"Add": 400})])
    assert (found.verdict, found.ops) == (Verdict.SLOWER, {"Add": Verdict.SLOWER})


def test_nothing_is_slower_than_one_fast_process_alone() -> None:
    base = [run(400, {"Add": 300}), run(1_000, {"Add": 900}), run(1_050, {"Add": 950})]
    found = judge(base, [run(1_500, {"Add": 1_400})])
    assert (found.verdict, found.settled) == (Verdict.NOISY, True)
    assert found.why == "only one of the baseline's 3 processes took 400 us, the others 1 ms or more: record it again"
    assert has_lone_best(base, STORED)
    assert judge(base, [run(440, {"Add": 330})]).verdict is Verdict.OK


def test_an_op_that_was_fast_in_one_process_alone_is_not_called_slower() -> None:
    base = [run(2_000, {"Add": add, "Exp": 500}) for add in (300, 900, 950)]
    found = judge(base, [run(2_000, {"Add": 1_400, "Exp": 500})])
    assert found.why == "only one of the baseline's 3 processes was as fast in Add: record it again"
    found = judge(base, [run(2_000, {"Add": 1_400, "Exp": 900})] * MOST_TIMED_PROCESSES)
    assert (found.verdict, found.ops) == (Verdict.SLOWER, {"Exp": Verdict.SLOWER})


def test_a_baseline_whose_best_process_has_company_is_one_to_judge_by() -> None:
    assert not has_lone_best([run(1_000), run(1_100), run(2_000)], STORED)
    assert not any(has_lone_best(base, STORED) for base in ([], [run(1_000)]))
    assert has_lone_best([run(1_000), run(2_000)], STORED)


@pytest.mark.parametrize(
    ("times_us", "steady"),
    [
        ((1_000, 1_030, 1_030, 2_000), True),
        ((1_000, 1_030, 1_031), False),
        ((10, 12, 12), True),
        ((10,), True),
        ((), True),
    ],
)
def test_a_baseline_is_steady_if_its_three_fastest_processes_are_alike(times_us: Sequence[float], steady: bool) -> None:
    taken = [run(us) for us in times_us]
    assert is_steady(taken) is steady
    one_slow_round = [replace(each, total_ns=(*each.total_ns, n * 10_000 * US)) for n, each in enumerate(taken, 1)]
    assert is_steady(one_slow_round) is steady


def test_the_fastest_round_of_an_op_may_be_another_processes() -> None:
    now = [run(2_000, {"Cast": 100, "Add": 900}), run(1_000, {"Cast": 900, "Add": 100})]
    assert judge([run(1_000, {"Cast": 100, "Add": 100})] * 3, now).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("base", "now", "why"),
    [
        ([], [run()], "the baseline has no times (pytest --opprof-update records them)"),
        (BASE[:2], [run()], "the baseline has the times of 2 of 3 processes"),
        (BASE, [], "no times were measured"),
        (BASE, [run(rounds=LEAST_ROUNDS - 1)], "9 of 10 rounds measured"),
        (BASE, [run(), run(rounds=5)], "5 of 10 rounds measured"),
        (BASE, [run(rounds=30)], "rounds differ: 10 before, 30 now"),
        (BASE, [replace(run(), threads=0)], "threads differ: 1 before, all now"),
        ([replace(each, threads=0) for each in BASE], [run()], "threads differ: all before, 1 now"),
    ],
)
def test_what_cannot_be_compared_says_why_and_is_never_slower(
    base: Sequence[ProcessTimes], now: Sequence[ProcessTimes], why: str
) -> None:
    found = judge(base, [replace(each, total_ns=tuple(9 * ns for ns in each.total_ns)) for each in now])
    assert (found.verdict, found.why, found.settled) == (Verdict.INCOMPARABLE, why, True)
    assert found.ops == {}


def test_another_base_is_called_by_its_name_and_is_not_recorded_by_an_update() -> None:
    rule = Rule(base="before.json")
    assert judge([], [run()], rule).why == "before.json has no times"
    assert judge(BASE[:1], [run()], rule).why == "before.json has the times of 1 of 3 processes"
    why = "before.json was recorded while the machine was busy: record it again"
    assert judge([waiting(0)] * 3, [run()], rule).why == why


def test_what_is_not_compared_is_shown_all_the_same() -> None:
    waited = replace(run(2_000, {"Cast": 7}), wait_ns=(10**9,) * LEAST_ROUNDS)
    found = unjudged("in parallel", [waited], BASE)
    assert (found.verdict, found.why) == (Verdict.INCOMPARABLE, "in parallel")
    assert found.base is not None
    assert found.now is not None
    assert (found.base.total_ns, found.now.total_ns, found.now.ns("Cast")) == (1_000 * US, 2_000 * US, 7 * US)
    assert unjudged("nothing", []).change is None


def test_a_round_of_no_time_that_waited_is_shown_all_the_same() -> None:
    waited = ProcessTimes((0,) * LEAST_ROUNDS, {"View": (0,) * LEAST_ROUNDS}, wait_ns=(5,) * LEAST_ROUNDS)
    assert unjudged("in parallel", [waited]).now is not None


# --- conditions


def waiting(clean: int, us: int = 2_000) -> ProcessTimes:
    """Return a process of so many rounds that did not wait for a CPU."""
    return replace(run(us), wait_ns=(us * US // 100,) * clean + (us * US // 100 + 1,) * (LEAST_ROUNDS - clean))


def slowed(clean: int, us: int = 2_000) -> ProcessTimes:
    """Return a process with so many rounds around which the fixed piece of work took as long as in `BEST`."""
    limit = int(100_000 * YARDSTICK)
    return replace(run(us), yardstick_ns=(limit + 1,) * (LEAST_ROUNDS - clean) + (limit,) * clean)


BEST = [replace(each, yardstick_ns=(100_000,) + (900_000,) * (LEAST_ROUNDS - 1)) for each in BASE[:1]] + BASE


@pytest.mark.parametrize("noisy", [waiting, slowed])
def test_a_process_with_too_few_clean_rounds_is_no_evidence_of_slowness(noisy: Callable[[int], ProcessTimes]) -> None:
    half = LEAST_ROUNDS // 2
    assert judge(BEST, [noisy(half)]).verdict is Verdict.SLOWER
    found = judge(BEST, [noisy(half - 1)])
    assert (found.verdict, found.settled) == (Verdict.NOISY, False)
    assert judge(BEST, [noisy(0), run(1_000)]).verdict is Verdict.OK


@pytest.mark.parametrize(("clean", "verdict"), [(15, "SLOWER"), (14, "NOISY")])
def test_a_process_of_more_rounds_needs_more_clean_ones(clean: int, verdict: str) -> None:
    """The fastest of few rounds is slower than the fastest of many: a busy machine is not to look like slow code."""
    busy = replace(run(2_000, rounds=30), wait_ns=(0,) * clean + (2_000 * US,) * (30 - clean))
    assert judge([run(1_000, rounds=30)] * 3, [busy]).verdict is Verdict[verdict]


def test_no_verdict_says_how_much_was_noise() -> None:
    slow = "had a core 15% slower than at its best, by a fixed piece of work"
    assert judge(BEST, [waiting(4)]).why == "no process of 1 had 5 clean rounds: of 10 rounds 6 waited for a CPU"
    assert judge(BEST, [slowed(4)]).why == f"no process of 1 had 5 clean rounds: of 10 rounds 6 {slow}"
    assert judge(BEST, [waiting(5), slowed(3), slowed(0)]).why == (
        f"1 process of 3 had 5 clean rounds: of 30 rounds 5 waited for a CPU, 17 {slow}"
    )
    assert judge(BEST, [waiting(5), waiting(5), slowed(0)]).why.startswith("2 processes of 3 had 5 clean rounds: ")


def test_without_a_limit_processes_are_compared_with_their_own_best_core() -> None:
    half = LEAST_ROUNDS // 2
    assert clean_processes([*BEST, slowed(half), slowed(half - 1)]) == len(BASE) + 1


def test_a_core_just_at_the_limit_is_not_slow() -> None:
    at_limit = replace(run(), yardstick_ns=(115,) * LEAST_ROUNDS)
    assert is_clean(at_limit, 115)
    assert why_noisy([at_limit], 0, 115) == "no process of 1 had 5 clean rounds"


CAPPED, SHARED = "GPU 0 was throttled: HW slowdown", "GPU 0 was shared with process 4711 (python)"


def disturbed(us: int = 2_000, *what: str) -> ProcessTimes:
    return replace(run(us), disturbed=what or (CAPPED,))


def test_a_process_whose_gpu_was_throttled_or_shared_is_no_evidence_of_slowness() -> None:
    found = judge(BASE, [disturbed()])
    assert (found.verdict, found.settled) == (Verdict.NOISY, False)
    assert found.why == f"{CAPPED}; no process of 1 had 5 clean rounds"
    found = judge(BASE, [disturbed(2_000, CAPPED, SHARED)] * MOST_TIMED_PROCESSES)
    assert (found.verdict, found.settled) == (Verdict.NOISY, True)
    assert found.why == f"{CAPPED}; {SHARED}; no process of 12 had 5 clean rounds"
    assert judge(BASE, [disturbed(), *[run(2_000)] * TIMED_PROCESSES]).verdict is Verdict.SLOWER
    assert judge(BASE, [disturbed(1_000)]).verdict is Verdict.OK
    assert judge(BASE, [without_noise(disturbed())]).verdict is Verdict.SLOWER


def test_no_verdict_says_what_was_noise_beside_a_throttled_gpu() -> None:
    why = f"{CAPPED}; no process of 2 had 5 clean rounds: of 20 rounds 6 waited for a CPU"
    assert judge(BEST, [waiting(4), disturbed()]).why == why


def test_runs_of_a_throttled_gpu_are_no_baseline() -> None:
    for us in (500, 1_500):
        found = judge([disturbed(1_000)] * 3, [run(us)])
        assert (found.verdict, found.why) == (Verdict.NOISY, f"the baseline was disturbed ({CAPPED}): record it again")
    assert judge([disturbed(1_000)] * 3, [run(1_000)]).verdict is Verdict.OK


def test_slower_is_what_six_clean_processes_agree_on() -> None:
    clean = [run(2_000)]
    assert not judge(BEST, clean * (TIMED_PROCESSES - 1)).settled
    assert not judge(
        BEST, clean * (TIMED_PROCESSES - 1) + [slowed(0)] * (MOST_TIMED_PROCESSES - TIMED_PROCESSES)
    ).settled
    found = judge(BEST, clean * TIMED_PROCESSES)
    assert (found.verdict, found.settled, found.clean) == (Verdict.SLOWER, True, TIMED_PROCESSES)
    assert judge(BEST, [*clean * TIMED_PROCESSES, slowed(0)]).clean == TIMED_PROCESSES


@pytest.mark.parametrize(
    ("clean", "verdict"), [(LEAST_TIMED_PROCESSES, Verdict.SLOWER), (LEAST_TIMED_PROCESSES - 1, Verdict.NOISY)]
)
def test_twelve_processes_are_the_last_and_three_of_them_have_to_be_clean(clean: int, verdict: Verdict) -> None:
    found = judge(BEST, [run(2_000)] * clean + [slowed(0)] * (MOST_TIMED_PROCESSES - clean))
    assert (found.verdict, found.settled) == (verdict, True)


def test_a_baseline_of_a_busy_machine_judges_nothing_and_asks_for_another() -> None:
    found = judge([waiting(0)] * 3, [run()])
    assert (found.verdict, found.settled) == (Verdict.NOISY, True)
    assert found.why == "the baseline was recorded while the machine was busy: record it again"


def test_a_baseline_of_a_slower_core_judges_nothing_and_asks_for_another() -> None:
    now = replace(run(2_000), yardstick_ns=(100_000,) * LEAST_ROUNDS)
    assert judge([slowed(0, 1_000)] * 3, [now]).why == (
        "the baseline was recorded while the machine was busy: record it again"
    )


@pytest.mark.parametrize("us", [1_000, 500])
def test_a_slower_core_is_no_excuse_that_a_pass_needs(us: int) -> None:
    best = [replace(each, yardstick_ns=(100_000,) * LEAST_ROUNDS) for each in BASE]
    assert judge(best, [slowed(0, us)]).verdict is (Verdict.OK if us == 1_000 else Verdict.FASTER)


def test_the_fastest_round_counts_though_it_was_not_clean() -> None:
    """Noise only adds time."""
    fast = replace(run(1_000), total_ns=(1_000 * US,) + (2_000 * US,) * 9, wait_ns=(10**9,) + (0,) * 9)
    assert judge(BASE, [fast]).verdict is Verdict.OK


def test_a_whole_is_slower_only_if_the_fastest_times_of_its_ops_add_up_to_it() -> None:
    base = [run(1_000, {"Cast": 500, "Add": 500})] * 3
    apart = ProcessTimes(
        (1_500 * US,) * 10, {"Cast": (500 * US, 1_000 * US) * 5, "Add": (1_000 * US, 500 * US) * 5}, threads=1
    )
    assert looked(apart, base).verdict is Verdict.OK
    together = looked(run(1_200, {"Cast": 600, "Add": 600}), base)
    assert (together.verdict, together.total, together.ops) == (Verdict.SLOWER, Verdict.SLOWER, {})
    one_op = looked(run(1_500, {"Cast": 1_000, "Add": 120}), base)
    assert (one_op.total, one_op.ops) == (Verdict.OK, {"Cast": Verdict.SLOWER, "Add": Verdict.FASTER})


def test_a_slower_whole_is_confirmed_by_the_ops_that_both_sides_time() -> None:
    base = [run(1_000, {"Add": 500, "Exp": 100})] * 3
    assert looked(run(1_300, {"Add": 500, "Log": 900}), base).total is Verdict.OK
    assert looked(run(1_300, {"Add": 600, "Log": 100}), base).total is Verdict.SLOWER
    assert looked(run(600, {"Add": 500}), base).total is Verdict.FASTER, "a faster one needs no ops to confirm it"


def test_a_profile_of_one_step_is_clean_with_one_clean_round() -> None:
    one = Rule(STORED, 1, 1, 1)
    assert judge([run(1_000, rounds=1)], [run(2_000, rounds=1)], one).verdict is Verdict.SLOWER


# --- pairs


def pairs(*factors: float, **op: float) -> list[tuple[ProcessTimes, ProcessTimes]]:
    """Return pairs whose later process takes so many times as long; an op half as long as the whole too, if given."""
    ops = {"Cast": 500} if op else {}
    factor = op.get("op", 1.0)
    return [(run(1_000, ops), run(1_000 * by, {name: us * factor for name, us in ops.items()})) for by in factors]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.055, "OK"), (1.065, "SLOWER"), (1 / 1.055, "OK"), (1 / 1.065, "FASTER")]
)
def test_pairs_see_what_a_stored_baseline_does_not(factor: float, verdict: str) -> None:
    found = judge_pairs(pairs(*[factor] * TIMED_PAIRS[1]))
    assert (found.verdict, found.processes, found.settled) == (Verdict[verdict], TIMED_PAIRS[1], True)
    assert found.change == pytest.approx(factor - 1, abs=1e-6)


@pytest.mark.parametrize(("factor", "settled"), [(1.0, True), (1.03, True), (1.05, False), (1.2, False), (0.8, False)])
def test_the_first_look_at_pairs_settles_what_is_not_suspicious(factor: float, settled: bool) -> None:
    assert judge_pairs(pairs(*[factor] * TIMED_PAIRS[0])).settled is settled
    assert judge_pairs(pairs(*[factor] * TIMED_PAIRS[1])).settled


def test_fewer_pairs_than_the_first_look_settle_nothing() -> None:
    assert not judge_pairs(pairs(*[1.0] * (TIMED_PAIRS[0] - 1))).settled
    assert judge_pairs(pairs(*[1.0] * 2), looks=(2, 3)).settled


def test_a_change_of_just_the_suspicious_share_of_the_tolerance_needs_the_second_look() -> None:
    doubled = pairs(*[2.0] * TIMED_PAIRS[0])
    assert not judge_pairs(doubled, replace(PAIRS, tolerance=1 / SUSPICIOUS)).settled
    assert judge_pairs(doubled, replace(PAIRS, tolerance=1.01 / SUSPICIOUS)).settled


def test_an_op_that_only_one_side_of_the_pairs_times_has_no_change() -> None:
    before, after = run(1_000, {"Cast": 500, "Add": 100}), run(1_000, {"Cast": 500, "Exp": 100})
    found = judge_pairs([(before, after)] * TIMED_PAIRS[1])
    assert found.now is not None
    assert (found.verdict, found.now.ops_ns) == (Verdict.OK, {"Cast": 500 * US, "Add": 100 * US})


def test_an_op_that_some_pairs_do_not_time_has_the_times_of_the_others() -> None:
    timed, untimed = (run(1_000, {"Exp": 100}), run(1_000, {"Exp": 300})), (run(), run())
    found = judge_pairs([timed] * 8 + [untimed])
    assert found.base is not None
    assert (found.base.ops_ns, found.ops) == ({"Exp": 100 * US}, {"Exp": Verdict.SLOWER})
    assert judge_pairs([timed] * 7 + [untimed] * 2).ops == {}, "8 of 9 pairs have to see it"


def test_an_op_alone_makes_the_first_look_suspicious() -> None:
    found = judge_pairs(pairs(*[1.0] * TIMED_PAIRS[0], op=1.3))
    assert (found.settled, found.ops, found.total) == (False, {"Cast": Verdict.SLOWER}, Verdict.OK)


def test_the_median_round_counts_and_a_bad_one_does_not() -> None:
    jumps = replace(run(), total_ns=(1_000 * US,) * 6 + (9_000 * US,) * 4)
    assert judge_pairs([(run(), jumps)] * TIMED_PAIRS[1]).change == 0


def test_a_round_that_took_no_time_counts_as_1_ns() -> None:
    for before, after, change in ((0, 1, 0), (1, 0, 0), (1, 2, 1), (2, 1, -0.5)):
        taken = [(ProcessTimes((before,) * LEAST_ROUNDS), ProcessTimes((after,) * LEAST_ROUNDS))] * TIMED_PAIRS[0]
        assert judge_pairs(taken).intervals[None] == pytest.approx((change, change))


def test_a_change_of_the_whole_is_one_only_if_seven_pairs_of_nine_see_it() -> None:
    needed = math.ceil(AGREE * TIMED_PAIRS[1])
    assert needed == 7
    assert judge_pairs(pairs(*[1.3] * needed, *[1.0] * (9 - needed))).verdict is Verdict.SLOWER
    few = judge_pairs(pairs(*[1.3] * (needed - 1), *[1.01] * (10 - needed)))
    assert (few.verdict, few.settled) == (Verdict.NOISY, True)
    assert few.why == "the 9 pairs of processes do not agree whether it is slower"
    faster = judge_pairs(pairs(*[0.7] * (needed - 1), *[0.985] * (10 - needed)))
    assert faster.why == "the 9 pairs of processes do not agree whether it is faster"


def test_a_change_of_an_op_is_one_only_if_eight_pairs_of_nine_see_it() -> None:
    needed = math.ceil(OPS_AGREE * TIMED_PAIRS[1])
    assert needed == 8
    for agreeing, ops in ((needed, {"Cast": Verdict.SLOWER}), (needed - 1, {})):
        found = judge_pairs([*pairs(*[1.0] * agreeing, op=1.5), *pairs(*[1.0] * (9 - agreeing), op=1.04)])
        assert found.ops == ops
        assert found.verdict is (Verdict.SLOWER if ops else Verdict.OK)
        assert found.agreeing["Cast"] == agreeing


def test_an_op_that_is_surely_slower_is_slower_though_the_pairs_disagree_about_the_whole() -> None:
    found = judge_pairs(pairs(*[1.3] * 6, *[1.0] * 3, op=1.5))
    assert (found.verdict, found.ops, found.total) == (Verdict.SLOWER, {"Cast": Verdict.SLOWER}, Verdict.OK)


def test_in_a_pair_a_round_counts_only_if_neither_process_waited() -> None:
    def busy(us: int, rounds: range) -> ProcessTimes:
        return replace(run(us), wait_ns=tuple(us * US * (n in rounds) for n in range(LEAST_ROUNDS)))

    base, slower, otherwise_slower = busy(1_000, range(5)), busy(2_000, range(5)), busy(2_000, range(5, 10))
    assert judge_pairs([(base, slower)] * 9).verdict is Verdict.SLOWER
    none = judge_pairs([(base, otherwise_slower)] * 9)
    assert (none.verdict, none.settled) == (Verdict.NOISY, True)
    assert none.why == "0 of 9 pairs had 5 rounds in which neither waited for a CPU"
    assert not judge_pairs([(base, otherwise_slower)] * 5).settled
    some = [*[(base, otherwise_slower)] * 5, *[(base, slower)] * 4]
    assert judge_pairs(some).why == "4 of 9 pairs had 5 rounds in which neither waited for a CPU"


def test_the_change_of_a_pair_is_of_its_clean_rounds() -> None:
    waited = replace(run(), total_ns=(1_500 * US, 1_000 * US) * 5, wait_ns=(500 * US, 0) * 5)
    assert judge_pairs([(run(), waited)] * TIMED_PAIRS[1]).change == 0


def test_a_pair_of_which_one_process_had_a_throttled_gpu_is_no_clean_pair() -> None:
    lucky, unlucky = (run(1_000), run(2_000)), (run(1_000), disturbed(2_000))
    assert judge_pairs([lucky] * 9).verdict is Verdict.SLOWER
    assert judge_pairs([(disturbed(1_000), disturbed(2_000))] * 9).verdict is Verdict.SLOWER
    found = judge_pairs([*[lucky] * 4, *[unlucky] * 5])
    assert (found.verdict, found.settled) == (Verdict.NOISY, True)
    assert found.why == f"{CAPPED}, in one process of a pair only; 4 of 9 pairs were clean"
    assert judge_pairs([*[lucky] * 5, *[unlucky] * 4]).verdict is Verdict.SLOWER


def test_pairs_that_waited_and_are_alike_all_the_same_are_ok() -> None:
    busy = replace(run(), wait_ns=(US * 1_000,) * LEAST_ROUNDS)
    for count in TIMED_PAIRS:
        found = judge_pairs([(busy, busy)] * count)
        assert (found.verdict, found.settled) == (Verdict.OK, True)


def test_a_test_that_is_fast_enough_though_it_waited_is_ok() -> None:
    assert judge(BASE, [replace(run(), wait_ns=(US * 1_000,) * LEAST_ROUNDS)]).verdict is Verdict.OK


def test_pairs_of_other_rounds_or_threads_are_not_compared() -> None:
    assert judge_pairs([(run(), run(rounds=30))]).why == "rounds differ: 10 before, 30 now"
    assert judge_pairs([(run(), replace(run(), threads=2))]).why == "threads differ: 1 before, 2 now"


def test_no_pairs_give_no_verdict() -> None:
    assert judge_pairs([]).verdict is Verdict.INCOMPARABLE


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_the_hodges_lehmann_mean_lies_within_and_turns_with_its_values(values: list[float]) -> None:
    mean = hodges_lehmann(values)
    assert min(values) <= mean <= max(values)
    assert hodges_lehmann([-value for value in values]) == -mean


@given(st.lists(st.floats(-1, 1), min_size=9, max_size=9), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_two_bad_values_of_nine_do_not_move_the_hodges_lehmann_mean_out_of_the_others(
    values: list[float], one: float, other: float
) -> None:
    assert -1 <= hodges_lehmann([*values[:7], one, other]) <= 1


@pytest.mark.parametrize(
    ("values", "covered"), [(5, 30 / 32), (6, 62 / 64), (7, 122 / 128), (9, 492 / 512), (12, 3_922 / 4_096)]
)
def test_the_interval_of_the_hodges_lehmann_mean_has_the_share_that_the_signed_rank_distribution_says(
    values: int, covered: float
) -> None:
    """Of values that are as often above 0 as below: all signs of 1, 2, 3, ..."""
    signs = itertools.product((1, -1), repeat=values)
    intervals = [interval([sign * (n + 1) for n, sign in enumerate(each)]) for each in signs]
    assert sum(low <= 0 <= high for low, high in intervals) == covered * 2**values


@given(st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=9))
def test_the_interval_holds_the_hodges_lehmann_mean_and_turns_with_its_values(values: list[float]) -> None:
    low, high = interval(values)
    assert min(values) <= low <= hodges_lehmann(values) <= high <= max(values)
    assert interval([-value for value in values]) == (-high, -low)


def test_pairs_say_between_what_a_change_lies() -> None:
    found = judge_pairs(pairs(1.08, 1.09, 1.1, 1.11, 1.16, op=1.5))
    assert found.intervals[None] == pytest.approx((0.08, 0.16))
    assert found.intervals["Cast"] == pytest.approx((0.5, 0.5))
    assert judge_pairs(pairs(*[1.3] * 6, *[1.0] * 3)).intervals[None] == pytest.approx((0, 0.3)), "no verdict"
    assert judge_pairs(pairs(1.1, 1.2, 1.3, 1.4)).intervals == {}
    assert judge(BASE, [run(1_200)]).intervals == {}


# --- whatever the samples are

# No ratio of two of these is a limit exactly (1.02, 1.05, 1.06): rounding could decide it either way.
times = st.integers(1_000, 100_000).map(lambda ns: 10 * ns + 1)
levels = st.tuples(times, times, times)


def process(of: tuple[int, int, int]) -> ProcessTimes:
    """Return a process of one slow round and nine alike: of the whole, and of two ops."""
    whole, cast, add = ((2 * level + 1, *[level] * (LEAST_ROUNDS - 1)) for level in of)
    return ProcessTimes(whole, {"Cast": cast, "Add": add}, threads=1)


def processes(least: int, most: int) -> st.SearchStrategy[list[ProcessTimes]]:
    return st.lists(levels.map(process), min_size=least, max_size=most)


def scaled(one: ProcessTimes, by: int) -> ProcessTimes:
    return replace(
        one,
        total_ns=tuple(ns * by for ns in one.total_ns),
        ops_ns={op: tuple(ns * by for ns in samples) for op, samples in one.ops_ns.items()},
        wait_ns=tuple(ns * by for ns in one.wait_ns),
    )


def verdicts(found: TimingVerdict) -> object:
    return found.verdict, found.total, found.ops, found.settled


powers = st.integers(1, 20).map(lambda n: 2**n)
"""Exact in floating point."""


@given(processes(3, 5), processes(1, 6), powers)
def test_other_units_change_no_verdict(base: list[ProcessTimes], now: list[ProcessTimes], by: int) -> None:
    rule = Rule(NO_FLOORS)
    there = judge([scaled(run, by) for run in base], [scaled(run, by) for run in now], rule)
    assert verdicts(there) == verdicts(judge(base, now, rule))


@given(processes(5, 9), processes(9, 9), powers)
def test_other_units_change_no_verdict_of_pairs(before: list[ProcessTimes], after: list[ProcessTimes], by: int) -> None:
    taken = list(zip(before, after))
    there = judge_pairs([(scaled(one, by), scaled(other, by)) for one, other in taken], NO_FLOORS)
    assert verdicts(there) == verdicts(judge_pairs(taken, NO_FLOORS))


TURNED = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}


@given(processes(5, 9), processes(9, 9))
def test_swapping_the_sides_of_pairs_turns_the_verdict_and_the_sign(
    before: list[ProcessTimes], after: list[ProcessTimes]
) -> None:
    there = judge_pairs(list(zip(before, after)), NO_FLOORS)
    back = judge_pairs(list(zip(after, before)), NO_FLOORS)
    assert there.change is not None
    assert back.change is not None
    assert math.log1p(back.change) == pytest.approx(-math.log1p(there.change), abs=1e-9)
    if Verdict.NOISY in (there.verdict, back.verdict):
        return  # the pairs do not agree about the whole; an op that is surely slower fails all the same
    assert back.total is TURNED.get(there.total, there.total)
    assert back.ops == {op: TURNED[verdict] for op, verdict in there.ops.items()}
    if len({there.total, *there.ops.values()} - {Verdict.OK}) < 2:  # where both happened, slower goes first
        assert back.verdict is TURNED.get(there.verdict, there.verdict)


@given(processes(3, 5), processes(1, 5), st.integers(0, 1_000_000))
def test_a_further_slower_process_changes_no_verdict(
    base: list[ProcessTimes], now: list[ProcessTimes], more: int
) -> None:
    slower = replace(
        now[0],
        total_ns=tuple(ns + more for ns in now[0].total_ns),
        ops_ns={op: tuple(ns + more for ns in samples) for op, samples in now[0].ops_ns.items()},
    )
    there, back = judge(base, [*now, slower]), judge(base, now)
    assert (there.verdict, there.total, there.ops) == (back.verdict, back.total, back.ops)


@given(processes(3, 5), processes(2, 6))
def test_no_further_process_makes_a_verdict_worse(base: list[ProcessTimes], now: list[ProcessTimes]) -> None:
    assert judge(base, now).verdict is not Verdict.SLOWER or judge(base, now[:-1]).verdict is Verdict.SLOWER


@given(processes(3, 5))
def test_the_same_samples_are_ok(taken: list[ProcessTimes]) -> None:
    assert judge(taken, taken).verdict is Verdict.OK
    assert judge_pairs([(run, run) for run in taken] * 3).verdict is Verdict.OK


@st.composite
def anything(draw: st.DrawFn) -> ProcessTimes:
    rounds = draw(st.sampled_from([1, 9, 10, 10, 10, 10]))
    samples = st.lists(st.integers(0, 10**7), min_size=rounds, max_size=rounds).map(tuple)
    ops = draw(st.dictionaries(st.sampled_from("ABC"), samples, max_size=2))
    known = st.one_of(st.just(()), samples)
    return ProcessTimes(draw(samples), ops, draw(known), draw(known), draw(st.sampled_from([1, 1, 0])))


@given(st.lists(anything(), max_size=5), st.lists(anything(), max_size=6))
def test_whatever_is_measured_has_a_verdict_and_a_reason_where_it_has_none(
    base: list[ProcessTimes], now: list[ProcessTimes]
) -> None:
    for found in (judge(base, now), judge_pairs(list(zip(base, now)), PAIRS)):
        assert found.verdict in JUDGED
        assert bool(found.why) == (found.verdict in (Verdict.NOISY, Verdict.INCOMPARABLE))
        assert {*found.ops.values()} <= {Verdict.SLOWER, Verdict.FASTER}
        if found.verdict is Verdict.SLOWER:
            assert found.base is not None
            assert found.now is not None
