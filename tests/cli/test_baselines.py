"""Baselines of shards and of branches come together: real runs of pytest, real git."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.baselines.files import file, paths
from pytest_opprof.baselines.files.python_file import Functions
from pytest_opprof.baselines.store import Store
from pytest_opprof.cli.main import main
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes
from pytest_opprof.sites.places import Calls, Place, Site
from pytest_opprof.verdict.times.coarse import Coarse

from ..git_history import git

HERE = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
OTHER = Environment((("torch", "2.14.0"),), "cpu", "x86_64")
MODULE = "tests/test_a.py"


def put(
    root: Path, test: str, environment: Environment = HERE, module: str = MODULE, us: int = 0, **calls: int
) -> None:
    """Let the baselines below *root* have the calls of a test, with the lines and functions that make them."""
    store = Store(root)
    times = {"CPU": (ProcessTimes((us * 1000,) * 10, dict.fromkeys(calls, (1000,) * 10)),)} if us else {}
    coarse = {"CPU": Coarse((us * 1000, us * 1000), (us * 1000, us * 1000))} if us else {}
    entry = WindowBaseline({op: OpCounts(Range(each)) for op, each in calls.items()}, times, coarse=coarse)
    store.put_here(environment, module, test, "body", entry)
    sites = {op: {Site((Place("m.py", "f", f"{op.lower()}()"),)): Calls(each, each)} for op, each in calls.items()}
    store.put_sites(environment, module, test, "body", sites)
    store.put_functions(environment, module, test, "body", Functions.of(calls, {}))
    store.save()


def calls(root: Path, environment: Environment = HERE, module: str = MODULE) -> dict[str, dict[str, int]]:
    content = file.load(paths.path_of(root, environment, module))
    return {
        test: {op: each.calls.most for op, each in windows["body"].ops.items()}
        for test, windows in content.tests.items()
    }


def merge(target: Path, *parts: Path) -> int:
    return main(["baselines", "merge", *map(str, parts), "--dir", str(target)])


SUITE = "import pytest\nfrom pytest_opprof.backends import fake\n" + "".join(
    f"\n@pytest.mark.op_budget(Cast=99)\ndef test_{name}():\n    [fake.launch('Cast') for _ in range(N * {n + 1})]\n"
    for n, name in enumerate("abcdef")
)


def test_three_shards_update_as_one_machine_does(
    pytester: pytest.Pytester, suite: Callable[..., pytest.RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    pytester.makepyfile(test_m=f"N = 1\n{SUITE}", test_n=f"N = 2\n{SUITE}", test_still=f"N = 3\n{SUITE}")
    suite("--opprof", "--opprof-update").assert_outcomes(passed=18)
    base = pytester.path / "baselines"
    shutil.copytree(base, pytester.path / "before")
    still = {path: path.stat().st_mtime_ns for path in base.rglob("test_still.py*")}
    pytester.makepyfile(test_m=f"N = 4\n{SUITE}", test_n=f"N = 1\n{SUITE}")
    for number, shard in enumerate(("a or b", "c or d", "e or f")):
        shutil.copytree(pytester.path / "before", pytester.path / f"part-{number}")
        suite("--opprof", "--opprof-update", f"--opprof-baselines=part-{number}", "-k", shard)
    shutil.copytree(base, pytester.path / "alone")
    suite("--opprof", "--opprof-update", "--opprof-baselines=alone").assert_outcomes(passed=18)
    capsys.readouterr()
    assert merge(base, *(pytester.path / f"part-{number}" for number in range(3))) == 0
    assert capsys.readouterr().out.startswith("12 tests of 3 parts merged\n")
    files = {path.relative_to(base): path.read_text() for path in base.rglob("*.json")}
    alone = pytester.path / "alone"
    assert files == {path.relative_to(alone): path.read_text() for path in alone.rglob("*.json")}
    assert still == {path: path.stat().st_mtime_ns for path in base.rglob("test_still.py*")}
    suite("--opprof", "--opprof-strict").assert_outcomes(passed=18)


def test_shards_that_began_from_nothing_come_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "one", "test_x", Cast=1)
    put(tmp_path / "two", "test_y", Cast=2, us=5)
    put(tmp_path / "two", "test_z", OTHER, Cast=3)
    put(tmp_path / "base", "test_old", Cast=4)
    put(tmp_path / "base", "test_x", OTHER, Cast=5)
    assert merge(tmp_path / "base", tmp_path / "one", tmp_path / "two") == 0
    assert calls(tmp_path / "base") == {"test_old": {"Cast": 4}, "test_x": {"Cast": 1}, "test_y": {"Cast": 2}}
    assert calls(tmp_path / "base", OTHER) == {"test_x": {"Cast": 5}, "test_z": {"Cast": 3}}
    store = Store(tmp_path / "base")
    assert store.sites(HERE, MODULE, "test_x", "body") == Store(tmp_path / "one").sites(HERE, MODULE, "test_x", "body")
    assert store.functions(HERE, MODULE, "test_y", "body") == Functions.of({"Cast": 2}, {})
    assert store.entry(HERE, MODULE, "test_y", "body") == Store(tmp_path / "two").entry(HERE, MODULE, "test_y", "body")
    assert main(["baselines", "check", "--dir", str(tmp_path / "base")]) == 0


def test_a_window_that_a_test_no_longer_has_goes(tmp_path: Path) -> None:
    for root in ("base", "part"):
        put(tmp_path / root, "test_x", Cast=1)
        put(tmp_path / root, "test_y", Cast=1)
    store = Store(tmp_path / "base")
    store.put_here(HERE, MODULE, "test_x", "prefill", WindowBaseline({}))
    store.put_here(HERE, MODULE, "test_z", "prefill", WindowBaseline({}))
    store.save()
    assert merge(tmp_path / "base", tmp_path / "part") == 0
    assert {
        test: [*each] for test, each in file.load(paths.path_of(tmp_path / "base", HERE, MODULE)).tests.items()
    } == {
        "test_x": ["body"],
        "test_y": ["body"],
        "test_z": ["prefill"],
    }


def test_parts_that_disagree_are_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "base", "test_x", Cast=1)
    put(tmp_path / "one", "test_x", Cast=2)
    put(tmp_path / "one", "test_y", Cast=2)
    put(tmp_path / "two", "test_x", Cast=3)
    assert merge(tmp_path / "base", tmp_path / "one", tmp_path / "two") == 1
    out = capsys.readouterr().out.splitlines()
    one, two = tmp_path / "one", tmp_path / "two"
    assert out[0] == f"{MODULE}::test_x (body): calls of Cast: 2 in {one}, 3 in {two} (before: 1); kept 2"
    assert out[1].startswith("1 conflict: parts disagree, so nothing was written.")
    assert calls(tmp_path / "base") == {"test_x": {"Cast": 1}}


def test_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "one", "test_x", Cast=2)
    assert main(["baselines", "merge", "--dry-run", str(tmp_path / "one"), "--dir", str(tmp_path / "base")]) == 0
    assert capsys.readouterr().out == "1 test of 1 part would be merged\n"
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("none", "there is no folder {}/none; name the folders of baselines that shards wrote"),
        ("empty", "{}/empty: holds no baselines; name a folder that pytest --opprof-update wrote"),
        ("up", "If that holds such folders, name {}/up/baselines"),
        ("broken", "is not JSON"),
    ],
)
def test_what_is_no_part_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path / "up" / "baselines", "test_x", Cast=1)
    broken = paths.path_of(tmp_path / "broken", HERE, MODULE)
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    assert merge(tmp_path / "base", tmp_path / part) == 2
    assert said.format(tmp_path) in capsys.readouterr().err


class Repository:
    """A repository whose baselines git merges by our driver."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = top / "baselines"
        git(top, "init", "-q", "-b", "main", ".")
        for key, value in (("user.name", "A"), ("user.email", "a@b"), ("merge.opprof.name", "baselines, by op")):
            git(top, "config", key, value)
        driver = f"{sys.executable} -m pytest_opprof baselines merge-driver %O %A %B %P"
        git(top, "config", "merge.opprof.driver", driver)
        (top / ".gitattributes").write_text("baselines/**/*.json merge=opprof\n")

    def commit(self) -> None:
        git(self.top, "add", "-A")
        git(self.top, "commit", "-q", "-m", "x")

    def merge(self) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.run(
            ["git", "merge", "other"], cwd=self.top, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.slow
@pytest.mark.processes
def test_two_branches_that_both_accepted_do_not_conflict(repository: Repository) -> None:
    put(repository.root, "test_x", Cast=2, Add=5, us=5)
    put(repository.root, "test_gone", Cast=2, us=5)
    repository.commit()
    git(repository.top, "checkout", "-q", "-b", "other")
    put(repository.root, "test_x", Cast=2, Add=6, us=7)
    put(repository.root, "test_other", Cast=2, us=5)
    put(repository.root, "test_b", module="tests/test_new.py", Cast=2)
    repository.commit()
    git(repository.top, "checkout", "-q", "main")
    put(repository.root, "test_x", Cast=3, Add=5, us=6)
    put(repository.root, "test_main", Cast=2, us=6)
    put(repository.root, "test_a", module="tests/test_new.py", Cast=1)
    store = Store(repository.root)
    store.drop_tests(paths.path_of(repository.root, HERE, MODULE), ["test_gone"])
    store.save()
    repository.commit()
    done = repository.merge()
    assert done.returncode == 0, done.stdout + done.stderr
    assert calls(repository.root) == {
        "test_x": {"Cast": 3, "Add": 6},
        "test_other": {"Cast": 2},
        "test_main": {"Cast": 2},
    }
    assert calls(repository.root, module="tests/test_new.py") == {"test_a": {"Cast": 1}, "test_b": {"Cast": 2}}
    # Nobody timed both changes together.
    content = file.load(paths.path_of(repository.root, HERE, MODULE)).tests
    assert {test: [*windows["body"].times] for test, windows in content.items()} == {
        "test_x": [],
        "test_other": ["CPU"],
        "test_main": ["CPU"],
    }
    assert content["test_x"]["body"].coarse["CPU"].cpu_ns == (6000, 6000)
    store = Store(repository.root)
    sites = store.sites(HERE, MODULE, "test_x", "body")
    assert not isinstance(sites, str)
    assert {op: [each.most for each in of.values()] for op, of in sites.items()} == {"Cast": [3], "Add": [6]}
    assert store.functions(HERE, MODULE, "test_other", "body") == Functions.of({"Cast": 2}, {})


@pytest.mark.slow
@pytest.mark.processes
def test_one_op_that_both_branches_changed_is_a_conflict_in_words(repository: Repository) -> None:
    put(repository.root, "test_x", Cast=2)
    repository.commit()
    git(repository.top, "checkout", "-q", "-b", "other")
    put(repository.root, "test_x", Cast=4)
    repository.commit()
    git(repository.top, "checkout", "-q", "main")
    put(repository.root, "test_x", Cast=3)
    repository.commit()
    done = repository.merge()
    said = done.stdout + done.stderr
    path = f"baselines/{HERE.folder}/{MODULE}.json"
    assert done.returncode == 1
    assert f"{path}: test_x (body): calls of Cast: 3 in ours, 4 in theirs (before: 2); kept 3\n" in said
    assert f"measure the merged code: pytest --opprof-update, then git add {path}\n" in said
    # No marker is in it, and git knows that it is not merged.
    assert calls(repository.root) == {"test_x": {"Cast": 3}}
    assert git(repository.top, "diff", "--name-only", "--diff-filter=U").split() == [path]


@pytest.mark.processes
def test_a_version_that_cannot_be_read_is_named_and_git_keeps_the_conflict(repository: Repository) -> None:
    put(repository.root, "test_x", Cast=2)
    repository.commit()
    git(repository.top, "checkout", "-q", "-b", "other")
    path = paths.path_of(repository.root, HERE, MODULE)
    path.write_text("{")
    repository.commit()
    git(repository.top, "checkout", "-q", "main")
    put(repository.root, "test_x", Cast=3)
    repository.commit()
    done = repository.merge()
    assert done.returncode == 1
    assert f"opprof: {path.relative_to(repository.top)} (theirs):1: is not JSON" in done.stdout + done.stderr
    assert calls(repository.root) == {"test_x": {"Cast": 3}}


def test_a_file_of_which_nothing_is_left_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, tests in (("base", "xy"), ("ours", "x"), ("theirs", "y")):
        for test in tests:
            put(tmp_path / name, f"test_{test}", Cast=1)
    files = [str(paths.path_of(tmp_path / name, HERE, MODULE)) for name in ("base", "ours", "theirs")]
    assert main(["baselines", "merge-driver", *files, f"baselines/{MODULE}.json"]) == 2
    assert "together the two sides removed all entries; remove the file: git rm" in capsys.readouterr().err
    assert calls(tmp_path / "ours") == {"test_x": {"Cast": 1}}


def test_versions_of_other_environments_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "test_x", Cast=1)
    put(tmp_path, "test_x", OTHER, Cast=2)
    here, other = (str(paths.path_of(tmp_path, environment, MODULE)) for environment in (HERE, OTHER))
    assert main(["baselines", "merge-driver", here, here, other, "baselines/x.json"]) == 2
    assert capsys.readouterr().err == (
        "opprof: baselines/x.json: its versions come from different environments, so they cannot be merged\n"
    )
