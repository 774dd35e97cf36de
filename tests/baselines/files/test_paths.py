from __future__ import annotations

from pathlib import Path

import pytest

from pytest_opprof.baselines.files import paths
from pytest_opprof.profile.environment import Environment

TORCH = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
MODULES = [
    *("test_a.py", "a/b/test_c.py", "../up/test_d.py", "../../test_e.py", "README.md"),
    *("package.test_f", "package.times", "times", "test_a.py.times", "package.sites", "test_a.py.sites"),
]


def test_a_file_is_named_after_its_environment_and_module(tmp_path: Path) -> None:
    path = paths.path_of(tmp_path, TORCH, "tests/test_model.py")
    assert path == tmp_path / "torch-2.13.0-cpu-x86_64" / "tests" / "test_model.py.json"
    assert paths.times_of(path) == path.with_name("test_model.py.times.json")
    assert paths.sites_of(path) == path.with_name("test_model.py.sites.json")


@pytest.mark.parametrize("module", MODULES)
def test_a_file_tells_its_module_and_does_not_lead_out_of_the_folder(tmp_path: Path, module: str) -> None:
    path = paths.path_of(tmp_path, TORCH, module)
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert paths.module_of(tmp_path, path) == module


def test_times_and_sites_are_told_from_calls_by_their_name_whatever_a_module_is_called(tmp_path: Path) -> None:
    calls = [paths.path_of(tmp_path, TORCH, module) for module in MODULES]
    for path in calls:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        paths.times_of(path).touch()
        paths.sites_of(path).touch()
    assert len({*calls, *map(paths.times_of, calls), *map(paths.sites_of, calls)}) == 3 * len(MODULES)
    assert list(paths.files(tmp_path)) == sorted(calls)
    assert [*paths.lone_times(tmp_path), *paths.lone_sites(tmp_path)] == []
    calls[0].unlink()
    assert list(paths.lone_times(tmp_path)) == [paths.times_of(calls[0])]
    assert list(paths.lone_sites(tmp_path)) == [paths.sites_of(calls[0])]
