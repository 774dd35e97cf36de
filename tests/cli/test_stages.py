"""Commands on graphs that MindSpore saved: which stage they read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_opprof.cli.inputs import reading
from pytest_opprof.cli.main import main

DATA = Path(__file__).parents[1] / "data" / "mindspore-graphs" / "2.10.0"
LLAMA, MORE_CASTS = str(DATA / "llama"), str(DATA / "llama_cast")


def test_two_folders_are_compared_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", LLAMA, MORE_CASTS, "--by", "site"]) == 1
    out = capsys.readouterr().out
    assert "Cast /home/me/tests/backends/mindspore_nets.py:95 in construct: 2 calls (before: 0)" in out
    assert main(["diff", LLAMA, LLAMA, "--by", "site"]) == 0


def test_two_stages_of_one_folder_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", LLAMA, "--base-stage", "execute", "--stage", "graph_build"]) == 1
    assert "Cast: 33 calls (before: 6)" in capsys.readouterr().out
    assert main(["diff", LLAMA, LLAMA, "--base-stage", "graph_build", "--stage", "graph_build"]) == 0
    assert main(["diff", LLAMA]) == 2
    assert "or two stages of a graph: --base-stage validate --stage execute" in capsys.readouterr().err


def test_a_stage_is_judged_by_a_budget_and_a_budget_made_of_it_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", LLAMA, "--budget", "Cast=6"]) == 0
    assert main(["check", LLAMA, "--budget", "Cast=6", "--stage", "graph_build"]) == 1
    capsys.readouterr()
    assert main(["budget", LLAMA, "--stage", "graph_build"]) == 0
    assert "--stage graph_build" in capsys.readouterr().out


def test_a_stage_of_what_has_none_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    profile = DATA.parents[1] / "mindspore-cpu" / "2.10.0-py3.11" / "graph" / "forward"
    assert main(["show", str(profile), "--stage", "execute"]) == 2
    said = capsys.readouterr().err
    assert "--stage execute: is for a folder of graphs that MindSpore saved (save_graphs)" in said
    assert said.count("\n") == 1


@pytest.mark.processes
def test_parts_of_a_stage_are_read_in_processes_as_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in (0, 1):
        shutil.copytree(DATA / "branches", tmp_path / f"rank_{rank}")
    arguments = ["show", str(tmp_path), "--rank", "all", "--stage", "graph_build", "-t", "0"]
    assert main(arguments) == 0
    here = capsys.readouterr().out
    monkeypatch.setattr(reading, "PARALLEL", 0)
    monkeypatch.setattr(reading, "usable_cores", lambda: 2)
    assert main(arguments) == 0
    assert capsys.readouterr().out == here
    assert "(rank 1)" in here
