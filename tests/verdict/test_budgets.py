from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import UsageError
from pytest_opprof.profile.columns import ABSENT
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.verdict.budgets import WINDOW_KEYS, Budget, parse_pair

from ..conftest import ENVIRONMENT, profile_of


def lines(profile: OpProfile, *mappings: object, **limits: object) -> list[str]:
    return [str(finding) for finding in Budget.parse(mappings, limits).check(profile)]


STEP = [("Cast", 1_000)] * 12 + [("MatMul", 40_000)] * 2 + [("aten::native_layer_norm", 500)]


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        ({"Cast": 10}, "Cast: 12 calls (budget: 10)"),
        ({"Cast": "10"}, "Cast: 12 calls (budget: 10)"),
        ({"MatMul": "3..5"}, "MatMul: 2 calls (budget: 3..5)"),
        ({"MatMul": "3.."}, "MatMul: 2 calls (budget: 3..)"),
        ({"Cast": "..5"}, "Cast: 12 calls (budget: 0..5)"),
        ({"Cast": "10 us"}, "Cast: device time 12 us (budget: 10 us)"),
        ({"MatMul": "50%"}, "MatMul: share of device time 86.5% (budget: 50%)"),
        ({"Cast": [20, "11 us"]}, "Cast: device time 12 us (budget: 11 us)"),
        ({"device_time": "90 us"}, "device time: 92.5 us (budget: 90 us)"),
        ({"device_time": "92499 ns"}, "device time: 92.5 us (budget: 92.499 us)"),
        ({"host_time": "5 us"}, "host time: 10 us (budget: 5 us)"),
        ({"calls": 14}, "calls of all ops: 15 (budget: 14)"),
        ({"only": ["MatMul", "aten::layer_norm"]}, "Cast: 12 calls, but only MatMul, aten::layer_norm may run"),
        ({"top": ["MatMul", "Softmax"]}, "top 2 ops by device time: MatMul, Cast (budget: MatMul, Softmax)"),
    ],
)
def test_a_broken_limit_is_said_in_one_line(limits: dict[str, object], line: str) -> None:
    assert lines(profile_of(STEP), **limits) == [line]


@pytest.mark.parametrize(
    "limits",
    [
        {"Cast": 12},
        {"Cast": "12..12", "MatMul": "1.."},
        {"Cast": [12, "12 us", "13%"]},
        {"device_time": "1 ms", "host_time": "10 us", "calls": "10..20"},
        {"only": ["Cast", "MatMul", "LayerNorm*"]},
        {"top": ["Cast", "MatMul"]},
        {"Exp": 0, "MemcpyHtoD": 0},
    ],
)
def test_a_kept_limit_says_nothing(limits: dict[str, object]) -> None:
    assert lines(profile_of(STEP), **limits) == []


def test_raw_names_and_globs_go_into_a_mapping() -> None:
    profile = profile_of(STEP)
    assert lines(profile, {"aten::native_layer_norm": 1, "aten::*conv*": 0}) == []
    assert lines(profile, {"aten::native_layer_norm": 0, "aten::*norm*": 0}) == [
        "aten::native_layer_norm: 1 call (budget: 0)",
        "aten::*norm*: 1 call (budget: 0)",
    ]


def test_counts_are_judged_at_the_worst_step_and_shown_as_a_range() -> None:
    profile = profile_of([("Cast", 1)] * 10, [("Cast", 1)] * 12)
    assert lines(profile, Cast=11) == ["Cast: 10..12 calls (budget: 11)"]
    assert lines(profile, Cast="11..12") == ["Cast: 10..12 calls (budget: 11..12)"]


def test_times_are_judged_at_the_fastest_step() -> None:
    profile = profile_of([("Add", 9_000)], [("Add", 3_000)])
    assert lines(profile, Add="4 us", device_time="4 us") == []
    assert lines(profile, Add="2 us") == ["Add: device time 3 us (budget: 2 us)"]


def test_shares_and_the_time_of_the_host_are_judged_at_the_step_that_keeps_them_best_and_counts_at_the_worst() -> None:
    profile = profile_of([("Add", 5_000), ("Cast", 5_000)], [("Add", 9_000), ("Cast", 1_000), ("Cast", 0)])
    assert lines(profile, Cast="10%") == []
    assert lines(profile, Cast="9%") == ["Cast: share of device time 10% (budget: 9%)"]
    profile = replace(profile, host_ns=(9_000, 5_000))
    assert lines(profile, host_time="5 us", Cast=2) == []
    assert lines(profile, host_time="4 us", Cast=1) == [
        "host time: 5 us (budget: 4 us)",
        "Cast: 1..2 calls (budget: 1)",
    ]


