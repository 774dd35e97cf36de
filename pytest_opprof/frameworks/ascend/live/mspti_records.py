"""Decode MSPTI's activity buffers into columns. This needs neither CANN nor a driver.

A buffer holds records of several kinds one after the other, without gaps; each begins with the number of its kind. They
are packed: the next field is at byte 4. Sizes and offsets are a compiler's for the structs of ``mspti_activity.h``,
MSPTI 26.0.0. ``msptiActivityGetNextRecord`` is not used: it ignores the given record, and keeps its place in the
thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError

Table: TypeAlias = Mapping[str, NDArray[Any]]

KERNEL, MEMSET, MEMCPY, NODE_API = 2, 6, 7, 11
# The bytes of a record, by kind.
SIZES: Mapping[int, int] = {
    1: 56,  # MARKER
    KERNEL: 56,
    3: 48,  # API
    4: 56,  # HCCL
    5: 64,  # MEMORY
    MEMSET: 56,
    MEMCPY: 56,
    8: 24,  # EXTERNAL_CORRELATION
    9: 72,  # COMMUNICATION
    10: 48,  # ACL_API
    NODE_API: 48,
    12: 48,  # RUNTIME_API
}
_MOVE = {
    "bytes": ("<u8", 8),
    "start": ("<u8", 16),
    "end": ("<u8", 24),
    "device": ("<u4", 32),
    "stream": ("<u4", 36),
    "correlation": ("<u8", 40),
}
# The type and offset of each used field, by kind. Times are ns, a name is the address of a text. A kernel has the
# device's times, a copy or a set the host call's.
FIELDS: Mapping[int, Mapping[str, tuple[str, int]]] = {
    KERNEL: {
        "start": ("<u8", 4),
        "end": ("<u8", 12),
        "device": ("<u4", 20),
        "stream": ("<u4", 24),
        "correlation": ("<u8", 28),
        "type": ("<u8", 36),
        "name": ("<u8", 44),
    },
    MEMCPY: {"copy_kind": ("<u4", 4), **_MOVE},
    MEMSET: _MOVE,
    NODE_API: {"correlation": ("<u8", 28), "name": ("<u8", 36)},
}
_DTYPES = {
    kind: np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [at for _, at in fields.values()],
            "itemsize": SIZES[kind],
        }
    )
    for kind, fields in FIELDS.items()
}
_KIND = struct.Struct("<i")


def decode(buffers: Iterable[bytes]) -> dict[int, Table]:
    """Return the fields of all records in *buffers*, in their order, by kind.

    Raises BackendError for anything but a record of MSPTI, as after a change of its layout.
    """
    found: dict[int, list[NDArray[Any]]] = {kind: [] for kind in FIELDS}
    for buffer in buffers:
        for kind, offsets in _offsets(buffer).items():
            if kind in found:
                rows = np.array(offsets)[:, None] + np.arange(SIZES[kind])
                found[kind].append(np.frombuffer(buffer, np.uint8)[rows].view(_DTYPES[kind])[:, 0])
    empty = {kind: np.zeros(0, dtype) for kind, dtype in _DTYPES.items()}
    joined = {kind: np.concatenate([empty[kind], *tables]) for kind, tables in found.items()}
    return {kind: {name: table[name] for name in FIELDS[kind]} for kind, table in joined.items()}


def _offsets(buffer: bytes) -> dict[int, list[int]]:
    """Return the offsets of the records, by kind."""
    found: dict[int, list[int]] = {}
    at, end = 0, len(buffer)
    while at < end:
        kind = _KIND.unpack_from(buffer, at)[0] if at + _KIND.size <= end else None
        size = SIZES.get(kind) if kind is not None else None
        if size is None or at + size > end:
            raise BackendError(
                f"a buffer of MSPTI has at byte {at} of {end} no record that is known (kind {kind}): this version of"
                " CANN is not supported yet. Tell us the version, and what opprof selfcheck --device npu prints"
            )
        found.setdefault(kind, []).append(at)  # type: ignore[arg-type]  # it has a size
        at += size
    return found
