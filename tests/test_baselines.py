from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_opprof import baselines
from pytest_opprof.baselines import Baselines, Calls, Entry
from pytest_opprof.environment import Environment
from pytest_opprof.errors import BaselineError

from .conftest import profile_of

HERE = "CPU, 2 cores"
TORCH = Environment((("torch", "2.13.0"),), "cpu", "x86_64")
SOME = Baselines(
    TORCH,
    {
        "test_b[fp16]": {"body": Entry({"MatMul": Calls(3, 3), "Cast": Calls(10, 12)})},
        "TestA::test_a": {"prefill": Entry({"Add": Calls(1, 1)}, {HERE: {"Add": (41_234, 40_999)}})},
    },
)

TEXT = """\
{
 "environment": {
  "arch": "x86_64",
  "device": "cpu",
  "frameworks": {
   "torch": "2.13.0"
  },
  "timing": ""
 },
 "schema": 1,
 "tests": {
  "TestA::test_a": {
   "prefill": {
    "calls": {
     "Add": 1
    },
    "device_us": {
     "CPU, 2 cores": {
      "Add": [41.2, 41]
     }
    }
   }
  },
  "test_b[fp16]": {
   "body": {
    "calls": {
     "Cast": [10, 12],
     "MatMul": 3
    }
   }
  }
 }
}
"""


def test_a_file_is_sorted_with_one_op_a_line_and_times_rounded_to_what_is_meaningful() -> None:
    assert baselines.dump(SOME) == TEXT


def test_a_file_that_was_written_is_read_back(tmp_path: Path) -> None:
    path = baselines.path_of(tmp_path, TORCH, "tests/test_model.py")
    assert path == tmp_path / "torch-2.13.0-cpu-x86_64" / "tests" / "test_model.py.json"
    baselines.save(path, SOME)
    assert baselines.dump(baselines.load(path)) == TEXT
    assert list(baselines.files(tmp_path)) == [path]
    assert baselines.module_of(tmp_path, path) == "tests/test_model.py"


@pytest.mark.parametrize("module", ["test_a.py", "a/b/test_c.py", "../up/test_d.py", "../../test_e.py", "README.md"])
def test_a_module_outside_the_root_directory_does_not_lead_out_of_the_folder(tmp_path: Path, module: str) -> None:
    path = baselines.path_of(tmp_path, TORCH, module)
    assert path.resolve().is_relative_to(tmp_path.resolve())
    assert baselines.module_of(tmp_path, path) == module


def test_only_the_file_itself_is_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "env" / "test_a.py.json"
    baselines.save(path, SOME)
    baselines.save(path, Baselines(TORCH))
    assert os.listdir(path.parent) == ["test_a.py.json"]


def test_a_file_that_cannot_be_written_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "env" / "test_a.py.json"
    baselines.save(path, SOME)

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(BaselineError, match=r"test_a.py.json: cannot be written: No space left on device"):
        baselines.save(path, Baselines(TORCH))
    assert path.read_text() == TEXT
    assert os.listdir(path.parent) == ["test_a.py.json"]


def edited(edit: Callable[[dict[str, object]], object]) -> bytes:
    document = json.loads(TEXT)
    edit(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"a.json:1: is not JSON: Expecting value"),
        (TEXT[:200].encode(), r"a.json:\d+: is not JSON"),
        (b"\xff\xfe{}", r"is not UTF-8 text \(byte 0\)"),
        ("﻿{}".encode(), r"is not JSON: Unexpected UTF-8 BOM"),
        (b"[1]", r"is no baseline file: it holds a list"),
        (b"{}", r"has no schema version; this is no baseline file"),
        (b'{"schema": true}', r"has no schema version"),
        (b'{"schema": 99}', r"has schema version 99, this pytest-opprof reads up to 1. Upgrade pytest-opprof"),
        (b'{"schema": 1, "schema": 1}', r"the key 'schema' is there twice"),
        (b'{"schema": NaN}', r"NaN is no number"),
        (b"[" * 100_000, r"is not JSON"),
        (b'{"schema": ' + b"9" * 10_000 + b"}", r"is not JSON|has schema version"),
        (
            b'{"a": 1,\n<<<<<<< HEAD\n"b": 2\n=======\n"b": 3\n>>>>>>> other\n}',
            r"a.json:2: has git merge conflict markers",
        ),
        (TEXT.replace("[41.2, 41]", "[1e400, 41]").encode(), r"inf is greater than the maximum"),
        (TEXT.replace("[10, 12]", "[12, 10]").encode(), r"\['Cast'\]: the range is empty"),
        (TEXT.replace('"Add": [41.2', '"Mul": [41.2').encode(), r"'Mul' is timed on 'CPU, 2 cores', but has no calls"),
        (edited(lambda d: d.pop("tests")), r"the file: 'tests' is a required property"),
        (edited(lambda d: d["tests"]["test_b[fp16]"]["body"]["calls"].update(Cast="x")), r"\['calls'\]\['Cast'\]"),  # type: ignore[index]
        (edited(lambda d: d["tests"]["test_b[fp16]"]["body"]["calls"].update(Cast=-1)), r"\['calls'\]\['Cast'\]"),  # type: ignore[index]
        (
            edited(lambda d: d["tests"]["TestA::test_a"]["prefill"]["device_us"][HERE].update(Exp=[1])),  # type: ignore[index]
            r"have different numbers of rounds",
        ),
    ],
)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(BaselineError, match=message) as error:
        baselines.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == content


