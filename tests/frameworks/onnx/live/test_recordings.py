"""ONNX Runtime's profiles as events of a log: files made by hand, for what the real ones seldom have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.onnx.live.recordings import Recording, fill
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.events.event_log import EventLog
from pytest_opprof.profile.op_profile import OpProfile

CPU = "CPUExecutionProvider"
FLOAT = [{"float": [4]}]


def event(name: str, ts: int, dur: int, cat: str = "Session", tid: int = 1, **arguments: Any) -> dict[str, Any]:
    return {"cat": cat, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "ph": "X", "name": name, "args": arguments}


def node(op: str, ts: int, dur: int, name: str = "n", tid: int = 1, provider: str = CPU) -> dict[str, Any]:
    sizes = {"activation_size": "16", "parameter_size": "0", "output_size": "16"}
    tensors = {"input_type_shape": FLOAT, "output_type_shape": FLOAT}
    return event(f"{name}_kernel_time", ts, dur, "Node", tid, op_name=op, provider=provider, **tensors, **sizes)


def run(ts: int, dur: int) -> dict[str, Any]:
    return event("model_run", ts, dur)


def profile(*events: dict[str, Any], marks: tuple[int, ...] = (0,), begin_ns: int = 1) -> OpProfile:
    log = EventLog(Environment((("onnxruntime", "1"),)))
    for _ in marks:
        log.mark()
    fill(log, [Recording(json.dumps(events).encode(), "it", begin_ns)], marks)
    return log.freeze()


def calls(found: OpProfile) -> dict[str, int]:
    return {stats.op: sum(stats.calls) for stats in found.ops}


def test_nodes_before_the_first_run_are_those_that_load_the_model() -> None:
    assert calls(profile(node("Sin", 5, 1), run(10, 9), node("Add", 10, 2), node("Add", 13, 2))) == {"Add": 2}


def test_without_a_run_there_are_no_nodes() -> None:
    assert calls(profile(node("Sin", 5, 1))) == {}


def test_what_is_no_node_is_left_out() -> None:
    fence = {**node("Add", 10, 0), "name": "n_fence_before"}
    execute = event("SequentialExecutor::Execute", 10, 3)
    assert calls(profile(run(10, 9), execute, fence, node("Add", 10, 2))) == {"Add": 1}


def test_a_loop_has_the_time_that_its_nodes_leave() -> None:
    """Times are cut to whole us: the last node seems to end after the loop."""
    found = profile(
        run(0, 99),
        node("Cast", 10, 2),
        node("Loop", 10, 20),
        node("Add", 15, 10),
        node("Cast", 28, 3),
        node("Mul", 30, 5),
    )
    times = {stats.op: sum(stats.device_ns or ()) for stats in found.ops}
    assert times == {"Loop": 5_000, "Cast": 5_000, "Add": 10_000, "Mul": 5_000}


def test_a_copy_inside_a_loop_counts() -> None:
    found = profile(run(0, 99), node("Loop", 10, 20), node("Transpose", 12, 2), node("Identity", 15, 0))
    assert calls(found) == {"Loop": 1, "Transpose": 1, "Identity": 1}


def test_nodes_of_one_microsecond_are_not_inside_each_other() -> None:
    found = profile(run(0, 99), node("MatMul", 10, 3), node("Add", 10, 0), node("Add", 10, 0))
    assert calls(found) == {"MatMul": 1, "Add": 2}


def test_nodes_of_two_threads_are_not_inside_each_other() -> None:
    found = profile(run(0, 99), node("Loop", 10, 20), node("Add", 12, 5, tid=2))
    assert sum(found.stats("Loop").device_ns or ()) == 20_000


def test_a_node_belongs_to_the_interval_in_which_it_begins() -> None:
    found = profile(run(0, 99), *(node("Add", ts, 1) for ts in (1, 5, 6, 7)), marks=(5_000, 7_000), begin_ns=0)
    assert found.stats("Add").calls == (0, 2, 1)


def test_an_inserted_cast_has_a_name_of_its_own() -> None:
    found = profile(run(0, 9), node("Cast", 1, 1, "InsertedPrecisionFreeCast_x"), node("Cast", 2, 1, "mine"))
    assert (found.stats("Cast").calls, found.stats("InsertedPrecisionFreeCast").calls) == ((0, 2), (0, 1))


def test_a_node_that_only_launches_kernels_has_no_time() -> None:
    """Made by hand after ONNX Runtime's source: nobody here has such a provider."""
    log = EventLog(Environment((("onnxruntime", "1"),)))
    log.mark()
    content = json.dumps([run(0, 9), node("Add", 1, 1, provider="CUDAExecutionProvider")]).encode()
    assert fill(log, [Recording(content, "it", 1)], [0]) == {"CUDAExecutionProvider"}
    assert log.freeze().stats("Add").device_ns is None


def test_a_run_that_was_profiled_by_itself_is_in_the_interval_where_it_began() -> None:
    log = EventLog(Environment((("onnxruntime", "1"),)))
    log.mark()
    log.mark()
    fill(log, [Recording(json.dumps([run(0, 9), node("Add", 1, 1)]).encode(), "it", None, 2)], [0, 5])
    assert log.freeze().stats("Add").calls == (0, 0, 1)


@pytest.mark.parametrize("content", [b"", b"[", b'[{"name": "we"ird_kernel_time"}]', b"{}", b'[{"name": "\xff"}]'])
def test_a_file_that_is_broken_is_an_error(content: bytes) -> None:
    with pytest.raises(BackendError, match="ONNX Runtime's profile of it cannot be read"):
        fill(EventLog(Environment(())), [Recording(content, "it", 1)], [])
