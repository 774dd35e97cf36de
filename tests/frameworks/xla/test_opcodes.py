"""What instructions of HLO mean: FLOPs of convolutions against a count one by one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.xla import opcodes
from pytest_opprof.frameworks.xla.opcodes import Convolution, Window, convolution_flops


def test_a_reduce_is_called_by_what_it_applies() -> None:
    assert opcodes.reduction(["parameter", "add", "convert"]) == "ReduceSum"
    assert opcodes.reduction(["add", "multiply"]) == opcodes.reduction(["parameter"]) == ""


def test_a_convolution_multiplies_each_result_with_the_kernel_of_its_feature() -> None:
    over = Convolution(0, (Window(2, 2, 2), Window(3, 3, 3)))
    assert convolution_flops((2, 3, 16, 16), (8, 3, 3, 3), (2, 8, 14, 14), over) == 2 * (2 * 8 * 14 * 14) * (3 * 3 * 3)


@given(
    st.integers(1, 9), st.integers(1, 7), st.integers(1, 9), st.integers(1, 4), st.integers(-4, 9), st.integers(1, 4),
    st.integers(1, 4),
)  # fmt: skip
def test_only_what_touches_data_is_work(
    data: int, kernel: int, result: int, stride: int, low: int, holes: int, spread: int
) -> None:
    elements = {holes * number for number in range(data)}
    places = [r * stride + k * spread - low for r, k in product(range(result), range(kernel))]
    over = Convolution(1, (Window(1, 2, 1, stride, low, holes, spread),))
    # Batches of 2, 3 features of the data, 5 of the result.
    flops = 2 * 2 * 3 * 5 * sum(place in elements for place in places)
    assert convolution_flops((2, data, 3), (3, 5, kernel), (2, result, 5), over) == flops


def test_a_window_of_any_size_is_counted_at_once_or_not_at_all() -> None:
    large = 10**15
    wide = Convolution(1, (Window(1, 2, 1),))
    assert convolution_flops((1, 2 * large, 1), (1, 1, large), (1, large, 1), wide) == 2 * large**2
    padded = Convolution(1, (Window(1, 2, 1, low=1),))
    assert convolution_flops((1, 2 * large, 1), (1, 1, large), (1, large, 1), padded) is None
    assert convolution_flops((1, 2 * large, 1), (1, 1, 3), (1, large, 1), padded) == 2 * (3 * large - 1)


@pytest.mark.parametrize(
    "attributes",
    [
        "window={size=3 stride=2x2}, dim_labels=bf0_oi0->bf0",
        "window={size=3 stride=x}, dim_labels=bf0_oi0->bf0",
        "window={size=3}, dim_labels=bf0_i0->bf0",
        "window={size=3}",
    ],
)
def test_a_convolution_whose_text_is_broken_has_no_flops(attributes: str) -> None:
    assert Convolution.of_text(attributes) is None


def test_shapes_that_do_not_fit_the_window_have_no_flops() -> None:
    over = Convolution.of_text("window={size=3}, dim_labels=bf0_oi0->bf0")
    assert over is not None
    assert convolution_flops((1, 1, 9), (1, 1, 3), (1, 1, 7), over) == 2 * 3 * 7
    assert convolution_flops((1, 1, 9), (1, 1, 3), (1, 7), over) is None
    missing = over._replace(windows=(Window(2, -1, 2),))
    assert convolution_flops((1, 1, 9), (1, 1, 3), (1, 1, 7), missing) is None
