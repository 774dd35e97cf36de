from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_opprof.frameworks.ascend.work import flops, nbytes
from pytest_opprof.ops.signature import Shape


@pytest.mark.parametrize(
    ("shapes", "dtypes", "found"),
    [
        ([(32, 1, 224, 224, 8), ()], ["FLOAT", "INT64"], 32 * 224 * 224 * 8 * 4 + 8),
        ([(4, 8), (4, 8)], ["DT_BF16", "FLOAT"], 64 + 128),
        ([(4, 8), (4, 8)], ["DT_BF16"], None),
        ([(4, 8)], ["DT_UNDEFINED"], None),
        ([], [], None),
    ],
)
def test_bytes_are_those_of_all_tensors(shapes: Sequence[Shape], dtypes: Sequence[str], found: int | None) -> None:
    assert nbytes(shapes, dtypes) == found


@pytest.mark.parametrize(
    ("kernel", "inputs", "output", "found"),
    [
        ("MatMulV2", [(32, 9216), (4096, 9216), (4096,)], (32, 4096), 2 * 32 * 9216 * 4096),
        ("MatMulV3", [(32, 4096), (32, 9216)], (4096, 9216), 2 * 32 * 4096 * 9216),
        ("BatchMatMul", [(12, 1024, 512), (12, 512, 1024)], (12, 1024, 1024), 12 * 2 * 1024 * 512 * 1024),
        ("BatchMatMulV2", [(12, 4, 16, 8), (8, 32)], (12, 4, 16, 32), 12 * 4 * 2 * 16 * 8 * 32),
        ("MatMulV2", [(4, 6), (5, 7)], (4, 7), None),
        ("Conv2D", [(2, 8, 9, 9), (6, 4, 3, 3), (6,)], (2, 6, 7, 7), 2 * 2 * 6 * 7 * 7 * 4 * 9),
        ("Conv2D", [(2, 8, 9, 9), (6, 4, 3, 3)], (2, 5, 7, 7), None),
        ("Conv2DBackpropInput", [(4,), (6, 4, 3, 3), (2, 6, 7, 7)], (2, 8, 9, 9), None),
        ("Add", [(4, 6), (4, 6)], (4, 6), None),
        ("MatMulV2", [(4, 6)], (4, 6), None),
        ("MatMulV2", [(0, 6), (6, 0)], (0, 0), 0),
    ],
)
def test_flops_of_products_and_convolutions(
    kernel: str, inputs: Sequence[Shape], output: Shape, found: int | None
) -> None:
    assert flops(kernel, inputs, [output], ["ND", "NCHW"]) == found


def test_padded_layouts_do_not_tell_flops() -> None:
    inputs = [(32, 1, 224, 224, 8), (121, 4, 16, 8)]
    assert flops("Conv2D", inputs, [(32, 8, 55, 55, 8)], ["NC1HWC0", "FRACTAL_Z", "NC1HWC0"]) is None
