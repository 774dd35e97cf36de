"""Which line asked for an op of PyTorch, on the real one: each op, against ground truth that no tracer tells."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.pytorch.live.backend import backend
from pytest_opprof.profile.events.assembly import assemble
from pytest_opprof.profile.op_profile import OpProfile
from pytest_opprof.sites.chains import Chains

from ....conftest import HAS_TORCH, remarks_of
from ....sites import truth

pytestmark = pytest.mark.torch
if not HAS_TORCH:
    if "OPPROF_REQUIRE_TORCH" in os.environ:
        pytest.fail("torch is not installed")
    pytest.skip("torch is not installed (pip install torch==2.13.0)", allow_module_level=True)

import torch  # noqa: E402

from . import torch_programs as programs  # noqa: E402

Ops = Counter[tuple[str, int, bool]]
"""How often an op of each raw name was asked for on a line of `torch_programs`, and whether by autograd."""
TRUTH = "truth: "
HERE = str(Path(programs.__file__))


# --- what is told


def profiled(body: Callable[[], object], chains: Chains | None = None, memory: bool = False) -> OpProfile:
    with backend().collect(Options(chains=chains, memory=memory)) as log:
        log.mark()
        body()
        log.mark()
    return assemble([(log.freeze(), {1: 0})], [1])


def told(profile: OpProfile) -> Ops:
    """Return every event of aten by the innermost line of `torch_programs`."""
    found = Ops()
    for key in profile.columns.key.tolist():
        _, raw, *_, site = profile.keys[key]
        if raw.startswith("aten::"):
            lines = [frame.line for frame in site.frames if frame.file == HERE] if site else []
            found[raw, lines[0] if lines else 0, bool(site and site.is_backward)] += 1
    return found


def line_of(text: str, function: Callable[..., object]) -> int:
    """Return the line of *function* that has this *text*."""
    begin = function.__code__.co_firstlineno
    lines = Path(HERE).read_text().splitlines()
    return next(number for number in range(begin, len(lines)) if text in lines[number - 1])


# --- ground truth


class Nodes:
    """On which line each node of autograd was made, by its sequence number: anomaly mode keeps tracebacks."""

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}

    def collect(self, roots: Any) -> None:
        """Look at the graphs that end in *roots*, tensors."""
        seen = set[Any]()
        todo = [root.grad_fn for root in (roots if isinstance(roots, list | tuple) else [roots])]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            todo += [following for following, _ in node.next_functions]
            origin = node
            while origin.metadata.get("parent_") is not None:  # a backward pass made it
                origin = origin.metadata["parent_"]
            text = "".join(origin.metadata.get("traceback_") or ())
            lines = [line for line in text.splitlines() if line.startswith(f'  File "{TRUTH}"')]
            if lines:
                self.lines[node._sequence_nr()] = int(lines[-1].split("line ")[1].split(",")[0])


@contextmanager
def on_line(line: int) -> Iterator[None]:
    """Say in the recording that what is inside is on *line*."""
    mark = torch._C._profiler._RecordFunctionFast(f"{TRUTH}{line}")
    mark.__enter__()
    try:
        yield
    finally:
        mark.__exit__(None, None, None)


@pytest.fixture(scope="module")
def rewritten() -> Any:
    return truth.rewritten(programs, on_line, TRUTH)


def true(body: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Ops:
    """Return what `told` should, of a *body* that is rewritten."""
    nodes, found = Nodes(), Ops()
    for name in ("backward", "grad"):
        original = getattr(torch.autograd, name)

        def watched(roots: Any, *rest: Any, original: Any = original, **how: Any) -> Any:
            nodes.collect(roots)
            return original(roots, *rest, **how)

        monkeypatch.setattr(torch.autograd, name, watched)
    session = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False), session:
        body()
    assert session.profiler
    stack = [(event, (0, False)) for event in session.profiler.kineto_results.experimental_event_tree()]
    while stack:
        event, at = stack.pop()
        if event.name.startswith(TRUTH):
            at = int(event.name[len(TRUTH) :]), False
        elif event.name.startswith("autograd::engine::evaluate_function"):
            line = nodes.lines.get(event.extra_fields.sequence_number)
            at = at if line is None else (line, True)
        elif event.name.startswith("aten::"):
            found[(event.name, *at)] += 1
        stack += [(child, at) for child in event.children]
    return found


def difference(told: Ops, true: Ops) -> dict[Any, tuple[int, int]]:
    return {key: (told[key], true[key]) for key in sorted({*told, *true}) if told[key] != true[key]}


# --- the tests


def test_every_op_of_a_training_step_is_on_its_line(rewritten: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = programs.Training(), rewritten.Training()
    for training in (ours, theirs):
        training.step()
    found = told(profiled(ours.step, Chains()))
    assert difference(found, true(theirs.step, monkeypatch)) == {}
    assert sum(found.values()) > 500
    assert sum(calls for (_, _, is_backward), calls in found.items() if is_backward) > 200


@pytest.mark.parametrize("name", [case.__name__ for case in programs.CASES])
def test_an_op_is_on_its_line_also_where(name: str, rewritten: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (programs, rewritten):
        getattr(module, name)(*programs.inputs())
    given, again = programs.inputs(), programs.inputs()
    found = told(profiled(lambda: getattr(programs, name)(*given), Chains()))
    assert difference(found, true(lambda: getattr(rewritten, name)(*again), monkeypatch)) == {}


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_recomputed_ops_of_a_checkpoint_are_on_the_lines_that_compute_them(is_reentrant: bool) -> None:
    given = programs.inputs()
    found, again = (told(profiled(lambda: programs.checkpointed(*given, is_reentrant), Chains())) for _ in range(2))
    line = line_of("h.float().tanh()", programs.layer)
    # Forward, and once more in the backward pass, which may leave the last op out; then the backward of both casts.
    assert found["aten::tanh", line, False] == 2
    assert found["aten::tanh_backward", line, True] == 1
    casts = {key: calls for key, calls in found.items() if key[0] == "aten::_to_copy"}
    assert casts == {("aten::_to_copy", line, False): 3 + is_reentrant, ("aten::_to_copy", line, True): 2}
    # Nodes without a number add gradients up: that of w inside of the node that computes again, if there is one.
    added = {key: calls for key, calls in (again - found).items() if key[0] == "aten::add_"}
    called, backward = (line_of(text, programs.checkpointed) for text in ("checkpoint(", ".backward()"))
    apart = {("aten::add_", called, True): 1, ("aten::add_", backward, False): 1}
    assert added == (apart if is_reentrant else {("aten::add_", backward, False): 2})


@pytest.mark.parametrize("what", ["training", *(case.__name__ for case in programs.CASES), "checkpointed"])
def test_the_sites_of_an_op_are_all_its_calls_and_nothing_else_changes(what: str) -> None:
    body = body_of(what)
    body()
    without, profile = (profiled(body_of(what), chains, memory=True) for chains in (None, Chains()))
    assert facts_of(profile) == facts_of(without)
    assert not without.has_sites
    for stats in profile.ops:
        assert sum(profile.sites(stats.op, counted_only=True).values()) == stats.most_calls
        assert sum(profile.sites(stats.op).values()) == profile.stats(stats.op).most_calls
        assert all(site and site.frames for site, _ in profile.sites(stats.op))
        work = profile.work_by_site(stats.op, counted_only=True)
        assert {site for site, _ in profile.sites(stats.op, counted_only=True)} == work.keys()
        for of_step, by_site in zip((stats.bytes, stats.flops), zip(*work.values())):
            assert of_step is None or (sum(each or 0 for each in by_site),) == of_step
    assert sum(profile.sites("aten::*").values()) == profile.stats("aten::*").most_calls
    for fact, by_step in (("grad_nodes", profile.counted("grad_nodes")), ("allocations", profile.allocations)):
        assert by_step
        assert sum(profile.sites(fact).values()) == by_step[0]


def body_of(what: str) -> Callable[[], object]:
    if what == "training":
        training = programs.Training()
        training.step()
        return training.step
    rest = (True,) if what == "checkpointed" else ()
    given = programs.inputs()
    return lambda: getattr(programs, what)(*given, *rest)


def facts_of(profile: OpProfile) -> dict[str, object]:
    """Return all that is known but times."""
    ops = {stats.op: (stats.calls, stats.bytes, stats.flops) for stats in (*profile.ops, profile.total)}
    return {
        **ops,
        "dtypes": profile.calls_by_dtype,
        "memory": profile.memory,
        "grad_nodes": profile.counted("grad_nodes"),
        "remarks": profile.remarks,
    }


def test_the_dtypes_of_each_line_are_those_of_its_calls() -> None:
    x, w = programs.inputs()
    profile = profiled(lambda: programs.exceptions(x, w), Chains())
    seen = {(site.frames[0].line, dtypes) for site, dtypes in profile.sites("Cast") if site}
    scope = programs.scope.__wrapped__  # type: ignore[attr-defined]
    wide, double = line_of("a = x.float()", scope), line_of("c = a.double()", programs.exceptions)
    summed = line_of("x.sum().to(torch.double)", scope)
    assert {(wide, "bfloat16->float32"), (double, "float32->float64"), (summed, "bfloat16->float64")} <= seen
    found = {(site.frames[0].line, dtypes) for site, dtypes in profile.sites("Cast[*->float64]") if site}
    assert found == {(double, "float32->float64"), (summed, "bfloat16->float64")}


def test_what_autograd_records_and_what_is_allocated_has_the_line_that_does_so() -> None:
    x = torch.ones(4, 4, requires_grad=True)

    def body() -> None:
        y = x * x
        with torch.no_grad():
            z = y * x
        (y + z).sum()

    profile = profiled(body, Chains(), memory=True)
    begin = body.__code__.co_firstlineno
    lines = {
        fact: {site.frames[0].line - begin: calls for (site, _), calls in profile.sites(fact).items() if site}
        for fact in ("grad_nodes", "allocations")
    }
    assert lines["grad_nodes"] == {1: 1, 4: 2}
    assert lines["allocations"] == {1: 1, 3: 1, 4: 2}


def test_the_lines_of_a_memory_peak_hold_its_bytes() -> None:
    x, kept = torch.ones(2**16), list[torch.Tensor]()

    def body() -> None:
        for _ in range(20):
            x * 2
        y = torch.cat([x, x])
        z = y + y
        kept.append(z[:1].clone())

    profile = profiled(body, Chains(), memory=True)
    begin = body.__code__.co_firstlineno
    found = {
        fact: {at.frames[0].line - begin: size for at, (size, _) in profile.work_by_site(fact).items() if at}
        for fact in ("peak_memory", "held_memory")
    }
    assert found["peak_memory"].keys() == {3, 4, 5}
    assert found["peak_memory"][3] == found["peak_memory"][4] == 2**19
    assert sum(map(int, found["peak_memory"].values())) == max(profile.peak_memory or ())
    assert found["held_memory"].keys() == {5}


def test_the_line_of_memory_is_unknown_where_another_of_its_size_was_freed() -> None:
    """PyTorch's list has no addresses: after `b = a + 1; del a` the line of `a` was named."""
    kept = list[torch.Tensor]()

    def body() -> None:
        a = torch.ones(2**16)
        b = a + 1
        del a
        kept.append(b)

    assert profiled(body, Chains(), memory=True).work_by_site("held_memory") == {}


