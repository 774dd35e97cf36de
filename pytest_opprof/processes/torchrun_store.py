"""The store of torchrun: communication of ranks without a process group, which tests make and end."""

from __future__ import annotations

import os
from datetime import timedelta

# The longest wait for an answer of torchrun, which starts before its ranks.
_PATIENCE = timedelta(seconds=30)


def is_there() -> bool:
    """Return True if torchrun has a store that its ranks may use."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and "MASTER_PORT" in os.environ


class TorchStore:
    """Values by key, seen by all ranks of one launch."""

    def __init__(self) -> None:
        from torch.distributed import PrefixStore, TCPStore

        host, port = os.environ.get("MASTER_ADDR", "localhost"), int(os.environ["MASTER_PORT"])
        # torchrun restarts ranks after a failure, if configured.
        launch = f"pytest-opprof/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        self._store = PrefixStore(launch, TCPStore(host, port, None, False, _PATIENCE))

    def put(self, key: str, value: bytes) -> None:
        """Store *value*."""
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        """Return the stored value; None if there is none."""
        return bytes(self._store.get(key)) if self._store.check([key]) else None

    def forget(self, rank: int) -> None:
        """Do nothing: the store belongs to this launch only."""

    def close(self) -> None:
        """Release it. It ends with torchrun."""
        del self._store
