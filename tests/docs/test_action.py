"""The script of action.yml, run with a Python that notes its words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .pages import text

NOTES = """\
#!{python}
import json, os, sys
if sys.argv[1] == "-c":
    exec(sys.argv[2])
else:
    json.dump(sys.argv[1:], open(os.environ["NOTED"], "w"))
"""


AUTO = ["--opprof-against=auto", "--opprof-cache=.opprof-cache"]


def words_of(folder: Path, **environment: str) -> list[str]:
    script = text("action.yml").partition("run: |\n")[2].partition("    - id: keep")[0]
    python = folder / "python"
    python.write_text(NOTES.format(python=sys.executable), encoding="utf-8")
    python.chmod(0o755)
    files = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "NOTED")}
    Path(files["GITHUB_OUTPUT"]).unlink(missing_ok=True)
    subprocess.run(
        ["bash", "-e", "-c", textwrap.dedent(script)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "OPPROF_PYTHON": str(python), "ARGS": "", **files, **environment},
        check=True,
    )
    assert (folder / "GITHUB_OUTPUT").read_text() == "status=passed\n"
    words: list[str] = json.loads((folder / "NOTED").read_text())
    assert words[:3] == ["-m", "pytest", "--opprof"]
    return [
        word for word in words[3:] if not word.startswith(("--opprof-html=", "--opprof-json=", "--opprof-summary="))
    ]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", []),
        ("tests -q", ["tests", "-q"]),
        ('-m "not slow" [12] $HOME `id`', ["-m", "not slow", "[12]", "$HOME", "`id`"]),
    ],
)
def test_args_are_split_as_a_shell_does_and_nothing_in_them_runs(tmp_path: Path, given: str, words: list[str]) -> None:
    assert words_of(tmp_path, ARGS=given) == words


@pytest.mark.processes
def test_a_pull_request_is_compared_with_its_base_where_nothing_is_stored(tmp_path: Path) -> None:
    assert words_of(tmp_path, GITHUB_BASE_REF="main", ARGS="-q") == [*AUTO, "-q"]
    assert words_of(tmp_path, GITHUB_BASE_REF="main", ARGS="--opprof-against=v1") == ["--opprof-against=v1"]
    assert words_of(tmp_path, GITHUB_BASE_REF="") == []
    (tmp_path / "baselines" / "torch").mkdir(parents=True)
    assert words_of(tmp_path, GITHUB_BASE_REF="main") == AUTO
    (tmp_path / "baselines" / "torch" / "test_a.py.json").touch()
    assert words_of(tmp_path, GITHUB_BASE_REF="main") == []
