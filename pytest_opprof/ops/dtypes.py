"""One spelling for dtypes, which frameworks spell differently, and how large they are."""

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
_CPP = {
    "double": "float64",
    "float": "float32",
    "c10::Half": "float16",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    **dict.fromkeys(["unsigned short", "unsigned short int", "short unsigned int"], "uint16"),
    "unsigned int": "uint32",
    **dict.fromkeys(["unsigned long", "unsigned long int", "long unsigned int"], "uint64"),
    "bool": "bool",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
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


def of_pytorch_event(raw: str) -> str:
    """Return PyTorch's own name of the dtype of a tensor that its profiler names in C++; nothing for no tensor.

    >>> of_pytorch_event("c10::BFloat16"), of_pytorch_event("unsigned char"), of_pytorch_event("ScalarList")
    ('bfloat16', 'uint8', '')
    """
    return _CPP.get(raw) or (raw.removeprefix("c10::").lower() if raw.startswith("c10::") else "")


def item_bytes(dtype: str) -> int | None:
    """Return the size of an element, as the name tells it; None where it does not.

    >>> item_bytes("bfloat16"), item_bytes("complex64"), item_bytes("float8_e4m3fn"), item_bytes("string")
    (2, 8, 1, None)
    """
    bits = re.search(r"\d+", dtype)
    if bits is None:
        return 1 if dtype == "bool" else None
    return None if int(bits[0]) % 8 else int(bits[0]) // 8
