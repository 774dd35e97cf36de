"""The file of Python functions beside a baseline: what is written is read, what is broken is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof.baselines.files import paths, python_file
from pytest_opprof.baselines.files.python_file import Functions
from pytest_opprof.errors import BaselineError

NAMES = st.dictionaries(st.from_regex(r"[a-z]{1,3}(\\.[A-Za-z<>_]{1,4}){0,3}", fullmatch=True), st.integers(1, 10**9))
TEST = ("test_a", "body")


@pytest.mark.slow
@given(calls=NAMES, loops=NAMES)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, calls: dict[str, int], loops: dict[str, int]
):
    path = tmp_path_factory.mktemp("kept") / "test_m.py.json"
    kept = Functions.of(calls, loops)
    python_file.save(path, [(*TEST, kept)], {"test_a": ["body"]})
    assert python_file.read(path) == {TEST: kept}
    assert python_file.save(path, [(*TEST, kept)], {"test_a": ["body"]}) == []


def test_of_many_functions_those_with_more_than_ten_calls_are_kept():
    kept = Functions.of({f"m.f{number}": number + 1 for number in range(200)}, {})
    assert kept.calls.above == 10
    assert min(kept.calls.calls.values()) == 11
    assert kept.loops.above == 0


def test_of_many_functions_the_projects_own_are_kept_if_they_are_few(tmp_path: Path):
    calls = {f"m.f{number}": number + 1 for number in range(200)}
    kept = Functions.of(calls, {}, own=("m.f0", "m.f50"))
    assert kept.calls.calls["m.f0"] == 1
    path = tmp_path / "test_m.py.json"
    python_file.save(path, [(*TEST, kept)], {"test_a": ["body"]})
    assert python_file.read(path) == {TEST: kept}
    many = Functions.of(calls, {}, own=(*calls,)).calls
    assert "m.f0" not in many.calls
    assert [many.has_own, Functions.of(calls, {}).calls.has_own] == [False, True]


def test_windows_without_calls_are_dropped_and_a_file_without_any_is_removed(tmp_path: Path):
    path = tmp_path / "test_m.py.json"
    python_file.save(path, [(*TEST, Functions.of({"m.f": 1}, {}))], {"test_a": ["body"]})
    assert python_file.save(path, [], {}) == [paths.python_of(path)]
    assert not paths.python_of(path).exists()


def test_a_module_a_line_and_names_sorted(tmp_path: Path):
    path = tmp_path / "test_m.py.json"
    python_file.save(path, [(*TEST, Functions.of({"m.B.f": 2, "m.B.a": 1, "m.a": 3}, {}))], {"test_a": ["body"]})
    lines = paths.python_of(path).read_text().splitlines()
    assert '     "m": {"a": 3},' in lines
    assert '     "m.B": {"a": 1, "f": 2}' in lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": 1, "tests": 3}', "is 3; allowed: an object"),
        ('{"schema": 2, "tests": {}}', "schema version 2"),
        ('{"tests": {}}', "no schema version"),
        ('{"schema": 1, "tests": {"a": {"body": {"functions": {"m": {"f": -1}}}}}}', "is -1; allowed: 0 or more"),
    ],
)
def test_a_broken_file_is_one_error(tmp_path: Path, text: str, said: str):
    path = tmp_path / "test_m.py.json"
    paths.python_of(path).write_text(text)
    with pytest.raises(BaselineError, match=said):
        python_file.load(paths.python_of(path))
    assert said in str(python_file.read(path))


def test_without_a_file_it_is_said_what_writes_one(tmp_path: Path):
    assert "pytest --opprof-update --opprof-python" in str(python_file.read(tmp_path / "test_m.py.json"))
