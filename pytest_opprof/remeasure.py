"""One test measured again in a fresh process: what looked slower once may have been the process or the moment.

Two processes of the same code differ more than two rounds of one process do, so more rounds here would not help.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from .baselines import Entry
from .errors import BackendError
from .runs import entry_of

LOOKS = 4
"""How many fresh processes have to agree that a test is slower. Measured on a busy two-core machine, 20 PyTorch tests
of unchanged code, 40 processes, +50 %: 9.3 % of all comparisons alarm after one process, 0.06 % after five."""
TIMEOUT_S = 300
LOOKING_S = 300
"""What one run spends on looking again, at most: what looks slower after that fails as it is."""
VARIABLE = "OPPROF_LOOK"
"""In the fresh process, the one test it is to measure: it neither looks again nor writes baselines."""


def measure_again(config: pytest.Config, node_id: str) -> dict[str, Entry]:
    """Run one test in a fresh pytest, with this run's options, and return what a baseline would keep, by window.

    Raises BackendError, with the reason, when that gives no measurement.
    """
    with tempfile.TemporaryDirectory(prefix="opprof-") as folder:
        answer = Path(folder, "run.json")
        output = _run([*_command(config, folder), f"--opprof-json={answer}"], config.invocation_params.dir, node_id)
        try:
            tests: list[dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))["tests"]
            windows = next(test["windows"] for test in tests if test["id"] == node_id)
            return {window["name"]: entry_of(window) for window in windows}
        except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
            last = output.strip().splitlines()[-1:] or ["no output"]
            raise BackendError(f"a fresh process gave no measurement ({last[0]})") from error


def _command(config: pytest.Config, folder: str) -> list[str]:
    """Return this run's command, its files redirected to where they do no harm.

    Its tests stay as they are: which of its words are tests only pytest can tell. `VARIABLE` says which one to run.
    """
    redirected = [f"--basetemp={folder}/tmp", "-o", f"cache_dir={folder}/cache"]
    for name, option in _FILES.items():
        if getattr(config.option, name, None):
            redirected.append(f"{option}{folder}/{name}")
    if config.pluginmanager.hasplugin("_cov"):
        redirected.append("--no-cov")
    return [sys.executable, "-m", "pytest", *map(str, config.invocation_params.args), *redirected]


_FILES = {
    "xmlpath": "--junit-xml=",
    "log_file": "--log-file=",
    "htmlpath": "--html=",
    "report_log": "--report-log=",
    "json_report_file": "--json-report-file=",
}
"""Options of pytest and of common plugins that name a file to write."""


def _run(command: list[str], folder: Path, node_id: str) -> str:
    """Run *command* to its end and return its output. It and what it started are gone afterwards, whatever happens."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, VARIABLE: node_id},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            raise BackendError(f"a fresh process took more than {TIMEOUT_S} s") from None
        finally:
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    else:
        process.kill()
