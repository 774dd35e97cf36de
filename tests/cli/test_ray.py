"""Ranks read by a real Ray cluster of two workers on this machine say what one machine says, byte for byte."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest

from .inputs.test_cluster import ranks
from .inputs.test_remote import err, needed, out

__all__ = ["ranks"]
pytestmark = [pytest.mark.remote, pytest.mark.processes, pytest.mark.slow]
PATIENCE_S = 120
ABORTED = ConnectionAbortedError(
    """Initialization failure from server:
Traceback (most recent call last):
  File "ray/util/client/server/proxier.py", line 772, in Datapath
    raise RuntimeError(
RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for detailed logs.
"""
)
"""As Ray said it once on a busy machine."""


def free_ports(number: int) -> list[int]:
    """Return ports that nobody uses, outside of those that Ray gives its workers."""
    found: list[int] = []
    for port in range(7000, 9900):
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) and len(found) < number:
                found.append(port)
    return found


@contextmanager
def cluster() -> Iterator[tuple[int, int]]:
    """Start a cluster of this machine alone; its ports, and those of its client server."""
    own, client, agent = free_ports(3)
    # The paths of Ray's sockets may have 107 characters, so its folder is not one of pytest's.
    with TemporaryDirectory(prefix="ray") as folder, open(f"{folder}/log", "wb") as log:
        command = [f"{sysconfig.get_path('scripts')}/ray", "start", "--head", "--block", "--num-cpus=2"]
        command += [f"--port={own}", f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}"]
        command += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}/t"]
        # Coverage in each of Ray's dozen processes would double the time until they are there.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS_")}
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
        try:
            begin = monotonic()
            while not all(map(listens, (own, client))):
                assert server.poll() is None, Path(log.name).read_text()
                assert monotonic() - begin < PATIENCE_S, Path(log.name).read_text()
            yield own, client
        except AssertionError:
            for path in Path(folder).glob("t/session_latest/logs/ray_client_server*"):
                print(path.name, path.read_text(errors="replace"), sep=":\n")
            raise
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(PATIENCE_S)
            finally:
                kill_all(folder)


def listens(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return not tried.connect_ex(("127.0.0.1", port))


def kill_all(folder: str) -> None:
    """Kill each process of Ray that names *folder*, so that none outlives its cluster."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder.encode() in (process / "cmdline").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue  # it ended meanwhile


@contextmanager
def killing_a_worker() -> Iterator[list[int]]:
    """Kill the first worker of Ray that reads a rank."""
    killed = list[int]()
    done = threading.Event()

    def kill() -> None:
        while not killed and not done.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    if not killed and (process / "cmdline").read_bytes().startswith(b"ray::_versioned"):
                        os.kill(int(process.name), signal.SIGKILL)
                        killed.append(int(process.name))
                except OSError:
                    continue  # it ended meanwhile

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        done.set()
        killer.join()


def test_a_cluster_says_what_one_machine_says_with_its_client_and_with_a_worker_killed_in_the_middle(
    ranks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("ray", "grpc")
    words = ["show", ranks, "--rank=all", "--format=json"]
    expected = out(capsys, *words)
    with cluster() as (own, client):
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{own}")
        with killing_a_worker() as killed:
            assert out(capsys, *words, "--on=ray://auto") == expected
        assert killed
        monkeypatch.delenv("RAY_ADDRESS")
        failed = [ABORTED]
        begin = importlib.import_module("ray").init
        monkeypatch.setattr(
            "ray.init", lambda *args, **kwargs: fail(failed.pop()) if failed else begin(*args, **kwargs)
        )
        assert out(capsys, *words, f"--on=ray://127.0.0.1:{client}") == expected
        assert not failed


def fail(error: BaseException) -> None:
    raise error


def test_a_server_that_ends_at_its_start_is_told_without_its_traceback(
    ranks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("ray")
    monkeypatch.setenv("RAY_ADDRESS", "")
    monkeypatch.setattr("ray.init", lambda *_, **__: fail(ABORTED))
    assert err(capsys, "show", ranks, "--rank=all", "--on=ray://auto") == (
        "opprof: --on ray://auto: there is no Ray cluster: ConnectionAbortedError: Initialization failure from server:"
        " RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err for detailed logs.\n"
    )


def test_where_nothing_listens_is_one_line_at_once(
    ranks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    for address in ("ray://127.0.0.1:1", "ray://auto"):
        said = err(capsys, "show", ranks, "--rank=all", f"--on={address}")
        assert said.startswith(f"opprof: --on {address}: there is no Ray cluster: ConnectionRefusedError")
