"""The results of a test and a run, which travel from workers and fresh processes, and into ``--opprof-json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from .. import __version__
from ..errors import BaselineError, UsageError
from ..machine.atomic_write import write_atomically
from ..verdict.findings import Finding
from ..verdict.quantities import FACTS
from ..verdict.verdicts import Status, Verdict
from .judged_window import JudgedWindow
from .plain import as_json
from .window_result import WindowResult

# Statuses, the worst first, with their words in the summary line.
WORDS: Mapping[Status, str] = {
    "over budget": "over budget",
    "more calls": "with more calls",
    "wider dtypes": "with wider dtypes",
    "more work": "with more work",
    "more memory": "with more memory",
    "ranks differ": "with ranks that differ",
    "slower": "slower",
    "not measured": "not measured",
    "no baseline": "without baseline",
    "too noisy": "too noisy to judge",
    "not compared": "with times not compared",
    "improved": "improved",
}

SCHEMA: Final = 4


class TestResult(Struct, kw_only=True, forbid_unknown_fields=True):
    """One measured test."""

    __test__ = False  # pytest must not collect it as a test class

    id: Annotated[str, Meta(description="The node id.")]
    outcome: Literal["", "passed", "failed", "skipped"] = ""
    status: Status
    line: Annotated[int, Meta(description="Its first line in the file, from 1; 0 if unknown.")] = 0
    windows: list[WindowResult] = []
    remarks: Annotated[list[str], Meta(description="Remarks of the run on the test.")] = []
    accept: Annotated[
        list[str], Meta(description="The steps that accept its change or record its baseline, in words or as commands.")
    ] = []
    reported: Annotated[str, Meta(description="The failure that --opprof-report-only let pass; empty if none.")] = ""

    @property
    def findings(self) -> list[Finding]:
        """The findings of all its windows."""
        return [each for window in self.windows for each in window.findings]

    @property
    def causes(self) -> list[tuple[WindowResult, Finding]]:
        """The findings with their windows, without the lines below a finding."""
        return [(window, each) for window in self.windows for each in window.findings if not each.adds]


class TestRecord(TestResult, kw_only=True):
    """One measured test, with the run's remarks on it."""

    __test__ = False

    file: str = ""
    """The path of its file."""
    tells_sites: bool = False
    """Whether the backends that recorded it can report source lines."""
    no_sites: str = ""
    """The reason why some source lines may be unknown, and the remedy."""
    adapts: str = ""
    """The library that makes it do more or less in each run, if known by name."""
    missing: dict[str, str] = {}
    """The windows without a baseline, and why."""
    untimed: dict[str, str] = {}
    """The windows whose times were not judged, and why."""
    table: list[str] = []
    """Its op tables, if requested."""


