"""Profiles named by a URL, from real servers on this machine: S3 (moto's), and HTTP with and without ranges."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from pytest_opprof.cli.inputs import remote
from pytest_opprof.cli.inputs.remote import Copied, Url, location, shown
from pytest_opprof.cli.main import main
from pytest_opprof.machine.scratch import scratch

from ...conftest import HERE

pytestmark = pytest.mark.remote
TRACE = HERE / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"
FOLDER = HERE / "data" / "mindspore-cpu" / "2.10.0-py3.11" / "graph" / "forward"


class Server(ThreadingHTTPServer):
    """Serves the files of a folder over HTTP; how well is for the test to say."""

    daemon_threads = True
    ranges = True
    cuts = 0
    """How many answers are cut in their middle."""
    status = 0
    """What all are answered with instead."""
    said: Counter[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if self.server.status:
            return self.send_error(self.server.status)
        if path.is_dir() or not path.exists():
            return super().do_GET()
        content, begin, status = path.read_bytes(), 0, 200
        end = len(content)
        if self.server.ranges and (asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))):
            begin, status = int(asked[1]), 206
            end = min(int(asked[2] or end - 1) + 1, end)
        self.server.said[f"{status} from {begin}"] += 1
        self.send_response(status)
        self.send_header("Content-Length", str(end - begin))
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        self.end_headers()
        if self.server.cuts:
            self.server.cuts -= 1
            end = begin + (end - begin) // 2
            self.close_connection = True
        self.wfile.write(content[begin:end])

    def do_HEAD(self) -> None:
        if self.server.status:
            return self.send_error(self.server.status)
        super().do_HEAD()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def needed(*modules: str) -> list[Any]:
    """Import the modules; skip where one is not installed, which continuous integration has."""
    if os.environ.get("OPPROF_REQUIRE_REMOTE"):
        return [importlib.import_module(each) for each in modules]
    return [pytest.importorskip(each) for each in modules]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    needed("fsspec", "aiohttp")
    (tmp_path / "served").mkdir()
    shutil.copy(TRACE, tmp_path / "served")
    shutil.copytree(FOLDER, tmp_path / "served" / "forward")
    monkeypatch.setattr(remote, "_PAUSE_S", 0)
    monkeypatch.chdir(tmp_path / "served")
    with Server(("127.0.0.1", 0), Handler) as found:
        found.said = Counter()
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    fsspec, _, moto = needed("fsspec", "s3fs", "moto.server")
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setattr(remote, "_PAUSE_S", 0)
    # What tests before put into it is in this process.
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.mkdir("traces")
    yield files
    server.stop()
    files.clear_instance_cache()


def out(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(list(map(str, words))) == 0
    return capsys.readouterr().out


def err(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(list(map(str, words))) == 2
    found = capsys.readouterr().err
    assert found.count("\n") == 1
    return found


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("cuts", [0, 2])
def test_a_file_over_http_says_what_the_local_one_does(
    server: Server, capsys: pytest.CaptureFixture[str], ranges: bool, cuts: int
) -> None:
    server.ranges, server.cuts = ranges, cuts
    url = f"{server.url}/{TRACE.name}"
    assert out(capsys, "show", url, "--format=json") == out(capsys, "show", TRACE, "--format=json").replace(
        str(TRACE), url
    )
    if not cuts:
        assert server.said == {"200 from 0": 1}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_copy_goes_on_where_it_was_cut_and_begins_anew_where_the_server_has_no_ranges(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: bool
) -> None:
    monkeypatch.setattr(remote, "_BLOCK", 1 << 16)
    content = bytes(range(256)) * 40_000
    Path("big.bin").write_bytes(content)
    server.cuts, server.ranges = 2, ranges
    assert remote._Store(f"{server.url}/big.bin").copy(tmp_path / "to").read_bytes() == content
    if ranges:
        assert server.said["200 from 0"] == 1
        assert any(said.startswith("206 from ") and said != "206 from 0" for said in server.said)
    else:
        assert [*server.said] == ["200 from 0"]


def test_what_is_cut_each_time_is_an_error(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.cuts, server.ranges = 99, False
    assert err(capsys, "show", f"{server.url}/{TRACE.name}").startswith(f"opprof: {server.url}/{TRACE.name}: ")


def test_a_folder_over_http_is_one(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{server.url}/forward/"
    assert out(capsys, "show", url) == out(capsys, "show", FOLDER).replace(str(FOLDER), url.rstrip("/"))


def test_each_command_takes_a_url_and_names_it(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{server.url}/{TRACE.name}"
    assert f"{url}: within its budget (Cast=99)" in out(capsys, "check", url, "--budget", "Cast=99")
    assert out(capsys, "diff", url, TRACE) == out(capsys, "diff", TRACE, TRACE)
    assert url in out(capsys, "budget", url)
    assert out(capsys, "show", url, "-o", "page.html") == ""
    assert url in Path("page.html").read_text(encoding="utf-8")
    Path("empty.json").write_text("[]")
    assert err(capsys, "summary", f"{server.url}/empty.json?token=secret").startswith(
        f"opprof: {server.url}/empty.json: is no JSON of a run"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "the store wants credentials, and there are none. "),
        (403, "the store refuses it (403): "),
        (404, "is not there (404)"),
    ],
)
def test_errors_of_a_store_are_one_line(
    server: Server, capsys: pytest.CaptureFixture[str], status: int, said: str
) -> None:
    server.status = status
    url = server.url.replace("//", "//me:password@")
    found = err(capsys, "show", f"{url}/{TRACE.name}?X-Amz-Signature=secret")
    assert found.startswith(f"opprof: {server.url}/{TRACE.name}: {said}")
    assert "secret" not in found
    assert "password" not in found


def test_a_server_that_is_not_there_is_one_line(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.shutdown()
    server.server_close()
    assert err(capsys, "show", f"{server.url}/a.json").startswith(f"opprof: {server.url}/a.json: ")


def test_a_file_in_a_zip_file_in_a_store(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile("all.zip", "w") as file:
        file.write(TRACE, f"ranks/{TRACE.name}")
    url = f"zip://ranks/{TRACE.name}::{server.url}/all.zip"
    assert out(capsys, "show", url) == out(capsys, "show", TRACE)


def test_what_does_not_fit_on_the_disk_is_not_copied(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_ROOM", 1 << 62)
    assert " MiB do not fit into " in err(capsys, "show", f"{server.url}/{TRACE.name}")


def test_copies_are_gone_when_the_command_ends(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def noted(self: Any, folder: Path) -> Path:
        made.append(folder)
        return copy(self, folder)

    copy = remote._Store.copy
    monkeypatch.setattr(remote._Store, "copy", noted)
    out(capsys, "diff", f"{server.url}/{TRACE.name}", f"{server.url}/{TRACE.name}")
    assert len(made) == 1  # what is named twice is copied once
    assert not made[0].exists()


def test_a_file_and_a_folder_of_ranks_on_s3(bucket: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / "ranks").mkdir(exist_ok=True)
        shutil.copy(TRACE, tmp_path / "ranks" / f"rank{rank}.pt.trace.json.gz")
    bucket.put(str(tmp_path / "ranks"), "traces/run", recursive=True)
    for words in (["--format=json"], []):
        local = out(capsys, "show", tmp_path / "ranks", "--rank", "all", *words)
        assert out(capsys, "show", "s3://traces/run", "--rank", "all", *words) == local.replace(
            str(tmp_path / "ranks"), "s3://traces/run"
        )


def test_errors_of_s3_are_one_line(
    bucket: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert err(capsys, "show", "s3://traces/none.json") == "opprof: s3://traces/none.json: is not there (404)\n"
    assert err(capsys, "show", "s3://nobody/none.json").startswith("opprof: s3://nobody/none.json: is not there (404)")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    bucket.clear_instance_cache()
    said = err(capsys, "show", "s3://traces/none.json")
    assert said.startswith("opprof: s3://traces/none.json: the store wants credentials, and there are none. ")


def test_without_fsspec_the_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert err(capsys, "show", "s3://traces/a.json") == (
        "opprof: s3://traces/a.json: to read a URL needs fsspec: pip install 'pytest-opprof[remote]'\n"
    )


def test_without_a_store_s_own_package_that_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed("fsspec")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    assert "gcsfs" in err(capsys, "show", "gs://traces/a.json")
    assert "nonsense" in err(capsys, "show", "nonsense://a.json")


@pytest.mark.processes
def test_a_local_path_imports_no_fsspec() -> None:
    code = "import sys; from pytest_opprof.cli.main import main; main(sys.argv[1:]); sys.exit('fsspec' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, "show", str(TRACE)], check=True, capture_output=True)


@pytest.mark.parametrize("url", ["s3://a/b", "https://a/b.json", "zip://a::s3://b", "hf://datasets/a"])
def test_a_url_is_no_path(url: str) -> None:
    assert location(url) == Url(url)


@pytest.mark.parametrize("path", ["a.json", "./s3:/b", "C:\\a.json", "a::b.json", "/a/b"])
def test_a_path_is_no_url(path: str) -> None:
    assert location(path) == Path(path)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://me:secret@host/a?X=1#b", "https://host/a"),
        ("zip://a/b::https://me:secret@host/a.zip?X=1", "zip://a/b::https://host/a.zip"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_no_secret_of_a_url_is_shown(url: str, said: str) -> None:
    assert shown(url) == said


def test_paths_made_of_a_copy_say_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    with scratch() as folder:
        monkeypatch.setitem(remote._COPIES, str(folder / "0"), "s3://bucket/run/")
        (folder / "0" / "a").mkdir(parents=True)
        (folder / "0" / "a" / "b.json").write_text("{}")
        root = Copied(folder / "0")
        of: list[Callable[[], Any]] = [
            lambda: root / "a" / "b.json",
            lambda: next((root / "a").iterdir()),
            lambda: next(root.glob("a/*.json")),
            lambda: next(root.rglob("*.json")),
            lambda: (root / "a" / "c.json").with_name("b.json"),
            lambda: (root / "a" / "b.json" / "c").parent,
            lambda: pickle.loads(pickle.dumps(root / "a" / "b.json")),
        ]
        for each in of:
            assert str(each()) == "s3://bucket/run/a/b.json"
            assert each().read_text() == "{}"
            assert each().is_file()
        assert str(root / "a").startswith("s3")
        assert str((root / "a").absolute()) == str(folder / "0" / "a")
        assert (root / "a" / "b.json").absolute().as_uri().startswith("file:///")
        assert str(Copied(folder / "01")) == str(folder / "01")
