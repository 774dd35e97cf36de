from __future__ import annotations

import numpy as np

from pytest_opprof.ops.signature import Signature
from pytest_opprof.profile.columns import ABSENT, Columns
from pytest_opprof.profile.events.assembly import Part, assemble, built, told_apart
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_key import OpKey

from ...conftest import ENVIRONMENT, profile_of


def columns(*keys: int, flops: int | None = None) -> Columns:
    ones = np.ones(len(keys), np.int64)
    computed = None if flops is None else ones * flops
    return Columns(np.array(keys, np.int32), ones.astype(np.int32) * 0, ones, ones, ones * 5, ones * ABSENT, computed)


def test_keys_that_are_alike_are_one_wherever_they_come_from() -> None:
    cast = OpKey("Cast", "aten::copy_", Signature(("float32",), ("float16",)))
    profile = built(
        ENVIRONMENT, [10], Part([cast, OpKey("Add", "Add"), cast], columns(0, 1, 2)), Part([cast], columns(0))
    )
    assert profile.keys == (cast, OpKey("Add", "Add"))
    assert profile.columns.key.tolist() == [0, 1, 0, 0]
    assert profile.stats("Cast").calls == (3,)


def test_flops_that_only_one_part_has_are_absent_in_the_other() -> None:
    key = OpKey("Add", "Add")
    both = built(ENVIRONMENT, [10], Part([key], columns(0, flops=7)), Part([key], columns(0)))
    assert both.columns.flops is not None
    assert both.columns.flops.tolist() == [7, ABSENT]


def test_an_event_has_the_op_of_its_owner_and_a_raw_name_and_dtypes_of_its_own() -> None:
    log = EventLog(ENVIRONMENT)
    linear = log.add(log.name("aten::linear"), 100)
    log.add(log.name("aten::copy_", ("float32", "float16")), 20, log.add(log.name("aten::addmm"), 70, linear))
    log.add(log.name("aten::relu"), 5, log.add(log.name("aten::t"), 5, linear))
    profile = log.freeze()
    keys = [profile.keys[key] for key in profile.columns.key.tolist()]
    assert [(key.op, key.raw, key.signature.input_dtypes, key.signature.output_dtypes) for key in keys] == [
        ("MatMul", "aten::linear", None, None),
        ("MatMul", "aten::addmm", None, None),
        ("Cast", "aten::copy_", ("float32",), ("float16",)),
        ("MatMul", "aten::t", None, None),
        ("MatMul", "aten::relu", None, None),
    ]


def test_a_name_that_ran_only_outside_of_the_window_stays_known() -> None:
    log = EventLog(ENVIRONMENT)
    log.add(log.name("my_kernel"), 5)
    log.mark()
    log.add(log.name("Add"), 5)
    profile = assemble([(log.freeze(), {1: 0})], [10])
    assert profile.stats("my_kernel").calls == (0,)


def test_live_ops_are_told_apart_by_their_dtypes_as_those_of_files_are() -> None:
    log = EventLog(ENVIRONMENT)
    for dtypes in (("float32", "float16"), ("float16", "float32"), ("float32", "float16")):
        log.add(log.name("aten::copy_", dtypes), 10)
    profile = told_apart(log.freeze(), "shape")
    assert {stats.op: stats.calls for stats in profile.ops} == {
        "Cast float32->float16": (2,),
        "Cast float16->float32": (1,),
    }


def test_a_profile_of_which_nothing_was_recorded_is_empty() -> None:
    assert profile_of([]).is_empty
    assert not profile_of([("Add", 1)]).is_empty


def test_lines_of_an_op_are_not_those_of_another_op_with_its_name_in_the_framework() -> None:
    """jumanji: 108 calls of the op ``reduce`` and 17 of ReduceSum, which XLA calls reduce, too."""
    keys = [OpKey("reduce", "reduce"), OpKey("ReduceSum", "reduce")]
    profile = built(ENVIRONMENT, [10], Part(keys, columns(0, 1, 1)))
    assert [(each.op, each.calls) for each in profile.ops] == [("ReduceSum", (2,)), ("reduce", (1,))]
    assert profile.sites("reduce", counted_only=True) == {(None, ""): 1}
    assert profile.sites("reduce") == {(None, ""): 3}  # a budget limits all events of that name
