from __future__ import annotations

import json
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_opprof.errors import UsageError
from pytest_opprof.processes.base_install import KeptEnvironment, installed

COMMIT = "0123456789abcdef"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """One with a package that pip has installed; its files stand for pip's."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages(folder) / "model-1.0.dist-info").mkdir()
    (packages(folder) / "model.py").write_text("NUMBER = 3\n", encoding="utf-8")
    return folder


def packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def kept(tmp_path: Path, command: str = "pip install .") -> KeptEnvironment:
    return KeptEnvironment(tmp_path / "cache", COMMIT, command)


@pytest.mark.processes
def test_a_later_run_finds_the_environment_and_its_packages(environment: Path, tmp_path: Path) -> None:
    assert kept(tmp_path).python() == ""
    kept(tmp_path).keep(environment)
    python = kept(tmp_path).python()
    assert Path(python).is_relative_to(tmp_path / "cache")
    assert kept(tmp_path, "pip install --no-deps .").python() == ""  # another command, another environment
    printed = subprocess.run([python, "-c", "import model; print(model.NUMBER)"], capture_output=True, check=True)
    assert printed.stdout.split() == [b"3"]


@pytest.mark.processes
@pytest.mark.parametrize("what", ["editable", "pth", "in place"])
def test_an_environment_whose_packages_may_lie_in_the_bases_tree_is_not_kept(
    environment: Path, tmp_path: Path, what: str
) -> None:
    package = packages(environment) / "model-1.0.dist-info"
    if what == "editable":
        (package / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": True}}), encoding="utf-8")
    elif what == "pth":
        (packages(environment) / "model.pth").write_text("/tmp/tree\n", encoding="utf-8")
    else:
        package.rmdir()
    found = kept(tmp_path)
    found.keep(environment)
    assert found.python() == ""
    assert not (tmp_path / "cache").exists()
    assert found.problem.startswith(
        "the installed base is not kept for the next run, since its packages lie in the base"
    )


@pytest.mark.processes
def test_an_environment_that_does_not_start_is_replaced(environment: Path, tmp_path: Path) -> None:
    kept(tmp_path).keep(environment)
    python = Path(kept(tmp_path).python())
    for link in python.parent.glob("python*"):
        link.unlink()
    assert kept(tmp_path).python() == ""
    kept(tmp_path).keep(environment)
    assert kept(tmp_path).python() == str(python)


@pytest.mark.processes
def test_a_folder_that_cannot_be_written_is_a_problem_to_report(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    found = kept(tmp_path)
    found.keep(environment)
    assert found.python() == ""
    assert found.problem.startswith(f"the installed base is not kept in {tmp_path / 'cache'}: ")


@pytest.mark.processes
def test_an_environment_that_another_run_kept_meanwhile_is_used_and_stays(environment: Path, tmp_path: Path) -> None:
    first, second = kept(tmp_path), kept(tmp_path)
    first.keep(environment)
    python = Path(first.python())
    made = python.parents[1].stat().st_ino
    second.keep(environment)
    assert second.python() == str(python)
    assert python.parents[1].stat().st_ino == made


@pytest.mark.processes
def test_a_build_that_fails_shows_its_last_lines_and_has_todays_setuptools(tmp_path: Path) -> None:
    today = find_spec("setuptools")
    code = """if True:
        import importlib.util, sys
        found = importlib.util.find_spec("setuptools")
        print("cause:", found and found.origin, "\\n      [end of output]\\n\\nnote: likely not a problem with pip")
        sys.exit(1)
    """
    with pytest.raises(UsageError) as raised:
        installed(tmp_path / "base", tmp_path, shlex.join(["python", "-c", code]))
    said = str(raised.value)
    assert said.endswith(f"failed with exit code 1:\n  cause: {today and today.origin}")
