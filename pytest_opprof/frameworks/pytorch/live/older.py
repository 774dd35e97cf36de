"""Memory that is older than a window and that the window frees: a replaced weight, for example.

PyTorch's profiler reports that a block on a CPU is freed only if a profiler recorded memory when it was allocated. So a
window holds the storages that are older, and looks for the ones that nobody else holds any more.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import Any

# The references of `Older.freed` to a storage: in its list, in its loop, and as an argument.
_OWN = 3


class Older:
    """Hold the CPU storages of all tensors that Python knows, as long as it lives. Making one takes 50 ms."""

    def __init__(self) -> None:
        import torch

        kinds = {torch.Tensor, torch.nn.Parameter}  # others may compute something when asked for their storage
        self._count: Any = getattr(torch._C, "_storage_Use_Count", None)
        found: dict[int, Any] = {}
        for each in gc.get_objects() if self._count else ():
            if type(each) in kinds and each.layout is torch.strided and each.device.type == "cpu":
                with suppress(RuntimeError):  # of tensors without a storage, such as those inside of vmap
                    storage = each.untyped_storage()
                    found[storage._cdata] = storage
        self._storages = [*found.values()]
        self._freed: set[int] = set()

    def freed(self) -> int:
        """Return the bytes of the storages that were freed since the last call, but for this object."""
        size = 0
        for storage in self._storages:
            address = storage._cdata
            if address not in self._freed and self._count(address) == 1 and sys.getrefcount(storage) <= _OWN:
                self._freed.add(address)
                size += storage.nbytes()
        return size
