"""The command line and the terminal of this pytest run, for the processes that it starts."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest

from ..machine.cpu_core import Core
from ..python_calls.counted import PythonCalls

# The key of the run's arguments in a worker of pytest-xdist.
ARGUMENTS = "opprof-arguments"
# The core that the rounds of a run wait for.
CORE = pytest.StashKey[Core]()
# The calls of Python functions in the one run of a body, by window, if another run requests only these.
COUNTED = pytest.StashKey[dict[str, PythonCalls]]()
# Options of pytest and of common plugins that name a file to write.
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


def command(config: pytest.Config, folder: str) -> list[str]:
    """Return this run's command, its files redirected to *folder*, where they do no harm.

    Its tests stay as they are, because only pytest can tell which of its words are tests.
    """
    redirected = [f"--basetemp={folder}/tmp"]
    if config.pluginmanager.hasplugin("cacheprovider"):  # with -p no:cacheprovider there is no such option
        redirected += ["-o", f"cache_dir={folder}/cache"]
    for name, option in _FILES.items():
        if getattr(config.option, name, None):
            redirected.append(f"{option}{folder}/{name}")
    if getattr(config.option, "opprof_all", False):  # a side of a comparison without marks has it from the other run
        redirected.append("--opprof-all")
    if config.pluginmanager.hasplugin("_cov"):
        redirected.append("--no-cov")
    if hasattr(config.option, "numprocesses"):  # the plugin has another name where PYTEST_PLUGINS loads it
        redirected.append("-n0")
    # A worker of pytest-xdist has no arguments of its own.
    worker: dict[str, list[str]] = getattr(config, "workerinput", {})
    words = worker.get(ARGUMENTS) or map(str, config.invocation_params.args)
    return [sys.executable, "-m", "pytest", *words, *redirected]


def say(config: pytest.Config, line: str) -> None:
    """Print on the terminal why the run takes so long, unless it is quiet."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or config.get_verbosity() < 0:
        return
    capture = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():  # it may be printed while a test runs
        terminal.ensure_newline()
        terminal.write_line(line)
