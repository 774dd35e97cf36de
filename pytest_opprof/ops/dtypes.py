"""One spelling for dtypes, which frameworks spell differently."""

from __future__ import annotations

import re

_DTYPES = {
    "float": "float32",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "half": "float16",
    "double": "float64",
    "bf16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "i1": "bool",
    "pred": "bool",
}


def dtype(raw: str) -> str:
    """Return one spelling for a dtype that frameworks spell differently.

    >>> dtype("DT_BF16"), dtype("Float32"), dtype("c10::Half")
    ('bfloat16', 'float32', 'float16')
    """
    plain = raw.strip().lower().removeprefix("dt_").removeprefix("c10::")
    if match := re.fullmatch(r"([isu])(\d+)", plain):
        return f"{'u' if match[1] == 'u' else ''}int{match[2]}" if plain != "i1" else "bool"
    return _DTYPES.get(plain, plain)


def is_dtype(raw: str) -> bool:
    """Tell whether *raw* spells a dtype, whether or not a profile has it."""
    return re.fullmatch(r"(?:b?float|complex|q?u?int)\d+\w*|bool|string", dtype(raw)) is not None
