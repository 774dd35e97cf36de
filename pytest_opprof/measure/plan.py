"""What is to be done: `Settings` of a run and, with its marks over them, the `Plan` of a test."""

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
    """The flags of one run, the ini file's values where no flag was given."""

    baselines: Path
    backends: tuple[str, ...] | None
    """None: chosen by what the process uses."""
    timing: Timing
    tolerances: Tolerances
    threads: int
    """How many an op may use where times are judged; 0: as many as it likes."""
    processes: int | None
    """In how many to measure what is timed; None: `BASE_PROCESSES` for a baseline, else 1."""
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
    """Whether tests pass that exceed their budget or baseline, and the run says which."""
    memory: bool | None
    """Whether allocations are recorded; None: where times are not judged, since it takes some."""
    leaks: bool
    """Whether it is looked for what each call of a body leaves behind."""
    sites: bool
    """Whether each window tells which lines asked for its ops."""
    python: bool | None
    """Whether calls of Python functions are counted, in one more round; None: of marked bodies without ops."""
    sites_show: tuple[str, ...]
    sites_hide: tuple[str, ...]
    update: Update
    json: Path | None
    summary: Path | None
    """What a summary in Markdown is appended to."""
    html: Path | None
    """The page of the run."""
    traces: Path | None
    """The folder for traces of what fails."""
    aliases: Mapping[str, str]
    ranks: Ranks
    """Whether all ranks have to make the same calls."""
    rank: Rank = ALONE
    """Which of several processes this one is."""
    together: frozenset[str] = frozenset()
    """Which of ``json``, ``summary`` and ``html`` rank 0 writes, of all ranks."""
    width: int | None = None
    """Columns of the terminal for tables; None where output goes elsewhere."""


@dataclass(frozen=True, slots=True)
class TestPlan:
    """How one test is to be measured and judged: its marks over the settings."""

    __test__ = False  # pytest: this is no test class

    budget: Budget
    marked: bool
    measured: bool
    """Whether the body is measured; windows of the fixture always are."""
    rounds: int
    warmup: int
    backends: tuple[str, ...] | None
    options: Options
    tolerances: Tolerances
    threads: int
    top: int
    baseline: bool
    ranks: Ranks = "any"
    leaks: bool = False
    """Whether its body runs six times more, to see what each call leaves behind."""
    python: bool | None = None
    """Whether calls of Python functions are counted; None: where the body shows no op."""
