"""What to do first about a saved profile."""

from __future__ import annotations

from typing import Any

from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.saved import SavedKernel, SavedOp, SavedProfile
from pytest_opprof.report.hints import Hint, hints
from pytest_opprof.timeline.breakdown import Breakdown
from pytest_opprof.timeline.ranges import RangeTimes


def whole(**times: int) -> Breakdown:
    parts = dict.fromkeys(
        ("computing_ns", "communication_ns", "copying_ns", "idle_ns", "overlapped_ns", "not_asked_ns"), 0
    )
    return Breakdown("device 0", "all", 1_000_000, **{**parts, "not_begun_ns": 0, "unexplained_ns": 0, **times})  # type: ignore[arg-type]


def found(*records: SavedOp, at: Breakdown | None = None, marked: Any = (), kernels: Any = None) -> list[Hint]:
    saved = SavedProfile(
        "made", Environment((("made", "1"),), "cpu", ""), records or (SavedOp("a", "Add", device_ns=500_000),),
        kernels=kernels,
    )  # fmt: skip
    return hints(saved, at, marked)


def test_communication_that_nothing_hides_is_a_hint_from_5_percent_of_the_step_on() -> None:
    (hint,) = found(at=whole(communication_ns=520_000, overlapped_ns=30_000))
    assert (hint.row, hint.name, hint.ns) == ("breakdown", "all", 520_000)
    assert hint.numbers == (
        "520 us of 1 ms (52%) is communication while the device computes nothing; another 30 us overlaps with computing"
    )
    assert found(at=whole(communication_ns=50_000)) == []


def test_a_device_that_is_idle_while_the_program_waits_for_data_is_a_hint() -> None:
    loader = RangeTimes("enumerate(DataLoader)#__next__", 6, 400_000, 9, 100_000, 0, 340_000)
    (hint,) = found(at=whole(idle_ns=360_000, not_asked_ns=360_000), marked=[loader])
    assert (hint.row, hint.name) == ("ranges", "enumerate(DataLoader)#__next__")
    assert "idle for 340 us of 1 ms (34%) while enumerate(DataLoader)#__next__ runs (6 calls, 400 us)" in hint.numbers
    # The rest of the idle time is a hint of its own only where it is large.
    more = found(at=whole(idle_ns=500_000, not_asked_ns=500_000), marked=[loader])
    assert [each.row for each in more] == ["ranges", "breakdown"]


def test_copies_of_pageable_memory_are_a_hint_and_of_pinned_memory_are_none() -> None:
    slow, fast = (f"Memcpy HtoD ({kind} -> Device)" for kind in ("Pageable", "Pinned"))
    kernels = (SavedKernel(slow, "a", 0, 16, 400_000), SavedKernel(fast, "a", 0, 16, 400_000))
    (hint,) = found(kernels=kernels)
    assert (hint.row, hint.name) == ("kernels", slow)
    assert hint.numbers == "16 copies of pageable memory take 400 us of 500 us (80%) of device time"


def test_short_kernels_are_a_hint_where_the_device_waits_for_launches() -> None:
    kernels = (SavedKernel("add", "a", 0, 900, 900 * 2_000), SavedKernel("gemm", "a", 0, 100, 100 * 90_000))
    late = whole(idle_ns=300_000, not_asked_ns=300_000)
    (hint,) = found(at=late, kernels=kernels)
    assert hint.advice.startswith("Launch fewer, larger kernels")
    assert hint.numbers.startswith("900 of 1000 kernels take less than 5 us each, and the device is idle for 300 us of")
    (hint,) = found(at=late, kernels=kernels[1:])
    assert (hint.advice.partition(":")[0], hint.row) == ("Launch earlier", "breakdown")
    assert found(at=whole(), kernels=kernels) == []


def cast(before: str, after: str, *shape: int, calls: int = 1) -> SavedOp:
    made = SavedOp("c", "Cast", calls=calls, input_shapes=(shape,), input_dtypes=(before,), output_dtypes=(after,))
    return made._replace(device_ns=20_000.0 * calls)


def test_casts_that_make_the_inputs_of_one_op_are_a_hint() -> None:
    conv = SavedOp("v", "Conv2D", device_ns=1e5, input_shapes=((4, 3), (8, 3)), input_dtypes=("bfloat16", "bfloat16"))
    norm = SavedOp("n", "Softmax", device_ns=1e5, input_shapes=((4, 8),), input_dtypes=("float32",))
    records = (
        cast("float32", "bfloat16", 4, 3, calls=3),
        cast("float32", "bfloat16", 8, 3),
        conv,
        cast("bfloat16", "float32", 4, 8),
        norm,
    )
    (hint,) = found(*records)
    assert (hint.advice, hint.row) == ("Keep the inputs of Conv in one dtype", "casts")
    assert hint.name == "Cast[float32->bfloat16]"
    assert hint.numbers == (
        "4 of 5 casts make inputs of Conv: Cast[float32->bfloat16]; they take 80 us of 300 us (27%) of device time"
    )
    # Autocast casts inside of the op, which the profile has first.
    assert [each.advice for each in found(conv, *records[:2])] == ["Keep the inputs of Conv in one dtype"]
    assert found(cast("float32", "float16", 9, 9, calls=9), conv) == []  # nobody next to it reads such a tensor
    # Without times it is a hint where more than half of the casts are for the op.
    (untimed,) = found(*(record._replace(device_ns=None) for record in records))
    assert untimed.numbers == "4 of 5 casts make inputs of Conv: Cast[float32->bfloat16]"
    assert found(*(record._replace(device_ns=None) for record in (*records, cast("int8", "int4", 1, calls=9)))) == []


def test_hints_are_in_the_order_of_their_cost() -> None:
    kernels = (SavedKernel("Memcpy DtoH (Device -> Pageable)", "a", 0, 1, 300_000),)
    both = found(at=whole(communication_ns=200_000), kernels=kernels)
    assert [each.ns for each in both] == [300_000, 200_000]
