"""Every command of the README and of the documentation works, in the order in which they stand on their page."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import PAGES, ROOT, steps, text

DATA = ROOT / "tests" / "data"
PROFILES = {
    "train_step.pt.trace.json.gz": "torch-cpu/train_step.pt.trace.json.gz",
    "step.mlir": "jax-cpu/step.mlir.gz",
    "mindspore-2.0": "mindspore-cpu/2.0.0-py3.9/graph/forward",
    "mindspore-2.10": "mindspore-cpu/2.10.0-py3.11/graph/forward",
    "graphs": "mindspore-graphs/2.10.0/llama",
    "graphs-with-casts": "mindspore-graphs/2.10.0/llama_cast",
    "net.mindir": "mindspore-graphs/2.10.0/bert/bert.mindir.gz",
}
SET_UP = ["make demo", "make test", "pip install ."]
"""Not run from inside a test: continuous integration runs the first two, and installs the wheel of the third."""
WITH_COMMANDS = [page for page in PAGES if page.name != "questions.md" and any(name == "$" for name, _ in steps(page))]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command, comments=True)
    module = {"pytest": "pytest", "opprof": "pytest_opprof"}[program]
    if program == "pytest":
        words += ["-p", "no:cacheprovider"]
    if "--opprof" in command:
        # How busy the machine is must not matter here: times of one process are kept and not judged.
        words += ["--opprof-noise=ignore", *(["--opprof-processes=1"] if "--opprof-update" in command else [])]
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # a file that is written again in the same second is new
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
@pytest.mark.usefixtures("few_plugins")
def test_every_command_works_in_the_order_they_stand(page: Path, tmp_path: Path) -> None:
    for name, recording in PROFILES.items():
        (tmp_path / name).symlink_to(DATA / recording)
    # A page without a test of its own means the reader's: that of the README stands for it.
    files = [step for step in steps(page) if step[0] != "$"]
    example = [step for step in steps(ROOT / "README.md") if step[0] != "$" and not files]
    for name, content in example + steps(page):
        if name != "$":
            (tmp_path / name).write_text(content, encoding="utf-8")
        elif content not in SET_UP:
            done = run(content, tmp_path)
            finds_something = content.endswith("# fails") or content.startswith(
                ("opprof diff mindspore-2.0", "opprof diff graphs")
            )
            assert done.returncode == finds_something, f"{content}\n{done.stdout}{done.stderr}"
            said = page.read_text(encoding="utf-8")
            if content.startswith("opprof show") and done.stdout.partition("\n")[0] in said:
                assert done.stdout.strip() in said


def test_the_set_up_commands_are_those_that_continuous_integration_runs() -> None:
    commands = [content for name, content in steps(ROOT / "README.md") if name == "$"]
    assert set(SET_UP) <= set(commands)
    assert "make test" in text(".ci/run")
    for target in ("demo:", "test:"):
        assert f"\n{target}" in text("Makefile")