def test_what_an_op_frees_itself_is_its_own() -> None:
    x, kept = torch.ones(2**8, 2**8), list[torch.Tensor]()

    def body() -> None:
        kept.append(x * 2)
        kept.append(torch.logsumexp(x, 0))

    profile = profiled(body, Chains(), memory=True)
    begin = body.__code__.co_firstlineno
    held = {at.frames[0].line - begin: size for at, (size, _) in profile.work_by_site("held_memory").items() if at}
    assert held.get(1) == 2**18


def test_each_node_of_an_op_that_makes_several_has_its_line() -> None:
    x = torch.ones(4, requires_grad=True)

    def body() -> None:
        y = torch.zeros(2)
        y[0] = x.sum()
        y[1] = x.mean()
        y.sum()

    profile = profiled(body, Chains())
    begin = body.__code__.co_firstlineno
    lines = {site.frames[0].line - begin: calls for (site, _), calls in profile.sites("grad_nodes").items() if site}
    assert sum(lines.values()) == profile.counted("grad_nodes")[0]
    assert lines.keys() == {2, 3, 4}


def test_a_backward_pass_of_what_came_before_the_window_is_on_the_line_that_asks_for_it() -> None:
    x, w = programs.inputs()
    loss = (x.float() @ w.float()).sum()

    def body() -> None:
        loss.backward()

    found = profiled(body, Chains()).sites("Cast")
    assert {(site.frames[0].line, site.is_backward) for site, _ in found if site} == {
        (body.__code__.co_firstlineno + 1, False)
    }


