from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import UsageError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile, Whole
from pytest_opprof.questions import query
from pytest_opprof.questions.query import answer
from pytest_opprof.questions.question import COLUMNS, Line, Question, in_steps, ordering

CONV = SavedOp("conv1", "Conv2D", "7", calls=1, device_ns=800, computation=4000, memory=100, input_dtypes=("Float32",))
CAST = SavedOp("cast_a", "Cast", "10", calls=2, device_ns=150, host_ns=30, memory=50, input_dtypes=("DT_BF16",))
COPY = SavedOp("copy", "Copy", "9", calls=1, device_ns=50, device_launch_ns=20, memory=50)
HOSTED = SavedOp("alloc", "Alloc", calls=3, host_ns=70)


def trace(*records: SavedOp, steps: tuple[str, ...] = ("",)) -> SavedProfile:
    return SavedProfile("made by hand", Environment((("made", ""),), "cpu", ""), records, steps)


def asked(*records: SavedOp, **question: Any) -> list[str | None]:
    return [line.name or line.type for line in answer(trace(*records), Question(**question))]


def test_the_most_expensive_comes_first_and_the_cumulative_time_runs_down_the_rows() -> None:
    lines = answer(trace(COPY, CONV, CAST), Question())
    assert [(line.name, line.time_ns, line.share, line.cumulative_ns) for line in lines] == [
        ("conv1", 800, 0.8, 800),
        ("cast_a", 150, 0.15, 950),
        ("copy", 50, 0.05, 1000),
    ]


def test_filters_do_not_change_what_a_share_is_of() -> None:
    (line,) = answer(trace(CONV, CAST, COPY), Question(types=("Cast",)))
    assert (line.share, line.cumulative_ns) == (0.15, 150)


def test_ops_without_any_time_are_told_beside_ops_that_have_one() -> None:
    static = SavedOp("ones", "Cast", calls=3)
    assert list(query.untimed(trace(CONV, HOSTED, static, static._replace(op="Copy")))) == [
        "6 calls have no time and are left out of sums; the first is of Cast"
    ]
    assert list(query.untimed(trace(CONV, HOSTED))) == []
    assert list(query.untimed(trace(static))) == []  # a profile without times


def test_rates_are_a_second_and_infinite_where_no_time_passed() -> None:
    (line,) = answer(trace(CONV), Question())
    assert (line.flops, line.bandwidth) == (5e9, 1.25e8)
    (line,) = answer(trace(CONV._replace(device_ns=0)), Question())
    assert line.flops == float("inf")
    (line,) = answer(trace(CONV._replace(device_ns=0, memory=0, computation=None)), Question())
    assert (line.flops, line.bandwidth) == (None, None)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ({"name": re.compile("a")}, ["cast_a"]),
        ({"name": re.compile("^co")}, ["conv1", "copy"]),
        ({"types": ("Cast", "Conv2D")}, ["conv1", "cast_a"]),
        ({"types": ("Nothing",)}, []),
        ({"input_dtype": "float32"}, ["conv1"]),
        ({"input_dtype": "bfloat16"}, ["cast_a"]),
        ({"least_ns": 150}, ["conv1", "cast_a"]),
        ({"most_ns": 150}, ["cast_a", "copy"]),
        ({"least_ns": 60, "most_ns": 700}, ["cast_a"]),
        ({"time": "kern"}, ["copy"]),
        ({"side": "host"}, ["alloc", "cast_a"]),
        ({"top": 1}, ["conv1"]),
        ({"top": -1}, ["conv1", "cast_a"]),
        ({"order_by": "memory", "ascending": True}, ["cast_a", "copy", "conv1"]),
        ({"order_by": "computation", "ascending": True}, ["conv1", "cast_a", "copy"]),
        ({"order_by": "computation"}, ["conv1", "cast_a", "copy"]),
        ({"order_by": "id", "ascending": True}, ["conv1", "copy", "cast_a"]),
        ({"order_by": "name"}, ["copy", "conv1", "cast_a"]),
        ({"order_by": "calls"}, ["cast_a", "conv1", "copy"]),
    ],
)
def test_each_option_selects_or_orders(question: dict[str, Any], names: list[str]) -> None:
    assert asked(CONV, CAST, COPY, HOSTED, **question) == names


