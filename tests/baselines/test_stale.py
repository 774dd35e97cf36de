from __future__ import annotations

from pathlib import Path

import pytest

from pytest_opprof.baselines.entry import Baselines, WindowBaseline
from pytest_opprof.baselines.files import file, paths
from pytest_opprof.baselines.stale import Collected, renamed, stale
from pytest_opprof.baselines.store import Store
from pytest_opprof.profile.environment import Environment
from pytest_opprof.profile.op_counts import OpCounts
from pytest_opprof.profile.range import Range

HERE = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
THERE = Environment((("torch", "2.14.0"),), "cpu", "x86_64")
KEPT = {
    "test_a[1]": {"body": WindowBaseline({"Add": OpCounts(Range(1))})},
    "test_a[2]": {"body": WindowBaseline({"Add": OpCounts(Range(1))})},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for module in ("test_m.py", "test_n.py"):
        (tmp_path / module).write_text("")
        for environment in (HERE, THERE):
            file.save(paths.path_of(tmp_path / "baselines", environment, module), Baselines(environment, KEPT))
    return tmp_path


def gone(root: Path, collected: Collected) -> list[str]:
    found = stale(root / "baselines", [HERE.folder], collected, Store(root / "baselines").at)
    return [f"{paths.module_of(root / 'baselines', path)}::{test}" for path, test in found]


def collected(root: Path, *node_ids: str, asked: tuple[str, ...] = (), partial: bool = False) -> Collected:
    result = Collected(root, asked, root, partial)
    result.add(node_ids)
    return result


def test_a_test_that_a_whole_module_lacks_is_gone(root: Path) -> None:
    assert gone(root, collected(root, "test_m.py::test_a[1]")) == ["test_m.py::test_a[2]"]


def test_a_module_that_was_not_collected_is_not_judged(root: Path) -> None:
    assert gone(root, collected(root)) == []


def test_a_module_of_which_a_part_was_asked_for_is_not_judged(root: Path) -> None:
    assert gone(root, collected(root, "test_m.py::test_a[1]", asked=("test_m.py::test_a[1]",))) == []
    assert gone(root, collected(root, "test_m.py::test_a[1]", asked=("test_n.py::test_a[1]",))) == [
        "test_m.py::test_a[2]"
    ]


def test_a_run_that_filters_what_it_collects_judges_nothing(root: Path) -> None:
    assert gone(root, collected(root, "test_m.py::test_a[1]", partial=True)) == []


def test_a_module_that_was_deleted_is_gone_whatever_was_collected(root: Path) -> None:
    (root / "test_n.py").unlink()
    assert gone(root, collected(root, partial=True)) == ["test_n.py::test_a[1]", "test_n.py::test_a[2]"]


def test_what_workers_collected_is_put_together(root: Path) -> None:
    whole = collected(root)
    for part in (collected(root, "test_m.py::test_a[1]"), collected(root, "test_m.py::test_a[2]")):
        whole.merge(part.plain())
    assert gone(root, whole) == []


def test_a_file_that_cannot_be_read_is_left_to_the_tests_that_need_it(root: Path) -> None:
    paths.path_of(root / "baselines", HERE, "test_m.py").write_text("{")
    assert gone(root, collected(root, "test_m.py::test_a[1]")) == []


def test_a_module_elsewhere_is_not_called_gone_for_having_no_file_below_the_root(root: Path) -> None:
    path = paths.path_of(root / "baselines", HERE, "package.test_e")
    file.save(path, Baselines(HERE, KEPT))
    assert gone(root, collected(root)) == []
    assert gone(root, collected(root, "package.test_e::test_a[1]")) == ["package.test_e::test_a[2]"]


class TestRenamed:
    def found(self, root: Path, *lacking: str) -> list[tuple[str, str, int]]:
        lacks = {"test_new.py": set(lacking)}
        store = Store(root / "baselines")
        return list(renamed(store.root, [HERE.folder], collected(root), store.at, lacks))

    def test_a_file_that_is_gone_and_has_the_tests_that_a_new_one_lacks_was_renamed(self, root: Path) -> None:
        (root / "test_n.py").unlink()
        assert self.found(root, "test_a[1]", "test_a[2]", "test_b") == [("test_n.py", "test_new.py", 2)]

    def test_a_file_that_is_there_was_not_renamed(self, root: Path) -> None:
        assert self.found(root, "test_a[1]") == []

    def test_a_file_of_other_tests_was_not_renamed(self, root: Path) -> None:
        (root / "test_n.py").unlink()
        assert self.found(root, "test_b") == []

    def test_of_several_the_one_with_most_tests_in_common_was(self, root: Path) -> None:
        (root / "test_n.py").unlink()
        (root / "test_m.py").unlink()
        more = {**KEPT, "test_b": KEPT["test_a[1]"]}
        file.save(paths.path_of(root / "baselines", HERE, "test_m.py"), Baselines(HERE, more))
        assert self.found(root, "test_a[1]", "test_a[2]", "test_b") == [("test_m.py", "test_new.py", 3)]
