"""The README is true: its example runs, its commands work, what it promises of flags and files is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
COMMANDS = [line[2:] for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SET_UP = ["make demo", "make test", "pip install ."]
"""Not run from inside a test: continuous integration runs the first two, and installs the wheel of the third."""


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    module = {"pytest": "pytest", "opprof": "pytest_opprof"}[program]
    quiet = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"] if program == "pytest" else []
    if "--opprof" in command:
        # How busy the machine is must not matter here: times of one process are kept and not judged.
        quiet += ["--opprof-noise=ignore", *(["--opprof-processes=1"] if "--opprof-update" in command else [])]
    return subprocess.run(
        [sys.executable, "-m", module, *arguments, *quiet], cwd=folder, capture_output=True, text=True, check=False
    )


DATA = Path(__file__).parent / "data"
PROFILES = {
    "train_step.pt.trace.json.gz": "torch-cpu/train_step.pt.trace.json.gz",
    "mindspore-2.0": "mindspore-cpu/2.0.0-py3.9/graph/forward",
    "mindspore-2.10": "mindspore-cpu/2.10.0-py3.11/graph/forward",
}
FINDS_SOMETHING = "opprof diff mindspore-2.0"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
def test_every_command_works_on_the_example_in_the_order_they_stand(tmp_path: Path) -> None:
    (example,) = PYTHON
    (tmp_path / "test_model.py").write_text(example, encoding="utf-8")
    for name, recording in PROFILES.items():
        (tmp_path / name).symlink_to(DATA / recording)
    commands = [command for command in COMMANDS if command not in SET_UP]
    assert len(commands) >= 8
    for command in commands:
        done = run(command, tmp_path)
        assert done.returncode == command.startswith(FINDS_SOMETHING), f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("opprof show"):
            assert done.stdout.strip() in README
    assert (tmp_path / "baselines").is_dir()


def test_the_set_up_commands_are_those_that_continuous_integration_runs() -> None:
    assert set(SET_UP) <= set(COMMANDS)
    root = Path(__file__).parent.parent
    targets = re.findall(r"^(\w+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert "make test" in (root / ".ci" / "run").read_text(encoding="utf-8")


def test_every_flag_of_the_plugin_is_in_the_readme_and_the_other_way_round(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_inprocess("--help", "-p", "no:asyncio").stdout.str()
    flags = set(re.findall(r"--opprof[a-z-]*", text))
    assert flags == set(re.findall(r"--opprof[a-z-]*", README))


def test_files_that_the_readme_links_to_are_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (Path(__file__).parent.parent / link).exists()] == []


def test_what_contributing_says_is_where_it_says() -> None:
    root = Path(__file__).parent.parent
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = {path for path in re.findall(r"`([a-z_/]+(?:/|\.py))`", text) if path != ".ci/run"}
    places = [root, root / "pytest_opprof", root / "pytest_opprof" / "ops" / "tables"]
    assert [path for path in paths if not any((place / path).exists() for place in places)] == []
    packages = {path.name for path in (root / "pytest_opprof").iterdir() if (path / "__init__.py").exists()}
    assert packages <= {path.strip("/") for path in paths}


@pytest.mark.processes
def test_its_line_for_git_hides_changed_times_and_shows_changed_calls(tmp_path: Path) -> None:
    (line,) = re.findall(r"^baselines/.*times\.json .*$", README, re.MULTILINE)
    assert line in (Path(__file__).parent.parent / ".gitattributes").read_text(encoding="utf-8")
    folder = tmp_path / "baselines" / "numpy-2.4.6-cpu-x86_64" / "tests"
    folder.mkdir(parents=True)
    (tmp_path / ".gitattributes").write_text(f"{line}\n")
    files = [folder / "test_a.py.json", folder / "test_a.py.times.json", folder.parent / "test_b.py.times.json"]

    def git(*arguments: str) -> str:
        command = ["git", "-c", "core.autocrlf=false", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    for content in ('{"a": 1}\n', '{"a": 2}\n'):
        for path in files:
            path.write_text(content)
        if "1" in content:
            git("add", ".")
    diff = git("diff")
    assert diff.count('+{"a": 2}') == 1
    assert diff.count("\nBinary files ") == 2
    assert git("check-attr", "linguist-generated", str(files[1])).endswith("linguist-generated: set\n")


def test_the_report_of_the_self_check_is_what_it_prints() -> None:
    from pytest_opprof.cli.selfcheck import checks

    shown = re.findall(r"^  (ok|figure) +([A-Za-z ]+?)  ", README, re.MULTILINE)
    assert [name for _, name in shown] == list(checks.CHECKS)
    assert [status for status, _ in shown] == [*["ok"] * 6, "figure"]


def test_the_defaults_it_states_are_the_defaults() -> None:
    from pytest_opprof.machine.cpu_core import INSISTING_S, MOST_INSISTING_S, PATIENCE, PATIENCE_S, YARDSTICK
    from pytest_opprof.machine.load import BUSY
    from pytest_opprof.verdict import tolerances

    stored, pairs = tolerances.STORED, tolerances.PAIRS
    assert (stored.tolerance, stored.op_tolerance, stored.op_floor_ns, stored.op_share) == (0.13, 0.25, 5_000, 0.05)
    assert (pairs.tolerance, pairs.op_tolerance, pairs.floor_ns, stored.floor_ns) == (0.06, 0.15, 2_000, 2_000)
    assert (tolerances.LEAST_ROUNDS, tolerances.BASE_PROCESSES, tolerances.PROCESSES, tolerances.LOOKS) == (
        10,
        5,
        6,
        (5, 9),
    )
    assert (tolerances.CLEAN_ROUNDS, tolerances.LEAST_PROCESSES, tolerances.MOST_PROCESSES) == (0.5, 3, 12)
    assert (tolerances.STEADY, tolerances.BASE_PROCESSES) == (0.03, 10 / 2)
    assert (tolerances.AGREE, tolerances.LEAST_STORED, tolerances.TYPICAL) == (7 / 9, 0.1, 0.75)
    assert (YARDSTICK, BUSY, PATIENCE_S, PATIENCE) == (1.15, 0.25, 2.0, 0.2)
    assert (INSISTING_S, MOST_INSISTING_S) == (2.0, 5 * 2.0)
    text = " ".join(README.split())
    for words in (
        "default 13%; against a revision 6%",
        "default 25%; against a revision 15%",
        "default 2 us",
        "from 10 rounds on times are judged",
        "in five processes",
        "then in fresh processes. It fails only if it is slower in the best of six",
        "six processes with half of their rounds clean",
        "or those of twelve that have it, if they are three or more",
        "in up to ten, until the three fastest differ by 3 % or less",
        "for 2 s and 20 % of the time in all, and 2 s more for a test that looks slower, five times at most",
        "three quarters of that slower than the second of them",
        "if that is also 5 us and 5 % of the whole",
        "A tolerance below 10%",
        "in five pairs of processes (nine for what is suspicious)",
        "slower is 6 %, if seven of nine pairs agree",
        "takes 15 % longer",
        "a quarter of the cores",
    ):
        assert words in text
