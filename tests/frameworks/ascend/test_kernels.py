from __future__ import annotations

import pytest

from pytest_opprof.frameworks.ascend.kernels import op_type
from pytest_opprof.ops import names

HASH = "233851a3505389e43928a8bba133a74d"


@pytest.mark.parametrize(
    ("kernel", "op"),
    [
        (f"Axpy_{HASH}_high_performance_210000000", "Axpy"),
        (f"Cast_{HASH}_high_performance_0", "Cast"),
        (f"MatMulV2_{HASH}", "MatMulV2"),
        ("RmsNorm_normal_all_bf16_high_performance_0", "RmsNorm"),
        (f"Softmax_{HASH}_high_precision_1", "Softmax"),
    ],
)
def test_the_op_is_what_stands_before_the_hash(kernel: str, op: str) -> None:
    assert op_type(kernel) == op


@pytest.mark.parametrize(
    "kernel",
    [
        "triton_unk_fused_add_0",
        "my_kernel",
        "my_Cast_kernel",
        f"Cast_{HASH[:-1]}",
        f"Cast_{HASH.upper()}",
        f"_{HASH}",
        "_high_performance_1",
        "",
    ],
)
def test_other_kernels_keep_their_names(kernel: str) -> None:
    assert op_type(kernel) == kernel


def test_ops_of_kernels_are_in_the_vocabulary_of_the_readers() -> None:
    assert names.meaning(op_type(f"MatMulV3_{HASH}_high_performance_1")).op == "MatMul"
    assert names.meaning(op_type(f"ZerosLike_{HASH}_high_performance_1")).op == "ConstantOfShape"
