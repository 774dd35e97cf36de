"""Tests measured in fresh processes: what looked slower once may have been the process or the moment.

Two processes of the same code differ more than two rounds of one process do, so more rounds here would not help.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from .baselines import Entry
from .conditions import LOOKING_PATIENCE_S, Core
from .errors import BackendError
from .runs import entry_of

TIMEOUT_S = 300
LOOKING_S = 300
"""What one run spends on looking again, at most: what looks slower after that has no verdict."""
VARIABLE = "OPPROF_TESTS"
"""In a fresh process, the file with the tests it is to measure: it neither looks again nor writes baselines."""

ARGUMENTS = "opprof-arguments"
"""Where a worker of pytest-xdist finds the arguments of the run."""

CORE = pytest.StashKey[Core]()
"""Where a run keeps the core that its rounds wait for."""
Measured = Mapping[str, Mapping[str, Entry]]
"""By test, then by window, what a baseline would keep."""


def measure(config: pytest.Config, tests: Sequence[str], timeout_s: float = TIMEOUT_S) -> Measured:
    """Run *tests* (node ids) in a fresh pytest with this run's options, and return what it measured.

    Raises BackendError, with the reason, when that gives no measurement.
    """
    try:
        return _measured(config, tests, timeout_s)
    except OSError as error:
        raise BackendError(f"a fresh process could not be started: {error.strerror or error}") from error


def _measured(config: pytest.Config, tests: Sequence[str], timeout_s: float) -> Measured:
    with tempfile.TemporaryDirectory(prefix="opprof-") as folder:
        answer, asked = Path(folder, "run.json"), Path(folder, "tests.json")
        core = config.stash.get(CORE, None)
        best_ns = core.best_ns if core and core.best_ns < math.inf else None
        asked.write_text(json.dumps({"tests": list(tests), "best_ns": best_ns}), encoding="utf-8")
        output = _run(
            [*command(config, folder), f"--opprof-json={answer}"], config.invocation_params.dir, asked, timeout_s
        )
        try:
            found: list[dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))["tests"]
            return {test["id"]: {window["name"]: entry_of(window) for window in test["windows"]} for test in found}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            last = output.strip().splitlines()[-1:] or ["no output"]
            raise BackendError(f"a fresh process gave no measurement ({last[0]})") from error


def say(config: pytest.Config, line: str) -> None:
    """Say on the terminal what takes so long, unless it is to be quiet."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.get_verbosity() < 0:
        return
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():  # it may be said while a test runs
        terminal.ensure_newline()
        terminal.write_line(line)


@dataclass(frozen=True, slots=True)
class Asked:
    """What this process is to measure for another one."""

    tests: frozenset[str]
    core: Core
    """What to wait for: how fast the other one's was at best."""


def asked_for() -> Asked | None:
    """Return what this process is to measure for another one; None if it is on its own."""
    path = Path(os.environ.get(VARIABLE, ""))
    if not path.is_file():
        return None
    asked = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()  # a pytest that one of the tests starts is on its own
    return Asked(frozenset(asked["tests"]), Core(asked["best_ns"] or math.inf, LOOKING_PATIENCE_S))


def command(config: pytest.Config, folder: str) -> list[str]:
    """Return this run's command, its files redirected to *folder*, where they do no harm.

    Its tests stay as they are: which of its words are tests only pytest can tell. `VARIABLE` says which ones to run.
    """
    redirected = [f"--basetemp={folder}/tmp", "-o", f"cache_dir={folder}/cache"]
    for name, option in _FILES.items():
        if getattr(config.option, name, None):
            redirected.append(f"{option}{folder}/{name}")
    if config.pluginmanager.hasplugin("_cov"):
        redirected.append("--no-cov")
    if config.pluginmanager.hasplugin("xdist"):
        redirected.append("-n0")
    # A worker of pytest-xdist has no arguments of its own.
    worker: dict[str, list[str]] = getattr(config, "workerinput", {})
    words = worker.get(ARGUMENTS) or map(str, config.invocation_params.args)
    return [sys.executable, "-m", "pytest", *words, *redirected]


_FILES = {
    "xmlpath": "--junit-xml=",
    "log_file": "--log-file=",
    "htmlpath": "--html=",
    "report_log": "--report-log=",
    "json_report_file": "--json-report-file=",
    "opprof_json": "--opprof-json=",
}
"""Options of pytest and of common plugins that name a file to write."""


def _run(command: list[str], folder: Path, asked: Path, timeout_s: float) -> str:
    """Run *command* to its end and return its output. It and what it started are gone afterwards, whatever happens."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, VARIABLE: str(asked)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with ended(process):
        try:
            return process.communicate(timeout=timeout_s)[0]
        except subprocess.TimeoutExpired:
            raise BackendError(f"a fresh process took more than {timeout_s:.0f} s") from None


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    """End *process*, started in a session of its own, and what it started, whatever happens.

    A SIGTERM, with which CI ends a job, does as Ctrl-C meanwhile: nothing else would end the process.
    """
    with process, _terminated_as_by_ctrl_c():
        try:
            yield
        finally:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


@contextmanager
def _terminated_as_by_ctrl_c() -> Iterator[None]:
    ours = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