def test_bytes_are_judged_where_they_are_known_and_refused_where_they_are_not() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("Cast"), 5, nbytes=3 * 2**20)
    log.add(log.name("Add"), 5)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert lines(profile, Cast="2 MiB") == ["Cast: bytes moved 3 MiB (budget: 2 MiB)"]
    said = (
        r"the limit on bytes moved by Add \(1\.23 MiB\) cannot be checked: fake does not report the bytes of Add here"
    )
    with pytest.raises(UsageError, match=said):
        lines(profile, Add="1.234567 MiB")
    assert lines(profile, Cast=["4 MiB", 1]) == []


def test_times_of_the_cpu_that_were_disturbed_are_no_budget_and_those_of_a_device_are() -> None:
    for device, is_refused in (("cpu", True), ("NVIDIA H100", False)):
        profile = profile_of([("Add", 9_000)], environment=replace(ENVIRONMENT, device=device))
        profile = replace(profile, disturbed=("a debugger traces it",))
        assert lines(profile, Add=1) == []
        if is_refused:
            with pytest.raises(UsageError, match=r"time of Add \(4 us\) cannot be checked: a debugger traces it"):
                lines(profile, Add="4 us")
        else:
            assert lines(profile, Add="4 us") == ["Add: device time 9 us (budget: 4 us)"]


@pytest.mark.parametrize(
    ("without", "named"), [("A", "A"), ("ABCDE", "A, B, C, D, E"), ("ABCDEFG", "A, B, C, D, E and 2 more")]
)
def test_bytes_of_the_window_are_refused_with_the_ops_that_do_not_report_them(without: str, named: str) -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("Cast"), 5, nbytes=8)
    for raw in without:
        log.add(log.name(raw), 5)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    message = f"the limit on bytes moved (1 KiB) cannot be checked: fake does not report the bytes of {named} here"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        lines(profile, bytes="1 KiB")


def test_flops_and_peak_memory_are_judged_when_they_were_recorded() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_flops = log.knows_memory = True
    log.computed(log.add(log.name("MatMul"), 5), 2_000)
    log.allocated(2**20)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert lines(profile, flops=1_000, peak_memory="1 KiB") == [
        "FLOPs of all ops: 2 kFLOP (budget: 1 kFLOP)",
        "peak memory: 1 MiB (budget: 1 KiB)",
    ]
    assert lines(profile, flops="2 kFLOP", peak_memory="1 MiB", MatMul="1 MFLOP") == []


def test_allocations_are_counted_in_the_worst_step() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_memory = True
    for allocations in (3, 1, 0):
        log.mark()
        for size in allocations * [64, -64]:
            log.allocated(size)
    profile = assemble([(log.freeze(), {1: 0, 2: 1, 3: 2})], [1, 1, 1])
    assert lines(profile, allocations=0) == ["allocations: 0..3 (budget: 0)"]
    assert lines(profile, allocations="1..3") == ["allocations: 0..3 (budget: 1..3)"]
    assert lines(profile, allocations=3) == []


def test_what_autograd_recorded_and_memory_that_is_held_are_judged_in_the_worst_step() -> None:
    log = EventLog(ENVIRONMENT)
    log.knows_memory, log.counts["grad_nodes"] = True, {1: 0, 2: 3}
    for size in (2048, -4096):
        log.mark()
        log.allocated(size)
    profile = assemble([(log.freeze(), {1: 0, 2: 1})], [1, 1])
    assert lines(profile, grad_nodes=0, held_memory="1 KiB") == [
        "ops recorded for backward: 0..3 (budget: 0)",
        "memory held at the end: 0 B..2 KiB (budget: 1 KiB)",
    ]
    assert lines(profile, held_memory=0) == ["memory held at the end: 0 B..2 KiB (budget: 0 B)"]
    assert lines(profile, grad_nodes="0..3", held_memory="2 KiB") == []


def test_what_autograd_recorded_is_not_known_of_a_step_that_compiles() -> None:
    log = EventLog(ENVIRONMENT)
    log.counts["grad_nodes"] = {2: 3}
    log.mark()
    log.mark()
    frozen = log.freeze()
    assert lines(assemble([(frozen, {2: 0})], [1]), grad_nodes=3) == []
    with pytest.raises(UsageError, match=r"the limit on ops recorded for backward \(3\) cannot be checked"):
        lines(assemble([(frozen, {1: 0, 2: 1})], [1, 1]), grad_nodes=3)


def test_launches_are_calls_of_cuda_that_start_kernels_and_are_no_calls_of_ops() -> None:
    log = EventLog(ENVIRONMENT)
    for call, kernels in [("cuLaunchKernel", 1), ("cudaGraphLaunch", 3), ("cudaMemcpyAsync", 1)]:
        parent = log.add(log.name(call), ABSENT)
        for _ in range(kernels):
            log.add(log.name("my_kernel"), 5, parent)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    assert lines(profile, launches=1) == ["launches: 2 (budget: 1)"]
    assert lines(profile, launches="2..3", calls=5) == []
    assert lines(profile, calls=4) == ["calls of all ops: 5 (budget: 4)"]


