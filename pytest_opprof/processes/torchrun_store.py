"""The store of torchrun: what ranks tell each other without a process group, which tests make and end."""

from __future__ import annotations

import os
from datetime import timedelta

_PATIENCE = timedelta(seconds=30)
"""How long torchrun, which is there before its ranks, may take to answer."""


def is_there() -> bool:
    """Tell whether torchrun has a store that its ranks may use."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and "MASTER_PORT" in os.environ


class TorchStore:
    """Values by key, seen by all ranks of one launch."""

    def __init__(self) -> None:
        from torch.distributed import PrefixStore, TCPStore

        host, port = os.environ.get("MASTER_ADDR", "localhost"), int(os.environ["MASTER_PORT"])
        # torchrun starts ranks again where one failed, if it is told to.
        launch = f"pytest-opprof/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        self._store = PrefixStore(launch, TCPStore(host, port, None, False, _PATIENCE))

    def put(self, key: str, value: bytes) -> None:
        """Keep *value*."""
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        """Return what is kept; None while there is nothing."""
        return bytes(self._store.get(key)) if self._store.check([key]) else None

    def forget(self, rank: int) -> None:
        """Do nothing: it is of this launch alone."""

    def close(self) -> None:
        """Let go of it. It ends with torchrun."""
        del self._store
