"""docs/questions.md is true: each question to a saved profile has the answer that stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pytest_opprof.cli.main import main

from ..conftest import shared
from .pages import ROOT, text

PROFILES = text("docs/questions.md")
ANSWERS = re.findall(r"```console\n\$ opprof ([^\n]*)\n```\n\n```text\n(.*?)```", PROFILES, re.DOTALL)
RECORDINGS = {
    "train.pt.trace.json.gz": ROOT / "tests" / "data" / "torch-cpu" / "train_step.pt.trace.json.gz",
    "stacks.pt.trace.json.gz": ROOT / "tests" / "data" / "torch-cpu" / "stacks.pt.trace.json.gz",
    "resnet50.pt.trace.json.gz": "torch-cuda/kineto_resnet50_v100_2021.pt.trace.json.gz",
    "npu": "ascend/torchnpu-alexnet/text/level1/rank0_ascend_pt",
}
FINDS_SOMETHING = "diff resnet50"


@pytest.mark.parametrize(("command", "answer"), ANSWERS, ids=[command for command, _ in ANSWERS])
def test_a_question_to_a_saved_profile_has_the_answer_of_the_page(
    command: str, answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = shlex.split(command)
    (name,) = RECORDINGS.keys() & set(arguments)
    recording = RECORDINGS[name]
    (tmp_path / name).symlink_to(recording if isinstance(recording, Path) else shared(recording))
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == command.startswith(FINDS_SOMETHING)
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == answer.splitlines()


def test_the_page_of_saved_profiles_answers_ten_questions_and_names_each_part_of_a_breakdown() -> None:
    assert len(ANSWERS) >= 10
    assert set(re.findall(r"^\| (\w+(?:: [\w, ]+)?) \| ", PROFILES.partition("| start times")[0], re.MULTILINE)) == {
        *("column", "total", "computing", "communication", "copying", "idle", "overlapped"),
        *("idle: host had launched nothing", "idle: launched, not started", "idle: unknown"),
    }