def test_ids_are_ordered_as_numbers_before_other_ids_and_ops_without_an_id_come_last() -> None:
    ids = ("10", "2", "a1", "", "9" * 25, "10")
    ops = [SavedOp(f"op {at} {each[:3]}", "Add", each, device_ns=1) for at, each in enumerate(ids)]
    assert asked(*ops, order_by="id", ascending=True) == [
        *("op 1 2", "op 0 10", "op 5 10"),
        *("op 4 999", "op 2 a1", "op 3 "),
    ]
    assert asked(*ops, order_by="id")[-2:] == ["op 1 2", "op 3 "]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("sign", ["", "+"])
def test_every_column_orders_even_where_it_is_not_known(column: str, sign: str) -> None:
    order_by, ascending = ordering(sign + column)
    assert len(asked(CONV, CAST, COPY, order_by=order_by, ascending=ascending)) == 3


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'bandwith' is no column: did you mean 'bandwidth'\? Known: time, "):
        ordering("bandwith")


def test_a_profile_without_times_keeps_its_ops() -> None:
    static = CONV._replace(device_ns=None)
    (line,) = answer(trace(static), Question())
    assert (line.calls, line.time_ns, line.share) == (1, None, None)


TWICE = SavedOp("b", "Conv2D", calls=4, device_ns=400, least_ns=50, most_ns=200, memory=40)


@pytest.mark.parametrize(
    ("how", "time", "memory", "computation"),
    [("sum", 1200, 140, 4000), ("max", 800, 100, 4000), ("min", 50, 10, 4000), ("mean", 240, 28, 800)],
)
def test_an_aggregate_is_over_calls(how: Any, time: float, memory: float, computation: float) -> None:
    (line,) = answer(trace(CONV, TWICE), Question(aggregate_by="type", aggregate=how))
    assert (line.name, line.type, line.calls) == (None, "Conv2D", 5)
    assert (line.time_ns, line.memory, line.computation) == (time, memory, computation)
    assert line.flops == computation * 1e9 / time


def test_an_extreme_is_unknown_where_only_a_sum_is_known() -> None:
    only_sum = TWICE._replace(least_ns=None)
    (line,) = answer(trace(CONV, only_sum), Question(aggregate_by="all", aggregate="min"))
    assert (line.type, line.time_ns) == ("all", None)


def test_types_of_one_canonical_op_aggregate_by_op() -> None:
    mm = SavedOp("x", "aten::mm", device_ns=1)
    addmm = SavedOp("y", "aten::addmm", device_ns=2)
    (line,) = answer(trace(mm, addmm), Question(aggregate_by="op"))
    assert (line.op, line.type, line.calls) == ("MatMul", None, 2)
    assert len(answer(trace(mm, addmm), Question(aggregate_by="type"))) == 2


def test_calls_of_a_canonical_op_are_those_that_count_and_of_a_type_all() -> None:
    linear = SavedOp("l", "aten::linear", calls=2, device_ns=1, op="MatMul", counted=0)
    addmm = SavedOp("a", "aten::addmm", calls=2, device_ns=9)
    (line,) = answer(trace(linear, addmm), Question(aggregate_by="op"))
    assert (line.op, line.calls, line.time_ns) == ("MatMul", 2, 10)
    (line,) = answer(trace(linear), Question(aggregate_by="type"))
    assert line.calls == 2


def test_a_canonical_op_that_is_asked_for_counts_its_calls_whatever_they_are_aggregated_by() -> None:
    to = SavedOp("to", "aten::to", calls=3, device_ns=1, op="Cast", counted=0)
    copy = SavedOp("copy_", "aten::copy_", calls=3, device_ns=9, op="Cast")
    for by in ("", "type", "op", "all"):
        lines = answer(trace(to, copy), Question(types=("Cast",), aggregate_by=by))  # type: ignore[arg-type]
        assert (sum(line.calls for line in lines), sum(line.time_ns or 0 for line in lines)) == (3, 10)
    assert [line.calls for line in answer(trace(to, copy), Question(types=("aten::to",)))] == [3]


