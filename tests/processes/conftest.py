"""A pytest that another run started, in this process: the other run is a thread that speaks the real protocol."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from pytest_opprof.processes.child import Child
from pytest_opprof.processes.parent import VARIABLE

Told = Callable[[Child], Any]
"""What the other run does with the process that it started."""
AsChild = Callable[..., tuple[pytest.RunResult, Any]]


@pytest.fixture
def as_child(suite: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch) -> Iterator[AsChild]:
    """Run pytest as a process that another run started; return its result, and what the other run *does* returns."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        server.settimeout(60)  # where nobody connects the test fails

        def talk(does: Told) -> Any:
            connection = server.accept()[0]
            with closing(connection):
                while connection.recv(1) != b"\n":
                    pass  # hello
                child = Child("it", None, io.BytesIO())  # type: ignore[arg-type]  # it is no process of its own
                child.connection = connection
                return does(child)

        def run(does: Told, *arguments: str, **told: object) -> tuple[pytest.RunResult, Any]:
            monkeypatch.setenv(VARIABLE, json.dumps({"port": server.getsockname()[1], "hello": [], **told}))
            talking = threads.submit(talk, does)
            result = suite("--opprof", *arguments)
            return result, talking.result()

        yield run
