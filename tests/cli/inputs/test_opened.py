from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.files import paths
from pytest_opprof.baselines.files.python_file import Functions
from pytest_opprof.baselines.store import Store
from pytest_opprof.cli.inputs.opened import BaselineFile, Opened, Profiles, RunFile, opened
from pytest_opprof.cli.inputs.reading import Asked
from pytest_opprof.cli.main import main
from pytest_opprof.errors import UsageError
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.sites.places import Calls, Place, Site

from ..diff.test_command import FAKE, PROFILE, window, write

KINDS: tuple[type[Opened], ...] = (Profiles, RunFile, BaselineFile)


@pytest.fixture
def holding(tmp_path: Path) -> dict[type[Opened], Path]:
    """A path of each kind."""
    store = Store(tmp_path / "baselines")
    store.put(FAKE, "t.py", "a", "body", WindowBaseline({"Cast": OpCounts(Range(2))}))
    store.put_sites(FAKE, "t.py", "a", "body", {"Cast": {Site((Place("m.py", "f", "cast()"),)): Calls(2, 2)}})
    store.put_functions(FAKE, "t.py", "a", "body", Functions.of({"m.f": 2}, {}))
    store.save()
    profile = tmp_path / "saved.json"
    profile.write_text(PROFILE)
    return {
        Profiles: profile,
        RunFile: write(tmp_path / "run.json", a=window(100, 1)),
        BaselineFile: paths.path_of(tmp_path / "baselines", FAKE, "t.py"),
    }


def test_a_path_holds_what_its_content_says_whatever_it_is_called(holding: dict[type[Opened], Path]) -> None:
    for kind, path in holding.items():
        renamed = path.rename(path.with_name("x"))
        assert type(opened(renamed, Asked(), *KINDS)) is kind


@pytest.mark.parametrize(
    ("command", "kind", "said"),
    [
        ("show {}", RunFile, "is the JSON of a run; name a saved profile"),
        ("check {} --budget Cast=1", BaselineFile, "is a baseline file; name a saved profile"),
        ("convert {} -o out.json", RunFile, "is the JSON of a run; name a saved profile"),
        (
            "budget {}",
            BaselineFile,
            "is a baseline file; name a saved profile or the JSON of pytest --opprof --opprof-json=",
        ),
        ("summary {}", BaselineFile, "is a baseline file; name the JSON of pytest --opprof --opprof-json=FILE"),
        (
            "report {} -o out.html",
            BaselineFile,
            "is a baseline file; name the JSON of pytest --opprof --opprof-json=FILE",
        ),
    ],
)
def test_a_command_says_what_a_path_holds_that_it_does_not_take(
    command: str,
    kind: type[Opened],
    said: str,
    holding: dict[type[Opened], Path],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command.format(holding[kind]).split()) == 2
    assert f"{holding[kind]}: {said}" in capsys.readouterr().err


def test_a_folder_of_baselines_is_no_profile(
    holding: dict[type[Opened], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = holding[BaselineFile].parents[1]
    assert main(["show", str(folder)]) == 2
    assert "is a folder of baselines: list it with opprof baselines list or opprof history" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show {}", "diff {} {}", "check {} --budget Cast=1"])
def test_a_folder_inside_of_it_is_said_to_be_one_with_the_command_that_lists_baselines(
    command: str, holding: dict[type[Opened], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = holding[BaselineFile].parent
    assert main(command.replace("{}", str(folder)).split()) == 2
    said = capsys.readouterr().err
    assert f"{folder}: is a folder of baseline files, a part of a project's baselines: opprof baselines list" in said


@pytest.mark.parametrize("of", [paths.sites_of, paths.python_of])
def test_a_file_beside_baselines_is_none_of_a_run(
    of: Callable[[Path], Path], holding: dict[type[Opened], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = of(holding[BaselineFile])
    assert main(["show", str(path)]) == 2
    assert f"{path}: is a file of source lines or Python functions, which belongs to" in capsys.readouterr().err


def test_a_folder_of_runs_is_none_of_baselines(
    holding: dict[type[Opened], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    holding[RunFile].rename(tmp_path / "runs" / "run.json")
    assert main(["show", str(tmp_path / "runs")]) == 2
    assert "baseline" not in capsys.readouterr().err


def test_a_profile_is_read_as_the_format_that_is_given(holding: dict[type[Opened], Path]) -> None:
    with pytest.raises(UsageError, match="is a saved profile; name the JSON of pytest"):
        opened(holding[RunFile], Asked(source="torch"), RunFile)
