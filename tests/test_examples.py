"""The example suites: they pass unchanged, and a change fails the tests that it made worse, with the op named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_opprof.plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        "--opprof-noise=ignore",
        *flags,
    ]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def change(folder: Path, file: str, before: str, after: str) -> None:
    text = (folder / file).read_text(encoding="utf-8")
    assert before in text
    (folder / file).write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(EXAMPLES / "torch_models", tmp_path_factory.mktemp("recorded") / "torch_models"))
    done = run(folder, "--opprof-update", "--opprof-processes=1")
    assert "opprof: 20 tests measured, 20 ok" in done.stdout
    return folder


CHANGES = (
    (
        "x = x + self.attention(self.before(x))",
        "x = (x + self.attention(self.before(x))).half().float()",
        "Cast: 2 calls (baseline: 0)",
    ),
    (
        "mixed.transpose(1, 2).reshape(batch, length, width)",
        "mixed.transpose(1, 2).clone().reshape(batch, length, width)",
        "Copy: 1 call (baseline: 0)",
    ),
    (
        "return self.out(mixed",
        "self.qkv(x); return self.out(mixed",
        "MatMul: 5 calls (baseline: 4)",
    ),
)
NOT_FUSED = (
    "functional.scaled_dot_product_attention(q, k, v)",
    "(q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1) @ v",
    "Softmax: 1 call (baseline: 0)",
)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    "changes", [CHANGES, [NOT_FUSED]], ids=["a round trip of dtypes, a copy and a product", "a removed fusion"]
)
@pytest.mark.processes
def test_a_change_fails_the_tests_it_made_worse_with_the_op_named(
    recorded: Path, tmp_path: Path, changes: Sequence[tuple[str, str, str]]
) -> None:
    folder = Path(shutil.copytree(recorded, tmp_path / "changed"))
    for before, after, _ in changes:
        change(folder, "models.py", before, after)
    done = run(folder, "--opprof", "-k", "forward and (transformer or mlp or convnet)")
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    assert "op regression: test_models.py::test_forward[transformer]  [torch 2.13.0, cpu]" in done.stdout
    for *_, line in changes:
        assert re.search(rf"^ +{re.escape(line)}( at models.py:\d+)?$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.processes
def test_the_suite_passes_unchanged(recorded: Path) -> None:
    done = run(recorded, "--opprof", "-k", "forward and not language")
    assert done.returncode == 0, done.stdout


def without_times(what: Any) -> Any:
    """Return what a run says of its windows, but for times and lines."""
    if isinstance(what, dict):
        return {
            key: without_times(value)
            for key, value in what.items()
            if not key.endswith("_ns") and key not in ("sites", "coarse")
        }
    return list(map(without_times, what)) if isinstance(what, list) else what


@pytest.mark.parametrize(
    ("suite", "tests"), [("numpy_filter", 3), pytest.param("torch_models", 20, marks=[pytest.mark.torch])]
)
@pytest.mark.slow
@pytest.mark.processes
def test_recording_lines_changes_nothing_but_times(tmp_path: Path, suite: str, tests: int) -> None:
    folder = Path(shutil.copytree(EXAMPLES / suite, tmp_path / suite))
    documents = []
    for flags in ([], ["--opprof-sites"]):
        done = run(folder, "--opprof", "--opprof-json=run.json", "--opprof-memory", *flags)
        assert done.returncode == 0, done.stdout
        documents.append(json.loads((folder / "run.json").read_text()))
    windows, with_sites = ([each for test in run["tests"] for each in test["windows"]] for run in documents)
    assert len(windows) == tests
    for window, sited in zip(windows, with_sites):
        assert without_times(sited) == without_times({**window, "processes": []})
        assert not window.get("sites")
        for op, numbers in sited["ops"].items():
            assert sum(site["calls"] for site in sited["sites"][op]) == max(numbers["calls"])
            assert all(site["lines"][-1]["file"].startswith("test_") for site in sited["sites"][op])


@pytest.mark.processes
def test_the_demo_shows_a_pass_and_then_a_failure() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py", "numpy_filter"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Cast: 3 calls (budget: 1, baseline: 1)" in done.stdout
    assert "That is all: the suites passed, and the change that added casts failed" in done.stdout
