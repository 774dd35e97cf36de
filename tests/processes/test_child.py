"""What is said to and heard of a process. Where it is started, it is a real one; else its end of the line is ours."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_opprof.errors import BackendError
from pytest_opprof.processes import child
from pytest_opprof.processes.child import TRACERS, Child, Command, started, terminated_as_by_ctrl_c


class Ended:
    """Stands for a process that has ended."""

    def wait(self, timeout_s: float) -> int:
        return 0


class Line:
    """A child, and the other end of its line."""

    def __init__(self, ours: socket.socket, end: socket.socket) -> None:
        self.printed = io.BytesIO()
        self.child = Child("a process", Ended(), self.printed)  # type: ignore[arg-type]
        self.child.connection = ours
        self.end = end


@pytest.fixture
def line() -> Iterator[Line]:
    ours, end = socket.socketpair()
    with ours, end:
        yield Line(ours, end)


def test_what_it_asks_is_heard_and_waits_for_an_answer(line: Line) -> None:
    line.end.sendall(b'["turn", 1]\n')
    assert line.child.hear() == line.child.asks == ["turn", 1]
    line.child.answer({"tests": ["é"]})
    assert line.child.asks == []
    assert json.loads(line.end.recv(100)) == {"tests": ["é"]}


def test_a_message_of_several_packets_is_one(line: Line) -> None:
    message = ["end", "x" * 1_000_000]  # more than a socket holds
    with ThreadPoolExecutor() as threads:
        threads.submit(line.end.sendall, json.dumps(message).encode() + b"\n")
        assert line.child.hear() == message


def test_one_that_says_nothing_takes_too_long(line: Line) -> None:
    with pytest.raises(BackendError, match=r"^a process took more than 0 s$"):
        line.child.hear(patience_s=0.001)


@pytest.mark.parametrize("said", [b"", b'["begin", "half a mess'])
@pytest.mark.parametrize(
    ("printed", "last"), [(b"", "it printed nothing"), (b"a\n== no \xff module ==\n\n", "no \ufffd module")]
)
def test_one_that_dies_is_told_by_the_last_that_it_printed(line: Line, said: bytes, printed: bytes, last: str) -> None:
    line.printed.write(printed)
    line.end.sendall(said)
    line.end.close()
    with pytest.raises(BackendError) as error:
        line.child.hear()
    assert str(error.value) == f"a process ended early ({last})"


def test_an_answer_to_one_that_died_is_no_error_yet(line: Line) -> None:
    line.end.close()
    line.child.answer("go on")
    with pytest.raises(BackendError, match="ended early"):
        line.child.hear()


@pytest.mark.skipif(sys.platform == "win32", reason="nobody sends a SIGTERM there")
def test_a_sigterm_ends_the_waiting_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminated_as_by_ctrl_c():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


# --- real processes

HELLO = """
import json, os, socket, sys
told = json.loads(os.environ["OPPROF_PARENT"])
line = socket.create_connection(("127.0.0.1", told["port"]))
line.sendall(json.dumps(told["hello"]).encode() + b"\\n")
"""


def program(text: str, folder: Path, name: str = "a process", **environment: str) -> Command:
    return Command(name, [sys.executable, "-S", "-E", "-c", text], folder, {"kind": "x"}, environment)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.processes
def test_processes_are_known_by_their_place_however_fast_they_connect(tmp_path: Path) -> None:
    says = HELLO + "line.sendall(json.dumps([told['kind'], os.environ['WHICH'], os.getcwd()]).encode() + b'\\n')\n"
    says += "line.recv(9)"
    with started([program(says, tmp_path, WHICH=which) for which in "abc"]) as children:
        assert [each.hear() for each in children] == [["x", which, os.path.realpath(tmp_path)] for which in "abc"]


@pytest.mark.processes
def test_one_that_waits_for_an_answer_ends_by_itself(tmp_path: Path) -> None:
    asks = HELLO + "line.sendall(b'[]\\n'.replace(b'[]', b'[1]'))\nif not line.recv(9): open('end', 'x')"
    with started([program(asks, tmp_path)]) as (one,):
        one.hear()
    assert (tmp_path / "end").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="has neither sessions nor FIFOs")
@pytest.mark.processes
def test_one_that_runs_on_is_killed_with_what_it_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "open")  # reads to its end when the last that has it open is gone
    reader = os.open(tmp_path / "open", os.O_RDONLY | os.O_NONBLOCK)
    hangs = "import time\nwhile True: time.sleep(9)"
    both = f"import subprocess\nfifo = open('open', 'wb')\none = [sys.executable, '-S', '-c', {hangs!r}]\n"
    both += "subprocess.Popen(one, pass_fds=[fifo.fileno()])\nline.sendall(b'[1]\\n')\nline.recv(9)\n"
    with started([program(HELLO + both + hangs, tmp_path)]) as (one,):
        one.hear()
        assert select.select([reader], [], [], 0)[0] == []
        one.answer()
    assert select.select([reader], [], [], 60)[0] == [reader]
    assert os.read(reader, 1) == b""
    os.close(reader)


@pytest.mark.processes
def test_one_that_ends_before_it_connects_says_why(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"^a process ended early \(SystemExit: no module\)$"):
        with started([program("import sys; sys.stderr.write('SystemExit: no module'); sys.exit(2)", tmp_path)]):
            pass


@pytest.mark.processes
def test_coverage_does_not_start_in_a_process_that_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "TRACERS", TRACERS)
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COV_CORE_SOURCE", "COVERAGE_FILE"):
        monkeypatch.setenv(name, "x")
    says = (
        HELLO + "line.sendall(json.dumps([each for each in os.environ if each.startswith('COV')]).encode() + b'\\n')\n"
    )
    with started([program(says + "line.recv(9)", tmp_path)]) as (process,):
        assert set(process.hear()) - {"COVERAGE_RUN"} == {"COVERAGE_FILE"}  # the first where coverage runs the tests


@pytest.mark.processes
def test_a_process_of_a_worker_does_not_share_the_cores_with_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")  # its own files and databases
    says = (
        HELLO
        + "line.sendall(json.dumps([each for each in os.environ if each.startswith('PYTEST_XDIST')]).encode() + b'\\n')"
        + "\nline.recv(9)"
    )
    with started([program(says, tmp_path)]) as (one,):
        assert "PYTEST_XDIST_WORKER" in (found := one.hear())
        assert "PYTEST_XDIST_WORKER_COUNT" not in found


@pytest.mark.processes
def test_each_process_has_a_hash_seed_of_its_own_and_knows_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    says = (
        HELLO
        + "line.sendall(json.dumps([os.environ['PYTHONHASHSEED'], told['hash_seed']]).encode() + b'\\n')\nline.recv(9)"
    )
    with started([replace(program(says, tmp_path), hash_seed=3)]) as (one,):
        assert one.hear() == ["3", "7"]


@pytest.mark.processes
def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError) as error:
        with started([Command("the revision", [str(tmp_path / "python9")], tmp_path, {})]):
            pass
    assert str(error.value) == f"the revision: {tmp_path}/python9 cannot be started: No such file or directory"


@pytest.mark.processes
def test_where_one_does_not_start_the_others_are_gone(tmp_path: Path) -> None:
    other = program(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(__import__('os').getpid()))\n" + HELLO, tmp_path)
    with pytest.raises(BackendError, match=r"^a broken one ended early"):
        with started([other, program("1 / 0", tmp_path, "a broken one")]):
            pass
    pid = tmp_path / "pid"
    assert not pid.exists() or not pid.read_text() or is_gone(int(pid.read_text()))


@pytest.mark.processes
def test_a_stranger_on_the_port_is_none_of_ours(tmp_path: Path) -> None:
    stranger = HELLO.replace('told["hello"]', '["guessed", 0]')
    asks = "line.sendall(b'[7]\\n')\nline.recv(9)"
    with started([program(f"{stranger}first = line\n{HELLO}{asks}", tmp_path)]) as (one,):
        assert one.hear() == [7]


@pytest.mark.processes
def test_what_it_asks_right_after_its_hello_is_heard(tmp_path: Path) -> None:
    at_once = HELLO.replace('+ b"\\n"', "+ b'\\n[7]\\n'") + "line.recv(9)"
    with started([program(at_once, tmp_path)]) as (one,):
        assert one.hear() == [7]


@pytest.mark.processes
def test_it_has_no_input_and_prints_where_nobody_sees_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    reads = HELLO + "print('loud'); line.sendall(json.dumps([sys.stdin.read()]).encode() + b'\\n'); line.recv(9)"
    with started([program(reads, tmp_path)]) as (one,):
        assert one.hear() == [""]
    assert capfd.readouterr() == ("", "")
