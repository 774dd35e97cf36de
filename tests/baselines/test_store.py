from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file, paths
from pytest_opprof.baselines.files.writing import writing
from pytest_opprof.baselines.store import Store
from pytest_opprof.errors import BaselineError, UsageError
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.timings import ProcessTimes

HERE = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
THERE = Environment((("torch", "2.14.0"),), "cpu", "x86_64")
ONE = WindowBaseline({"Add": OpCounts(Range(1))})
TWO = WindowBaseline({"Add": OpCounts(Range(2))})
TIMED = WindowBaseline(
    {"Add": OpCounts(Range(1))}, {"CPU, 2 cores": (ProcessTimes((4_000, 6_000), {"Add": (1_000, 2_000)}),)}
)


def test_an_entry_that_was_put_is_found_by_the_next_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.entry(HERE, "test_a.py", "test_x", "body") is None
    store.put(HERE, "test_a.py", "test_x", "body", ONE)
    store.put(HERE, "test_a.py", "test_x", "prefill", TWO)
    store.put(HERE, "test_b.py", "test_x", "body", TWO)
    assert len(store.save().files) == 2
    again = Store(tmp_path)
    assert again.entry(HERE, "test_a.py", "test_x", "body") == ONE
    assert again.windows(HERE, "test_a.py", "test_x") == ["body", "prefill"]
    assert again.entry(HERE, "test_b.py", "test_x", "body") == TWO


