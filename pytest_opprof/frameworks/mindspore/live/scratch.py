"""The folder of this process into which MindSpore writes for opprof, deleted when the process ends.

One for all windows, since deleting a folder takes 0.01 ms in memory and 4 ms on a disk.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ....machine.scratch import lasting


@cache
def folder(name: str) -> Path:
    """Return the folder *name* of this process, an empty one at the first call."""
    path = _own() / name
    path.mkdir()
    return path


@cache
def _own() -> Path:
    return lasting("mindspore-")
