"""Repositories made by `git fast-import`: hundreds of commits in a tenth of a second."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

HERE = "torch-2.13.0-cpu-x86_64"
OfTests = Mapping[str, Mapping[str, object]]


def calls_file(tests: OfTests, schema: int = 4, torch: str = "2.13.0", **more: object) -> str:
    """Return a file of calls; of each test its calls by op, which are those of its body, or windows by name."""
    windows = {
        test: dict(ops)
        if any(isinstance(each, dict) for each in ops.values())
        else {"body": {"ops": {op: {"calls": calls} for op, calls in ops.items()}}}
        for test, ops in tests.items()
    }
    environment = {"arch": "x86_64", "device": "cpu", "frameworks": {"torch": torch}, "timing": ""}
    return json.dumps({"environment": environment, "schema": schema, "tests": windows, **more})


class Made:
    """A repository whose commits are written at once, by `done`; the branch is ``main``."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._stream: list[bytes] = []
        self._tip: dict[str, int] = {}
        self._commits = 0

    def commit(
        self, subject: str, files: Mapping[str, str | None], branch: str = "main", parents: tuple[str, ...] = ()
    ) -> None:
        """Put *files* (None: they go) on top of *branch*, or of the *parents*, which are branches; the next day."""
        self._commits += 1
        words = subject.encode()
        lines = [f"commit refs/heads/{branch}", f"mark :{self._commits}"]
        lines += [f"committer A <a@b> {1_700_000_000 + 86_400 * self._commits} +0000", f"data {len(words)}"]
        self._stream += ["\n".join(lines).encode(), b"\n", words, b"\n"]
        marks = [self._tip[each] for each in parents or ((branch,) if branch in self._tip else ())]
        for word, mark in zip(("from", *["merge"] * len(marks)), marks):
            self._stream.append(f"{word} :{mark}\n".encode())
        for path, text in files.items():
            content = (text or "").encode()
            told = f"D {path}\n" if text is None else f"M 100644 inline {path}\ndata {len(content)}\n"
            self._stream += [told.encode(), content, b"\n"]
        self._tip[branch] = self._commits

    def baselines(self, subject: str, tests: OfTests, module: str = "tests/test_a.py", **how: object) -> None:
        """Commit the file of calls of *module*."""
        self.commit(subject, {f"baselines/{HERE}/{module}.json": calls_file(tests)}, **how)  # type: ignore[arg-type]

    def done(self) -> Path:
        """Write the commits, check out ``main`` and return the folder of its baselines."""
        git(self.top, "init", "-q", "-b", "main", ".")
        subprocess.run(
            ["git", "fast-import", "--quiet"], cwd=self.top, input=b"".join(self._stream), check=True, timeout=60
        )
        git(self.top, "checkout", "-q", "-f", "main")
        return self.top / "baselines"


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints, as nobody in particular."""
    who = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout


def committed(folder: Path) -> None:
    """Make a *folder* a repository, with all its files in one commit."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
