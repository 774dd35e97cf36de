"""One spelling for dtypes, which frameworks spell differently, and their sizes."""

from __future__ import annotations

import re
from functools import lru_cache

FLOATS = (
    "float64", "float32", "bfloat16", "float16", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e3m4", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
INTEGERS = (
    "int64", "int32", "int16", "int8", "int4", "int2", "uint64", "uint32", "uint16", "uint8", "uint4", "uint2",
    "qint32", "qint8", "quint8",
)  # fmt: skip
# The dtypes in the spelling of NumPy and ml_dtypes, for budgets and baselines. (x86's float128 has 80 bits.)
NAMES = (*FLOATS, *INTEGERS, "complex128", "complex64", "complex32", "bool", "string", "float128", "complex256")
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
    "boolean": "bool",
    "str": "string",
    "c64": "complex64",
    "c128": "complex128",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "longdouble": "float128",
    "clongdouble": "complex256",
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
_WRAPPED = re.compile(r"(?:dt_|c10::|torch\.|tensorproto\.)?(?:tensor\()?([^()]*)\)?")
_SHORT = re.compile(r"([isu])(\d+)")
_SMALL_FLOAT = re.compile(r"(?:f|fp|float)([48])_?(e\d+m\d+\w*)")


@lru_cache(maxsize=1024)
def dtype(raw: str) -> str:
    """Return one spelling for a dtype that frameworks spell differently.

    >>> dtype("DT_BF16"), dtype("Float32"), dtype("c10::Half"), dtype("tensor(double)"), dtype("f8E4M3FN")
    ('bfloat16', 'float32', 'float16', 'float64', 'float8_e4m3fn')
    """
    if raw.startswith(("datetime64", "timedelta64")):
        return raw  # capitals distinguish their units: M is a month, m a minute
    plain = raw.strip().lower().removesuffix("_t")
    if match := _WRAPPED.fullmatch(plain):
        plain = match[1]
    if match := _SHORT.fullmatch(plain):
        return f"{'u' if match[1] == 'u' else ''}int{match[2]}" if plain != "i1" else "bool"
    if match := _SMALL_FLOAT.fullmatch(plain):
        return f"float{match[1]}_{match[2]}"
    return _DTYPES.get(plain, plain)


def is_dtype(raw: str) -> bool:
    """Return True if *raw* spells a dtype, whether or not a profile has it."""
    return dtype(raw) in NAMES


def of_pytorch_event(raw: str) -> str:
    """Return PyTorch's name for a tensor's dtype that its profiler names in C++; empty for anything else.

    >>> of_pytorch_event("c10::BFloat16"), of_pytorch_event("unsigned char"), of_pytorch_event("ScalarList")
    ('bfloat16', 'uint8', '')
    """
    return _CPP.get(raw) or (raw.removeprefix("c10::").lower() if raw.startswith("c10::") else "")


def item_bytes(dtype: str) -> int | None:
    """Return the size of an element by its name; None if the name does not tell.

    >>> item_bytes("bfloat16"), item_bytes("complex64"), item_bytes("float8_e4m3fn"), item_bytes("string")
    (2, 8, 1, None)
    """
    bits = re.search(r"\d+", dtype)
    if bits is None:
        return 1 if dtype == "bool" else None
    return None if int(bits[0]) % 8 else int(bits[0]) // 8


def width(name: str) -> int:
    """Return the bits of an element, 0 if the name does not tell: the measure of *wider*.

    >>> width("float64"), width("bfloat16"), width("bool"), width("string")
    (64, 16, 8, 0)
    """
    bits = re.search(r"\d+", name)
    return int(bits[0]) if bits else 8 if name == "bool" else 0