TWO_CALLS = SavedOp(
    "conv2d", "aten::conv2d", calls=2, device_ns=0, host_ns=6, least_ns=0, most_ns=0, host_least_ns=1, host_most_ns=5,
    op="Conv", counted=2, whole=Whole(90, 16, 30, 60, 4, 12),
)  # fmt: skip
PART = SavedOp(
    "cudnn", "aten::cudnn", calls=3, device_ns=90, host_ns=10, least_ns=10, most_ns=60, host_least_ns=2, host_most_ns=6,
    op="Conv", counted=0, whole=Whole(0, 0),
)  # fmt: skip
"""Of one of the calls, twice."""


@pytest.mark.parametrize("by", ["", "op", "all"])
def test_calls_of_an_op_have_the_time_of_their_parts_and_parts_are_no_rows(by: Any) -> None:
    for side, time in (("device", 90), ("host", 16)):
        (line,) = answer(trace(TWO_CALLS, PART), Question(types=("Conv",), aggregate_by=by, side=side))  # type: ignore[arg-type]
        assert (line.calls, line.time_ns) == (2, time)
    assert [line.calls for line in query.selection(trace(TWO_CALLS, PART), Question(types=("Conv",)))] == [2]


@pytest.mark.parametrize(
    ("side", "how", "by_op", "by_type"),
    [
        ("device", "min", 30, [10, 0]),
        ("device", "max", 60, [60, 0]),
        ("device", "mean", 45, [30, 0]),
        ("host", "min", 4, [2, 1]),
        ("host", "max", 12, [6, 5]),
        ("host", "mean", 8, [10 / 3, 3]),
    ],
)
@pytest.mark.parametrize("steps", [("",), ("1", "2")])
def test_the_shortest_and_the_longest_are_calls_of_what_is_asked_for(
    side: Any, how: Any, by_op: float, by_type: list[float], steps: tuple[str, ...]
) -> None:
    # Of two steps the same again.
    records = [record._replace(step=step) for step in range(len(steps)) for record in (TWO_CALLS, PART)]
    profile = trace(*records, steps=steps)
    (line,) = answer(profile, Question(side=side, aggregate=how, aggregate_by="op"))
    assert line.time_ns == by_op
    lines = answer(profile, Question(side=side, aggregate=how, aggregate_by="type"))
    assert sorted((line.time_ns for line in lines), reverse=True) == sorted(by_type, reverse=True)


def test_a_call_with_parts_in_one_of_two_steps_has_their_time_in_the_sum() -> None:
    plain = TWO_CALLS._replace(step=1, device_ns=20, whole=None)
    profile = trace(TWO_CALLS, PART, plain, steps=("1", "2"))
    for by in ("", "op"):
        (line,) = answer(profile, Question(types=("Conv",), aggregate_by=by))  # type: ignore[arg-type]
        assert (line.calls, line.time_ns) == (4, 110)


@pytest.mark.parametrize(
    ("by", "places"), [("place", ["cube", "vector"]), ("op", [None, None]), ("", ["cube", "vector"])]
)
def test_a_row_has_the_place_of_its_op_or_of_all_its_ops_if_they_are_aggregated_by_place(
    by: Any, places: list[str | None]
) -> None:
    lines = answer(trace(CONV._replace(place="cube"), CAST._replace(place="vector")), Question(aggregate_by=by))
    assert [line.place for line in lines] == places


def test_who_asks_for_a_name_gets_every_event_of_it() -> None:
    for by in ("", "op"):
        (line,) = answer(
            trace(TWO_CALLS, PART),
            Question(types=("Conv",), name=re.compile("cudnn"), aggregate_by=by),  # type: ignore[arg-type]
        )
        assert (line.calls, line.time_ns) == (3, 90)


def test_what_no_call_of_an_op_is_counts_every_event() -> None:
    launch = SavedOp("cudaLaunchKernel", "cudaLaunchKernel", calls=7, host_ns=70, counted=0)
    (line,) = answer(trace(launch), Question(side="host", aggregate_by="op"))
    assert (line.calls, line.time_ns) == (7, 70)


def test_the_mean_of_no_calls_is_unknown() -> None:
    part = SavedOp("l", "aten::linear", calls=2, device_ns=1, op="MatMul", counted=0)
    whole = SavedOp("a", "aten::addmm", calls=2, device_ns=9)
    for how in ("mean", "max", "min"):
        lines = answer(trace(part, whole), Question(types=("MatMul",), aggregate_by="type", aggregate=how))  # type: ignore[arg-type]
        assert [line.time_ns for line in lines if not line.calls] == [None]


