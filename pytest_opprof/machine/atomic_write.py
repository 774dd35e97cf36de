"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from errno import EISDIR
from pathlib import Path


def write_atomically(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Put *content*, or its pieces, into *path*, which is the old file or the new one at any moment. Raises OSError."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "is a folder")
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pieces = [content.encode()] if isinstance(content, str) else content
        with beside.open("wb") as file:
            file.writelines([pieces] if isinstance(pieces, bytes) else pieces)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces compressed, without the time: the same content gives the same file."""
    packer = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
