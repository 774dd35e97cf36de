"""``opprof open``: served to Perfetto's page and to nobody else, once, from this machine."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pytest_opprof.cli.main import main

from ..conftest import HERE, shared

pytestmark = pytest.mark.processes
UI = "https://ui.perfetto.dev"
TRAIN = HERE / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"
FETCHES = """
import sys
from urllib.request import Request, urlopen
from pathlib import Path
url = sys.argv[1].partition("?url=")[2]
Path("url").write_text(sys.argv[1])
with urlopen(Request(url, headers={"Origin": "https://ui.perfetto.dev"})) as answer:
    Path("fetched").write_bytes(answer.read())
    Path("origin").write_text(answer.headers["Access-Control-Allow-Origin"])
"""
Open = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def open_(tmp_path: Path) -> Open:
    """Start ``opprof open`` with a script in place of the browser (the variable BROWSER is where users name theirs)."""
    (tmp_path / "browser.py").write_text(FETCHES)

    def start(*arguments: str, browser: str = "browser.py") -> subprocess.Popen[str]:
        environment = {**os.environ, "BROWSER": f"{sys.executable} {tmp_path / browser} %s"}
        command = [sys.executable, "-m", "pytest_opprof", "open", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    return start


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def answer(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    try:
        with urlopen(Request(url, method=method, headers=headers)) as response:
            return response.status, dict(response.headers)
    except HTTPError as error:
        with error:
            return error.code, dict(error.headers)


def test_the_browser_gets_the_trace_from_this_machine_and_the_command_ends(open_: Open, tmp_path: Path) -> None:
    code, out, err = ended(open_(str(TRAIN), "--port", "0"))
    assert (code, err) == (0, "")
    url = (tmp_path / "url").read_text()
    assert url.startswith(f"{UI}/#!/?url=http://127.0.0.1:")
    assert url.endswith("/train_step.pt.trace.json.gz")
    assert out.splitlines()[0] == url
    assert (tmp_path / "origin").read_text() == UI
    # A Chrome trace is served as it is.
    assert (tmp_path / "fetched").read_bytes() == TRAIN.read_bytes()


@pytest.mark.slow
def test_what_is_no_chrome_trace_is_made_one(open_: Open, tmp_path: Path) -> None:
    code, _, _ = ended(open_(str(HERE / "data/mindspore-cpu/2.10.0-py3.11/graph/forward"), "--port", "0"))
    document = json.loads((tmp_path / "fetched").read_text())
    bars = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert (code, len(bars) > 5, min(bar["ts"] for bar in bars)) == (0, True, 0)
    code, _, err = ended(open_(str(shared("megengine/resnet18.json")), "--port", "0"))
    assert (code, "does not tell when anything ran" in err) == (0, True)


@pytest.mark.slow
def test_a_trace_that_opprof_wrote_is_served_as_it_is_and_is_no_profile(open_: Open, tmp_path: Path) -> None:
    for source, name in ((TRAIN, "x.trace.json.gz"), (shared("megengine/resnet18.json"), "sums.trace.json")):
        assert main(["convert", str(source), "-o", str(tmp_path / name)]) == 0
        code, out, err = ended(open_(name, "--port", "0"))
        assert (code, err, out.splitlines()[0].endswith(f"/{name}")) == (0, "", True)
        assert (tmp_path / "fetched").read_bytes() == (tmp_path / name).read_bytes()
    code, _, err = ended(open_("x.trace.json.gz", "--steps", "1"))
    assert (code, err) == (
        2, "opprof: x.trace.json.gz: is a trace that opprof wrote for a viewer: opprof open x.trace.json.gz\n"
    )  # fmt: skip


def test_no_other_page_and_no_other_path_gets_it(open_: Open, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("")
    process = open_(str(TRAIN), "--port", "0", browser="idle.py")
    assert process.stdout is not None
    trace = process.stdout.readline().strip().partition("?url=")[2]
    server = trace.rpartition("/")[0].rpartition("/")[0]
    assert answer(f"{server}/{TRAIN.name}")[0] == 404
    assert answer(f"{server}/../../etc/passwd")[0] == 404
    assert answer(trace, Host="evil.example:80")[0] == 404  # a name that was made to mean this machine
    status, headers = answer(trace, "OPTIONS", Origin="https://evil.example")
    assert (status, headers["Access-Control-Allow-Origin"]) == (204, UI)
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    with urlopen(trace) as response:
        assert gzip.decompress(response.read()).startswith(b"{")
    assert ended(process)[0] == 0


def test_ctrl_c_ends_it(open_: Open, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("")
    process = open_(str(TRAIN), "--port", "0", browser="idle.py")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(UI)
    assert process.stdout.readline().startswith("waiting")
    process.send_signal(signal.SIGINT)
    assert ended(process)[::2] == (130, "opprof: interrupted\n")


def test_a_port_that_is_in_use_is_an_error(open_: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = ended(open_(str(TRAIN), "--port", str(port)))
    assert (code, out) == (2, "")
    assert err.startswith(f"opprof: port {port} of 127.0.0.1 is in use, perhaps by another opprof open. End that;")
    code, _, err = ended(open_(str(TRAIN), "--port", "70000"))
    assert (code, err.startswith("opprof: port 70000 of 127.0.0.1 cannot be served on")) == (2, True)


def test_without_a_browser_it_says_so_and_waits(open_: Open, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("raise SystemExit(1)")
    process = open_(str(TRAIN), "--port", "0", browser="fails.py")
    assert process.stdout is not None
    assert process.stderr is not None
    trace = process.stdout.readline().strip().partition("?url=")[2]
    assert process.stderr.readline().endswith("no browser could be started: open the address above yourself\n")
    assert answer(trace)[0] == 200
    assert ended(process)[0] == 0
