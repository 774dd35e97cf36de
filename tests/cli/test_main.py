from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_opprof
from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file, paths
from pytest_opprof.cli import main
from pytest_opprof.frameworks.nvidia.live import driver, nvml
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes

HERE = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
RUN = ProcessTimes((4, 6), {"MatMul": (1, 2), "Cast": (3, 4)})
TIMED = WindowBaseline(
    {"MatMul": OpCounts(Range(3)), "Cast": OpCounts(Range(1, 2))}, {"CPU, 2 cores": (RUN,) * 3, "CPU, 8 cores": (RUN,)}
)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file.save(paths.path_of(Path("baselines"), HERE, "test_m.py"), Baselines(HERE, {"test_a": {"body": TIMED}}))
    return tmp_path


def test_ops_lists_the_vocabulary_with_raw_names_per_framework(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["MatMul", "torch"] and "aten::addmm" in line for line in lines)
    assert any(line.split()[:2] == ["MatMul", "numpy"] and "numpy.matmul" in line for line in lines)
    assert any(line.split()[:2] == ["Cast", "torch"] and "aten::copy_" in line for line in lines)


def test_ops_tells_what_a_raw_name_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ops", "aten::addmm"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"MatMul"}


def test_ops_refuses_a_name_that_means_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ops", "Csat"]) == 2
    assert capsys.readouterr().err == "opprof: unknown op 'Csat': did you mean 'Cast'?\n"


