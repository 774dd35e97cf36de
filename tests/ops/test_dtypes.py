from __future__ import annotations

import pytest

from pytest_opprof.ops.dtypes import NAMES, dtype, is_dtype, item_bytes, width


@pytest.mark.parametrize(
    ("raws", "name"),
    [
        ("float Float FLOAT DT_FLOAT float32 f32 fp32 tensor(float) torch.float32", "float32"),
        ("double Double DOUBLE DT_DOUBLE f64 tensor(double) float64", "float64"),
        ("c10::BFloat16 DT_BF16 BFLOAT16 bf16 tensor(bfloat16) torch.bfloat16", "bfloat16"),
        ("c10::Half half Half DT_FLOAT16 f16 fp16 HALF", "float16"),
        ("c10::Float8_e4m3fn f8e4m3fn f8E4M3FN torch.float8_e4m3fn", "float8_e4m3fn"),
        ("long s64 i64 int64_t DT_INT64 LONG", "int64"),
        ("pred i1 bool BOOL DT_BOOL", "bool"),
        ("c64 complex64 cfloat", "complex64"),
    ],
)
def test_a_dtype_has_one_spelling(raws: str, name: str) -> None:
    assert {dtype(raw) for raw in raws.split()} == {name}
    assert is_dtype(raws.split()[0])


def test_every_name_is_its_own_spelling_and_has_a_width() -> None:
    for name in NAMES:
        assert dtype(name) == name
        assert width(name) > 0 or name == "string"
        bits = item_bytes(name)
        assert bits is None or bits * 8 == width(name)


def test_what_is_no_dtype_is_none() -> None:
    assert not any(map(is_dtype, ["", "Scalar", "TensorList", "object", "<U5", "float31"]))
