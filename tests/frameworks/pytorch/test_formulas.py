from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_opprof.frameworks.pytorch.formulas import FACTORIES, USE_ATTRIBUTES, broadcast, matmul, result_of
from pytest_opprof.frameworks.pytorch.work import Tensor, arguments_of, recorded_work, work


def test_shapes_are_broadcast_as_numpy_does() -> None:
    numpy = pytest.importorskip("numpy")
    for shapes in ([(3, 1), (4,)], [(), (2, 0)], [(1,), (1, 1)], [(5, 1, 6), (4, 1), ()]):
        assert broadcast(shapes) == numpy.broadcast_shapes(*shapes)


def test_a_product_has_the_shape_that_numpy_gives_it() -> None:
    numpy = pytest.importorskip("numpy")
    for left, right in [((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,)), ((5, 1, 2, 3), (7, 3, 4))]:
        assert matmul(left, right)[0] == (numpy.ones(left) @ numpy.ones(right)).shape


def test_what_does_not_follow_is_not_known() -> None:
    assert result_of("aten::sum", [(3, 4)]) == (None, None)
    assert result_of("aten::mm", [(3, 4), None]) == (None, None)
    assert result_of("aten::conv2d", [(1, 3, 8, 8), (4, 3, 3, 3)]) == (None, None)
    assert result_of("aten::convolution_backward", [(1, 4, 6, 6), (1, 3, 8, 8), (4, 3, 3, 3)]) == (None, None)
    assert work("aten::copy_", [None]).nbytes is None


def test_a_layout_is_told_where_it_is_no_chance() -> None:
    last = Tensor("float32", (2, 3, 4, 5), (60, 1, 15, 3))
    assert last.layout == "channels_last"
    assert Tensor("float32", (2, 3, 4, 5, 6), (360, 1, 90, 18, 3)).layout == "channels_last_3d"
    assert Tensor("float32", (2, 3, 4, 5), (60, 20, 5, 1)).layout == ""
    assert Tensor("float32", (2, 1, 4, 5), (20, 1, 5, 1)).layout == ""
    assert Tensor("float32", (2, 3, 1, 1), (3, 1, 3, 3)).layout == ""


