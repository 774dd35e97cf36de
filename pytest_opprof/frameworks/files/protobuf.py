"""Protocol Buffers' wire format: the fields of a message, without their meaning. `protobuf` is not needed.

A message is a row of fields. A field is a tag (the number of the field, and the encoding of the value) and the value: a
number, or bytes (a text, a message, packed numbers). https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# The most bytes read of a text.
MOST_NAME = 1024
Data = bytes | mmap.mmap


class Broken(ValueError):
    """An error in the bytes, with its place."""


class Field(NamedTuple):
    """A field of a message: a number, or bytes from *start* to *end*."""

    number: int
    wire: int
    value: int
    start: int
    end: int


def fields(data: Data, at: int, end: int, cut: bool = False) -> Iterator[Field]:
    """Yield the fields of the message between *at* and *end*; with *cut* the last may end after it. Raises Broken."""
    while at < end:
        begin = at
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        value, start = 0, at
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire == BYTES:
            size, start = varint(data, at, end)
            at = start + size
        elif wire in (FIXED32, FIXED64):
            at += 4 if wire == FIXED32 else 8
        else:
            raise Broken(f"a field of wire type {wire} at byte {begin}")
        if at > end and not cut:
            raise Broken(f"field {number} at byte {begin} ends {at - end} bytes behind its message")
        if not number:
            raise Broken(f"a field without a number at byte {begin}")
        yield Field(number, wire, value, start, at)


def varint(data: Data, at: int, end: int) -> tuple[int, int]:
    """Return the number at *at*, which has at most 10 bytes, and its end. Raises Broken."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise Broken(f"a number cut at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Broken(f"a number of more than 10 bytes at byte {at}")


def signed(number: int) -> int:
    """Return the int64 with the 64 bits of *number*.

    >>> signed(2**64 - 1)
    -1
    """
    return number - (1 << 64) if number >> 63 else number


def text(data: Data, field: Field | None) -> str:
    """Return the beginning of a text, at most `MOST_NAME` bytes; "" if there is no text."""
    if field is None or field.wire != BYTES:
        return ""
    return data[field.start : min(field.end, field.start + MOST_NAME)].decode("utf-8", "replace")


def inside(data: Data, field: Field | None) -> dict[int, Field]:
    """Return the fields of a message by number, the last of each; none if *field* is no message. Raises Broken."""
    if field is None or field.wire != BYTES:
        return {}
    return {each.number: each for each in fields(data, field.start, field.end)}


def numbers(data: Data, field: Field) -> list[int]:
    """Return the numbers of a repeated field, packed or one by one. Raises Broken."""
    if field.wire == VARINT:
        return [field.value]
    found, at = [], field.start
    while at < field.end:
        number, at = varint(data, at, field.end)
        found.append(number)
    return found