def test_what_is_selected_is_summed_and_nothing_is_said_where_nothing_is_filtered() -> None:
    assert query.selection(trace(CONV, CAST), Question(top=1, order_by="name", aggregate_by="type")) == []
    (line,) = query.selection(trace(CONV, CAST, COPY), Question(least_ns=150, top=1))
    assert (line.calls, line.time_ns, line.share) == (3, 950, 0.95)


def test_an_aggregate_of_all_keeps_communication_beside_it() -> None:
    reduce = SavedOp("hcom_allReduce_", "hcom_allReduce_", calls=2, device_ns=5000)
    lines = answer(trace(reduce, CONV, COPY), Question(aggregate_by="all"))
    assert [(line.type, line.calls, line.time_ns, line.share) for line in lines] == [
        ("all", 2, 850, 1),
        ("communication", 2, 5000, None),
    ]


def test_bounds_of_time_hold_before_ops_are_aggregated() -> None:
    (line,) = answer(trace(CONV, TWICE), Question(aggregate_by="type", most_ns=500))
    assert line.time_ns == 400


def test_steps_are_joined_unless_some_are_chosen() -> None:
    profile = trace(CONV, CONV._replace(step=1, device_ns=700), CAST._replace(step=2), steps=("3", "4", "5"))
    (conv, cast) = answer(profile, Question())
    assert (conv.calls, conv.time_ns, conv.computation, cast.calls) == (2, 1500, 8000, 2)
    for text in ("4", "4,4", "4-4"):
        (conv,) = answer(in_steps(profile, text), Question())
        assert conv.time_ns == 700
    assert len(answer(in_steps(profile, "3,5"), Question())) == len(answer(in_steps(profile, "3-5"), Question())) == 2


@pytest.mark.parametrize("text", ["6", "2-9", "3-9", "1-99", "x", "", "3,7", "9" * 5000, "-", "4-"])
def test_a_step_that_is_not_there_is_an_error_with_those_that_are(text: str) -> None:
    with pytest.raises(UsageError, match="Its steps: 3, 4, 5"):
        in_steps(trace(CONV, steps=("3", "4", "5")), text)


def test_a_range_of_steps_that_runs_backwards_is_an_error_with_the_range_that_is_meant() -> None:
    with pytest.raises(UsageError, match="the range 5-3 is empty; write 3-5"):
        in_steps(trace(CONV, steps=("3", "4", "5")), "5-3")


def test_a_copy_that_the_device_made_is_one_copy() -> None:
    wrapper = SavedOp("to", "aten::to", calls=3, host_ns=9, device_ns=0, op="Copy", counted=0, whole=Whole(0, 0))
    copy = SavedOp("copy_", "aten::copy_", calls=3, host_ns=6, device_ns=7, op="Copy", counted=1, whole=Whole(7, 15))
    memcpy = SavedOp("Memcpy HtoD", "MemcpyHtoD", calls=2, device_ns=40, counted=2)
    for types in ((), ("Copy", "MemcpyHtoD")):
        copies = query.copy_time(trace(wrapper, copy, memcpy), Question(types=types))
        assert (copies.calls, copies.total_ns) == (3, 47)


def test_copies_are_timed_among_the_selected() -> None:
    copies = query.copy_time(trace(CONV, CAST, COPY), Question())
    assert (copies.calls, copies.total_ns, copies.launch_ns) == (1, 50, 20)
    assert query.copy_time(trace(CONV), Question()).total_ns is None


NS = st.one_of(st.none(), st.integers(0, 10**12))
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["Cast", "Conv"]), st.integers(0, 2), NS).map(
        lambda values: SavedOp(values[0], values[1], step=values[2], device_ns=values[3])
    ),
    max_size=12,
)


@given(RECORDS)
def test_joining_steps_loses_and_invents_nothing(records: list[SavedOp]) -> None:
    profile = trace(*records, steps=("1", "2", "3"))
    timed = [record for record in records if record.device_ns is not None]
    lines = answer(profile, Question())
    assert sum(line.time_ns or 0 for line in lines) == sum(record.device_ns or 0 for record in timed)
    per_step = [answer(in_steps(profile, label), Question()) for label in profile.steps]
    if len(timed) == len(records):
        assert (
            sum(line.calls for line in lines) == sum(line.calls for step in per_step for line in step) == len(records)
        )


