"""What the torch backend tells of a window as a whole: ops that autograd recorded, and memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_opprof.frameworks.live.contract import Options
from pytest_opprof.frameworks.numpy.live.backend import backend as numpy_backend
from pytest_opprof.frameworks.pytorch.live.backend import backend
from pytest_opprof.measure.recorder import Recorder
from pytest_opprof.measure.window import Window
from pytest_opprof.profile.op_profile import OpProfile

from ....conftest import HAS_TORCH
from ...measured import measured

pytestmark = pytest.mark.torch
if not HAS_TORCH:
    if "OPPROF_REQUIRE_TORCH" in os.environ:
        pytest.fail("torch is not installed")
    pytest.skip("torch is not installed (pip install torch==2.13.0)", allow_module_level=True)

import torch  # noqa: E402

X = torch.randn(64, 64)
BYTES = 4 * X.numel()


def measure(body: Callable[[], object], rounds: int = 1, memory: bool | None = True) -> OpProfile:
    return measured(backend(), *[body] * rounds, options=Options(memory=memory))


def nodes(body: Callable[[], object]) -> int | None:
    profile = measure(body)
    assert len(profile.counted("grad_nodes") or (0,)) == 1
    return profile.counted("grad_nodes")[0] if profile.counted("grad_nodes") else None


def without(mode: Callable[[], Any], body: Callable[[], object]) -> Callable[[], object]:
    def run() -> None:
        with mode():
            body()

    return run


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.ones(64, 64, requires_grad=True)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def test_a_lost_no_grad_makes_a_node_for_each_op_that_needs_a_gradient(weight: torch.Tensor) -> None:
    def inference() -> torch.Tensor:
        return ((X @ weight).relu() + X).softmax(-1)

    assert nodes(inference) == 4
    assert nodes(without(torch.no_grad, inference)) == 0
    assert nodes(without(torch.inference_mode, inference)) == 0
    weight.requires_grad_(False)
    assert nodes(inference) == 0


def test_what_needs_no_gradient_makes_no_node(weight: torch.Tensor) -> None:
    assert nodes(lambda: (X @ X).relu()) == 0
    assert nodes(lambda: weight.detach() * 2) == 0
    assert nodes(lambda: weight[0]) == 1  # a view has a gradient, too


def test_the_backward_pass_makes_none_and_a_second_one_neither(weight: torch.Tensor) -> None:
    def step(times: int) -> None:
        loss = (X @ weight).relu().sum()
        for left in reversed(range(times)):
            loss.backward(retain_graph=left > 0)

    assert [nodes(lambda times=times: step(times)) for times in (0, 1, 2)] == [3, 3, 3]


def test_a_backward_pass_that_is_to_be_differentiated_makes_its_own(weight: torch.Tensor) -> None:
    def gradient(create_graph: bool) -> None:
        torch.autograd.grad((weight * weight).sum(), weight, create_graph=create_graph)

    plain, double = nodes(lambda: gradient(False)), nodes(lambda: gradient(True))
    assert plain == 2
    assert double is not None
    assert double > 2


def test_a_function_of_ones_own_is_one_node_whatever_it_does_inside(weight: torch.Tensor) -> None:
    assert nodes(lambda: Square.apply(weight)) == 1
    assert nodes(lambda: Square.apply(weight).sum().backward()) == 2
    # PyTorch makes its node before it looks whether one is needed.
    assert nodes(without(torch.no_grad, lambda: Square.apply(weight))) == 1


def test_nodes_are_those_of_the_thread_that_opened_the_window(weight: torch.Tensor) -> None:
    def body() -> None:
        thread = threading.Thread(target=lambda: weight * 2)
        thread.start()
        thread.join()

    profile = measure(body)
    assert profile.stats("Mul").calls == (1,)
    assert profile.counted("grad_nodes") == (0,)


def test_each_round_has_its_nodes_and_what_is_between_them_is_of_none(weight: torch.Tensor) -> None:
    window, recorder = Window("body"), Recorder([backend()], Options(), {}, explicit=True)
    with recorder.open(window):
        for ops in (1, 3, 0):
            with recorder.step(window):
                for _ in range(ops):
                    weight * 2
            weight * 3
    assert window.profile.counted("grad_nodes") == (1, 3, 0)


def test_a_window_in_a_window_has_its_own(weight: torch.Tensor) -> None:
    outer, inner = Window("outer"), Window("inner")
    recorder = Recorder([backend()], Options(), {}, explicit=True)
    with recorder.open(outer), recorder.step(outer):
        weight * 2
        with recorder.open(inner), recorder.step(inner):
            weight * 2 + 1
        weight * 2
    assert (outer.profile.counted("grad_nodes"), inner.profile.counted("grad_nodes")) == ((4,), (2,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_step_that_compiles_does_not_know_its_nodes_and_those_after_it_do(weight: torch.Tensor) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x @ weight).relu(), backend="eager")

    def step() -> None:
        compiled(X).sum().backward()

    assert measure(step, rounds=2).counted("grad_nodes") is None
    assert [nodes(step) for _ in range(3)] == [3, 3, 3]
    profile = measure(step, rounds=3)
    assert profile.counted("grad_nodes") == (3, 3, 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_graph_is_one_node_and_none_under_no_grad(weight: torch.Tensor) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x @ weight).relu().sum(), backend="aot_eager")
    assert [nodes(lambda: compiled(X).backward()) for _ in range(3)] == [None, 1, 1]
    assert [nodes(without(torch.no_grad, lambda: compiled(X))) for _ in range(2)] == [None, 0]


def test_numpy_alone_has_no_nodes_to_tell_of_though_pytorch_is_there(weight: torch.Tensor) -> None:
    watching = numpy_backend()
    window = Window("body")
    recorder = Recorder([backend(), watching], Options(memory=True), {}, explicit=True)
    array = np.ones(3)
    with recorder.open(window), recorder.step(window):
        array + 1
    assert window.profile.op_names == ("Add",)
    assert (window.profile.counted("grad_nodes"), window.profile.held_memory) == (None, (0,))
    both = Window("both")
    with recorder.open(both), recorder.step(both):
        array + weight.detach().numpy()[0, :3]
        weight * 2
    assert both.profile.counted("grad_nodes") == (1,)


def test_an_op_in_place_that_became_one_out_of_place_is_more_memory() -> None:
    def in_place() -> None:
        y = X.clone()
        y.relu_().abs_()

    def out_of_place() -> None:
        y = X.clone()
        y = y.relu()
        y = y.abs()

    before, after = measure(in_place), measure(out_of_place)
    assert (before.allocations, before.peak_memory) == ((1,), (BYTES,))
    assert (after.allocations, after.peak_memory) == ((3,), (2 * BYTES,))
    assert before.held_memory == after.held_memory == (0,)


def test_a_cycle_that_nobody_holds_is_no_held_memory() -> None:
    kept: list[object] = []

    def cycle(keeps: bool) -> None:
        ring = [torch.zeros(BYTES // 4)]
        ring.append(ring)  # type: ignore[arg-type]
        kept.extend([ring] if keeps else [])

    assert measure(lambda: cycle(False)).held_memory == (0,)
    assert measure(lambda: cycle(True)).held_memory == (BYTES,)


def test_what_a_round_leaves_behind_is_held_and_what_it_frees_is_not_less_than_nothing() -> None:
    kept = []
    profile = measure(lambda: kept.append(X.abs()), rounds=2)
    assert profile.held_memory == (BYTES, BYTES)
    assert measure(kept.clear).held_memory == (0,)


def test_a_graph_that_is_kept_holds_what_it_saved(weight: torch.Tensor) -> None:
    losses = []

    def step(keep: bool) -> None:
        loss = (X @ weight).exp().sum()
        losses.append(loss if keep else loss.item())

    assert measure(lambda: step(False)).held_memory == (0,)
    held = measure(lambda: step(True)).held_memory
    assert held is not None
    assert held[0] >= BYTES


def test_memory_that_replaces_older_memory_is_not_held() -> None:
    layer, kept = torch.nn.Linear(64, 64, bias=False), list[torch.Tensor]()

    def held(body: Callable[[], object], rounds: int = 1) -> tuple[int, ...] | None:
        return measured(backend(), *[body] * rounds, options=Options(memory=True, held=True)).held_memory

    def replace(keep: bool = False) -> None:
        if keep:
            kept.append(layer.weight.data)
        layer.weight.data = torch.empty_like(layer.weight.data)

    for _ in range(2):  # the memory of another window, too
        assert held(replace, rounds=3) == (0, 0, 0)
    assert held(lambda: replace(keep=True)) == (BYTES,)
    del kept[:]
    assert held(lambda: (replace(), kept.append(X + 1))) == (BYTES,)
    storage, mapped = layer.weight.data.untyped_storage(), torch._C._functorch._add_batch_dim(X, 0, 1)
    assert held(replace) == (BYTES,)  # kept, though by no tensor
    assert (storage.nbytes(), mapped.ndim) == (BYTES, 1)  # of a tensor inside of vmap there is no storage


def test_memory_is_not_known_where_it_was_not_asked_for_and_is_on_a_cpu_where_nobody_said() -> None:
    off, asked, either = (measure(X.abs, memory=memory) for memory in (False, True, None))
    assert (off.held_memory, off.peak_memory, off.allocations) == (None, None, None)
    assert asked.peak_memory == either.peak_memory == (BYTES,)
    assert off.counted("grad_nodes") == asked.counted("grad_nodes") == (0,)
