"""The rank of this process among several that work together, from its launcher's environment variables."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ..errors import UsageError

MANY = 16
"""More ranks than a table has room for as columns, or a reader as rows: the slowest and the latest are shown."""


class Rank(NamedTuple):
    """One of *size* processes that run the same program."""

    rank: int = 0
    size: int = 1
    launcher: str = ""
    """The launcher; empty for a single process."""
    local_size: int | None = None
    """The number of ranks on this host; None if unknown."""

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size}"

    @property
    def is_alone(self) -> bool:
        """Whether it is the only one."""
        return self.size == 1

    @property
    def pytest(self) -> str:
        """The command that starts pytest on all ranks: by torchrun if the launcher is unknown.

        >>> ALONE.pytest, Rank(0, 4, "srun").pytest, Rank(0, 4).pytest
        ('pytest', 'srun -n 4 python -m pytest', 'torchrun --nproc-per-node 4 -m pytest')
        """
        if self.is_alone:
            return "pytest"
        if self.launcher in _STARTED_BY:
            return f"{_STARTED_BY[self.launcher]} -n {self.size} python -m pytest"
        here = self.local_size or self.size
        hosts = f"--nnodes {self.size // here} " if here < self.size else ""
        return f"torchrun {hosts}--nproc-per-node {here} -m pytest"


ALONE = Rank()
# The variables for the rank, the number of ranks and the number on this host. PMI is of MPICH and Intel MPI.
_LAUNCHERS: Mapping[str, tuple[str, str, str]] = {
    "RANK and WORLD_SIZE": ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    "Open MPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    "PMI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
}
_STARTED_BY = {"Open MPI": "mpirun", "PMI": "mpirun", "srun": "srun"}
# Of srun. The second is not in the batch script itself, which is one process. srun may start a launcher, whose ranks
# inherit the variables, so they count only without others.
_SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "")
# Of torchrun alone, which starts Python itself: the launcher of torchrun does not matter.
_TORCHRUN = "TORCHELASTIC_RUN_ID"


def rank_of(environ: Mapping[str, str] = os.environ) -> Rank:
    """Return the rank of this process. Raises UsageError for invalid or contradicting variables."""
    if _TORCHRUN in environ and (found := _told(environ, "torchrun", *_LAUNCHERS["RANK and WORLD_SIZE"])):
        return found
    told = [found for name, names in _LAUNCHERS.items() if (found := _told(environ, name, *names))]
    for other in told[1:]:
        if other[:2] != told[0][:2]:
            raise UsageError(
                f"the environment variables of {told[0].launcher} say {told[0]}, those of {other.launcher} {other}:"
                " unset the variables of the launcher that is not in use"
            )
    # The launcher's own variables are more reliable than a copy in RANK.
    found = next(reversed(told), None) or _told(environ, "srun", *_SLURM)
    return found or ALONE


def spelled(ranks: Iterable[int]) -> str:
    """Return the numbers of ranks in short.

    >>> spelled([0, 2, 3, 4, 7])
    '0,2-4,7'
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def ranks_named(ranks: Collection[int]) -> str:
    """Return ranks in words.

    >>> ranks_named([3]), ranks_named([0, 1, 2])
    ('rank 3', 'ranks 0-2')
    """
    return f"rank{'s' if len(ranks) > 1 else ''} {spelled(ranks)}"


def on_ranks(values: Mapping[int, str]) -> str:
    """Return the value of each rank in words, the values of the fewest ranks first.

    >>> on_ranks({0: "2", 1: "2", 2: "2", 3: "4"})
    '4 on rank 3, 2 on ranks 0-2'
    """
    ranks: dict[str, list[int]] = {}
    for rank, value in sorted(values.items()):
        ranks.setdefault(value, []).append(rank)
    fewest = sorted(ranks.items(), key=lambda item: (len(item[1]), item[1]))
    return ", ".join(f"{value} on {ranks_named(those)}" for value, those in fewest)


def _told(environ: Mapping[str, str], launcher: str, rank: str, size: str, local_size: str) -> Rank | None:
    """Return the rank in a launcher's variables; None if one of the two is not set, since RANK alone may be
    anything.
    """
    if rank not in environ or size not in environ:
        return None
    numbers = {name: environ[name] for name in (rank, size, local_size) if name in environ}
    for name, value in numbers.items():
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise UsageError(f"the environment variable {name} is {value!r}; it must be a number")
    found = {name: int(value) for name, value in numbers.items()}
    if found[rank] >= found[size]:
        said = f"{rank}={found[rank]} and {size}={found[size]}"
        raise UsageError(f"the environment variables say {said}: a rank must be less than the number of ranks")
    return Rank(found[rank], found[size], launcher, found.get(local_size))
