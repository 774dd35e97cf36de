"""A pytest that this run starts: it connects back, asks for instructions, and is answered."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import IO, Any

from ..errors import BackendError
from ..machine.scratch import scratch
from .parent import HASH_SEED, VARIABLE

# The longest time for a process to start, to set a test up, or for one round.
PATIENCE_S = 300
# The interval for checking that a starting process still lives.
_ALIVE_S = 0.1
# The longest time for a process to say hello, which it does as soon as it is connected.
_HELLO_S = 5
# The longest time for a process to end by itself.
_ENDING_S = 10
# The last lines of the output in which an error of pytest can begin: a conftest.py that cannot be imported has a
# traceback.
_OF_ERROR = 40
# The variables by which coverage, and pytest-cov before 7, traces each Python that starts; it takes time for each line.
TRACERS: tuple[str, ...] = ("COVERAGE_PROCESS_", "COV_CORE_")
# The number of workers of pytest-xdist. SciPy's and scikit-learn's conftest.py give each worker its part of the cores,
# and results of matrix products differ by rounding: expm then took other branches than in the update.
_WORKERS = "PYTEST_XDIST_WORKER_COUNT"


@dataclass(frozen=True, slots=True)
class Command:
    """The command that starts a process."""

    name: str
    """Its name for users."""
    words: Sequence[str]
    folder: Path
    told: Mapping[str, object]
    """Its task: `parent.Told`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Its environment variables beside this process's, which start no coverage there."""
    hash_seed: int = 0
    """Of Python: the order of a set of strings may decide how often ops run. 5 of 305 tests of pandas' merge make other
    calls with half of all seeds. Not the user's, since tox chooses another for each run.
    """


class TookTooLong(BackendError):
    """A process did not ask its next question in time."""


class Child:
    """A started process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self.name = name
        self.connection: socket.socket | None = None
        self.asks: list[Any] = []
        """The question that it waits on; empty while it runs."""
        self._process = process
        self._output = output
        self._is_over = False
        self._runs_since: float | None = None
        """When it was answered last."""

    def answer(self, answer: object = None) -> None:
        """Let it continue."""
        self.asks = []
        self._runs_since = monotonic()
        assert self.connection is not None
        with suppress(OSError):  # it died; `hear` reports it
            self.connection.sendall(json.dumps(answer).encode() + b"\n")

    def hear(self, patience_s: float | None = None) -> list[Any]:
        """Wait for its next question. Raises BackendError if it died, or has run for too long."""
        assert self.connection is not None
        patience_s = PATIENCE_S if patience_s is None else patience_s
        ran_s = 0.0 if self._runs_since is None else monotonic() - self._runs_since
        self.connection.settimeout(max(patience_s - ran_s, 0.001))
        try:
            with terminated_as_by_ctrl_c():
                line = _line(self.connection)
        except TimeoutError:
            raise TookTooLong(f"{self.name} took more than {patience_s:.0f} s") from None
        if not line:
            raise self.ended()
        self.asks = json.loads(line)
        return self.asks

    def ended(self) -> BackendError:
        """Return the error for a process that ended by itself, with its last output."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        return BackendError(f"{self.name} ended early ({self.last_line})")

    @property
    def last_line(self) -> str:
        """The last line that it printed, after the error of pytest that it belongs to."""
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
        errors = [line for line in lines[-_OF_ERROR:-1] if line.startswith(("ERROR: ", "ImportError while loading "))]
        return " ".join([*errors[-1:], lines[-1].strip("= ")])

    @property
    def is_running(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    def hang_up(self) -> None:
        """Let it end by itself if it waits for an answer."""
        if self.asks and self.connection is not None:
            with suppress(OSError):  # it has ended
                self.connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End it with its children: by itself if it waits for an answer, otherwise at once."""
        if self._is_over:
            return
        self._is_over = True
        try:
            if self.asks:
                self.hang_up()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_ENDING_S)
        finally:  # a second Ctrl-C may interrupt the wait
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.wait()


def ready(children: Sequence[Child]) -> list[Child]:
    """Wait until one of *children* asks or has died, and return those; if none does in time, all: to `hear` one says
    so.
    """
    with terminated_as_by_ctrl_c():
        found = wait([child.connection for child in children if child.connection is not None], PATIENCE_S)
    return [child for child in children if child.connection in found] or [*children]


@contextmanager
def started(commands: Sequence[Command], begun: Callable[[Child], None] | None = None) -> Iterator[list[Child]]:
    """Start all at once, and yield them when each has connected; they are gone afterwards, whatever happens.

    *begun* is called with each before it has connected. Raises BackendError, with the reason, for one that does not
    start.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        key = secrets.token_hex(16)
        children = []
        with terminated_as_by_ctrl_c():
            for number, command in enumerate(commands):
                output = stack.enter_context(open(Path(folder, f"{number}"), "w+b"))
                children.append(_start(command, server.getsockname()[1], [key, number], output))
                stack.callback(children[-1].end)
                if begun:
                    begun(children[-1])
            _accept(children, server, key, stack)
        yield children
        for child in children:
            child.hang_up()  # all at once: with PyTorch one takes a second to end


def _start(command: Command, port: int, hello: list[object], output: IO[bytes]) -> Child:
    told = {"port": port, "hello": hello, "hash_seed": os.environ.get(HASH_SEED), **command.told}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith((*TRACERS, _WORKERS))}
    try:
        process = subprocess.Popen(
            command.words,
            cwd=command.folder,
            env={**inherited, **command.environment, HASH_SEED: str(command.hash_seed), VARIABLE: json.dumps(told)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(f"{command.name}: {command.words[0]} cannot be started: {error.strerror or error}") from None
    return Child(command.name, process, output)


def _accept(children: Sequence[Child], server: socket.socket, key: str, stack: ExitStack) -> None:
    """Wait until all have said hello. Raises BackendError if one does not."""
    server.settimeout(_ALIVE_S)
    since = monotonic()
    while waiting := [child for child in children if child.connection is None]:
        try:
            connection = server.accept()[0]
        except TimeoutError:
            for child in reversed(waiting):  # of two versions the working tree: of an error in the command both die
                if not child.is_running:
                    raise child.ended() from None
            if monotonic() - since > PATIENCE_S:
                raise BackendError(f"{waiting[0].name} did not start within {PATIENCE_S} s") from None
            continue
        stack.enter_context(connection)
        connection.settimeout(_HELLO_S)
        try:
            hello = _line(connection, 1)  # byte by byte: it may continue without an answer
        except TimeoutError:
            continue  # an unrelated connection
        connection.settimeout(PATIENCE_S)
        for number, child in enumerate(children):
            if secrets.compare_digest(hello, json.dumps([key, number]).encode() + b"\n"):
                child.connection = connection


def _line(connection: socket.socket, size: int = 1 << 16) -> bytes:
    """Return the next message, which is a line; empty if the other end is gone. Raises TimeoutError.

    *size* is the number of bytes to read at once.
    """
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(size):
            parts.append(part)
            if part.endswith(b"\n"):  # it sends no more before it is answered
                return b"".join(parts)
    return b""


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Let Ctrl-C or SIGTERM interrupt the block, and no further one interrupt its end, which leaves nothing behind."""
    ours = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    taken = [number for number, handler in before.items() if handler in ours and current_thread() is main_thread()]

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        signal.default_int_handler(number, frame)

    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def terminated_as_by_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM, with which CI ends a job, like Ctrl-C, so that the started processes end too."""
    ours = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
