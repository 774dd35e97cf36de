"""Ranks with the fake device: real processes, whose launcher is faked, variables as Open MPI sets them.

With torchrun and gloo: test_ranks_torchrun.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from pytest_opprof.pytest_plugin import ranks as ranks_module

MODEL = """
import os, pytest
from pytest_opprof.backends import fake
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", 0))
@pytest.mark.opprof(rounds=2)
def test_a():
    for _ in range(2 + 2 * (os.environ.get("ODD") == str(RANK))): fake.launch("Copy", device_ns=100)
def test_b():
    if os.environ.get("FAIL") == str(RANK): raise ValueError("of its own")
    if os.environ.get("KILL") == str(RANK): os.kill(os.getpid(), 9)
"""
_launches = count()
Suite = Callable[..., pytest.RunResult]


class Run:
    """What each rank printed, and with what status it ended."""

    def __init__(self, folder: Path, size: int, arguments: tuple[str, ...], **environ: str) -> None:
        launch = f"test-{os.getpid()}-{next(_launches)}"
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "pytest", *arguments],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                    "OMPI_COMM_WORLD_RANK": str(rank),
                    "OMPI_COMM_WORLD_SIZE": str(size),
                    "OMPI_COMM_WORLD_LOCAL_SIZE": str(size),
                    "PMIX_NAMESPACE": launch,
                    **environ,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(size)
        ]
        self.printed = [process.communicate(timeout=120)[0] for process in processes]
        self.status = [process.returncode for process in processes]


@pytest.fixture
def model(pytester: pytest.Pytester) -> Path:
    pytester.makeini("[pytest]\nopprof_backend = fake\naddopts = -p opprof -p no:cacheprovider\n")
    pytester.makepyfile(test_m=MODEL)
    return pytester.path


def baseline(folder: Path) -> dict[str, object]:
    (path,) = folder.glob("baselines/*/test_m.py.json")
    tests: dict[str, dict[str, dict[str, object]]] = json.loads(path.read_text())["tests"]
    return {test: windows["body"] for test, windows in tests.items()}


@pytest.mark.processes
def test_all_ranks_write_one_baseline_and_only_the_first_speaks(model: Path) -> None:
    run = Run(model, 2, ("--opprof-update",))
    assert run.status == [0, 0]
    assert "opprof: rank 0 of 2 (Open MPI), backend fake" in run.printed[0]
    assert run.printed[1] == ""
    assert baseline(model) == {"test_a": {"ops": {"Copy": {"calls": 2}}}}
    assert [path.name for path in model.glob("baselines/[!.]*")] == ["fake-1-fake-async-x86_64-2-ranks"]


@pytest.mark.slow
@pytest.mark.processes
def test_ranks_that_differ_are_kept_and_judged_by_rank(model: Path) -> None:
    Run(model, 3, ("--opprof-update",), ODD="2")
    assert baseline(model) == {
        "test_a": {"ranks": {"0-1": {"ops": {"Copy": {"calls": 2}}}, "2": {"ops": {"Copy": {"calls": 4}}}}}
    }
    run = Run(model, 3, ("--opprof",), ODD="1")
    assert run.status == [0, 1, 0]
    assert "[rank 1]   Copy: 4 calls (baseline: 2)" in run.printed[1]
    assert "failed on rank 1: test_m.py::test_a - Copy 2 -> 4\n" in run.printed[0], run.printed[0]
    assert "opprof: 1 test measured, 1 ok, no times judged, 1 test failed on rank 1\n" in run.printed[0]
    assert "failed on" not in run.printed[2]
    assert "not confirmed in a fresh process: a fresh process cannot join the 3 ranks" in run.printed[1]
    accept = "to accept this change: mpirun -n 3 python -m pytest test_m.py::test_a --opprof-update"
    assert accept in run.printed[1]


@pytest.mark.slow
@pytest.mark.processes
def test_what_fails_on_another_rank_is_in_the_files_that_rank_0_writes(model: Path) -> None:
    Run(model, 2, ("--opprof-update",))
    run = Run(model, 2, ("--opprof", "--opprof-json=run.json", "--opprof-summary=run.md"), ODD="1")
    assert run.status == [0, 1]
    result = json.loads((model / "run.json").read_text())
    assert ("rank" in result, result["summary"]) == (True, {"more calls": 1})
    (window,) = result["tests"][0]["windows"]
    assert window["findings"][0]["text"] == "rank 1: Copy: 4 calls (baseline: 2)"
    assert [each["calls"] for each in window["by_rank"]] == [{"Copy": 2}, {"Copy": 4}]
    summary = (model / "run.md").read_text()
    assert "2 ranks, with other calls in 1 of 1 window." in summary
    assert "<code>Copy</code> 2 on rank 0, 4 on rank 1" in summary
    accept = "mpirun -n 2 python -m pytest {} --opprof-update"
    assert f"To accept this change: <code>{accept.format('test_m.py::test_a')}</code>" in summary


@pytest.mark.slow
@pytest.mark.processes
def test_ranks_that_are_to_be_equal_fail_with_a_table(model: Path) -> None:
    run = Run(model, 3, ("--opprof", "--opprof-ranks=equal", "--opprof-json=run-{rank}.json"), ODD="2")
    assert run.status == [1, 1, 1]
    assert "Copy: calls differ between ranks: 4 on rank 2, 2 on ranks 0-1" in run.printed[0]
    table = "op    ranks 0-1    rank 2\n----  -----------  --------\nCopy  2            4\n"
    assert table in run.printed[0]
    assert "".join(f"[rank 1] {line}\n" for line in table.splitlines()) in run.printed[1]
    results = [json.loads((model / f"run-{rank}.json").read_text()) for rank in range(3)]
    assert [result["summary"] for result in results] == [{"ranks differ": 1}] * 3


@pytest.mark.slow
@pytest.mark.processes
def test_a_test_that_fails_on_one_rank_keeps_no_baseline_and_nobody_waits_for_it(model: Path) -> None:
    model.joinpath("test_m.py").write_text(MODEL.replace("def test_b", "@pytest.mark.opprof\ndef test_b"))
    with model.joinpath("test_m.py").open("a") as file:
        file.write("    fake.launch('Add')\n")
    run = Run(model, 2, ("--opprof-update", "--opprof-ranks=equal", "--opprof-json=run.json"), FAIL="1")
    assert run.status == [1, 1]
    assert "ranks could not be compared: on rank 1 the test itself failed" in run.printed[0]
    assert "[rank 1] E       ValueError: of its own" in run.printed[1]
    assert baseline(model) == {"test_a": {"ops": {"Copy": {"calls": 2}}}}
    assert [path.name for path in model.glob("*.json")] == ["run.json"]


@pytest.mark.slow
@pytest.mark.processes
def test_a_rank_that_was_killed_is_named_and_no_baseline_is_written(model: Path) -> None:
    run = Run(model, 2, ("--opprof-update", "--opprof-json=run.json"), KILL="1")
    assert run.status == [1, -9]
    why = "no baseline was written: rank 1 has died: in test_m.py::test_b"
    assert f"opprof: error: {why}\n" in run.printed[0]
    assert not list(model.glob("baselines/*"))
    result = json.loads((model / "run.json").read_text())
    assert result["errors"] == [why]


def told(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let this process be the first of so many ranks, which waits for no other."""
    monkeypatch.setattr(ranks_module, "_ENDING_S", 0)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(size))
    monkeypatch.setenv("PMIX_NAMESPACE", f"test-{os.getpid()}-{next(_launches)}")


