"""One commit of `opprof bisect`: what the tests do there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import BaselineError

if TYPE_CHECKING:
    from ..results.run_result import RunResult

Cause = tuple[str, str, str, "str | None"]
"""Of a finding: test, window, rule and op."""
_OF_TIME = {"slower", "device_time", "host_time", "share", "top"}
_UNKNOWN = {"no baseline", "not measured"}
_UNTIMED = {"too noisy", "not compared"}
_NOT_FOUND = 4
"""Pytest's exit code where there is no such file or test."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What the tests did in a commit."""

    why: str = ""
    """Why they say nothing; empty where they do."""
    findings: tuple[tuple[Cause, str], ...] = ()
    """What fails them, with the words for it."""
    statuses: tuple[tuple[str, str], ...] = ()
    """Of each test that was measured."""

    @property
    def causes(self) -> set[Cause]:
        """What the findings are about."""
        return {cause for cause, _ in self.findings}

    def judged(self, sought: set[Cause]) -> tuple[Literal["good", "bad", "skip"], str]:
        """Return what git is to be told of the commit, when *sought* is looked for, and why."""
        if self.why:
            return "skip", self.why
        if same := [f"{cause[0]}: {text}" for cause, text in self.findings if cause in sought]:
            return "bad", same[0] + (f" and {len(same) - 1} more" if len(same) > 1 else "")
        unsure = _UNKNOWN | (_UNTIMED if all(rule in _OF_TIME for _, _, rule, _ in sought) else set())
        statuses = dict(self.statuses)
        for test in sorted({test for test, *_ in sought}):
            if (status := statuses.get(test, "not measured")) in unsure:
                return "skip", f"{test}: {status}"
        return "good", ""


def as_they_are(here: Path, tests: Sequence[str]) -> dict[Path, bytes]:
    """Return the files of the *tests* as they are now: a commit may not have them."""
    paths = {here / word.partition("::")[0] for word in tests if not word.startswith("-")}
    return {path: path.read_bytes() for path in paths if path.is_file()}


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs the tests in what is checked out, with baselines in a folder."""

    tests: Sequence[str]
    today: Mapping[Path, bytes]
    """The files of the tests as they were when it began."""
    folder: Path

    def tried(self, *flags: str) -> Tried:
        """Run the tests; those that the commit does not have as they are today."""
        done = self._run(flags)
        if done.code == _NOT_FOUND and self.today:
            with self._as_today():
                done = self._run(flags)
        return done.tried

    def _run(self, more: Sequence[str]) -> _Done:
        from ..results.document import read_document
        from ..results.run_result import run_of_document

        found = self.folder / "run.json"
        found.unlink(missing_ok=True)
        flags = ["--opprof", f"--opprof-baselines={self.folder / 'baselines'}", f"--opprof-json={found}", *more]
        # Python takes bytecode for that of a source of the same size and second: two commits may have both in common.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *self.tests, *flags],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except FileNotFoundError as error:  # the commit may not have the folder
            return _Done(0, Tried(f"pytest cannot be started: {error.strerror}"))
        last = next(filter(str.strip, reversed(done.stdout.splitlines())), "it said nothing").strip("= ")
        if done.returncode not in (0, 1) or not found.exists():
            return _Done(done.returncode, Tried(f"pytest ended with exit code {done.returncode}: {last}"))
        try:
            run = run_of_document(read_document(found, "JSON of a run"), found)
        except BaselineError as error:
            return _Done(done.returncode, Tried(str(error)))
        return _Done(done.returncode, _tried(run, last) if run.tests else Tried(f"nothing was measured: {last}"))

    @contextmanager
    def _as_today(self) -> Iterator[None]:
        """Put the files of the tests into the checkout, and take them back: git would not check out another commit."""
        before = {path: path.read_bytes() if path.is_file() else None for path in self.today}
        made = {folder for path in self.today for folder in path.parents if not folder.exists()}
        try:
            for path, content in self.today.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            yield
        finally:
            for path, old in before.items():
                if old is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(old)
            for folder in sorted(made, reverse=True):
                with suppress(OSError):  # pytest may have left something there
                    folder.rmdir()


@dataclass(frozen=True, slots=True)
class _Done:
    code: int
    tried: Tried


def _tried(run: RunResult, last: str) -> Tried:
    findings = tuple(
        ((test.id, window.name, finding.rule, finding.op), finding.text)
        for test in run.failing
        for window in test.windows
        for finding in window.findings
        if not finding.adds
    )
    why = f"{'; '.join(run.errors)[:200]} ({last})" if run.errors else ""
    return Tried(why, findings, tuple((test.id, test.status) for test in run.tests))