def test_no_launch_is_within_a_budget_where_launches_would_have_been_seen() -> None:
    log = EventLog(ENVIRONMENT, knows=lambda name: name == "cudaLaunchKernel")
    assert lines(assemble([(log.freeze(), {0: 0})], [1]), launches=0) == []


@pytest.mark.parametrize(
    "limits",
    [
        {"flops": 1},
        {"peak_memory": "1 MiB"},
        {"held_memory": 0},
        {"allocations": 0},
        {"grad_nodes": 0},
        {"Add": "5 FLOP"},
        {"launches": 1},
    ],
)
def test_a_limit_on_what_was_not_measured_is_an_error_not_a_pass(limits: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="cannot be checked: fake does not measure it here"):
        lines(profile_of([("Add", 1)]), **limits)


def test_a_time_limit_where_no_time_is_known_is_an_error() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("Add"), -1)
    profile = assemble([(log.freeze(), {0: 0})], [1])
    for limits in ({"Add": "1 us"}, {"device_time": "1 us"}, {"top": ["Add"]}):
        with pytest.raises(UsageError, match="cannot be checked"):
            lines(profile, **limits)


@pytest.mark.parametrize("limits", [{"Csat": 1}, {"only": ["Csat"]}, {"top": ["Csat"]}])
def test_an_op_name_that_means_nothing_is_an_error_with_the_nearest_names(limits: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"unknown op 'Csat': did you mean 'Cast'\?"):
        lines(profile_of(STEP), **limits)


def test_a_name_in_the_profile_or_the_baseline_is_no_mistake() -> None:
    profile = profile_of([("mylib::fused", 1)])
    assert lines(profile, {"mylib::fused": 1}) == []
    assert Budget.parse([{"mylib::gone": 0}], {}).check(profile, known=["mylib::gone"]) == []


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"Cast": -1}, r"op_budget\(Cast=-1\): write a number \(10 or '3\.\.5'\), a size"),
        ({"Cast": True}, r"op_budget\(Cast=True\)"),
        ({"Cast": 1.5}, r"op_budget\(Cast=1.5\)"),
        ({"Cast": "many"}, r"op_budget\(Cast='many'\)"),
        ({"Cast": "5..3"}, r"the range is empty; write '3..5'"),
        ({"Cast": ".."}, r"op_budget\(Cast='..'\)"),
        ({"Cast": []}, r"the list of limits is empty"),
        ({"Cast": None}, r"op_budget\(Cast=None\)"),
        ({"device_time": 5}, r"op_budget\(device_time=5\): write a time \('5 ms'\)"),
        ({"device_time": "5 MiB"}, r"op_budget\(device_time='5 MiB'\): write a time"),
        ({"calls": "5 ms"}, r"op_budget\(calls='5 ms'\): write a number"),
        ({"allocations": "5 B"}, r"op_budget\(allocations='5 B'\): write a number"),
        ({"peak_memory": 5}, r"op_budget\(peak_memory=5\): write a size"),
        ({"held_memory": "5 ms"}, r"op_budget\(held_memory='5 ms'\): write a size"),
        ({"grad_nodes": "5 B"}, r"op_budget\(grad_nodes='5 B'\): write a number"),
        ({"only": "MatMul"}, r"op_budget\(only='MatMul'\): write a list of op names"),
        ({"top": [1]}, r"op_budget\(top=\[1\]\): write a list of op names"),
        (
            {"devce_time": "5 ms"},
            r"unknown limit 'devce_time': did you mean 'device_time'\? Known: calls, bytes",
        ),
        ({"my_kernel": 5}, r"An op whose name is lower-case goes into a mapping: op_budget\(\{'my_kernel': ...\}\)"),
    ],
)
def test_a_limit_that_means_nothing_is_refused_in_the_users_spelling(limits: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Budget.parse([], limits)


@pytest.mark.parametrize("mapping", ["Cast", 5, ["Cast"], {1: 5}, {"": 5}])
def test_a_positional_argument_must_map_op_names_to_limits(mapping: object) -> None:
    with pytest.raises(UsageError, match="op_budget"):
        Budget.parse([mapping], {})


def test_the_nearest_mark_wins_for_each_key() -> None:
    near = Budget.parse([], {"Cast": 5, "only": ["Cast"]})
    far = Budget.parse([{"Cast": 1, "Exp": 2}], {"calls": 9, "only": ["Exp"], "top": ["Exp"]})
    merged = near.over(far)
    assert {op: str(limits[0]) for op, limits in merged.ops.items()} == {"Cast": "5", "Exp": "2"}
    assert (merged.only, merged.top, list(merged.window)) == (("Cast",), ("Exp",), ["calls"])


def test_an_empty_budget_is_false_and_one_that_allows_nothing_is_not() -> None:
    assert not Budget()
    assert Budget.parse([], {"only": []})
    assert Budget.parse([], {"only": []}).allows_nothing
    assert Budget.parse([], {"calls": 0}).allows_nothing
    assert not Budget.parse([], {"calls": 1, "Cast": 0}).allows_nothing


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Cast=10", "Cast: 12 calls (budget: 10)"),
        ("aten::native_layer_norm=0", "aten::native_layer_norm: 1 call (budget: 0)"),
        ("device_time = 5us", "device time: 92.5 us (budget: 5 us)"),
        ("only=MatMul, Cast", "LayerNormalization: 1 call, but only MatMul, Cast may run"),
    ],
)
def test_the_command_line_has_the_grammar_of_the_mark(text: str, line: str) -> None:
    assert [str(finding) for finding in parse_pair(text).check(profile_of(STEP))] == [line]


