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
VARIABLE = "OPPROF_LOOK"
"""Set in the fresh process: it measures and neither looks again nor writes baselines."""


def measure_again(config: pytest.Config, node_id: str) -> dict[str, Entry]:
    """Run one test in a fresh pytest, with this run's options, and return what a baseline would keep, by window.

    Raises BackendError, with the reason, when that gives no measurement.
    """
    with tempfile.TemporaryDirectory(prefix="opprof-") as folder:
        answer = Path(folder, "run.json")
        output = _run([*_command(config, folder), f"--opprof-json={answer}", node_id], config.rootpath)
        try:
            tests: list[dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))["tests"]
            windows = next(test["windows"] for test in tests if test["id"] == node_id)
            return {window["name"]: entry_of(window) for window in windows}
        except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
            last = output.strip().splitlines()[-1:] or ["no output"]
            raise BackendError(f"a fresh process gave no measurement ({last[0]})") from error


def _command(config: pytest.Config, folder: str) -> list[str]:
    """Return this run's command without its tests, its files redirected to where they do no harm."""
    options = list(config.invocation_params.args)
    for positional in reversed(config.args):
        if positional in options:
            del options[len(options) - 1 - options[::-1].index(positional)]
    redirected = [f"--rootdir={config.rootpath}", f"--basetemp={folder}/tmp", "-o", f"cache_dir={folder}/cache"]
    for plugin, option in (("junitxml", "--junit-xml="), ("_cov", "--no-cov")):
        if config.pluginmanager.hasplugin(plugin):
            redirected.append(option)
    return [sys.executable, "-m", "pytest", *map(str, options), *redirected]


def _run(command: list[str], folder: Path) -> str:
    """Run *command* to its end and return its output. It and what it started are gone afterwards, whatever happens."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, VARIABLE: "1"},
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
