"""The result of a run, which goes into ``--opprof-json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from .. import __version__
from ..errors import BaselineError, UsageError
from ..machine.atomic_write import write_atomically
from .causes import Cause, causes_of, in_order
from .plain import as_json
from .test_result import TestResult
from .window_result import titled

SCHEMA: Final = 4


class Stale(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A baseline whose test or window is gone."""

    test: Annotated[str, Meta(description="The test: its name in the file that is left, or its node id.")]
    file: Annotated[str, Meta(description="The baseline file of a test that is gone; empty for a window.")] = ""
    window: Annotated[str, Meta(description="The window that is gone; empty for a test.")] = ""
    environment: Annotated[str, Meta(description="The environment of the window.")] = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.test}" if self.file else f"{titled(self.test, self.window)} [{self.environment}]"


class RunResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything one pytest run measured (pytest --opprof --opprof-json=FILE)."""

    schema: Literal[4]
    version: Annotated[str, Meta(description="Of pytest-opprof.")]
    interrupted: Annotated[bool, Meta(description="Whether the run was cut short: tests may be missing.")]
    summary: Annotated[dict[str, Annotated[int, Meta(ge=1)]], Meta(description="Tests by status.")]
    tests: list[TestResult]
    stale: Annotated[list[Stale], Meta(description="Baselines whose test or window is gone.")]
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
        str, Meta(description="The lines of a commit message that accept what failed the run; empty if none do.")
    ] = ""
    pytest: Annotated[str, Meta(description="The command that starts pytest on all ranks.")] = "pytest"
    everything: Annotated[bool, Meta(description="Whether --opprof-all asked for tests without a mark.")] = False
    python: Annotated[bool, Meta(description="Whether --opprof-python asked for calls of Python functions.")] = False
    leaks: Annotated[bool, Meta(description="Whether --opprof-leaks asked for leaks.")] = False
    memory: Annotated[bool, Meta(description="Whether --opprof-memory asked for memory.")] = False
    causes: Annotated[
        list[Cause],
        Meta(description="The changes over all tests: worse ones first, those of the most tests first."),
    ] = []

    @property
    def failing(self) -> list[TestResult]:
        """The tests that exceed a budget or baseline, by cause; of one cause, the one with the most calls first."""
        return in_order([test for test in self.tests if test.fails], self.causes)


def run_of(
    records: Sequence[TestResult],
    stale: Sequence[Stale],
    *,
    interrupted: bool,
    errors: Sequence[str] = (),
    against: str = "",
    commit: str = "",
    started: str = "",
    rank: int | None = None,
    accept: str = "",
    pytest: str = "pytest",
    everything: bool = False,
    python: bool = False,
    leaks: bool = False,
    memory: bool = False,
) -> RunResult:
    """Return the result of a run."""
    tests = [TestResult(**{name: getattr(each, name) for name in TestResult.__struct_fields__}) for each in records]
    counts: dict[str, int] = dict(sorted(Counter(record.status.value for record in records).items()))
    return RunResult(
        schema=SCHEMA,
        version=__version__,
        interrupted=interrupted,
        summary=counts,
        tests=tests,
        stale=list(stale),
        errors=list(errors),
        against=against,
        commit=commit,
        started=started,
        rank=rank,
        accept=accept,
        pytest=pytest,
        everything=everything,
        python=python,
        leaks=leaks,
        memory=memory,
        causes=causes_of(tests),
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
    # Computed, not read: an edited file may name tests that it does not have.
    return replace(run, causes=causes_of(run.tests))
