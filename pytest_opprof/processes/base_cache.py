"""Keep the base's results from one run to the next: counts, for one commit, command and environment."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import zlib
from collections.abc import Collection, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import msgspec

from .. import __version__
from ..machine.atomic_write import gzipped, write_atomically
from ..machine.identity import machine
from ..results.plain import converted
from ..results.test_result import TestRecord
from .turns import SideRun

# Bases that are kept; the oldest goes. One of 330 tests takes 90 kB.
FILES = 8
# The most bytes of a decompressed file. A larger one is not opprof's: 330 tests take 2 MB.
_MOST_BYTES = 64 << 20
# Words of a command that do not affect the tests; CI gives the summary another name in each run.
_NO_MATTER = (
    "-v",
    "-q",
    "--junit",
    "--opprof-against=",
    "--opprof-html=",
    "--opprof-json=",
    "--opprof-report-only",
    "--opprof-summary=",
)


class _Kept(msgspec.Struct):
    commit: str
    collected: list[str]
    errors: dict[str, str]
    reports: dict[str, list[dict[str, Any]]]
    borrowed: list[str] = []


class BaseCache:
    """The file with the results of one command's tests at *commit*."""

    def __init__(self, folder: Path, commit: str, words: Sequence[str]) -> None:
        """*words*: the command of the run, whose options may affect the tests."""
        words = [word for word in words if not word.startswith(_NO_MATTER)]
        words += [_content(Path(word[1:])) for word in words if word.startswith("@")]  # more of the command
        self._folder = folder
        self._commit = commit
        self._path = folder / f"{commit[:12]}-{fingerprint(words)}.json.gz"
        self._known = SideRun()
        self.problem = ""
        """Why the file is unusable; empty if it is usable, or missing."""

    def load(self) -> SideRun:
        """Return the stored results; empty if the file is missing or unusable."""
        try:
            packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
            content = packed.decompress(self._path.read_bytes(), _MOST_BYTES)
            if not packed.eof:
                raise ValueError("it is truncated or too large")
            kept = msgspec.json.decode(content, type=_Kept)
            if kept.commit != self._commit:
                raise ValueError("it belongs to another commit")
            for report in (report for reports in kept.reports.values() for report in reports):
                if "opprof" in report:
                    converted(report["opprof"], TestRecord)
        except FileNotFoundError:
            return self._known
        except (OSError, ValueError, zlib.error, msgspec.MsgspecError) as error:
            self.problem = f"{self._path} cannot be used ({error}): the base is measured again"
            return self._known
        os.utime(self._path)  # the least recently used goes first
        self._known = SideRun(kept.collected, kept.reports, kept.errors, kept.borrowed)
        return self._known

    def keep(self, ran: SideRun, tests: Collection[str]) -> None:
        """Add the base's results of *tests*. A write error is only a problem to report."""
        new = {test: reports for test, reports in ran.reports.items() if test in tests}
        if not new and ran.collected == self._known.collected:
            return
        kept = _Kept(self._commit, ran.collected, ran.errors, {**self._known.reports, **new}, ran.borrowed)
        try:
            write_atomically(self._path, gzipped([msgspec.json.encode(kept)]))
            files = sorted(self._folder.glob("*.json.gz"), key=lambda path: path.stat().st_mtime)
            for path in files[:-FILES]:
                path.unlink(missing_ok=True)
        except OSError as error:
            self.problem = f"{self._path} cannot be written: {error.strerror or error}"


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def fingerprint(words: Sequence[str]) -> str:
    """Return a fingerprint of *words* and of the environment: at one commit, tests may differ where it differs."""
    facts = [
        __version__,
        sys.version,
        platform.platform(),
        machine(),
        os.environ.get("PYTEST_ADDOPTS", ""),
        sorted(f"{each.name}=={each.version}" for each in distributions()),
        list(words),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
