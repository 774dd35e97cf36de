"""Write files as a whole, or not at all."""

from __future__ import annotations

import os
import secrets
import zlib
from collections.abc import Iterable, Iterator
from errno import EISDIR
from pathlib import Path

# The suffix of an unfinished file.
UNFINISHED = ".opprof-tmp"


def write_atomically(path: Path, content: str | bytes | Iterable[bytes], through: Path | None = None) -> None:
    """Put *content*, or its pieces, into *path*, which is the old file or the new one at any moment. Raises OSError.

    The unfinished file lies in the folder *through*, on the same disk, or beside *path*.
    """
    if os.path.isdir(path):
        raise IsADirectoryError(EISDIR, "is a folder")
    # Random: two containers that share a folder number their processes alike (18 of 300 files failed by that), and of a
    # fixed length: a name of 255 characters leaves no room for more.
    unfinished = (through or path.parent) / f".{secrets.token_hex(8)}{UNFINISHED}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pieces = [content.encode()] if isinstance(content, str) else content
        with unfinished.open("xb") as file:
            file.writelines([pieces] if isinstance(pieces, bytes) else pieces)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def gzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces compressed, without the time: the same content gives the same file."""
    packer = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
