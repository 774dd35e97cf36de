"""Costs that no op shows, each in a test that has only the plain mark: benchmarks/seeded_costs.py with fewer seeds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SEEDS = "lost_cache validation regex collections kept_results cycle finalizer threads unclosed".split()
"""Those that are counted: a time is nothing to test here."""


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "seeded_costs.py"
    spec = importlib.util.spec_from_file_location("seeded_costs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "seeded_costs", module)
    spec.loader.exec_module(module)
    monkeypatch.setenv("PYTHONPATH", str(path.parents[1]))
    return module


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.usefixtures("few_plugins")
def test_each_fails_with_its_cause_number_and_line_and_the_unchanged_version_does_not(
    seeded: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    wrong = seeded.tried(project, "stored", {name: seeded.SEEDS[name] for name in SEEDS}, [], 1)
    assert wrong == 0, capsys.readouterr().out