def test_a_window_can_be_opened_inside_of_another_and_once_more() -> None:
    x = torch.ones(3)
    for _ in range(3):
        line = sys._getframe().f_lineno + 1
        profile = profiled(lambda: x.double(), Chains())
        ((site, _),) = profile.sites("Cast")
        assert site
        assert site.frames[0].line == line


def test_ops_of_other_threads_are_those_of_no_line_not_of_the_line_that_waits() -> None:
    x = torch.ones(3)

    def body() -> None:
        x.double()
        thread = threading.Thread(target=lambda: x.double().float())
        thread.start()
        thread.join()

    without, profile = (profiled(body, chains) for chains in (None, Chains()))
    assert {**facts_of(profile), "remarks": without.remarks} == facts_of(without)
    found = [(site.frames[0].line if site and site.frames else 0, n) for (site, _), n in profile.sites("Cast").items()]
    assert sorted(found) == [(0, 1), (0, 1), (body.__code__.co_firstlineno + 1, 1)]  # two kinds of cast
    why = "source lines of ops in other threads are unknown: only the thread that opened the window is traced"
    assert why in remarks_of(profile)
    assert why not in remarks_of(without)


def test_where_too_many_lines_run_the_rest_has_none_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_opprof.sites.line_tracer.MOST_MARKS", 20)
    x = torch.ones(3)

    def body() -> None:
        x.double()
        for _ in range(30):
            pass
        x.double()

    profile = profiled(body, Chains())
    assert [bool(site and site.frames) for site, _ in profile.sites("Cast")] == [True, False]
    assert sum(profile.sites("Cast").values()) == 2
    (said,) = remarks_of(profile)
    assert said == "source lines are unknown after the first 20 executed lines"


