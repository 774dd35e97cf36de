"""CUPTI's activity buffers -> columns. Bytes in, NumPy arrays out: no CUDA and no driver are needed.

A buffer holds records of several kinds one after the other; each begins with the number of its kind. All records of a
kind have one size in one version of CUPTI, and it grows from version to version (a kernel's: 208 bytes in CUDA 12, 216
to 248 in 13) while fields keep their places. So sizes are not written here: the library itself is asked where the
first record of each kind ends (6 us), further ones are passed over by what that told (0.1 us), and every walk has to
end where the buffer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...errors import BackendError

Buffer: TypeAlias = NDArray[np.uint8]
Table: TypeAlias = Mapping[str, NDArray[Any]]
Follow: TypeAlias = Callable[[Buffer, int], int | None]
"""Where the record ends that begins at that byte of a buffer, as the library itself says; None if it cannot."""

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL, PEER_COPY = 1, 2, 4, 5, 10, 22
"""Kinds. KERNEL is CUPTI's "concurrent kernel": its kind 3 would make kernels run one after the other."""
_ON_DEVICE = {"start": ("u8", 16), "end": ("u8", 24)}
_MOVE = {"bytes": ("u8", 8), **_ON_DEVICE, "device": ("u4", 32), "stream": ("u4", 40)}
_COPY = {"copy_kind": ("u1", 4), **_MOVE}
SHAPE = {f"{of}_{axis}": ("i4", at + 4 * n) for of, at in (("grid", 52), ("block", 64)) for n, axis in enumerate("xyz")}
"""Of a kernel."""
_CALL = {
    "callback": ("u4", 4),
    "start": ("u8", 8),
    "end": ("u8", 16),
    "thread": ("u4", 28),
    "correlation": ("u4", 32),
    "result": ("u4", 36),
}
FIELDS: Mapping[int, Mapping[str, tuple[str, int]]] = {
    KERNEL: {
        **_ON_DEVICE,
        "device": ("u4", 40),
        "stream": ("u4", 48),
        **SHAPE,
        "correlation": ("u4", 92),
        "name": ("u8", 104),
    },
    MEMCPY: {**_COPY, "correlation": ("u4", 44)},
    PEER_COPY: {**_COPY, "correlation": ("u4", 60)},
    MEMSET: {**_MOVE, "correlation": ("u4", 44)},
    RUNTIME: _CALL,
    DRIVER: _CALL,
}
"""The fields that are read, by kind: type and offset. The same in CUDA 12 and 13 (compared in 12.9 and 13.0 to 13.5).
Times are ns, a name is the address of a text."""
_LEAST = {kind: max(at + np.dtype(form).itemsize for form, at in of.values()) for kind, of in FIELDS.items()}
_WORD = 8
"""Records and their sizes are multiples of it."""
_LARGEST = 4096
"""Bytes of one record; the largest known has 248."""


class Decoder:
    """Decodes the buffers of one library; what it learns about sizes it keeps."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._sizes: dict[int, int] = {}

    def decode(self, buffers: Iterable[Buffer]) -> dict[int, Table]:
        """Return the records by kind, in the order of the buffers; kinds that nobody asked for are left out.

        A buffer is not looked at again once the next one is asked for, so that it can be given back.

        Raises BackendError for a buffer whose records do not end where it does.
        """
        parts: dict[int, list[Table]] = {kind: [] for kind in FIELDS}
        for buffer in buffers:
            for kind, table in self._tables(buffer):
                parts[kind].append(table)
        return {kind: _joined(kind, parts.pop(kind)) for kind in FIELDS}

    def _tables(self, buffer: Buffer) -> Iterator[tuple[int, Table]]:
        if len(buffer) % _WORD:
            raise _broken(buffer, f"its length is no multiple of {_WORD}")
        starts = np.array(self._walk(buffer), np.int64)
        kinds = buffer.view(np.int32)[starts // 4]
        for kind in FIELDS:
            of_kind = starts[kinds == kind]
            if len(of_kind):
                yield kind, {name: _gathered(buffer, of_kind, *field) for name, field in FIELDS[kind].items()}

    def _walk(self, buffer: Buffer) -> list[int]:
        """Return where records begin. The loop is hot."""
        kinds, end, at, sizes = buffer.view(np.int32).data, len(buffer), 0, self._sizes
        starts = []
        while at < end:
            starts.append(at)
            try:
                at += sizes[kinds[at >> 2]]
            except KeyError:
                at += self._learnt(buffer, kinds[at >> 2], at)
        if at > end:
            raise _broken(buffer, f"its last record, of kind {kinds[starts[-1] >> 2]}, ends {at - end} bytes after it")
        return starts

    def _learnt(self, buffer: Buffer, kind: int, at: int) -> int:
        """Return the size of the records of a *kind* that was not there before: that of the one *at* this byte."""
        end = self._follow(buffer, at)
        if end is None:
            raise _broken(buffer, f"the library does not know the record of kind {kind} at byte {at}")
        size = end - at
        if size % _WORD or not _LEAST.get(kind, _WORD) <= size <= _LARGEST:
            raise _broken(buffer, f"the record of kind {kind} at byte {at} has {size} bytes")
        self._sizes[kind] = size
        return size


def _gathered(buffer: Buffer, starts: NDArray[np.int64], form: str, at: int) -> NDArray[Any]:
    # One field at a time from a view of its own width: taking whole records byte by byte was 100 times slower.
    return buffer.view(form)[(starts + at) // np.dtype(form).itemsize]


def _joined(kind: int, tables: list[Table]) -> Table:
    return {
        name: np.concatenate([np.empty(0, form), *(table[name] for table in tables)])
        for name, (form, _) in FIELDS[kind].items()
    }


def _broken(buffer: Buffer, why: str) -> BackendError:
    return BackendError(
        f"an activity buffer of CUPTI ({len(buffer)} bytes) cannot be read: {why}. Another libcupti may be loaded than"
        " the one that filled it; set OPPROF_LIBCUPTI to the file that your CUDA program uses"
    )
