"""Install the base in an environment of its own: ``--opprof-against-install`` installs it beside today's packages,
if it is compiled; ``--opprof-against-python`` is another Python.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path

from ..errors import UsageError
from .base_cache import fingerprint

_FLAG = "--opprof-against-install"
# Of the output of a failing command.
_LINES = 8
# The file that adds today's packages to those of the base.
_TODAY = "opprof_today.pth"
# Environments that are kept: SciPy's takes 150 MB. One that was used within an hour stays, since a run may use it now.
_KEPT = 2
_IN_USE_S = 3600


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
    bins = _bins(folder)
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
    Path(there.stdout.strip(), _TODAY).write_text("\n".join(today), encoding="utf-8")
    if sys.version_info < (3, 12) and find_spec("setuptools"):
        # Python's own, of 2022 in 3.11, would come before today's, with which --no-build-isolation builds.
        _run([python, "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools"], tree, {})
    _run(
        words,
        tree,
        {"PATH": os.pathsep.join([str(bins), os.environ.get("PATH", os.defpath)]), "VIRTUAL_ENV": str(folder)},
    )
    return python


class KeptEnvironment:
    """The environment that one command installed for one commit, kept beside the base's results."""

    def __init__(self, folder: Path, commit: str, command: str) -> None:
        self._folder = folder
        # Scripts and links of an environment name the Python that made it.
        self._path = folder / f"{commit[:12]}-{fingerprint([sys.executable, command])}-installed"
        self.problem = ""
        """Why the environment could not be kept; empty if it could, or if nothing is to be kept."""

    def python(self) -> str:
        """Return its Python; empty if it is missing or does not start."""
        python = _bins(self._path) / "python"
        try:
            subprocess.run([str(python), "-c", ""], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return ""
        os.utime(self._path)
        return str(python)

    def keep(self, environment: Path) -> None:
        """Copy *environment* here if it holds all that the command made; `python` has its place then."""
        if self.python():
            return  # another run kept it meanwhile, and uses it
        if not _is_complete(environment):
            self.problem = (
                "the installed base is not kept for the next run, since its packages lie in the base's tree, as in an"
                " editable install; 'pip install --no-deps .' is kept"
            )
            return
        copying = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self._path, ignore_errors=True)  # it does not start
            shutil.copytree(environment, copying, symlinks=True)
            copying.rename(self._path)
            kept = sorted(self._folder.glob("*-installed*"), key=lambda path: path.stat().st_mtime)
            for path in kept[:-_KEPT]:
                if time.time() - path.stat().st_mtime > _IN_USE_S:
                    shutil.rmtree(path, ignore_errors=True)
        except OSError as error:
            shutil.rmtree(copying, ignore_errors=True)
            if not self.python():
                self.problem = f"the installed base is not kept in {self._folder}: {error.strerror or error}"


def _is_complete(environment: Path) -> bool:
    """Return False if packages may lie in the base's tree, which goes: editable, or built in place."""
    packages = [path for path in environment.rglob("*.dist-info") if not path.name.startswith(("pip-", "setuptools-"))]
    names = [path / "direct_url.json" for path in packages if (path / "direct_url.json").is_file()]
    editable = [json.loads(path.read_text(encoding="utf-8")).get("dir_info", {}).get("editable") for path in names]
    paths = [path for path in environment.rglob("*.pth") if path.name not in (_TODAY, "distutils-precedence.pth")]
    return bool(packages) and not any(editable) and not paths


def _bins(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


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
        lines = done.stdout.strip().splitlines()
        # pip's own words about the failure follow the output of the build that failed.
        end = next((number for number, line in enumerate(lines) if "[end of output]" in line), len(lines))
        said = "\n".join(f"  {line.rstrip()}" for line in lines[:end][-_LINES:])
        raise UsageError(f"{_FLAG}: {shlex.join(words)} failed with exit code {done.returncode}:\n{said}")
