"""Lines that ask for what ONNX Runtime runs: those that run sessions, and those of the model where nodes have some."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.onnx.live.asked import Asked, Call
from pytest_opprof.frameworks.onnx.live.backend import backend
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains, Frame

from .. import onnx_models as models
from ..onnx_models import BATCH, CPU
from .test_backend import EXPORTED, WAYS, of_two_threads

SITE, OTHER, THREAD, HELPER = 3, 4, 11, 12


@pytest.fixture
def ort() -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    return onnxruntime


def measured(body: Callable[[], object]) -> OpProfile:
    with backend().collect(Options(chains=Chains())) as log:
        log.mark()
        body()
    return log.freeze()


def lines(profile: OpProfile, op: str, frame: int = 0) -> Counter[str]:
    """Return the calls by function, and by the text of the line where it is one of this file."""
    found = Counter[str]()
    source = Path(__file__).read_text().splitlines()
    for (site, _), calls in profile.sites(op).items():
        if site is None:
            found["unknown"] += calls
        elif site.frames:
            at = site.frames[frame]
            found[source[at.line - 1].strip() if at.file == __file__ else f"{at.function}:{at.line}"] += calls
    return found


@pytest.mark.onnxruntime
def test_a_node_comes_from_the_line_that_ran_its_session(ort: Any) -> None:
    session = ort.InferenceSession(models.half(), providers=CPU)

    def twice() -> None:
        session.run(None, {"x": BATCH})  # first
        for _ in range(3):
            session.run(None, {"x": BATCH})  # second

    found = measured(twice)
    each = found.stats("Cast").most_calls // 4
    first, second = (f'session.run(None, {{"x": BATCH}})  # {name}' for name in ("first", "second"))
    assert lines(found, "Cast") == {first: each, second: 3 * each}
    assert lines(found, "InsertedPrecisionFreeCast") == {first: 2, second: 6}
    assert lines(found, "Cast", frame=-1) == {"found = measured(twice)": 4 * each}


@pytest.mark.onnxruntime
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_run_a_session_has_its_line(ort: Any, way: str) -> None:
    session = ort.InferenceSession(models.mlp(), of_two_threads(ort), providers=CPU)
    found = measured(lambda: WAYS[way](ort, session))
    assert lines(found, "MatMul", frame=-1) == {"found = measured(lambda: WAYS[way](ort, session))": 2}
    (site,) = {site for site, _ in found.sites("MatMul")}
    assert site is not None
    assert site.frames[0].file.endswith("test_backend.py")


@pytest.mark.onnxruntime
def test_runs_of_several_threads_at_once_have_the_lines_of_their_own(ort: Any) -> None:
    session = ort.InferenceSession(models.half(), providers=CPU)

    def first() -> None:
        for _ in range(30):
            session.run(None, {"x": BATCH})  # of one

    def second() -> None:
        for _ in range(40):
            session.run(None, {"x": BATCH})  # of another

    def body() -> None:
        threads = [threading.Thread(target=each) for each in (first, second, first)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = lines(measured(body), "Erf")
    assert found == {f'session.run(None, {{"x": BATCH}})  # of {name}': n for name, n in (("one", 60), ("another", 40))}


@pytest.mark.onnxruntime
def test_threads_that_help_work_for_the_line_that_waits(ort: Any) -> None:
    options = ort.SessionOptions()
    options.execution_mode, options.inter_op_num_threads = ort.ExecutionMode.ORT_PARALLEL, 2
    session = ort.InferenceSession(models.loop(), options, providers=CPU)
    found = measured(lambda: session.run(None, {"x": BATCH}))
    assert lines(found, "Cast") == {'found = measured(lambda: session.run(None, {"x": BATCH}))': 14}


@pytest.mark.onnxruntime
@pytest.mark.parametrize("kept", ["path", "bytes"])
def test_a_node_that_knows_its_line_in_the_model_was_called_by_that_which_ran_the_session(ort: Any, kept: str) -> None:
    session = ort.InferenceSession(str(EXPORTED) if kept == "path" else EXPORTED.read_bytes(), providers=CPU)
    batch = {session.get_inputs()[0].name: models.weights(2, 5, 16)}
    found = measured(lambda: session.run(None, batch))
    assert lines(found, "Cast") == {"forward:13": 2}
    assert lines(found, "Cast", frame=1) == {"forward:23": 2}
    assert lines(found, "Cast", frame=2) == {"found = measured(lambda: session.run(None, batch))": 2}


@pytest.mark.onnxruntime
def test_a_session_that_the_program_profiles_tells_lines_as_well(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "mine")
    session = ort.InferenceSession(models.mlp(), options, providers=CPU)
    session.run(None, {"x": BATCH})

    def body() -> None:
        session.run(None, {"x": BATCH})  # inside
        session.end_profiling()

    assert lines(measured(body), "MatMul") == {'session.run(None, {"x": BATCH})  # inside': 2}


@pytest.mark.onnxruntime
@pytest.mark.processes
def test_a_failing_test_says_which_line_of_the_model_casts_and_which_ran_it(pytester: pytest.Pytester) -> None:
    import onnx

    network = pytester.makepyfile(network="def forward(x):\n    return x.half() @ weights\n")
    model = onnx.load_from_string(models.half())
    trace = f'File "{network}", line 2, in forward\n    return x.half() @ weights'
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    (pytester.path / "model.onnx").write_bytes(model.SerializeToString())
    pytester.makepyfile(
        """
        import numpy, onnxruntime, pytest

        onnxruntime.set_default_logger_severity(4)

        @pytest.mark.op_budget(Cast=1)
        def test_model(opprof):
            session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
            session.run(None, {"x": numpy.ones((4, 64), numpy.float32)})
        """
    )
    result = pytester.runpytest("--opprof")
    result.stdout.fnmatch_lines(
        [
            "where Cast comes from (4 calls):",
            "     3  test_*.py:* in test_model  `session.run(None, *)`  (*)",
            "     1  network.py:2 in forward  `return x.half() @ weights`  (float32->float16)",
        ]
    )


def call(site: int, begin: int, end: int, thread: int = THREAD) -> Call:
    return Call(site, thread, begin, end)


class Session:
    """Has what a session keeps of its model: nothing."""


def asked(*calls: Call) -> Asked:
    found = Asked(Session())
    found.calls += calls
    return found


def test_what_runs_at_a_time_belongs_to_the_call_that_runs_then() -> None:
    found = asked(call(SITE, 10, 20), call(OTHER, 20, 30))
    assert [found.caller(at, THREAD) for at in (9, 10, 19, 20, 29, 30)] == [None, SITE, SITE, OTHER, OTHER, None]


def test_a_thread_that_helps_two_lines_works_for_none_that_is_known() -> None:
    found = asked(call(SITE, 10, 20), call(OTHER, 15, 30, THREAD + 5))
    assert [found.caller(at, HELPER) for at in (12, 16, 25)] == [SITE, None, OTHER]
    assert [found.caller(16, thread) for thread in (THREAD, THREAD + 5)] == [SITE, OTHER]
    same = asked(call(SITE, 10, 20), call(SITE, 15, 30, THREAD + 5))
    assert same.caller(16, HELPER) == SITE


def test_a_node_without_a_line_of_its_own_has_that_of_its_session() -> None:
    chains = Chains()
    line = Frame("/project/test_a.py", "test_a", 3)
    caller = chains.of_lines([line])
    assert chains.frames(asked().site(chains, "node", caller)) == (line,)
    inner = Frame("/project/model.py", "forward", 9)
    assert chains.frames(chains.of_lines([inner], caller)) == (inner, line)