def test_ops_tells_a_copy_that_may_be_a_cast_and_a_name_that_is_no_op(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["ops", "aten::copy_"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"Cast", "Copy"}
    assert main.main(["ops", "aten::to"]) == 0
    assert capsys.readouterr().out == "aten::to: no op of its own; the ops inside it count\n"


def test_backends_says_which_can_run_and_why_the_others_cannot(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main.main(["backends"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["numpy"] == "can run"
    assert lines["torch"].startswith("cannot run: torch is not installed; see https://")


@pytest.mark.parametrize(
    ("problem", "missing", "said"), [(None, "not watched", True), (None, "", False), ("no GPU", "not watched", False)]
)
def test_backends_says_where_there_is_a_gpu_that_nobody_watches_it(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    problem: str | None,
    missing: str,
    said: bool,
) -> None:
    monkeypatch.setattr(driver, "problem", lambda: problem)
    monkeypatch.setattr(nvml, "unwatched", lambda: missing)
    assert main.main(["backends"]) == 0
    assert ("not watched" in capsys.readouterr().out.splitlines()) is said


def test_list_shows_environments_tests_and_rounds(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["baselines", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{Path('baselines/torch-2.13.0-cpu-x86_64/test_m.py.json')}  [torch 2.13.0, cpu (x86_64)]",
        "  test_a  body: 5 calls of 2 ops; 2 rounds in 3 processes on CPU, 2 cores;"
        " 2 rounds in 1 process on CPU, 8 cores",
    ]


def test_check_passes_what_the_schema_allows(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["baselines", "check"]) == 0
    assert capsys.readouterr().out == "2 baseline files, 0 wrong\n"


def test_check_names_every_wrong_file_and_exits_with_1(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept / "baselines" / HERE.folder
    (folder / "test_n.py.json").write_text('{"schema": 2}')
    moved = kept / "baselines" / "torch-9-cpu" / "test_m.py.json"
    moved.parent.mkdir()
    moved.write_bytes((folder / "test_m.py.json").read_bytes())
    assert main.main(["baselines", "check"]) == 1
    out = capsys.readouterr().out
    assert "test_n.py.json: has schema version 2, this pytest-opprof reads 4. Delete it and record it anew" in out
    assert "torch-9-cpu/test_m.py.json: is for torch 2.13.0, cpu (x86_64) and belongs in" in out.replace(os.sep, "/")
    assert out.endswith("4 baseline files, 2 wrong\n")


@pytest.mark.parametrize("content", ["{", "<<<<<<< HEAD\n", '{"schema": 1}'])
def test_check_names_both_files_of_a_module_where_both_are_wrong(
    kept: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    folder = Path("baselines", HERE.folder)
    for name in ("test_m.py.times.json", "test_m.py.json"):
        (folder / name).write_text(content)
        assert main.main(["baselines", "check"]) == 1
        assert f"{folder / name}:" in capsys.readouterr().out
    assert main.main(["baselines", "check"]) == 1
    out = capsys.readouterr().out
    assert out.count("test_m.py.times.json") == 1
    assert out.endswith("2 baseline files, 2 wrong\n")


def test_check_and_list_tell_times_of_other_calls(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("baselines", HERE.folder, "test_m.py.json")
    path.write_text(path.read_text().replace('"MatMul": {"calls": 3}', '"MatMul": {"calls": 4}'))
    assert main.main(["baselines", "list"]) == 0
    assert "6 calls of 2 ops; times of other calls on CPU, 2 cores; times of" in capsys.readouterr().out
    assert main.main(["baselines", "check"]) == 1
    *said, total = capsys.readouterr().out.splitlines()
    assert [line.startswith(f"{path.with_name('test_m.py.times.json')}: ['times']['test_a']") for line in said] == [
        True,
        True,
    ]
    assert total == "2 baseline files, 1 wrong"


@pytest.mark.parametrize("action", ["list", "check", "prune"])
def test_a_folder_that_is_not_there_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["baselines", action]) == 2
    assert "opprof: there is no folder baselines; name another with --dir" in capsys.readouterr().err
    assert main.main(["baselines", action, "--dir", "elsewhere"]) == 2
    assert "there is no folder elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize("action", [["list"], ["check"], ["prune"], ["move", "test_m.py", "test_n.py"]])
@pytest.mark.parametrize("part", ["", "tests"])
def test_a_part_of_the_folder_is_refused_because_its_modules_would_seem_to_be_others(
    kept: Path, capsys: pytest.CaptureFixture[str], action: list[str], part: str
) -> None:
    folder = kept / "baselines" / HERE.folder / part
    folder.mkdir(exist_ok=True)
    for path in [*folder.parent.glob("*.json")]:
        path.rename(folder / path.name)
    assert main.main(["baselines", *action, "--dir", str(folder)]) == 2
    said = f"opprof: {folder} is only a part of a project's baselines; name their folder: --dir {kept / 'baselines'}\n"
    assert capsys.readouterr().err == said
    assert len(list(folder.glob("*.json"))) == 2


def test_list_says_that_a_folder_has_no_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["baselines", "list", "--dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no baselines in {tmp_path}; record them: pytest --opprof-update\n"


class TestALinkToElsewhere:
    """A repository may bring one, to files of whoever works in it."""

    @pytest.fixture
    def outside(self, kept: Path) -> Path:
        """Return a folder outside of the project, with times that belong to no calls: prune removes such files."""
        outside = kept.parent / f"{kept.name}-outside"
        path = paths.times_of(paths.path_of(outside, HERE, "test_n.py"))
        path.parent.mkdir(parents=True)
        path.write_text("{}")
        return outside

    @pytest.mark.parametrize("flags", [[], ["--dry-run"]])
    def test_below_the_baselines_keeps_prune_from_removing_anything(
        self, kept: Path, outside: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
    ) -> None:
        Path("baselines", "elsewhere").symlink_to(outside / HERE.folder)
        assert main.main(["baselines", "prune", *flags]) == 2
        err = capsys.readouterr().err
        assert f"elsewhere/test_n.py.times.json: a link leads to {outside / HERE.folder}, outside of baselines" in err
        assert len(list(outside.rglob("*.json"))) == 1

    @pytest.mark.parametrize("action", [["prune"], ["move", "test_n.py", "test_o.py"]])
    def test_in_the_place_of_the_baselines_is_for_its_owner_to_name(
        self, kept: Path, outside: Path, capsys: pytest.CaptureFixture[str], action: list[str]
    ) -> None:
        Path("linked").symlink_to(outside)
        assert main.main(["baselines", *action, "--dir", "linked"]) == 2
        assert f"opprof: linked is a link to {outside}, so nothing was changed." in capsys.readouterr().err
        assert len(list(outside.rglob("*.json"))) == 1


def test_a_broken_file_is_one_line_and_exit_code_2(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept / "baselines" / HERE.folder / "test_m.py.json").write_text("{")
    assert main.main(["baselines", "list"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_was_renamed_takes_its_baselines_along(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["baselines", "move", "test_m.py", "sub/test_n.py", "--dry-run"]) == 0
    assert capsys.readouterr().out == "1 test would be moved from test_m.py to sub/test_n.py\n"
    assert main.main(["baselines", "move", "test_m.py", "sub/test_n.py"]) == 0
    folder = Path("baselines", HERE.folder)
    assert capsys.readouterr().out.splitlines() == [
        "1 test moved from test_m.py to sub/test_n.py",
        f"  wrote {folder / 'sub' / 'test_n.py.json'}",
        f"  wrote {folder / 'sub' / 'test_n.py.times.json'}",
        f"  removed {folder / 'test_m.py.json'}",
        f"  removed {folder / 'test_m.py.times.json'}",
    ]
    assert main.main(["baselines", "move", "test_m.py", "test_k.py"]) == 2
    assert "nothing in baselines is a baseline of test_m.py" in capsys.readouterr().err


def test_an_unknown_command_is_usage_and_exit_code_2() -> None:
    with pytest.raises(SystemExit) as error:
        main.main(["bogus"])
    assert error.value.code == 2


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main.main(["--version"])
    assert error.value.code == 0
    assert capsys.readouterr().out == f"opprof {pytest_opprof.__version__}\n"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.processes
def test_python_m_is_the_command() -> None:
    done = run("-m", "pytest_opprof", "ops", "Cast")
    assert done.returncode == 0
    assert done.stdout.startswith("Cast")


@pytest.mark.processes
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m pytest_opprof ops | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.processes
def test_the_command_imports_neither_pytest_nor_numpy() -> None:
    code = "import sys; from pytest_opprof.cli.main import main; main(['ops', 'Cast']); "
    code += "print({'pytest', 'numpy'} & set(sys.modules))"
    assert run("-c", code).stdout.splitlines()[-1] == "set()"


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(
        f"\n    {command} " in err or f"\n    {command}\n" in err
        for command in ("show", "diff", "check", "baselines", "formats")
    )
