"""The decoder on buffers made here. The layouts are those that a compiler gives the structs of MSPTI 26.0.0."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.ascend.live.mspti_records import KERNEL, MEMCPY, MEMSET, NODE_API, SIZES, decode

LONG, INT = st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
COLUMNS = {
    KERNEL: ("start", "end", "device", "stream", "correlation", "type", "name"),
    MEMCPY: ("copy_kind", "bytes", "start", "end", "device", "stream", "correlation"),
    MEMSET: ("bytes", "start", "end", "device", "stream", "correlation"),
    NODE_API: ("correlation", "name"),
}
RECORD = st.one_of(
    st.tuples(st.just(KERNEL), LONG, LONG, INT, INT, LONG, LONG, LONG),
    st.tuples(st.just(MEMCPY), INT, LONG, LONG, LONG, INT, INT, LONG),
    st.tuples(st.just(MEMSET), LONG, LONG, LONG, INT, INT, LONG),
    st.tuples(st.just(NODE_API), LONG, LONG),
    st.tuples(st.sampled_from(sorted(SIZES.keys() - COLUMNS.keys()))),
)


def packed(kind: int, *values: int) -> bytes:
    """Return a record as the structs have it: packed, and filled up to 8 bytes."""
    if kind == KERNEL:
        record = struct.pack("<iQQIIQQQ", kind, *values)
    elif kind == MEMCPY:
        record = struct.pack("<iIQQQIIQB", kind, *values, 1)
    elif kind == MEMSET:
        record = struct.pack("<iIQQQIIQB", kind, 7, *values, 1)
    elif kind == NODE_API:
        record = struct.pack("<iQQIIQQ", kind, 1, 2, 3, 4, *values)
    else:
        record = struct.pack("<i", kind)
    return record.ljust(SIZES[kind], b"\xff")


@given(st.lists(st.lists(RECORD, max_size=20), max_size=4))
def test_what_was_written_is_read_in_order_whatever_lies_between(buffers: list[list[tuple[int, ...]]]) -> None:
    tables = decode([b"".join(packed(*record) for record in records) for records in buffers])
    for kind, columns in COLUMNS.items():
        written = [tuple(values) for records in buffers for of, *values in records if of == kind]
        assert list(zip(*(tables[kind][name].tolist() for name in columns))) == written


@given(st.lists(RECORD, min_size=1, max_size=5), st.data())
def test_a_buffer_that_is_cut_is_an_error(records: list[tuple[int, ...]], data: st.DataObject) -> None:
    whole = b"".join(packed(*record) for record in records)
    ends = {sum(SIZES[kind] for kind, *_ in records[:number]) for number in range(len(records) + 1)}
    size = data.draw(st.integers(1, len(whole) - 1))
    if size in ends:
        decode([whole[:size]])
    else:
        with pytest.raises(BackendError, match=r"a buffer of MSPTI has at byte \d+ of \d+ no record that is known"):
            decode([whole[:size]])


@given(st.binary(min_size=1, max_size=300).filter(lambda buffer: int.from_bytes(buffer[:4], "little") not in SIZES))
def test_what_is_no_record_is_an_error_that_says_what_to_do(buffer: bytes) -> None:
    with pytest.raises(BackendError, match="this version of CANN is not supported yet"):
        decode([buffer])


def test_no_buffers_are_empty_columns() -> None:
    assert {kind: len(table["correlation"]) for kind, table in decode([]).items()} == dict.fromkeys(COLUMNS, 0)