def test_nothing_is_written_before_it_is_saved_nor_files_that_did_not_change(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", ONE)
    assert list(tmp_path.iterdir()) == []
    store.save()
    reader = Store(tmp_path)
    reader.entry(HERE, "test_a.py", "test_x", "body")
    assert reader.save().files == []


def test_other_environments_stay_as_they_are_and_are_named(tmp_path: Path) -> None:
    for environment, entry in ((HERE, ONE), (THERE, TWO)):
        store = Store(tmp_path)
        store.put(environment, "test_a.py", "test_x", "body", entry)
        store.save()
    store = Store(tmp_path)
    assert store.entry(HERE, "test_a.py", "test_x", "body") == ONE
    assert store.entry(THERE, "test_a.py", "test_x", "body") == TWO
    assert store.other_environments(HERE, "test_a.py", "test_x") == ["torch 2.14.0, cpu (x86_64)"]
    assert store.other_environments(HERE, "test_a.py", "test_y") == []


def test_a_broken_file_is_the_same_error_for_each_test_that_needs_it(tmp_path: Path) -> None:
    path = paths.path_of(tmp_path, HERE, "test_a.py")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    store = Store(tmp_path)
    for _ in range(2):
        with pytest.raises(BaselineError, match="is not JSON"):
            store.entry(HERE, "test_a.py", "test_x", "body")
    with pytest.raises(BaselineError):
        store.put(HERE, "test_a.py", "test_x", "body", ONE)
    assert path.read_text() == "{"


def test_a_file_of_another_environment_in_this_folder_is_an_error(tmp_path: Path) -> None:
    file.save(paths.path_of(tmp_path, HERE, "test_a.py"), Baselines(THERE, {"test_x": {"body": ONE}}))
    with pytest.raises(BaselineError, match=r"holds baselines of torch 2.14.0.*its folder is that of torch 2.13.0"):
        Store(tmp_path).entry(HERE, "test_a.py", "test_x", "body")


def test_two_runs_at_a_time_lose_nothing_of_each_other(tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    first.put(HERE, "test_a.py", "test_x", "body", ONE)
    second.put(HERE, "test_a.py", "test_y", "body", TWO)
    first.save()
    second.save()
    store = Store(tmp_path)
    assert store.entry(HERE, "test_a.py", "test_x", "body") == ONE
    assert store.entry(HERE, "test_a.py", "test_y", "body") == TWO


WRITES = """
import sys
from pathlib import Path
from pytest_opprof.baselines.entry import WindowBaseline
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range
from pytest_opprof.profile.environment import Environment
from pytest_opprof.baselines.store import Store
for number in range(50):
    store = Store(Path(sys.argv[1]))
    store.put(Environment((("torch", "2.13.0"),), "cpu", "x86_64"), "test_a.py", f"test_{sys.argv[2]}_{number}", "body",
        WindowBaseline({"Add": OpCounts(Range(1))}))
    store.save()
"""


@pytest.mark.processes
def test_processes_that_write_together_a_hundred_times_lose_nothing_of_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(tmp_path)]
    writers = [subprocess.Popen([*command, each]) for each in ("x", "y")]
    assert [writer.wait() for writer in writers] == [0, 0]
    content = Store(tmp_path).at(paths.path_of(tmp_path, HERE, "test_a.py"))
    assert isinstance(content, Baselines)
    assert content.tests.keys() == {f"test_{writer}_{number}" for writer in "xy" for number in range(50)}


def test_a_run_that_writes_for_too_long_is_an_error_for_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", ONE)
    with writing(tmp_path), pytest.raises(BaselineError, match=r"another run is writing baselines.*none were"):
        store.save(patience_s=0)
    assert list(paths.files(tmp_path)) == []


class TestMove:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = Store(tmp_path)
        for environment in (HERE, THERE):
            for test in ("test_x", "test_y[1]", "test_y[2]", "test_yz"):
                store.put(environment, "old/test_a.py", test, "body", TIMED)
        store.put(HERE, "older/test_a.py", "test_x", "body", ONE)
        store.save()
        return store

    def kept(self, store: Store) -> set[str]:
        """Return the tests that have baselines in both environments."""
        found = []
        for environment in (HERE, THERE):
            folder = store.root / environment.folder
            files = {path: file.load(path) for path in paths.files(store.root) if folder in path.parents}
            assert not any(content.unused_times for content in files.values())
            modules = {paths.module_of(store.root, path): content.tests for path, content in files.items()}
            found.append({f"{module}::{test}" for module, tests in modules.items() for test in tests})
        assert list(paths.lone_times(store.root)) == []
        return set.intersection(*found)

    @pytest.mark.parametrize(("old", "new"), [("old", "new"), ("old/test_a.py", "new/test_a.py")])
    def test_a_folder_or_a_module_takes_all_its_tests_along(self, store: Store, old: str, new: str) -> None:
        assert store.move(old, new) == 4
        assert len(store.save().files) == 8  # of calls and of times, written and removed, in both environments
        assert Store(store.root).entry(HERE, "new/test_a.py", "test_x", "body") == TIMED
        assert self.kept(store) == {
            f"new/test_a.py::{test}" for test in ("test_x", "test_y[1]", "test_y[2]", "test_yz")
        }

    def test_a_test_takes_its_parameters_along_and_no_other_test(self, store: Store) -> None:
        assert store.move("old/test_a.py::test_y", "old/test_b.py::test_w") == 2
        store.save()
        assert self.kept(store) == {
            *("old/test_a.py::test_x", "old/test_a.py::test_yz"),
            *("old/test_b.py::test_w[1]", "old/test_b.py::test_w[2]"),
        }

    def test_a_test_is_renamed_within_its_module(self, store: Store) -> None:
        assert store.move("old/test_a.py::test_x", "old/test_a.py::test_new") == 1
        store.save()
        assert "old/test_a.py::test_new" in self.kept(store)

    def test_a_baseline_that_is_there_is_not_replaced(self, store: Store) -> None:
        with pytest.raises(BaselineError, match=r"has a baseline of test_x already, so nothing was moved"):
            store.move("old/test_a.py", "older/test_a.py")
        assert store.save().files == []

    def test_a_module_is_no_test(self, store: Store) -> None:
        with pytest.raises(UsageError, match="name two modules, two folders, or two tests"):
            store.move("old/test_a.py", "old/test_b.py::test_x")

    def test_what_has_no_baselines_moves_nothing(self, store: Store) -> None:
        assert store.move("elsewhere", "new") == 0
        assert store.save().files == []


def test_tests_of_a_file_are_dropped_and_an_empty_file_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", TIMED)
    store.put(HERE, "test_a.py", "test_y", "body", ONE)
    path, times = store.save().files
    store.drop_tests(path, ["test_x"])
    assert store.save().files == [path, times]
    assert file.load(path).tests.keys() == {"test_y"}
    assert not times.exists()
    store.drop_tests(path, ["test_y"])
    assert store.save().files == [path]
    assert not path.exists()


def test_times_that_nothing_is_judged_by_stay_until_somebody_asks_for_them_to_go(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", TIMED)
    store.put(HERE, "test_a.py", "test_y", "body", ONE)
    path, times = store.save().files
    path.write_text(path.read_text().replace('"Add": {"calls": 1}', '"Add": {"calls": 2}'))
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_z", "body", ONE)
    assert store.save().files == [path]
    assert times.exists()
    store.drop_tests(path, [])  # opprof baselines prune
    assert store.save().files == [times]
    assert not times.exists()


def test_a_file_of_times_is_no_module_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", TIMED)
    store.put(HERE, "test_a.py.times", "test_x", "body", TWO)
    assert len(store.save().files) == 3
    again = Store(tmp_path)
    assert again.entry(HERE, "test_a.py", "test_x", "body") == TIMED
    assert again.entry(HERE, "test_a.py.times", "test_x", "body") == TWO
    assert again.other_environments(THERE, "test_a.py.times", "test_x") == ["torch 2.13.0, cpu (x86_64)"]


def test_a_baseline_moves_to_the_environment_that_replaces_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", ONE)
    store.save()
    more = replace(HERE, frameworks=(("made", "1"), *HERE.frameworks))
    store = Store(tmp_path)
    assert store.entry(more, "test_a.py", "test_x", "body") == ONE
    store.put(more, "test_a.py", "test_x", "body", TWO)
    store.save()
    assert [path.parent.name for path in paths.files(tmp_path)] == [more.folder]


@pytest.mark.parametrize("there", [replace(HERE, device="H100"), replace(HERE, arch="arm64"), replace(HERE, ranks=2)])
def test_a_baseline_without_ops_counts_with_any_version_of_a_framework_but_only_here(
    tmp_path: Path, there: Environment
) -> None:
    store = Store(tmp_path)
    store.put(THERE, "test_a.py", "test_x", "body", WindowBaseline({}))
    store.put(THERE, "test_a.py", "test_y", "body", ONE)
    store.save()
    store = Store(tmp_path)
    assert store.entry(HERE, "test_a.py", "test_x", "body") == WindowBaseline({})
    assert store.entry(HERE, "test_a.py", "test_y", "body") is None
    assert store.entry(there, "test_a.py", "test_x", "body") is None
    store.put(HERE, "test_a.py", "test_x", "body", WindowBaseline({}))
    assert store.save().files == [paths.path_of(tmp_path, HERE, "test_a.py")]  # the other version keeps its own
