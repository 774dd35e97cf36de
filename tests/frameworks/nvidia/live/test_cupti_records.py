"""The decoder on buffers made here, and on the real libcupti's own walk through them where its wheel is installed."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.errors import BackendError
from pytest_opprof.frameworks.nvidia.live import cupti, libcupti
from pytest_opprof.frameworks.nvidia.live.cupti_records import (
    DRIVER,
    EXTERNAL,
    FIELDS,
    KERNEL,
    MEMCPY,
    MEMSET,
    OVERHEAD,
    PEER_COPY,
    RUNTIME,
    SHAPE,
    Buffer,
    Decoder,
)
from pytest_opprof.ops import cuda_calls, names

from .cuda_stand_in import SIZES, call_record, copy_record, external_record, kernel_record, overhead_record, set_record

NUMBER = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 2**32 - 1)
NODE = st.integers(0, 2**63 - 1)
SIZE = st.integers(0, 2**31 - 1)
UNKNOWN = 11
"""Names that NVTX gave: a kind that nobody asks for, though another profiler may have."""


def made(*records: bytes) -> Buffer:
    return np.frombuffer(b"".join(records), np.uint8)


def following(sizes: dict[int, int]) -> Callable[[Buffer, int], int | None]:
    """Return what the library does, by a table of sizes."""

    def follow(buffer: Buffer, at: int) -> int | None:
        size = sizes.get(int(buffer[at : at + 4].view(np.int32)[0]))
        return None if size is None else min(at + size, len(buffer))

    return follow


def decoder(kernel: int = 216) -> Decoder:
    return Decoder(following({**SIZES, KERNEL: kernel}))


RECORD = st.one_of(
    st.tuples(st.just(KERNEL), NUMBER, NUMBER, SMALL, NUMBER, SMALL, SMALL, NODE, SMALL, *[SIZE] * 6),
    st.tuples(st.just(RUNTIME), SMALL, NUMBER, NUMBER, SMALL),
    st.tuples(st.just(DRIVER), SMALL, NUMBER, NUMBER, SMALL),
    st.tuples(st.just(MEMCPY), st.integers(0, 255), NUMBER, NUMBER, SMALL, SMALL, NODE, SMALL),
    st.tuples(st.just(PEER_COPY), st.integers(0, 255), NUMBER, NUMBER, SMALL, SMALL, NODE, SMALL),
    st.tuples(st.just(MEMSET), NUMBER, NUMBER, NUMBER, SMALL, SMALL, NODE, SMALL),
    st.tuples(st.just(OVERHEAD), SIZE, NUMBER),
    st.tuples(st.just(EXTERNAL), NUMBER, SMALL),
    st.just((UNKNOWN,)),
)
SEEN = {
    KERNEL: ("start", "end", "correlation", "name", "device", "stream", "graph_node", "graph", *SHAPE),
    RUNTIME: ("callback", "start", "end", "correlation"),
    DRIVER: ("callback", "start", "end", "correlation"),
    MEMCPY: ("copy_kind", "start", "end", "correlation", "stream", "graph_node", "graph"),
    PEER_COPY: ("copy_kind", "start", "end", "correlation", "stream", "graph_node", "graph"),
    MEMSET: ("bytes", "start", "end", "correlation", "stream", "graph_node", "graph"),
    OVERHEAD: ("what", "start"),
    EXTERNAL: ("pushed", "correlation"),
}


def packed(record: tuple[int, ...], kernel: int = 216) -> bytes:
    kind, *values = record
    if kind == KERNEL:
        start, end, correlation, name, device, stream, node, graph, *grid = values
        where = device, kernel, stream, tuple(grid[:3]), tuple(grid[3:]), node, graph
        return kernel_record(start, end, correlation, name, *where)
    if kind in (MEMCPY, PEER_COPY):
        copy_kind, start, end, correlation, stream, node, graph = values
        return copy_record(copy_kind, 5, start, end, correlation, kind, stream, node, graph)
    if kind == MEMSET:
        return set_record(*values)
    if kind == OVERHEAD:
        return overhead_record(*values, 0)
    if kind == EXTERNAL:
        return external_record(*values)
    return struct.pack("=iIQQQ", kind, 3, 1, 0, 2) if kind == UNKNOWN else call_record(kind, *values)


@pytest.mark.slow
@given(
    st.lists(st.lists(RECORD, min_size=1), max_size=4).filter(lambda buffers: sum(map(len, buffers)) > 0),
    st.sampled_from([208, 216, 224, 232, 248]),
)
def test_every_field_of_every_record_comes_back_in_order(buffers: list[list[tuple[int, ...]]], size: int) -> None:
    decoded = decoder(kernel=size).decode(made(*(packed(r, size) for r in buffer)) for buffer in buffers)
    for kind, columns in SEEN.items():
        expected = [record[1:] for buffer in buffers for record in buffer if record[0] == kind]
        assert list(zip(*(decoded[kind][name].tolist() for name in columns))) == expected


def test_nothing_is_decoded_to_empty_columns_of_every_kind() -> None:
    decoded = decoder().decode([])
    assert {kind: set(table) for kind, table in decoded.items()} == {kind: set(FIELDS[kind]) for kind in FIELDS}
    assert not any(len(values) for table in decoded.values() for values in table.values())


def test_the_library_is_asked_once_for_each_kind() -> None:
    asked: list[int] = []

    def follow(buffer: Buffer, at: int) -> int | None:
        asked.append(int(buffer[at : at + 4].view(np.int32)[0]))
        return following(SIZES)(buffer, at)

    kernel, call = kernel_record(1, 2, 3, 4), call_record(RUNTIME, 1, 2, 3, 4)
    decoding = Decoder(follow)
    decoded = decoding.decode([made(kernel), made(kernel, kernel), made(kernel, call), made(call, kernel, call)])
    assert asked == [KERNEL, RUNTIME]
    assert (len(decoded[KERNEL]["start"]), len(decoded[RUNTIME]["start"])) == (5, 3)


CALL = call_record(RUNTIME, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("buffer", "words"),
    [
        (made(CALL)[:-3], "its length is no multiple of 8"),
        (made(kernel_record(1, 2, 3, 4))[:-120], "the record of kind 10 at byte 0 has 96 bytes"),
        (made(CALL)[:-8], "the record of kind 5 at byte 0 has 32 bytes"),
        (made(CALL, CALL)[:-8], "its last record, of kind 5, ends 8 bytes after it"),
        (made(CALL, bytes(40)), "the library does not know the record of kind 0 at byte 40"),
    ],
)
def test_a_buffer_that_does_not_walk_is_one_clear_error(buffer: Buffer, words: str) -> None:
    with pytest.raises(BackendError, match=rf"cannot be read: {words}.* set OPPROF_LIBCUPTI"):
        decoder().decode([buffer])


@pytest.mark.parametrize("end", [-8, 0, 36, 8192])
def test_a_size_that_makes_no_sense_is_an_error(end: int) -> None:
    with pytest.raises(BackendError, match=f"the record of kind 5 at byte 0 has {end} bytes"):
        Decoder(lambda buffer, at: end).decode([made(CALL, CALL)])


@given(st.binary(max_size=400), st.lists(st.integers(-8, 400), min_size=1))
def test_any_bytes_and_any_sizes_are_columns_or_an_error_and_never_a_hang(content: bytes, ends: list[int]) -> None:
    decoding = Decoder(lambda buffer, at: ends[at % len(ends)])
    for buffer in (made(kernel_record(1, 2, 3, 4), content), made(content)):
        try:
            decoded = decoding.decode([buffer])
        except BackendError:
            continue
        assert sum(len(next(iter(table.values()))) for table in decoded.values()) <= len(buffer) // 8


# The real library. It needs no driver to walk.


@pytest.fixture(scope="module")
def real() -> cupti.Cupti:
    paths = [path for path in libcupti.candidates([], {}) if "/nvidia/" in path]
    if not paths:
        pytest.skip("the wheel nvidia-cuda-cupti is not installed")
    return cupti.Cupti(ctypes.CDLL(paths[0]), paths[0])


@given(st.lists(RECORD, min_size=1, max_size=50))
def test_the_real_library_finds_the_records_where_the_decoder_does(
    real: cupti.Cupti, records: list[tuple[int, ...]]
) -> None:
    size = {12: 208, 13: 216}[real.major()]
    buffer = made(*(packed(record, size) for record in records))
    decoded = Decoder(real._follow).decode([buffer])
    for kind, columns in SEEN.items():
        expected = [record[1:] for record in records if record[0] == kind]
        assert list(zip(*(decoded[kind][name].tolist() for name in columns))) == expected


def test_the_calls_that_are_left_out_start_nothing_wait_for_nothing_and_allocate_nothing(real: cupti.Cupti) -> None:
    left_out = [real.function(RUNTIME, number) for number in cupti._QUIET]
    assert [name.removeprefix("cuda") for name in left_out] == (
        "DriverGetVersion RuntimeGetVersion GetDeviceCount GetLastError PeekAtLastError SetDevice GetDevice MemGetInfo"
        " StreamQuery EventQuery PointerGetAttributes DeviceGetAttribute StreamIsCapturing"
    ).split()
    for name in left_out:
        assert not cuda_calls.starts_device_work(name), name
        assert not cuda_calls.allocates(name), name
        assert names.meaning(name).op != "Synchronize", name


@given(st.integers(1, 207))
def test_a_buffer_that_was_cut_is_an_error_with_the_real_library_too(real: cupti.Cupti, cut: int) -> None:
    whole = made(*(packed((KERNEL, *range(14)), {12: 208, 13: 216}[real.major()]) for _ in range(3)))
    decoding = Decoder(real._follow)
    decoding.decode([whole])
    with pytest.raises(BackendError, match="cannot be read"):
        decoding.decode([whole[:-cut].copy()])


def test_a_kind_that_the_real_library_does_not_know_is_an_error(real: cupti.Cupti) -> None:
    with pytest.raises(BackendError, match="cannot be read"):
        Decoder(real._follow).decode([made(struct.pack("=iI", 99_999, 0), bytes(64))])
