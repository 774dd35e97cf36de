"""Decode CUPTI's activity buffers into columns. This needs neither CUDA nor a driver.

A buffer holds records of several kinds one after the other; each begins with the number of its kind. In one version of
CUPTI all records of a kind have the same size. It grows from version to version (a kernel's: 208 bytes in CUDA 12, 216
to 248 in 13), and fields keep their places. No sizes are therefore hard-coded here. The library is asked for the end of
the first record of each kind (6 us), which gives the size of the others (0.1 us each). The last record has to end with
the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....errors import BackendError

Buffer: TypeAlias = NDArray[np.uint8]
Table: TypeAlias = Mapping[str, NDArray[Any]]
# Returns the end of the record that begins at a byte of a buffer; None if the library does not know.
Follow: TypeAlias = Callable[[Buffer, int], int | None]

# Kinds of records. KERNEL is CUPTI's "concurrent kernel": kind 3 would make kernels run one after the other. OVERHEAD
# is time of CUPTI and the driver. EXTERNAL is the number that was pushed when a call began.
MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL, OVERHEAD, PEER_COPY, EXTERNAL = 1, 2, 4, 5, 10, 17, 22, 39
_ON_DEVICE = {"start": ("u8", 16), "end": ("u8", 24)}
_MOVE = {"bytes": ("u8", 8), **_ON_DEVICE, "device": ("u4", 32), "stream": ("u4", 40)}
_COPY = {"copy_kind": ("u1", 4), **_MOVE}
# The grid and block of a kernel.
SHAPE = {f"{of}_{axis}": ("i4", at + 4 * n) for of, at in (("grid", 52), ("block", 64)) for n, axis in enumerate("xyz")}
_CALL = {
    "callback": ("u4", 4),
    "start": ("u8", 8),
    "end": ("u8", 16),
    "thread": ("u4", 28),
    "correlation": ("u4", 32),
    "result": ("u4", 36),
}
# The type and offset of each used field, by kind. They are the same in CUDA 12 and 13 (compared: 12.4, 12.6, 12.9, 13.0
# to 13.5). Times are ns, a name is the address of a text, a graph node of 0 is work outside of graphs.
FIELDS: Mapping[int, Mapping[str, tuple[str, int]]] = {
    KERNEL: {
        **_ON_DEVICE,
        "device": ("u4", 40),
        "stream": ("u4", 48),
        **SHAPE,
        "correlation": ("u4", 92),
        "name": ("u8", 104),
        "graph_node": ("i8", 144),
        "graph": ("u4", 156),
    },
    MEMCPY: {**_COPY, "correlation": ("u4", 44), "graph_node": ("i8", 64), "graph": ("u4", 72)},
    PEER_COPY: {**_COPY, "correlation": ("u4", 60), "graph_node": ("i8", 72), "graph": ("u4", 80)},
    MEMSET: {**_MOVE, "correlation": ("u4", 44), "graph_node": ("i8", 64), "graph": ("u4", 72)},
    OVERHEAD: {"what": ("u4", 4), "start": ("u8", 24)},
    RUNTIME: _CALL,
    DRIVER: _CALL,
    EXTERNAL: {"pushed": ("u8", 8), "correlation": ("u4", 16)},
}
# The OVERHEAD kinds of loading code inside a launch: the runtime loads a module, or the driver a function.
LOADING = (4 << 16, 5 << 16)
_LEAST = {kind: max(at + np.dtype(form).itemsize for form, at in of.values()) for kind, of in FIELDS.items()}
# Sizes of records are multiples of this.
_WORD = 8
# The most bytes of a record; the largest known one has 248.
_LARGEST = 4096


class Decoder:
    """Decodes the buffers of one library, and keeps the record sizes that it finds."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._sizes: dict[int, int] = {}

    def decode(self, buffers: Iterable[Buffer]) -> dict[int, Table]:
        """Return the records of the kinds in `FIELDS`, in the order of the buffers.

        A buffer may be reused after the next one is requested. Raises BackendError if a buffer's records do not end
        with it.
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
        """Return the offsets of the records. This loop runs for every record."""
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
        """Return, and keep, the record size of a new *kind*: the size of the record *at* this byte."""
        end = self._follow(buffer, at)
        if end is None:
            raise _broken(
                buffer,
                f"the library does not know the record of kind {kind} at byte {at}, or the one after it is not whole,"
                " as of work that was still running, of another thread: wait for that inside the window",
            )
        size = end - at
        if size % _WORD or not _LEAST.get(kind, _WORD) <= size <= _LARGEST:
            raise _broken(buffer, f"the record of kind {kind} at byte {at} has {size} bytes")
        self._sizes[kind] = size
        return size


def _gathered(buffer: Buffer, starts: NDArray[np.int64], form: str, at: int) -> NDArray[Any]:
    # Each field is read from a view of its type, since copying whole records byte by byte was 100 times slower.
    return buffer.view(form)[(starts + at) // np.dtype(form).itemsize]


def _joined(kind: int, tables: list[Table]) -> Table:
    return {
        name: np.concatenate([np.empty(0, form), *(table[name] for table in tables)])
        for name, (form, _) in FIELDS[kind].items()
    }


def _broken(buffer: Buffer, why: str) -> BackendError:
    return BackendError(
        f"an activity buffer of CUPTI ({len(buffer)} bytes) cannot be read: {why}. Perhaps another libcupti filled it"
        " than the one that reads it; set OPPROF_LIBCUPTI to the file that your CUDA program uses"
    )