class RunResult(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything one pytest run measured (pytest --opprof --opprof-json=FILE)."""

    schema: Literal[4]
    version: Annotated[str, Meta(description="Of pytest-opprof.")]
    interrupted: Annotated[bool, Meta(description="Whether the run was cut short: tests may be missing.")]
    summary: Annotated[dict[str, Annotated[int, Meta(ge=1)]], Meta(description="Tests by status.")]
    tests: list[TestResult]
    stale: Annotated[list[str], Meta(description="Baselines whose test or window is gone.")]
    errors: Annotated[list[str], Meta(description="Errors that fail the run apart from its tests.")] = []
    against: Annotated[str, Meta(description="The revision of the comparison; empty: the baselines.")] = ""
    commit: Annotated[
        str, Meta(description="Of git's working tree, -dirty if files were changed; empty outside of one.")
    ] = ""
    started: Annotated[str, Meta(description="When it began, UTC: 2026-11-23T04:20:00Z.")] = ""
    rank: Annotated[
        int | None,
        Meta(description="The rank that measured this; null for a single process, or for all ranks together."),
    ] = None
    accept: Annotated[
        str, Meta(description="The line of a commit message that accepts what failed the run; empty if none does.")
    ] = ""
    pytest: Annotated[str, Meta(description="The command that starts pytest on all ranks.")] = "pytest"
    python: Annotated[bool, Meta(description="Whether --opprof-python asked for calls of Python functions.")] = False

    @property
    def failing(self) -> list[TestResult]:
        """The tests that exceed a budget or baseline, including those that --opprof-report-only lets pass."""
        return [test for test in self.tests if (test.outcome == "failed" or test.reported) and test.findings]


def status(windows: Sequence[JudgedWindow]) -> Status:
    """Return the status of a test: the worst of its windows."""
    present: set[Status] = {"over budget" for window in windows if window.budget}
    present |= {"ranks differ" for window in windows if window.ranks_differ}
    present |= {_status_of(window) for window in windows}
    present |= {"not compared" for window in windows if window.untimed and window.verdict is not Verdict.NOISY}
    return next((word for word in WORDS if word in present), "ok")


def counted(tests: Sequence[TestResult]) -> list[str]:
    """Return how many tests have each status, the worst first, in words; a held budget is named beside "no baseline".

    >>> counted([TestResult(id="a", status="slower"), TestResult(id="b", status="ok")])
    ['1 slower']
    """
    counts = Counter(test.status for test in tests)
    held = sum(test.status == "no baseline" and any(window.limits for window in test.windows) for test in tests)
    counts["no baseline"] -= held
    parts = [f"{counts[word]} {said}" for word, said in WORDS.items() if counts[word]]
    its = "its" if held == 1 else "their"
    return [*parts, *([f"{held} within {its} budget and without baseline"] if held else [])]


def _status_of(window: JudgedWindow) -> Status:
    if window.diff and window.verdict is Verdict.ABOVE and (gate := FACTS[window.diff.worst.op].gate):
        return gate.status
    return window.verdict.status


def run_of(
    records: Sequence[TestResult],
    stale: Sequence[str],
    interrupted: bool,
    errors: Sequence[str] = (),
    against: str = "",
    commit: str = "",
    started: str = "",
    rank: int | None = None,
    accept: str = "",
    pytest: str = "pytest",
    *,
    python: bool = False,
) -> RunResult:
    """Return the result of a run."""
    tests = [TestResult(**{name: getattr(each, name) for name in TestResult.__struct_fields__}) for each in records]
    counts: dict[str, int] = dict(sorted(Counter(record.status for record in records).items()))
    return RunResult(
        SCHEMA,
        __version__,
        interrupted,
        counts,
        tests,
        list(stale),
        list(errors),
        against,
        commit,
        started,
        rank,
        accept,
        pytest,
        python,
    )


def write(path: Path, run: RunResult) -> None:
    """Write the JSON of a run atomically. Raises UsageError if that fails."""
    try:
        write_atomically(path, msgspec.json.format(msgspec.json.encode(run, enc_hook=as_json), indent=1) + b"\n")
    except OSError as error:
        raise UsageError(f"--opprof-json: {path} cannot be written: {error.strerror or error}") from error


def run_of_document(document: dict[str, Any], path: Path) -> RunResult:
    """Return the run in *document*, read from *path*. Raises BaselineError."""
    version = document.get("schema")
    if isinstance(version, int) and version != SCHEMA:
        raise BaselineError(
            f"{path}: another version of pytest-opprof wrote this run (schema {version}, this one reads {SCHEMA})."
            " Record it anew: pytest --opprof --opprof-json=FILE"
        )
    # Imported here, since it is needed to read a run only.
    from .json_schema import decoded

    try:
        run = decoded(document, RunResult)
    except ValueError as error:
        raise BaselineError(f"{path}: is no valid file of --opprof-json: {error}") from None
    for test in run.tests:
        for window in test.windows:
            if what := next(window.misfits(), None):
                raise BaselineError(f"{path}: {test.id}: {window.name}: {what}; the file is damaged")
    return run