def _programs() -> dict[str, Callable[[Any], Any]]:
    return {
        "linear": lambda t: t.nn.functional.linear(t.ones(5, 7, 3), t.ones(4, 3), t.ones(4)),
        "bmm": lambda t: t.ones(5, 2, 3) @ t.ones(5, 3, 4),
        "broadcast": lambda t: t.ones(5, 1, 2, 3) @ t.ones(6, 3, 4),
        "addmm": lambda t: t.addmm(t.ones(4), t.ones(2, 3), t.ones(3, 4)),
        "baddbmm": lambda t: t.baddbmm(t.ones(2, 2, 4), t.ones(2, 2, 3), t.ones(2, 3, 4)),
        "einsum": lambda t: t.einsum("bij,jk->bik", t.ones(2, 3, 4), t.ones(4, 5)),
        "conv2d": lambda t: t.nn.functional.conv2d(t.ones(2, 4, 9, 8), t.ones(6, 2, 3, 3), None, 2, 1, 1, 2),
        "conv1d": lambda t: t.nn.functional.conv1d(t.ones(2, 4, 9), t.ones(6, 4, 3), None, 2, 1, 2),
        "conv_transpose": lambda t: t.nn.functional.conv_transpose2d(t.ones(2, 4, 5, 6), t.ones(4, 3, 3, 3), None, 2),
        "backward": lambda t: (
            t.nn.functional.conv2d(
                t.ones(2, 4, 9, 8, requires_grad=True), t.ones(6, 4, 3, 3, requires_grad=True), None, 2, 1
            )
            .sum()
            .backward()
        ),
        "linear_backward": lambda t: t.nn.Linear(3, 4)(t.ones(5, 3, requires_grad=True)).sum().backward(),
    }


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", _programs())
def test_flops_are_those_of_the_counter_that_pytorch_has(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from pytest_opprof.frameworks.live.contract import Options
    from pytest_opprof.frameworks.pytorch.live.backend import backend

    program = _programs()[name]
    with FlopCounterMode(display=False) as counter:
        program(torch)
    with backend().collect(Options()) as log:
        program(torch)
    flops = log.freeze().total.flops
    assert flops == (counter.get_total_flops(),)


@pytest.mark.torch
def test_flops_of_attention_are_those_of_the_formulas_that_pytorch_has() -> None:
    pytest.importorskip("torch")
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    query, key, value = (2, 3, 8, 4), (2, 3, 6, 4), (2, 3, 6, 5)
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert result_of(name, [query, key, value])[1] == sdpa_flop_count(query, key, value)
    gradient = (2, 3, 8, 5)
    expected = sdpa_backward_flop_count(gradient, query, key, value)
    assert result_of(f"{name}_backward", [gradient, query, key, value])[1] == expected


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # of the switch of oneDNN
def test_a_recurrent_layer_in_one_kernel_has_the_flops_of_its_products() -> None:
    torch = pytest.importorskip("torch")
    from pytest_opprof.frameworks.live.contract import Options
    from pytest_opprof.frameworks.pytorch.live.backend import backend

    layer = torch.nn.LSTM(8, 16, 2, bidirectional=True)
    state = torch.zeros(4, 3, 16, requires_grad=True)
    found = {}
    for is_one_kernel in (True, False):
        with torch.backends.mkldnn.flags(enabled=is_one_kernel), backend().collect(Options()) as log:
            layer(torch.ones(5, 3, 8, requires_grad=True), (state, state))[0].sum().backward()
        profile = log.freeze()
        found[is_one_kernel] = profile.total.flops
        assert ("LSTMGrad" in profile.op_names) is is_one_kernel
    assert found[True] == found[False]


REDUCED: list[Callable[[Any, Any], Any]] = [
    lambda t, x: x.sum(),
    lambda t, x: x.sum(1),
    lambda t, x: x.sum((0, -1), keepdim=True),
    lambda t, x: x.sum(0, dtype=t.float64),
    lambda t, x: x.sum(dtype=t.float64),
    lambda t, x: x.mean(1, keepdim=True),
    lambda t, x: x.half().mean((1, 2)),
    lambda t, x: x.long().sum(0),
    lambda t, x: x.amax(-1),
    lambda t, x: x.amin(),
    lambda t, x: x.max(),
    lambda t, x: x.argmax(1, keepdim=True),
    lambda t, x: x.argmin(),
    lambda t, x: (x > 0).any(0),
    lambda t, x: (x > 0).all(),
    lambda t, x: x.var(1),
    lambda t, x: x.std(1, keepdim=True),
    lambda t, x: x.std(),
    lambda t, x: x.prod(1),
    lambda t, x: t.logsumexp(x, (0, 1)),
    lambda t, x: t.linalg.vector_norm(x, dim=1, keepdim=True),
]


@pytest.mark.parametrize("number", range(len(REDUCED)))
def test_what_a_reduction_writes_follows_from_what_pytorch_records(number: int) -> None:
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recording:
        result = REDUCED[number](torch, torch.ones(3, 4, 5))
    events = [event for event in recording.profiler.kineto_results.events() if event.name() in USE_ATTRIBUTES]
    (event,) = [event for event in events if event.start_ns() == min(each.start_ns() for each in events)]
    arguments = arguments_of(event.dtypes(), event.shapes())
    done = work(event.name(), arguments, event.concrete_inputs())
    assert done.signature.output_shapes == (tuple(result.shape),)
    assert isinstance(arguments[0], Tensor)
    assert done.nbytes == arguments[0].nbytes + result.numel() * result.element_size()


MADE: list[Callable[[Any, Any], Any]] = [
    lambda t, x: t.zeros_like(x),
    lambda t, x: t.zeros_like(x, dtype=t.float64),
    lambda t, x: t.ones_like(x, dtype=t.int64),
    lambda t, x: t.empty_like(x, dtype=t.bfloat16, memory_format=t.contiguous_format),
    lambda t, x: t.full_like(x, 3, dtype=t.float64),
    lambda t, x: t.randn_like(x, dtype=t.float64),
    lambda t, x: t.rand_like(x),
    lambda t, x: t.randint_like(x, 5, dtype=t.int32),
    lambda t, x: t.randint_like(x, 1, 5),
    lambda t, x: x.new_zeros((4, 5)),
    lambda t, x: x.new_ones(7, dtype=t.float64),
    lambda t, x: x.new_full((), 1.0, dtype=t.float64),
    lambda t, x: x.new_empty(3, dtype=t.bool),
    lambda t, x: x.new_empty_strided((2, 3), (3, 1), dtype=t.complex64),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_what_is_made_like_a_tensor_follows_from_what_pytorch_records(number: int) -> None:
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recording:
        result = MADE[number](torch, torch.ones(2, 3))
    events = [event for event in recording.profiler.kineto_results.events() if event.name() in FACTORIES]
    event = min(events, key=lambda event: event.start_ns())
    signature = recorded_work(event.name(), event.dtypes(), event.shapes(), event.concrete_inputs()).signature
    assert signature.input_shapes == (tuple(result.shape),)
    assert signature.input_dtypes == (str(result.dtype).removeprefix("torch."),)


def test_what_is_made_like_a_tensor_is_not_known_where_nothing_tells_its_dtype() -> None:
    """PyTorch before 2.1 does not record arguments that are no tensors, but that there were some."""

    def made(raw: str, types: list[str]) -> tuple[str, ...] | None:
        shapes = [[2, 3], *([] for _ in types[1:])]
        return recorded_work(raw, types, shapes, []).signature.input_dtypes

    assert made("aten::zeros_like", ["float", "", "", "", "Scalar", ""]) == ("float32",)
    assert made("aten::zeros_like", ["float", "Scalar", "", "", "Scalar", ""]) is None
    assert made("aten::new_zeros", ["float", "ScalarList", "", "", "", "Scalar"]) is None
    assert made("aten::zeros_like", ["float"]) is None


def test_what_a_reduction_writes_is_not_known_where_there_are_two_results() -> None:
    assert result_of("aten::max", [(3, 4), None, None], [None, 1, False]) == (None, None)
    assert result_of("aten::max", [(3, 4), (3, 4)], [None, None]) == (None, None)
    assert result_of("aten::sum", [(3, 4), None, None, None], [None, "?", False, None]) == (None, None)
