"""Messages in Protocol Buffers' wire format, made by hand."""

from __future__ import annotations


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, content: bytes | str | int) -> bytes:
    """Return a field: bytes and texts with their length, numbers as they are (negative ones in 64 bits)."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content % (1 << 64))
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data
