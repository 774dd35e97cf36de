from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_key import CallSite
from pytest_opprof.profile.saved import OUTSIDE, SavedOp, SavedProfile
from pytest_opprof.questions import query
from pytest_opprof.questions.question import Question
from pytest_opprof.sites.chains import Frame

PROFILE = SavedProfile(
    "made",
    Environment((("made", ""),), "cpu", ""),
    (
        SavedOp("l/a", "aten::addmm", calls=3, device_ns=90.4, memory=10, computation=7),
        SavedOp("l", "aten::linear", calls=3, device_ns=9, op="MatMul", counted=0),
        SavedOp("l/a", "aten::addmm", step=1, calls=2, device_ns=60),
        SavedOp("c", "Cast", step=1, calls=4, device_ns=None, input_dtypes=("FLOAT",), output_dtypes=("DT_BF16",)),
    ),
    steps=("1", "2"),
)


def test_budgets_see_the_counts_of_a_live_measurement() -> None:
    profile = PROFILE.profile()
    assert [(stats.op, stats.calls) for stats in profile.ops] == [("MatMul", (3, 2)), ("Cast", (0, 4))]
    assert profile.stats("MatMul").device_ns == (99, 60)
    assert profile.stats("aten::linear").calls == (3, 0)
    assert profile.stats("aten::*").calls == (6, 2)
    assert profile.stats("Cast").device_ns is None
    with pytest.raises(UsageError, match="did you mean 'Cast'"):
        profile.stats("Csat")


def test_what_the_source_does_not_know_stays_unknown() -> None:
    profile = PROFILE.profile()
    assert profile.host_ns == (-1, -1)
    assert profile.memory is None
    assert profile.stats("Cast").bytes is None
    assert profile.stats("MatMul").flops is None  # those of its calls in the second step are not known


def test_ops_can_be_told_apart_by_name_and_by_shape() -> None:
    assert [stats.op for stats in PROFILE.profile(by="name").ops] == ["l/a", "c", "l"]
    shaped = SavedOp("x", "MatMul", input_shapes=((32, 64), (64,)), input_dtypes=("f32", "f32"), output_dtypes=("f32",))
    layouts = SavedOp("x", "TransData", input_formats=("NCHW",), output_formats=("NC1HWC0",))
    trace = SavedProfile("made", PROFILE.environment, (PROFILE.records[3]._replace(step=0), shaped, layouts))
    assert [stats.op for stats in trace.profile(by="shape").ops] == [
        "Cast FLOAT->DT_BF16",
        "MatMul f32 [32,64],[64]",
        "TransData NCHW->NC1HWC0",
    ]


def test_however_ops_are_told_apart_the_total_is_the_same() -> None:
    for by in ("type", "name", "shape"):
        profile = PROFILE.profile(by=by)  # type: ignore[arg-type]
        assert profile.total.device_ns == (99, 60)
        assert sum((stats.device_ns or (0, 0))[0] for stats in profile.ops) == 99
    parts = {stats.op: stats.calls for stats in PROFILE.profile(by="shape").ops}
    assert (parts["MatMul"], parts["MatMul (parts)"]) == ((3, 2), (3, 0))


def test_aliases_name_the_users_own_ops() -> None:
    profile = PROFILE.profile({"aten::addmm": "MyOp"})
    assert profile.stats("MyOp", {"aten::addmm": "MyOp"}).calls == (3, 2)


def test_communication_has_calls_but_no_time_and_what_is_outside_of_steps_is_left_out() -> None:
    reduce = SavedOp("r", "hcom_allReduce_", calls=2, device_ns=900, place="COMMUNICATION")
    mm = SavedOp("m", "MatMulV3", calls=3, device_ns=5)
    trace = SavedProfile("made", PROFILE.environment, (mm, reduce, mm._replace(step=1)), ("1", OUTSIDE))
    profile = trace.profile()
    assert profile.steps == 1
    assert profile.stats("MatMul").calls == (3,)
    assert (profile.stats("hcom_allReduce_").calls, profile.stats("hcom_allReduce_").device_ns) == ((2,), None)
    assert profile.total.device_ns == (5,)
    assert (query.total(trace, "device"), query.communication(trace)) == (10, 900)
    lines = query.answer(trace, Question())
    assert [(line.type, line.share) for line in lines] == [("MatMulV3", 1), ("hcom_allReduce_", None)]
    longer = reduce._replace(type="hcom_broadcast_", device_ns=1000)
    behind = query.answer(SavedProfile("made", PROFILE.environment, (reduce, longer, mm)), Question())
    assert [line.time_ns for line in behind] == [5, 1000, 900]
    by_type = query.answer(trace, Question(aggregate_by="type"))
    assert [(line.type, line.share) for line in by_type] == [("MatMulV3", 1), ("hcom_allReduce_", None)]


def test_a_live_window_that_is_saved_has_the_same_ops() -> None:
    log = EventLog(PROFILE.environment)
    linear, addmm, cast, untimed = log.name("aten::linear"), log.name("aten::addmm"), log.name("Cast"), log.name("Relu")
    for _ in range(3):
        outer = log.add(linear, 900)
        log.add(addmm, 700, outer, nbytes=64)
        log.add(untimed, -1, outer)
        log.add(cast, 50)
        log.mark()
    log.add(cast, 60)
    live = replace(log.freeze(), host_ns=(1000, 1001, 1002, 1003))
    saved = SavedProfile.of(live, "by hand")
    again = saved.profile()
    assert again.ops == live.ops
    assert again.total == live.total
    assert again.host_ns == live.host_ns
    assert again.stats("aten::addmm") == live.stats("aten::addmm")
    assert saved.steps == ("1", "2", "3", "4")
    by_op = query.answer(saved, Question(aggregate_by="op"))
    assert {line.op: (line.calls, line.time_ns) for line in by_op} == {
        stats.op: (sum(stats.calls), stats.device_ns and sum(stats.device_ns)) for stats in live.ops
    }


def test_a_live_window_keeps_its_lines() -> None:
    site = CallSite((Frame("/a/nets.py", "f", 3),))
    log = EventLog(PROFILE.environment)
    log.add(log.name("Cast"), 50)
    live = log.freeze()
    live = replace(live, keys=tuple(key._replace(site=site) for key in live.keys))
    saved = SavedProfile.of(live, "by hand")
    assert [record.site for record in saved.records] == [site]
    assert saved.profile().sites("Cast") == {(site, ""): 1}
    assert [stats.op for stats in saved.profile(by="site").ops] == ["Cast /a/nets.py:3 in f"]
