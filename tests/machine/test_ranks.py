"""Which rank this is. The variables are made up here, as each launcher sets them."""

from __future__ import annotations

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.machine.ranks import ALONE, Rank, rank_of

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
HYDRA = {"PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
SRUN = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, ALONE),
        (TORCHRUN, Rank(3, 4, "torchrun", 2)),
        (OPEN_MPI, Rank(1, 2, "Open MPI", 2)),
        (HYDRA, Rank(0, 2, "PMI", 2)),
        (SRUN, Rank(5, 8, "srun")),
        (BY_HAND, Rank(1, 2, "RANK and WORLD_SIZE")),
        # A batch script of Slurm is one process, however many tasks the job has.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, ALONE),
        # RANK alone may be anything.
        ({"RANK": "gold"}, ALONE),
        ({"RANK": "0", "WORLD_SIZE": "1"}, Rank(0, 1, "RANK and WORLD_SIZE")),
    ],
)
def test_each_launcher_says_it_in_variables_of_its_own(environ: dict[str, str], rank: Rank) -> None:
    assert rank_of(environ) == rank
    assert rank.is_alone == (rank.size == 1)


@pytest.mark.parametrize("outer", [SRUN, OPEN_MPI])
def test_torchrun_is_the_innermost_launcher(outer: dict[str, str]) -> None:
    assert rank_of({**outer, **TORCHRUN}).launcher == "torchrun"


def test_what_srun_started_may_be_a_launcher() -> None:
    assert rank_of({**SRUN, **OPEN_MPI}) == Rank(1, 2, "Open MPI", 2)


def test_a_rank_that_was_copied_into_rank_is_the_launchers() -> None:
    assert rank_of({**OPEN_MPI, **BY_HAND}).launcher == "Open MPI"


def test_a_contradiction_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"RANK and WORLD_SIZE say rank 1 of 2, those of PMI rank 0 of 2: unset"):
        rank_of({**HYDRA, **BY_HAND})


@pytest.mark.parametrize(
    ("rank", "message"),
    [("x", "RANK is 'x'; it must be a number"), ("2", "RANK=2 and WORLD_SIZE=2: a rank must be less")],
)
def test_what_is_no_rank_is_an_error(rank: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rank_of({**BY_HAND, "RANK": rank})
