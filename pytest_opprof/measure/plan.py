"""The plan of a measurement: the `Settings` of a run, and the `Plan` of a test with its marks over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..frameworks.live.contract import Options, Timing
from ..machine.ranks import ALONE, Rank
from ..verdict.budgets import Budget
from ..verdict.tolerances import Tolerances

Update = Literal["", "all", "new"]
Noise = Literal["warn", "fail", "ignore"]
Ranks = Literal["any", "equal"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags of one run, or the ini file's values without a flag."""

    baselines: Path
    backends: tuple[str, ...] | None
    """None: chosen by the imported frameworks."""
    timing: Timing
    tolerances: Tolerances
    threads: int
    """The number of threads for an op if times are judged; 0: no limit."""
    processes: int | None
    """The number of processes for timed windows; None: `BASE_PROCESSES` for a baseline, else 1."""
    noise: Noise
    against: str
    """The revision to compare with, empty for the stored baselines."""
    against_python: str
    serialize: bool
    """Whether workers of pytest-xdist measure one at a time."""
    top: int
    everything: bool
    strict: bool
    report_only: bool
    """Whether tests over their budget or baseline pass, and the run only reports them."""
    memory: bool | None
    """Whether allocations are recorded; None: only if times are not judged, because recording takes time. Also whether
    the peak of the host's memory is, in one more round; None: only for marked bodies without ops but NumPy's."""
    leaks: bool | None
    """Whether to look for leaks of each call of a body; None: only if two more of a short body leave something."""
    sites: bool
    """Whether each window records source lines."""
    python: bool | None
    """Whether calls of Python functions are counted, in one more round; None: only for marked bodies with few ops."""
    sites_show: tuple[str, ...]
    sites_hide: tuple[str, ...]
    update: Update
    json: Path | None
    summary: Path | None
    """The file to which a summary in Markdown is appended."""
    html: Path | None
    """The page of the run."""
    traces: Path | None
    """The folder for traces of failing tests."""
    aliases: Mapping[str, str]
    ranks: Ranks
    """Whether all ranks have to make the same calls."""
    rank: Rank = ALONE
    """The rank of this process among several."""
    together: frozenset[str] = frozenset()
    """The outputs, of ``json``, ``summary`` and ``html``, that rank 0 writes for all ranks."""
    width: int | None = None
    """Columns of the terminal for tables; None where output goes elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the results of a test are compared and shown."""

    tolerances: Tolerances
    top: int
    baseline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPlan(Comparison):
    """The plan for measuring and judging one test: its marks over the settings."""

    __test__ = False  # pytest must not collect it as a test class

    budget: Budget
    marked: bool
    closely: bool
    """Whether further runs of its body tell what the first one does not: calls of Python functions, a lost cache."""
    measured: bool
    """Whether the body is measured; windows of the fixture always are."""
    rounds: int
    warmup: int
    backends: tuple[str, ...] | None
    options: Options
    threads: int
    ranks: Ranks = "any"
    leaks: bool | None = None
    """Whether its body runs six times more, to find leaks; None: only if two more leave something behind."""
    host_memory: bool | None = None
    """Whether its body runs once more for the peak of the host's memory; None: only if it is marked and shows no op but
    NumPy's."""
    python: bool | None = None
    """Whether calls of Python functions are counted; None: only if the body shows no op."""

    @property
    def may_run_again(self) -> bool:
        """Whether the user allows any further run of its body."""
        return not (self.leaks is self.host_memory is self.python is False)
