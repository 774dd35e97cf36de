"""The bytes of a binary file: mapped into memory, not read, unless they are compressed."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import TraceError
from .place import Place
from .protobuf import Data

# Bytes of a gzipped file, inflated: 1 GiB.
MOST_COMPRESSED = 1 << 30


@contextmanager
def content(place: Place) -> Iterator[Data]:
    """Yield the bytes of a file: mapped, or inflated if it is compressed. Raises TraceError."""
    if place.is_compressed or place.size == 0:
        yield place.read(MOST_COMPRESSED)
        return
    try:
        with open(place.path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise TraceError(f"{place}: cannot be read ({error.strerror})") from None
    with data:
        yield data
    place.progress(place.size)