@pytest.mark.parametrize("text", ["", "Cast", "=5", "Cast=", "device_time=5"])
def test_a_pair_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pair(text)


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_count_breaks_its_limit_exactly_when_it_is_larger(calls: int, limit: int) -> None:
    profile = profile_of([("Cast", 1)] * calls + [("Add", 1)])
    assert bool(lines(profile, Cast=limit)) == (calls > limit)


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 10))
def test_a_range_holds_exactly_what_lies_in_it(calls: int, low: int, width: int) -> None:
    profile = profile_of([("Cast", 1)] * calls + [("Add", 1)])
    assert bool(lines(profile, Cast=f"{low}..{low + width}")) == (not low <= calls <= low + width)


values = st.one_of(st.integers(), st.text(max_size=12), st.floats(), st.none(), st.booleans(), st.lists(st.integers()))


@given(st.dictionaries(st.one_of(st.sampled_from(WINDOW_KEYS), st.text(max_size=8)), values, max_size=3))
def test_any_mark_is_a_budget_or_a_usage_error(limits: dict[str, object]) -> None:
    try:
        Budget.parse([], limits)
    except UsageError:
        pass


@pytest.mark.parametrize(
    ("limits", "is_of_time"),
    [
        ({}, False),
        ({"Cast": 5, "peak_memory": "1 MiB"}, False),
        ({"Cast": "5 us"}, True),
        ({"Cast": ["10%", 5]}, True),
        ({"calls": 5, "host_time": "5 ms"}, True),
        ({"top": ["Cast"]}, True),
        ({"only": ["Cast"]}, False),
    ],
)
def test_a_budget_limits_time_by_a_time_a_share_or_the_most_expensive_ops(
    limits: dict[str, object], is_of_time: bool
) -> None:
    assert Budget.parse([], limits).limits_time is is_of_time


@pytest.mark.parametrize(
    ("limits", "is_of_time"),
    [({"Cast": 0}, False), ({"Cast": "1 us"}, True), ({"device_time": "1 us"}, True), ({"top": ["Add"]}, True)],
)
def test_a_broken_limit_is_about_time_or_a_count(limits: dict[str, object], is_of_time: bool) -> None:
    (broken,) = Budget.parse([], limits).check(profile_of([("Cast", 9_000)] * 3 + [("Add", 1)]))
    assert broken.is_about_time is is_of_time


@pytest.mark.parametrize(
    ("limit", "share", "is_broken"),
    [(24, 0.5, False), (12, 1.0, False), (8, 1.5, True), (0, None, True), ("4..", None, False), ("13..", None, True)],
)
def test_the_use_of_a_limit_is_a_share_of_its_upper_end(limit: object, share: float | None, is_broken: bool) -> None:
    profile = profile_of([("Cast", 1)] * 12)
    ((result, broken),) = Budget.parse([], {"Cast": limit}).judged(profile)
    assert (result.share, result.is_broken, bool(broken), result.used) == (share, is_broken, is_broken, "12")


def test_only_takes_ops_whatever_their_dtypes() -> None:
    message = r"op_budget\(only=\['MatMul\[float32\]'\]\): takes op names without dtypes; limit dtypes with"
    with pytest.raises(UsageError, match=message):
        Budget.parse([], {"only": ["MatMul[float32]"]})


def test_a_limit_on_what_is_left_behind_names_a_type() -> None:
    with pytest.raises(UsageError, match=r"op_budget\('left_behind:'\): name a type, such as left_behind:torch.Tensor"):
        Budget.parse([{"left_behind:": 0}], {})
    with pytest.raises(UsageError, match="left_behind:list='1 ms'"):
        Budget.parse([{"left_behind:list": "1 ms"}], {})
    budget = Budget.parse([{"left_behind:list": 1}], {})
    assert budget.needs("leaks")
    assert not budget.without("leaks")
