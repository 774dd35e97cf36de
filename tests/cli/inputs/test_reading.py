"""Profiles of several ranks, read in processes of their own."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_opprof.cli import main
from pytest_opprof.cli.inputs import reading

RANKS = Path(__file__).parents[2] / "data" / "torch-ranks"
SHOW = (
    "import sys; from pytest_opprof.cli import main; from pytest_opprof.cli.inputs import reading;"
    "reading.PARALLEL = 0; sys.exit(main.main(sys.argv[1:]))"
)
"""`opprof`, which starts processes however little there is to read."""
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds processes in /proc, as Linux has it"
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main.main(arguments)
    return code, *capsys.readouterr()


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """Return a folder with three ranks, to be damaged."""
    return Path(shutil.copytree(RANKS, tmp_path / "ranks"))


@pytest.fixture
def in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PARALLEL", 0)
    monkeypatch.setattr(reading, "usable_cores", lambda: 2)


def cut(path: Path) -> None:
    whole = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(whole[: len(whole) // 2]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["show"], ["show", "--format", "json"], ["show", "--steps", "4"], ["check", "--budget", "MatMul=5"]],
    ids=" ".join,
)
def test_what_is_read_in_processes_is_what_is_read_in_turn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    command = [command[0], str(RANKS), "--rank", "all", *command[1:]]
    in_turn = run(capsys, *command)
    monkeypatch.setattr(reading, "PARALLEL", 0)
    monkeypatch.setattr(reading, "usable_cores", lambda: 2)
    started = multiprocessing.process._process_counter  # type: ignore[attr-defined]
    before = next(started)
    assert run(capsys, *command) == in_turn
    assert next(started) - before == 3  # two processes, not one for each rank


@pytest.mark.usefixtures("in_parallel")
def test_the_first_damaged_rank_is_the_one_error(capsys: pytest.CaptureFixture[str], ranks: Path) -> None:
    for rank in (1, 2):
        cut(ranks / f"rank{rank}.pt.trace.json.gz")
    code, out, err = run(capsys, "show", str(ranks), "--rank", "all")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"opprof: {ranks / 'rank1.pt.trace.json.gz'}: ")
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("in_parallel")
def test_remarks_are_said_in_the_order_of_ranks_and_what_is_whole_is_read(
    capsys: pytest.CaptureFixture[str], ranks: Path
) -> None:
    for rank in (0, 2):
        cut(ranks / f"rank{rank}.pt.trace.json.gz")
    code, out, err = run(capsys, "show", str(ranks), "--rank", "all", "--partial")
    assert (code, "3 ranks" in out) == (0, True)
    said = [line.split(": ")[1] for line in err.splitlines()]
    assert list(dict.fromkeys(said)) == [f"{ranks / f'rank{rank}.pt.trace.json.gz'} (rank {rank})" for rank in (0, 2)]


@pytest.mark.usefixtures("in_parallel")
def test_a_line_of_the_program_is_asked_for_in_each_process(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "show", str(RANKS), "--rank", "all", "--by", "site")
    assert (code, "rank0.pt.trace.json.gz" in err, "does not tell which lines" in err) == (2, True, True)


def test_little_is_read_without_processes(capsys: pytest.CaptureFixture[str]) -> None:
    before = next(multiprocessing.process._process_counter)  # type: ignore[attr-defined]
    assert run(capsys, "show", str(RANKS), "--rank", "all")[0] == 0
    assert next(multiprocessing.process._process_counter) == before + 1  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.processes
def test_a_terminal_is_told_how_many_were_read_and_the_line_goes_away() -> None:
    pty = pytest.importorskip("pty", reason="there are no terminals like this on Windows")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", SHOW, "show", str(RANKS), "--rank", "all"]
    subprocess.run(command, stderr=theirs, stdout=subprocess.DEVNULL, timeout=60, check=True)
    os.close(theirs)
    shown = os.read(ours, 10_000)
    os.close(ours)
    steps = b"".join(b"\ropprof: read %d of 3 profiles" % number for number in (1, 2, 3))
    assert shown == steps + b"\r\x1b[K"


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Return a folder with two ranks that take many seconds to read."""
    header = b'{"schemaVersion": 1, "distributedInfo": {"rank": %d}, "traceEvents": ['
    event = b'{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1},\n'
    piece = gzip.compress(event * 500_000, 1)
    for rank in (0, 1):
        with (tmp_path / f"rank{rank}.json.gz").open("wb") as file:
            file.write(gzip.compress(header % rank) + piece * 20)
    return tmp_path


def children(of: int) -> list[int]:
    """Return the processes in which *of* reads profiles."""
    found = Path(f"/proc/{of}/task/{of}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.processes
@needs_proc
@pytest.mark.parametrize(
    ("started", "whom", "number", "code", "said"),
    [
        (1, "all", signal.SIGINT, 130, "opprof: interrupted\n"),
        (2, "all", signal.SIGINT, 130, "opprof: interrupted\n"),
        (2, "one", signal.SIGKILL, 2, "opprof: a process that read one of these profiles was killed, perhaps for lack"),
    ],
)
def test_a_signal_ends_all_processes_in_one_message(
    long: Path, started: int, whom: str, number: signal.Signals, code: int, said: str
) -> None:
    command = [sys.executable, "-c", SHOW, "show", str(long), "--rank", "all"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while len(found := children(process.pid)) < started:
        assert process.poll() is None, process.stderr and process.stderr.read()
    if whom == "all":
        os.killpg(process.pid, number)  # as Ctrl-C does
    else:
        os.kill(found[0], number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert err.startswith(said)
    assert "Traceback" not in err
    assert not [child for child in found if Path(f"/proc/{child}").exists()]
