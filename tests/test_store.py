from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_opprof import baselines
from pytest_opprof.baselines import Baselines, Calls, Entry
from pytest_opprof.environment import Environment
from pytest_opprof.errors import BaselineError
from pytest_opprof.store import Store

HERE = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
THERE = Environment((("torch", "2.14.0"),), "cpu", "x86_64")
ONE = Entry({"Add": Calls(1, 1)})
TWO = Entry({"Add": Calls(2, 2)})


def test_an_entry_that_was_put_is_found_by_the_next_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.entry(HERE, "test_a.py", "test_x", "body") is None
    store.put(HERE, "test_a.py", "test_x", "body", ONE)
    store.put(HERE, "test_a.py", "test_x", "prefill", TWO)
    store.put(HERE, "test_b.py", "test_x", "body", TWO)
    assert len(store.save()) == 2
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
    assert reader.save() == []


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
    path = baselines.path_of(tmp_path, HERE, "test_a.py")
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
    baselines.save(baselines.path_of(tmp_path, HERE, "test_a.py"), Baselines(THERE))
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


def test_a_baseline_moves_to_the_environment_that_replaces_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(HERE, "test_a.py", "test_x", "body", ONE)
    store.save()
    more = replace(HERE, frameworks=(("made", "1"), *HERE.frameworks))
    store = Store(tmp_path)
    assert store.entry(more, "test_a.py", "test_x", "body") == ONE
    store.put(more, "test_a.py", "test_x", "body", TWO)
    store.save()
    assert [path.parent.name for path in tmp_path.glob("*/*")] == [more.folder]
