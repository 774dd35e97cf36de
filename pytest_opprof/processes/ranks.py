"""Communication between the ranks of one run: over the store of torchrun, else over files that all of them see."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, Protocol

from ..errors import BackendError
from ..machine.atomic_write import write_atomically
from ..machine.load import is_running, started_at
from ..machine.ranks import Rank, ranks_named

# The longest wait for another living rank. Ranks in step answer within moments.
PATIENCE_S = 60
_POLL_S = 0.01
# The interval for checking that a rank still lives.
_ALIVE_S = 0.5
# Variables that name a launch: of Open MPI 5, srun and Open MPI 4.
_LAUNCHES = (("PMIX_NAMESPACE",), ("SLURM_JOB_ID", "SLURM_STEP_ID"), ("OMPI_MCA_ess_base_jobid",))


class Failure(NamedTuple):
    """A test that failed on a rank."""

    test: str
    why: str
    """In a line."""
    at: float
    """The time, in s since the epoch."""


class Store(Protocol):
    """Values by key, seen by all ranks."""

    def put(self, key: str, value: bytes) -> None:
        """Store *value*."""

    def get(self, key: str) -> bytes | None:
        """Return the stored value; None if there is none."""

    def forget(self, rank: int) -> None:
        """Remove leftovers of a rank in an earlier launch of the same name."""

    def close(self) -> None:
        """Release it."""


class Files:
    """Values as files in a folder that all ranks see."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, value: bytes) -> None:
        """Store *value*. Raises BackendError."""
        try:
            write_atomically(self._path(key), value)
        except OSError as error:
            raise BackendError(f"{self._folder}: ranks cannot write there: {error.strerror or error}") from None

    def get(self, key: str) -> bytes | None:
        """Return the stored value; None if there is none."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None

    def forget(self, rank: int) -> None:
        """Remove the leftovers of a killed rank."""
        for path in self._folder.glob(f"{rank}-*"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the files, at the end of each rank: others can miss only the reason of its end."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, key: str) -> Path:
        what, _, rank = key.rpartition("/")
        return self._folder / f"{rank}-{sha256(what.encode()).hexdigest()[:32]}"


def launch_of(environ: Mapping[str, str] = os.environ) -> str:
    """Return a name for this launch, the same on all of its ranks: by the launcher, else by its process."""
    for names in _LAUNCHES:
        if all(name in environ for name in names):
            return "-".join(environ[name] for name in names)
    return f"{platform.node()}-{os.getppid()}-{started_at(os.getppid())}"


class Ranks:
    """The other ranks of this run: their messages, and whether they live."""

    def __init__(self, rank: Rank, beside: Path | None = None) -> None:
        """*beside* is a file beside which all ranks can write; without one all ranks have to be on one host."""
        self.rank = rank
        self._beside = beside
        self._opened: Store | None = None
        self._has_ended = False

    @property
    def _store(self) -> Store:
        """The shared store, opened at first use. Raises BackendError."""
        if self._opened is None:
            # Imported here: a run without ranks does not need it.
            from . import torchrun_store

            try:
                self._opened = torchrun_store.TorchStore() if torchrun_store.is_there() else self._files()
            except (RuntimeError, ImportError) as error:
                raise BackendError(f"the store of torchrun cannot be used: {error}") from None
            self._opened.forget(self.rank.rank)
            self._put("hello", {"pid": os.getpid(), "host": platform.node()})
        return self._opened

    def _files(self) -> Files:
        local = self.rank.local_size
        if self._beside is None and local is not None and local != self.rank.size:
            raise BackendError(
                f"{self.rank.size} ranks, {local} of them on this host, share no folder: name a file in a"
                f" shared folder with --opprof-json=FILE"
            )
        folder = self._beside.parent if self._beside else Path(tempfile.gettempdir())
        name = sha256(launch_of().encode()).hexdigest()[:16]
        return Files(folder / f".opprof-ranks-{name}")

    def hello(self) -> None:
        """Tell the others that this rank lives. Raises BackendError."""
        self._store  # noqa: B018  # it says so

    def is_at(self, test: str, is_over: bool) -> None:
        """Tell the others which test this rank runs."""
        self._put("at", {"test": test, "is_over": is_over})

    def tell(self, what: str, value: object) -> None:
        """Send a value that others may wait for."""
        self._put(what, value)

    def end(self) -> None:
        """Tell the others that this rank sends no more."""
        if self._opened is not None and not self._has_ended:
            self._has_ended = True
            self._put("end", True)

    def close(self) -> None:
        """Release the store; of files, only if every rank has ended."""
        if self._opened is not None:
            if all(self._get("end", rank) or not self._lives(rank) for rank in range(self.rank.size)):
                self._opened.close()
            self._opened = None

    def gather(self, what: str, mine: object, patience_s: float | None = None) -> list[Any]:
        """Send *mine* to the others, and return the value of each rank, by its number.

        Raises BackendError, naming the silent ranks, and why.
        """
        self.tell(what, mine)
        patience_s = PATIENCE_S if patience_s is None else patience_s
        begin = looked = monotonic()
        found: dict[int, Any] = {}
        while True:
            ended = {rank for rank in range(self.rank.size) if rank not in found and self._get("end", rank)}
            for rank in range(self.rank.size):
                if rank not in found and (told := self._get(what, rank)):
                    found[rank] = told[0]
            if lacking := [rank for rank in ended if rank not in found]:
                raise BackendError(f"{ranks_named(lacking)} ended without it")
            lacking = [rank for rank in range(self.rank.size) if rank not in found]
            if not lacking:
                return [found[rank] for rank in range(self.rank.size)]
            if monotonic() - looked > _ALIVE_S:
                looked = monotonic()
                if dead := self.dead():
                    raise BackendError("; ".join(dead))
            if monotonic() - begin > patience_s:
                where = "; ".join(filter(None, map(self._where, lacking)))
                raise BackendError(
                    f"{ranks_named(lacking)} did not come within {patience_s:.0f} s{where and f' ({where})'}"
                )
            sleep(_POLL_S)

    def failures(self, patience_s: float) -> tuple[dict[int, list[Failure]], list[int]]:
        """Return the failures of each other rank so far, and the ranks that do not end within *patience_s* seconds."""
        others, begin = [rank for rank in range(self.rank.size) if rank != self.rank.rank], monotonic()
        while running := [rank for rank in others if not self._get("end", rank)]:
            if not any(map(self._lives, running)) or monotonic() - begin > patience_s:
                break
            sleep(_POLL_S)
        told = {rank: self._get("failed", rank) for rank in others}
        return {rank: [Failure(*each) for each in found[0]] for rank, found in told.items() if found}, running

    def dead(self) -> list[str]:
        """Return in words the ranks that have died: they said hello, and their process is gone."""
        return [
            f"rank {rank} has died{where and f': {where}'}"
            for rank in range(self.rank.size)
            if not self._lives(rank) and not self._get("end", rank)
            for where in [self._where(rank)]
        ]

    def stuck(self, tests: Mapping[str, object], grace_s: float = 2) -> list[str]:
        """Return in words the ranks still in one of *tests*, which are over here; others get *grace_s* to end."""
        begin = monotonic()
        while found := [rank for rank in range(self.rank.size) if self._is_in(rank, tests)]:
            if monotonic() - begin > grace_s:
                return [f"rank {rank} has not ended: {self._where(rank)}" for rank in found]
            sleep(_POLL_S)
        return []

    def _is_in(self, rank: int, tests: Mapping[str, object]) -> bool:
        told = self._get("at", rank)
        return bool(told and not told[0]["is_over"] and told[0]["test"] in tests)

    def _where(self, rank: int) -> str:
        """Return in words the last position of a rank; empty if it sent none."""
        told = self._get("at", rank)
        return f"{'after' if told[0]['is_over'] else 'in'} {told[0]['test']}" if told else ""

    def _lives(self, rank: int) -> bool:
        """Return True if a rank lives, as far as visible: a rank on another host may."""
        told = self._get("hello", rank)
        return told is None or told[0]["host"] != platform.node() or is_running(told[0]["pid"])

    def _put(self, what: str, value: object) -> None:
        try:
            self._store.put(f"{what}/{self.rank.rank}", json.dumps([value]).encode())
        except RuntimeError as error:  # torchrun has ended
            raise BackendError(f"the store of torchrun cannot be used: {error}") from None

    def _get(self, what: str, rank: int) -> list[Any] | None:
        try:
            told = self._store.get(f"{what}/{rank}")
        except RuntimeError as error:
            raise BackendError(f"the store of torchrun cannot be used: {error}") from None
        found: list[Any] | None = None if told is None else json.loads(told)
        return found