@given(RECORDS, st.sampled_from(list(COLUMNS)), st.booleans())
def test_ordering_only_orders(records: list[SavedOp], column: str, ascending: bool) -> None:
    def names(lines: list[Line]) -> list[str]:
        return sorted(str((line.name, line.type, line.calls, line.time_ns)) for line in lines)

    profile = trace(*records)
    assert names(answer(profile, Question(order_by=column, ascending=ascending))) == names(answer(profile, Question()))


FILTERS: dict[str, list[Any]] = {
    "types": [(), ("Conv",), ("aten::cudnn",), ("Conv", "aten::cudnn"), ("Cast", "Conv2D")],
    "name": [None, re.compile("c"), re.compile("cudnn")],
    "least_ns": [None, 10],
    "most_ns": [None, 100],
    "input_dtype": ["", "float32"],
}


@pytest.mark.parametrize("side", ["device", "host"])
@pytest.mark.parametrize("by", ["", "type", "op", "all"])
def test_rows_add_up_to_what_is_said_to_be_selected_whatever_is_asked(side: Any, by: Any) -> None:
    profile = trace(TWO_CALLS, PART, CONV, CAST, COPY, HOSTED, CONV._replace(step=1), steps=("1", "2"))
    for values in product(*FILTERS.values()):
        question = Question(side, aggregate_by=by, **dict(zip(FILTERS, values)))
        lines = answer(profile, question)
        assert all(line.calls for line in lines)
        if any(values):
            selected = query.selection(profile, question)
            assert sum(line.time_ns or 0 for line in lines) == sum(line.time_ns or 0 for line in selected)
            assert sum(line.calls for line in lines) == sum(line.calls for line in selected)


@pytest.mark.parametrize(
    ("untold", "hidden"),
    [
        ((), set()),
        (("Exp",), {"Exp"}),
        # A device's own events are told apart, and a profile that has the name tells it.
        (("*",), {"Exp", "aten::exp"}),
        (("*", "Cast"), {"Exp", "aten::exp", "Cast"}),
    ],
)
def test_an_op_may_hide_behind_another_name_unless_the_profile_tells_it(
    untold: tuple[str, ...], hidden: set[str]
) -> None:
    saved = replace(trace(CONV, CAST), untold=untold)
    asked = ("Exp", "aten::exp", "Cast", "Conv2D", "Conv", "MemcpyHtoD", "Memset", "Synchronize", "my::op")
    assert {name for name in asked if query.is_untold(saved, name)} == hidden
    assert [name for name in asked if query.is_present(saved, name)] == ["Cast", "Conv2D", "Conv"]


LAUNCHED = replace(
    trace(SavedOp("aten::mm", "aten::mm", op="MatMul", device_ns=70), SavedOp("aten::to", "aten::to", op="Cast")),
    kernels=(
        SavedKernel("gemm", "aten::mm", step=0, calls=2, device_ns=30),
        SavedKernel("copy", "aten::to", step=0, calls=1, device_ns=40),
        SavedKernel("gemm", "aten::mm", step=1, calls=3, device_ns=35),
        SavedKernel("gemm", "unknown", step=1, calls=1, device_ns=5),
    ),
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [("gemm", "aten::mm", 5, 65), ("copy", "aten::to", 1, 40), ("gemm", "unknown", 1, 5)]),
        ({"name": re.compile("^co")}, [("copy", "aten::to", 1, 40)]),
        ({"types": ["MatMul"]}, [("gemm", "aten::mm", 5, 65)]),
        ({"types": ["aten::to", "unknown"]}, [("copy", "aten::to", 1, 40), ("gemm", "unknown", 1, 5)]),
        ({"types": ["MatMul"], "name": re.compile("copy")}, []),
    ],
)
def test_kernels_are_joined_over_steps_the_most_expensive_first(asked: Any, found: list[object]) -> None:
    kernels = query.kernels(LAUNCHED, **asked)
    assert [(each.name, each.launched_by, each.calls, each.device_ns) for each in kernels] == found


def test_ops_that_launch_kernels_come_by_their_cost_and_under_their_canonical_name() -> None:
    assert query.launching(LAUNCHED) == ["MatMul", "Cast", "unknown"]


def test_a_profile_without_kernels_has_no_ops_that_launch_some() -> None:
    assert query.launching(trace(SavedOp("a", "MatMul"))) == []
