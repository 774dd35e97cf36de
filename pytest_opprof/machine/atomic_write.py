"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
from errno import EISDIR
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Put *content* into *path*, which is the old file or the new one at any moment. Raises OSError."""
    if path.is_dir():
        raise IsADirectoryError(EISDIR, "is a folder")
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