def test_a_run_of_another_size_has_no_baseline_and_says_so(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(MODEL)
    suite("--opprof-update")
    told(monkeypatch, 3)
    result = suite("--opprof")
    result.stdout.fnmatch_lines(["no baseline for fake 1, fake, async, 3 ranks (*) (there is one for fake 1, fake, *"])


@pytest.mark.torch
def test_a_framework_that_says_something_else_is_an_error(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (pip install torch==2.13.0)")
    program = """
        import pytest, torch, torch.distributed as dist
        @pytest.fixture(autouse=True)
        def world():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            yield
            dist.destroy_process_group()
        @pytest.mark.opprof
        def test_a(): torch.ones(2) + 1
    """
    pytester.makepyfile(program)
    told(monkeypatch, 2)
    result = suite("--opprof", "--opprof-backend=torch")
    result.assert_outcomes(failed=1)
    why = "torch says that this is rank 0 of 1, Open MPI says rank 0 of 2: one of them is left over from another launch"
    result.stdout.fnmatch_lines([f"*{why}*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n2"], "-n starts processes that are no ranks, and this is rank 0 of 2 (Open MPI): leave -n out"),
        (["--opprof-against=HEAD"], "--opprof-against starts processes that are no ranks, and this is rank 0 of 2*"),
        (["--opprof-ranks=same"], "--opprof-ranks is 'same'; write 'any' or 'equal'*"),
    ],
)
def test_what_does_not_go_with_ranks_stops_the_run(
    pytester: pytest.Pytester, suite: Suite, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    told(monkeypatch, 2)
    pytester.makepyfile(MODEL)
    result = suite("--opprof", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}"])


def test_a_mark_says_it_for_one_test(pytester: pytest.Pytester, suite: Suite) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.opprof(ranks='some')\ndef test_a(): pass\n")
    result = suite("--opprof")
    result.stderr.fnmatch_lines(["*opprof(ranks=) is 'some'; write 'any' or 'equal'*"])
