"""This run of pytest as the processes that it starts need it: its command line, and its terminal."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest

from ..machine.cpu_core import Core
from ..python_calls.counted import PythonCalls

ARGUMENTS = "opprof-arguments"
"""Where a worker of pytest-xdist finds the arguments of the run."""
CORE = pytest.StashKey[Core]()
"""Where a run keeps the core that its rounds wait for."""
SITES = pytest.StashKey[bool]()
"""Whether another run asks this one which lines ask for ops."""
ONE_THREAD = pytest.StashKey[bool]()
"""Whether another run asks this one for CPU time in one thread."""
COLD = pytest.StashKey[bool]()
"""Whether another run asks this one to count calls of Python functions in the one run of a body, and nothing else."""
FIRST_LOOK = pytest.StashKey[bool]()
"""Whether another run asks this one for a look that another one follows: that one looks for what is left behind."""
COUNTED = pytest.StashKey[dict[str, PythonCalls]]()
"""What was counted then, by window."""
_FILES = {
    "xmlpath": "--junit-xml=",
    "log_file": "--log-file=",
    "htmlpath": "--html=",
    "report_log": "--report-log=",
    "json_report_file": "--json-report-file=",
    "opprof_json": "--opprof-json=",
    "opprof_html": "--opprof-html=",
    "opprof_summary": "--opprof-summary=",
}
"""Options of pytest and of common plugins that name a file to write."""


def command(config: pytest.Config, folder: str) -> list[str]:
    """Return this run's command, its files redirected to *folder*, where they do no harm.

    Its tests stay as they are: which of its words are tests only pytest can tell.
    """
    redirected = [f"--basetemp={folder}/tmp"]
    if config.pluginmanager.hasplugin("cacheprovider"):  # with -p no:cacheprovider there is no such option
        redirected += ["-o", f"cache_dir={folder}/cache"]
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


def say(config: pytest.Config, line: str) -> None:
    """Say on the terminal what takes so long, unless it is to be quiet."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.get_verbosity() < 0:
        return
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():  # it may be said while a test runs
        terminal.ensure_newline()
        terminal.write_line(line)
