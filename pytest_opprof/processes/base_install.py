"""Install the base in an environment of its own: ``--opprof-against-install`` installs it beside today's packages,
if it is compiled; ``--opprof-against-python`` is another Python.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from ..errors import UsageError

_FLAG = "--opprof-against-install"
# Of the output of a failing command.
_LINES = 5


def installed(folder: Path, tree: Path, command: str) -> str:
    """Return a Python with the packages installed by *command*, run in *tree*, and today's packages after them.

    Its environment is made in *folder*. Raises UsageError with the last printed lines if the command fails.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{_FLAG} is {command!r}: {error}") from None
    if not words:
        raise UsageError(f"{_FLAG} is empty; write a command, such as 'pip install --no-deps .'")
    _run([sys.executable, "-m", "venv", str(folder)], tree, {})
    bins = folder / ("Scripts" if os.name == "nt" else "bin")
    python = str(bins / "python")
    there = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    # A path in a .pth file comes last, and its own .pth files are not read, so an editable working tree is absent.
    today: dict[str, None] = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    today.update(dict.fromkeys(each for each in sys.path if each.endswith(("site-packages", "dist-packages"))))
    today[str(Path(__file__).parents[2])] = None  # pytest-opprof itself may be an editable install
    Path(there.stdout.strip(), "opprof_today.pth").write_text("\n".join(today), encoding="utf-8")
    _run(
        words,
        tree,
        {"PATH": os.pathsep.join([str(bins), os.environ.get("PATH", os.defpath)]), "VIRTUAL_ENV": str(folder)},
    )
    return python


def check_python(python: str) -> None:
    """Raise UsageError if *python*, an interpreter of another environment, cannot run the tests."""
    flag = "--opprof-against-python"
    try:
        words = [python, "-c", "import pytest, pytest_opprof.plugin"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{flag}: {python} cannot be started: {error.strerror or error}") from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UsageError(
            f"{flag}: {python} cannot run the tests ({why}); install pytest and pytest-opprof there, beside what the"
            f" tests need: {python} -m pip install pytest pytest-opprof"
        )


def _run(words: list[str], folder: Path, environment: dict[str, str]) -> None:
    # The program is looked up in this process's PATH, not in that of *environment*.
    path = environment.get("PATH", "").partition(os.pathsep)[0]
    program = Path(path, words[0]) if path else Path(words[0])
    words = [str(program) if program.is_file() else words[0], *words[1:]]
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UsageError(f"{_FLAG}: {words[0]} cannot be started: {error.strerror or error}") from None
    if done.returncode:
        said = "\n".join(f"  {line}" for line in done.stdout.strip().splitlines()[-_LINES:])
        raise UsageError(f"{_FLAG}: {shlex.join(words)} failed with exit code {done.returncode}:\n{said}")
