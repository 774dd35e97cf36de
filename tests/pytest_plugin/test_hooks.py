"""Which hooks a run has: by how it was started, and by whom."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from pytest_opprof.machine.load import RUN
from pytest_opprof.processes.parent import VARIABLE
from pytest_opprof.processes.this_run import CORE
from pytest_opprof.pytest_plugin.fixture import TURN
from pytest_opprof.pytest_plugin.hooks import register

Registered = Callable[..., pytest.Config]


@pytest.fixture
def registered(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registered]:
    """Return the configuration of a run with its hooks: of a worker, or of one that another run *started* as what."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv(RUN, "")
    monkeypatch.delenv(RUN)
    monkeypatch.delenv(VARIABLE, raising=False)
    pytester.makeini("[pytest]\naddopts = -p opprof -p xdist\n")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def configured(*arguments: str, worker: bool = False, started: str = "") -> pytest.Config:
            if "--opprof-against=HEAD" in arguments:
                author = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
                for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "one"]):
                    subprocess.run(["git", *words], cwd=pytester.path, check=True)
            config = pytester.parseconfig("--opprof", *arguments)
            if worker:
                config.workerinput = {}  # type: ignore[attr-defined]  # as pytest-xdist does
            if started:
                told = {
                    "kind": started,
                    "port": server.getsockname()[1],
                    "hello": [],
                    "is_base": False,
                    "trees": {"own": "", "other": ""},
                }
                told |= {"files": [], "request": {}, "closely": False}
                monkeypatch.setenv(VARIABLE, json.dumps(told))
            register(config)
            return config

        yield configured


def hooks(config: pytest.Config) -> set[str]:
    return {
        type(plugin).__name__
        for plugin in config.pluginmanager.get_plugins()
        if type(plugin).__module__.startswith("pytest_opprof.")
    }


ALONE = {"Hooks", "Controller"}


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "known", "found"),
    [
        ([], {}, ALONE),
        ([], {"worker": True}, {"Hooks"}),
        ([], {"started": "fresh"}, ALONE | {"Fresh"}),
        ([], {"started": "side"}, ALONE | {"Side"}),
        (["--opprof-against=HEAD"], {}, ALONE | {"Against"}),
        (["--opprof-against=HEAD", "--collect-only"], {}, ALONE),
        (["--opprof-against=HEAD"], {"started": "side"}, ALONE | {"Side"}),
    ],
)
def test_a_run_has_the_hooks_of_what_it_is(
    registered: Registered, arguments: list[str], known: dict[str, object], found: set[str]
) -> None:
    assert hooks(registered(*arguments, **known)) == found


@pytest.mark.parametrize(
    ("arguments", "known", "waits"),
    [
        ([], {}, True),
        (["--opprof-noise=ignore"], {}, False),
        ([], {"worker": True}, False),  # others use the cores all the time
        (["--opprof-serialize"], {"worker": True}, True),
        (["--opprof-serialize", "--opprof-noise=ignore"], {"worker": True}, False),
        ([], {"started": "fresh"}, True),
        ([], {"started": "side"}, False),  # both sides find a core as slow as each other
    ],
)
def test_rounds_wait_for_a_core_where_that_helps(
    registered: Registered, arguments: list[str], known: dict[str, object], waits: bool
) -> None:
    assert (CORE in registered(*arguments, **known).stash) is waits


@pytest.mark.parametrize(("started", "takes_turns"), [("", False), ("fresh", False), ("side", True)])
def test_only_a_side_waits_for_its_turn(registered: Registered, started: str, takes_turns: bool) -> None:
    assert (TURN in registered(started=started).stash) is takes_turns


def test_what_a_run_starts_belongs_to_it_and_so_does_what_that_starts(
    registered: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered()
    assert os.environ[RUN] == str(os.getpid())
    monkeypatch.setenv(RUN, "17")
    registered(started="fresh")
    assert os.environ[RUN] == "17"
