"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
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
