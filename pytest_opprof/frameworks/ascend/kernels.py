"""Parse the name of an Ascend kernel: the op type, which `ops.tables.ascend` knows."""

from __future__ import annotations

import re

# CANN's kernels: the op type; then a hash of dtypes and formats, or these; then how it was compiled.
_BINARY = re.compile(r"([A-Za-z][A-Za-z0-9]*)_(?:[0-9a-f]{32}(?:_\w*)?|\w+_high_(?:performance|precision)_\d+)")


def op_type(kernel: str) -> str:
    """Return the op type that begins a kernel's name; the name itself if it is not CANN's, but Triton's, for example.

    >>> op_type("Cast_e87590d11ccda8b259ab6b1ea7212319_high_performance_210000000"), op_type("my_triton_kernel")
    ('Cast', 'my_triton_kernel')
    """
    match = _BINARY.fullmatch(kernel)
    return match[1] if match else kernel
