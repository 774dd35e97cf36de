"""Two live processes, each with its own version of the code, that run the same tests in turns, round by round."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, Any

from .errors import BackendError
from .remeasure import ended
from .side import VARIABLE

PATIENCE_S = 300
"""How long a side may take to set a test up, or for one round."""
_START_S = 300
_ALIVE_S = 0.5
"""How often to look whether a process that is to start still lives."""

Reports = dict[str, list[dict[str, Any]]]
"""By test, the reports of its phases as pytest serialises them."""


@dataclass(frozen=True, slots=True)
class Command:
    """How to start a side."""

    name: str
    """As the user knows it."""
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    trees: Mapping[str, str]
    """What `side.misplaced` takes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a side said."""

    collected: list[str]
    reports: Reports
    errors: dict[str, str]
    """By file, why it cannot be collected."""


def run(sides: Sequence[Command], wanted: Sequence[str], swapped: bool) -> list[Answer]:
    """Run the *wanted* tests on the *sides* that have them, in turns; *swapped*: the second one goes first.

    Raises BackendError, with the reason, when a side ends early, hangs, or took its packages from elsewhere. Both
    processes are gone when this returns.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="opprof-"))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(_ALIVE_S)
        key = secrets.token_hex(16)
        started = [_start(side, server, key, folder, stack) for side in (sides[::-1] if swapped else sides)]
        _accept(started, server, key, stack)
        _take_turns(started, wanted)
        return [Answer(side.collected, side.reports, side.errors) for side in (started[::-1] if swapped else started)]


@dataclass(eq=False)
class _Side:
    """A side that runs."""

    name: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    connection: socket.socket | None = None
    asks: list[Any] = field(default_factory=list)
    """What it waits for an answer to; empty while it runs."""
    collected: list[str] = field(default_factory=list)
    reports: Reports = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it has run all its tests."""
        return self.asks[:1] == ["bye"]

    def answer(self, answer: object = None) -> None:
        """Let it go on."""
        self.asks = []
        assert self.connection is not None
        with suppress(OSError):  # it died; `hear` says so
            self.connection.sendall(json.dumps(answer).encode() + b"\n")

    def hear(self) -> None:
        """Wait for what it asks next. Raises BackendError if it died or takes too long."""
        assert self.connection is not None
        try:
            line = _line(self.connection)
        except TimeoutError:
            raise BackendError(f"{self.name} said nothing for {PATIENCE_S} s") from None
        if not line:
            raise self.ended()
        self.asks = json.loads(line)

    def ended(self) -> BackendError:
        """Return the error for a process that ended by itself, with the last that it printed."""
        self.process.wait(_ALIVE_S * 10)
        self.output.seek(0)
        lines = self.output.read().decode("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
        return BackendError(f"{self.name} ended early ({lines[-1].strip('= ')})")


def _start(side: Command, server: socket.socket, key: str, folder: str, stack: ExitStack) -> _Side:
    output = stack.enter_context(open(Path(folder, f"{len(os.listdir(folder))}"), "w+b"))  # noqa: SIM115
    asked = {"port": server.getsockname()[1], "hello": [key, side.name], "trees": dict(side.trees)}
    try:
        process = subprocess.Popen(
            side.command,
            cwd=side.folder,
            env={**os.environ, **side.environment, VARIABLE: json.dumps(asked)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(f"{side.name}: {side.command[0]} cannot be started: {error.strerror or error}") from None
    stack.enter_context(ended(process))
    return _Side(side.name, process, output)


def _accept(sides: Sequence[_Side], server: socket.socket, key: str, stack: ExitStack) -> None:
    """Wait until all have said hello. Raises BackendError if one does not."""
    since = monotonic()
    while waiting := [side for side in sides if side.connection is None]:
        try:
            connection = server.accept()[0]
        except TimeoutError:
            for side in waiting:
                if side.process.poll() is not None:
                    raise side.ended() from None
            if monotonic() - since > _START_S:
                raise BackendError(f"{waiting[0].name} did not start within {_START_S} s") from None
            continue
        stack.enter_context(connection)
        connection.settimeout(PATIENCE_S)
        hello = _line(connection)
        for side in waiting:
            if secrets.compare_digest(hello, json.dumps([key, side.name]).encode() + b"\n"):
                side.connection = connection


def _line(connection: socket.socket) -> bytes:
    """Return the next message, which is a line; empty if the other end is gone. Raises TimeoutError."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            parts.append(part)
            if part.endswith(b"\n"):  # it says no more before it is answered
                return b"".join(parts)
    return b""


def _take_turns(sides: Sequence[_Side], wanted: Sequence[str]) -> None:
    """Let the sides run, both at once only where nothing is timed; never past a test that the other one still runs."""
    order = {test: number for number, test in enumerate(wanted)}
    rounds = 0
    while True:
        for side in sides:
            if not side.asks:
                side.hear()
        if all(side.is_over for side in sides):
            break
        waiting = [side for side in sides if not side.is_over]
        asked = {side.asks[0] for side in waiting}
        if asked == {"tests"}:
            _share_tests(sides, wanted)
        elif "end" in asked or "turn" in asked:
            rounds += _one_goes_on([side for side in waiting if side.asks[0] != "begin"], rounds)
        else:
            first = min(order.get(side.asks[1], -1) for side in waiting)
            for side in waiting:
                if order.get(side.asks[1], -1) == first:
                    side.answer()
    for side in sides:
        _check_place(side)
        side.answer()
        if any(test in side.collected and test not in side.reports for test in wanted):
            raise side.ended()


def _share_tests(sides: Sequence[_Side], wanted: Sequence[str]) -> None:
    for side in sides:
        if side.is_over:
            side.answer()
            raise side.ended()
        _, side.collected, side.errors = side.asks
    for side in sides:
        side.answer([test for test in wanted if test in side.collected])


def _one_goes_on(sides: Sequence[_Side], rounds: int) -> int:
    """Let the side go on whose turn it is: of four rounds one takes the first and the last. Return the rounds run."""
    for side in sides:
        if side.asks[0] == "end":
            _, test, reports = side.asks
            side.reports[test] = reports
            side.answer()
            return 0
    sides[(rounds + 1) // 2 % 2 if len(sides) > 1 else 0].answer()
    return 1


def _check_place(side: _Side) -> None:
    if misplaced := side.asks[1]:
        more = f" and {len(misplaced) - 3} more" if len(misplaced) > 3 else ""
        raise BackendError(
            f"{side.name} did not test its own files: it imported {', '.join(misplaced[:3])}{more}. If that is"
            " installed, and so the same for both, give the revision an environment of its own:"
            " --opprof-against-python=EXE"
        )