def test_a_file_of_any_size_is_refused_without_being_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(baselines.MAX_BYTES + 1)
    with pytest.raises(BaselineError, match="larger than 64 MiB"):
        baselines.load(path)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"a\.json: cannot be read: No such file"):
        baselines.load(tmp_path / "a.json")


def test_an_older_schema_is_upgraded_step_by_step_and_written_as_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "env" / "a.json"
    baselines.save(path, SOME)
    old = json.loads(TEXT)
    old["cases"] = old.pop("tests")
    path.write_text(json.dumps(old))
    monkeypatch.setattr(baselines, "SCHEMA", 2)
    monkeypatch.setattr(baselines, "_UPGRADES", {1: lambda document: {**document, "tests": document.pop("cases")}})
    monkeypatch.setattr(baselines, "_is_sound", lambda document: True)  # there is no schema 2
    content = baselines.load(path)
    assert (content.environment, content.tests["test_b[fp16]"]) == (SOME.environment, SOME.tests["test_b[fp16]"])
    assert '"schema": 2' in baselines.dump(content)
    assert json.loads(path.read_text()) == old  # reading rewrites nothing


def test_an_entry_keeps_the_fewest_and_the_most_calls_and_the_time_of_each_round() -> None:
    profile = profile_of([("Cast", 5), ("Add", 7)], [("Cast", 6), ("Cast", 7), ("Add", 8)])
    entry = Entry.of(profile, HERE)
    assert entry.calls == {"Cast": Calls(1, 2), "Add": Calls(1, 1)}
    assert entry.device_ns == {HERE: {"Cast": (5, 13), "Add": (7, 8)}}
    assert (entry.rounds(HERE), entry.rounds("another machine")) == (2, 0)
    assert str(entry.calls["Cast"]) == "1..2"


OLD = Entry({"Add": Calls(1, 1)}, {HERE: {"Add": (10,)}, "Other": {"Add": (99,)}})


def test_an_update_with_other_calls_drops_every_time() -> None:
    now = Entry({"Add": Calls(2, 2)}, {HERE: {"Add": (20,)}})
    assert OLD.updated(now, HERE, times_changed=False) == now


def test_an_update_with_the_same_calls_and_no_news_changes_nothing() -> None:
    now = Entry(OLD.calls, {HERE: {"Add": (11,)}})
    assert OLD.updated(now, HERE, times_changed=False) == OLD


@pytest.mark.parametrize(("samples", "changed"), [((30,), True), ((10, 11), False)])
def test_an_update_of_times_keeps_those_of_other_machines(samples: tuple[int, ...], changed: bool) -> None:
    now = Entry(OLD.calls, {HERE: {"Add": samples}})
    assert OLD.updated(now, HERE, changed).device_ns == {HERE: {"Add": samples}, "Other": {"Add": (99,)}}


def test_an_update_on_another_machine_is_kept_beside() -> None:
    now = Entry(OLD.calls, {"Third": {"Add": (5,)}})
    assert set(OLD.updated(now, "Third", times_changed=False).device_ns) == {HERE, "Other", "Third"}


def test_an_update_without_times_keeps_those_there_are() -> None:
    assert OLD.updated(Entry(OLD.calls), HERE, times_changed=True) == OLD


names = st.text(max_size=12)
calls = st.builds(lambda least, more: Calls(least, least + more), st.integers(1, 10**6), st.integers(0, 9))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    counted = draw(st.dictionaries(names, calls, max_size=4))
    rounds = draw(st.integers(1, 4))
    times = st.lists(st.integers(0, 10**12), min_size=rounds, max_size=rounds).map(tuple)
    return Entry(counted, {HERE: {op: draw(times) for op in counted}} if counted else {})


@given(st.dictionaries(names, st.dictionaries(names, entries(), min_size=1, max_size=2), max_size=3))
def test_any_baselines_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, tests: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("round-trip") / "a.json"
    baselines.save(path, Baselines(TORCH, tests))  # type: ignore[arg-type]
    once = baselines.load(path)
    assert {test: {w: e.calls for w, e in windows.items()} for test, windows in once.tests.items()} == {
        test: {w: e.calls for w, e in windows.items()}  # type: ignore[attr-defined]
        for test, windows in tests.items()
    }
    assert baselines.dump(once) == path.read_text(encoding="utf-8")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_baseline_or_a_baseline_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.json"
    path.write_bytes(content)
    with pytest.raises(BaselineError):
        baselines.load(path)
