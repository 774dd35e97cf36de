"""Protocol Buffers' wire format: what is written is read, and what is broken says where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.frameworks.files.protobuf import (
    BYTES,
    FIXED32,
    VARINT,
    Broken,
    Field,
    fields,
    inside,
    numbers,
    signed,
    text,
)

from ...protobuf_messages import field, varint

NUMBERS = st.integers(0, 2**64 - 1)
CONTENTS = st.one_of(NUMBERS, st.binary(max_size=300), st.text(max_size=50))


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), CONTENTS), max_size=8))
def test_what_is_written_is_read(message: list[tuple[int, bytes | str | int]]) -> None:
    data = b"".join(field(number, content) for number, content in message)
    read = list(fields(data, 0, len(data)))
    assert [each.number for each in read] == [number for number, _ in message]
    for each, (_, content) in zip(read, message):
        if isinstance(content, int):
            assert (each.wire, each.value) == (VARINT, content)
        else:
            expected = content.encode() if isinstance(content, str) else content
            assert (each.wire, data[each.start : each.end]) == (BYTES, expected)


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_broken(data: bytes) -> None:
    try:
        read = list(fields(data, 0, len(data)))
    except Broken:
        return
    assert all(each.number > 0 and 0 <= each.start <= each.end <= len(data) for each in read)


@given(st.lists(NUMBERS, max_size=20), st.booleans())
def test_repeated_numbers_are_the_same_packed_and_one_by_one(values: list[int], packed: bool) -> None:
    data = field(7, b"".join(map(varint, values))) if packed else b"".join(field(7, value) for value in values)
    assert [number for each in fields(data, 0, len(data)) for number in numbers(data, each)] == values


def test_what_is_inside_a_message_goes_by_its_number_and_the_last_of_a_number_wins() -> None:
    data = field(1, field(2, 5) + field(3, "a") + field(2, 6))
    (outer,) = fields(data, 0, len(data))
    found = inside(data, outer)
    assert (found[2].value, text(data, found[3]), set(found)) == (6, "a", {2, 3})
    assert inside(data, found[2]) == inside(data, None) == {}
    assert text(data, found[2]) == text(data, None) == ""


def test_a_number_of_four_bytes_is_passed_over() -> None:
    data = varint(1 << 3 | FIXED32) + b"abcd" + field(2, 1)
    assert [each.number for each in fields(data, 0, len(data))] == [1, 2]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x08", "a number cut at byte 1"),
        (b"\x0a\x05ab", "field 1 at byte 0 ends 3 bytes behind its message"),
        (b"\x03", "a field of wire type 3 at byte 0"),
        (b"\x00\x00", "a field without a number at byte 0"),
        (b"\x08" + b"\xff" * 11, "a number of more than 10 bytes at byte 11"),
    ],
)
def test_what_is_broken_says_where(data: bytes, said: str) -> None:
    with pytest.raises(Broken, match=said):
        list(fields(data, 0, len(data)))


def test_a_cut_message_may_end_in_a_field_where_that_is_asked_for() -> None:
    data = field(1, "abcdef")[:4]
    assert list(fields(data, 0, len(data), cut=True)) == [Field(1, BYTES, 0, 2, 8)]


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_signed_number_has_the_same_bits(number: int) -> None:
    assert signed(number % 2**64) == number
