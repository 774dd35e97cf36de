from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pytest_opprof.processes.parent import VARIABLE, Parent, why


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(server: socket.socket, **told: object) -> tuple[Parent, socket.socket]:
    """Return the parent as the child sees it, and the parent's end of the line."""
    parent = Parent({"kind": "fresh", "port": server.getsockname()[1], "hello": ["key", 0], **told})
    connection = server.accept()[0]
    assert json.loads(connection.recv(100)) == ["key", 0]
    return parent, connection


def test_a_pytest_on_its_own_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Parent.found() is None


def test_it_is_found_once_since_what_a_test_starts_is_on_its_own(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"kind": "side", "port": server.getsockname()[1], "hello": [], "trees": {"own": "/x"}}
    monkeypatch.setenv(VARIABLE, json.dumps(told))
    found = Parent.found()
    assert found is not None
    assert (found.kind, found.told["trees"]) == ("side", {"own": "/x"})
    assert VARIABLE not in os.environ


@pytest.mark.parametrize("of_user", [None, "7"])
def test_what_a_test_starts_has_the_hash_seed_of_the_user(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch, of_user: str | None
) -> None:
    told = {"kind": "side", "port": server.getsockname()[1], "hello": [], "hash_seed": of_user}
    monkeypatch.setenv(VARIABLE, json.dumps(told))
    monkeypatch.setenv("PYTHONHASHSEED", "3")
    assert Parent.found()
    assert os.environ.get("PYTHONHASHSEED") == of_user


def test_a_question_is_a_line_and_so_is_its_answer(server: socket.socket) -> None:
    parent, connection = connected(server)
    with connection:
        for question, answer in ((("ready", {}), {"tests": ["test_é"]}), (("turn",), None)):
            connection.sendall(json.dumps(answer).encode() + b"\n")
            assert parent.ask(*question) == answer
            assert connection.recv(100) == json.dumps(question).encode() + b"\n"


def test_both_ends_see_that_it_is_closed(server: socket.socket) -> None:
    parent, connection = connected(server)
    parent.close()
    with connection:
        assert connection.recv(1) == b""
    with pytest.raises(pytest.exit.Exception):
        parent.ask("turn")


def test_where_nobody_listens_any_more_pytest_ends(server: socket.socket) -> None:
    parent, connection = connected(server)
    connection.close()
    for _ in range(2):  # the second time it cannot even be sent
        with pytest.raises(pytest.exit.Exception, match="the run that started this one has ended") as end:
            parent.ask("turn")
        assert end.value.returncode == 1
    with suppress(OSError):  # what it could not send
        parent._stream.close()


def report(longrepr: Any, outcome: str = "failed") -> pytest.TestReport:
    return pytest.TestReport("t.py::a", ("t.py", 0, "a"), {}, outcome, longrepr, "call")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("longrepr", "outcome", "said"),
    [
        (("t.py", 3, "Skipped: not here"), "skipped", "Skipped: not here"),
        ("def a():\n>   f()\nE   assert 1 == 2\nE    +  where\n\nt.py:3: AssertionError", "failed", "+  where"),
        ("no such fixture", "failed", "no such fixture"),
        (None, "failed", "it gives no reason"),
    ],
)
def test_why_is_one_line(longrepr: Any, outcome: str, said: str) -> None:
    assert why(report(longrepr, outcome)) == said
