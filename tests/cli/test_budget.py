"""``opprof budget``: a mark and a command line from a profile, marks from a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.cli.main import main

from ..conftest import HERE
from .diff.test_command import window, write

Run = Callable[..., "tuple[int, str, str]"]
TRAIN = HERE / "data" / "torch-cpu" / "train_step.pt.trace.json.gz"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Call opprof; return its exit code and what it printed."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([*map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def test_the_command_that_it_writes_passes_and_one_that_allows_less_does_not(run: Run) -> None:
    code, out, err = run("budget", TRAIN, "--margin", "10%")
    mark, check = out.splitlines()
    assert (code, err) == (0, "")
    assert mark == (
        "@pytest.mark.op_budget(Mul=18, Copy=3, MatMul=9, ConvGrad=3, Conv=3, Cast=33,"
        ' device_time="8.22 ms", peak_memory="231 KiB")'
    )
    program, *arguments = shlex.split(check)
    assert (program, run(*arguments)[0]) == ("opprof", 0)
    assert run(*[word.replace("Cast=33", "Cast=32") for word in arguments])[0] == 1


def test_json_has_the_limits(run: Run) -> None:
    (budget,) = json.loads(run("budget", TRAIN, "-t", "1", "--format", "json")[1])["budgets"]
    assert budget["limits"] == {"Mul": 18, "Cast": 33, "device_time": "8.93 ms", "peak_memory": "252 KiB"}
    assert budget["test"] is None
    assert budget["mark"].startswith("@pytest.mark.op_budget(Mul=18, ")
    assert budget["check"].startswith("opprof check ")


def test_a_run_gives_a_mark_for_each_test(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", a=window(100, 1), b=window(50, 1, calls=3))
    code, out, _ = run("budget", path)
    assert (code, out.splitlines()) == (
        0,
        [
            "# t.py::a",
            '@pytest.mark.op_budget(MatMul=2, Cast=0, device_time="120 us")',
            "# t.py::b",
            '@pytest.mark.op_budget(MatMul=3, Cast=0, device_time="60 us")',
        ],
    )
    assert run("budget", path, "--test", "t.py::b")[1].splitlines()[0] == "# t.py::b"


def test_wrong_input_is_one_error(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "run.json", a=window(100, 1))
    for arguments, said in (
        ((path, "--test", "t.py::c"), "has no test t.py::c that was measured\n  t.py::a"),
        ((TRAIN, "--test", "t.py::c"), "--test t.py::c: is for runs"),
        ((TRAIN, "--margin", "0.1"), "--margin is '0.1'; write a percentage"),
        ((TRAIN, "-t", "-1"), "--top -1: write a number of ops"),
        ((tmp_path / "none.json",), "there is no such file or folder"),
    ):
        code, out, err = run("budget", *arguments)
        assert (code, out, said in err) == (2, "", True), err