def test_a_program_that_traces_lines_itself_is_told() -> None:
    x = torch.ones(3)

    def body() -> None:
        before = sys.gettrace()
        sys.settrace(lambda frame, event, argument: None)
        sys.settrace(before if sys.version_info >= (3, 12) else None)
        x.double()

    before = sys.gettrace()
    said = remarks_of(profiled(body, Chains()))
    sys.settrace(before)
    told = ["source lines may be wrong: something else traced lines (sys.settrace)"]
    assert said == (told if sys.version_info < (3, 12) else [])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="beside a debugger there is place for a tracer from 3.12 on")
def test_beside_a_debugger_there_are_ops_without_lines_and_that_is_said() -> None:
    def debugger(frame: Any, event: str, argument: Any) -> None: ...

    x = torch.ones(3)
    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        profile = profiled(lambda: x.double(), Chains())
    finally:
        sys.settrace(before)
    (said,) = remarks_of(profile)
    assert said.startswith("source lines are unknown: ")
    assert said.endswith("traces this thread, as a debugger does; call sites beside it need Python 3.12 or newer")
    assert profile.stats("Cast").most_calls == 1
    assert not [site for site, _ in profile.sites("Cast") if site and site.frames]


def test_a_compiled_function_runs_the_same_and_its_ops_are_where_it_is_defined_and_called() -> None:
    x, _ = programs.inputs()
    torch._dynamo.reset()
    function = torch.compile(programs.compiled, backend="eager")

    def body() -> None:
        with torch.no_grad():
            function(x)

    def lines(profile: OpProfile, op: str) -> list[int]:
        ((site, _),) = profile.sites(op)
        assert site
        return [frame.line for frame in site.frames[:2]]

    cold = profiled(body, Chains())
    warm, without = profiled(body, Chains()), profiled(body)
    assert facts_of(warm) == facts_of(without)
    there = [programs.compiled.__code__.co_firstlineno, body.__code__.co_firstlineno + 2]
    assert [lines(profile, op) for profile in (cold, warm) for op in ("Cast", "Mul")] == [there] * 4
